"""Draw one cycle of a Trace as a still: the tokens, both caches with their pointers, the ledger, one sentence.

Invariant: the same trace and cycle give the same SVG text, byte for byte; timings are left out for that reason.
A still shows the state after the rewind; `moments` shows the stages before it too, for a moving picture.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from html import escape

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import KV, Blocks, Cycle, Trace
from specdec_widgets import bars
from specdec_widgets.branch import branch, tree_sentence
from specdec_widgets.svg import CHAR, SHRINKS, Canvas, wrap
from specdec_widgets.words import (
    blocks_sentence,
    clip,
    columns,
    cycle_sentence,
    decisive,
    gamma_of,
    labels,
    mark,
    moment_sentence,
    pace,
    subscript,
    summary,
    telling,
)  # fmt: skip

__all__ = ["LONGEST", "Stage", "data_uri", "image", "moments", "tag", "to_svg"]

MARGIN, GUTTER, WIDTH = 24.0, 116.0, 980.0
FONT, CHIP, CELL = 13.0, 28.0, 22.0
LONGEST = 50
"""The most cycles that one moving picture shows."""

PROPOSAL = ("", "/amber", "amber", "", "ink")
LOOK = {
    "accepted": ("✓", "green-tint", "green", "", "green-ink"),
    "rejected": ("✗", "red-tint", "red", "", "red-ink"),
    "unused": ("·", "none", "stale", "4 3", "quiet"),
    "cut": ("✂", "none", "stale", "4 3", "quiet"),
    "correction": ("↺", "blue-tint", "blue", "", "blue-ink"),
    "bonus": ("★", "purple-tint", "purple", "", "purple-ink"),
}


class Stage(IntEnum):
    """How far a cycle has come when it is drawn."""

    PROPOSED = 0
    VERIFIED = 1
    JUDGED = 2
    REWOUND = 3


NAMES = ("drafts", "target forward", "verdicts", "commit and rewind")


@dataclass(frozen=True, slots=True)
class Columns:
    """The token positions that are drawn: the first one, the labels of text and drafts, and the column edges."""

    first: int
    text: tuple[str, ...]
    drafts: tuple[str, ...]
    edges: tuple[float, ...]

    def edge(self, at: int) -> float:
        """The left edge of position `at`, kept inside the picture."""
        return self.edges[max(0, min(len(self.edges) - 1, at - self.first))]

    def middle(self, at: int) -> float:
        """The middle of position `at`."""
        return (self.edge(at) + self.edge(at + 1)) / 2


def to_svg(trace: Trace, cycle: int) -> str:
    """Return the still of the cycle with index `cycle`; InvalidInput when the trace does not hold it."""
    return _draw(trace, _find(trace, cycle), Stage.REWOUND, "")


def moments(trace: Trace, first: int, last: int) -> Sequence[str]:
    """Return the stills of every stage of the cycles with the indices `first` to `last`, those that the trace holds."""
    start = _find(trace, first).index
    if isinstance(last, bool) or not isinstance(last, int) or not start <= last < start + LONGEST:
        raise InvalidInput(
            f"cannot draw the cycles {first!r} to {last!r}; give a last one from {start} to {start + LONGEST - 1}"
        )
    cycles = [branch(c) for c in trace.cycles if start <= c.index <= last]
    return [_draw(trace, c, s, NAMES[s]) for c in cycles for s in Stage if c.proposed or s != Stage.PROPOSED]


def _find(trace: Trace, cycle: int) -> Cycle:
    found = next((c for c in trace.cycles if c.index == cycle), None) if not isinstance(cycle, bool) else None
    if found is not None:
        return branch(found)
    if not trace.cycles:
        raise InvalidInput(f"cannot draw cycle {cycle!r}: this run has no cycle; generate at least one token")
    allowed = f"{trace.cycles[0].index} to {trace.cycles[-1].index}"
    raise InvalidInput(f"cannot draw cycle {cycle!r}: this trace holds the cycles {allowed}; give one of these numbers")


def image(trace: Trace, index: int | None = None) -> str:
    """Return an <img> of a cycle, else of the most telling one, described in words; "" when there is no cycle."""
    found = telling(trace) if index is None else _find(trace, index)
    if found is None:
        return ""
    cycle = branch(found)
    words = f"{summary(trace)}. Cycle {cycle.index}: {_sentence(trace, cycle, _columns(trace, cycle))}"
    return tag(to_svg(trace, cycle.index), words)


def tag(svg: str, words: str) -> str:
    """Return the picture as an <img> that `words` describe, never wider than the page."""
    return f'<img alt="{escape(words)}" {SHRINKS} src="{data_uri(svg)}">'


def data_uri(svg: str) -> str:
    """Return the picture as a data URI for an <img>."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii")


def _draw(trace: Trace, cycle: Cycle, stage: Stage, name: str) -> str:
    cols = _columns(trace, cycle)
    width = max(WIDTH, cols.edges[-1] + MARGIN)
    chosen = decisive(cycle)
    sentence = whole = _sentence(trace, cycle, cols)
    if stage != Stage.REWOUND:
        sentence = moment_sentence(cycle, stage, cols.text[cycle.committed_before - 1 - cols.first], cols.drafts)
    told = wrap(sentence, int((width - 2 * MARGIN) / 8.4))
    lanes = 344.0 if cycle.draft_kv is not None else 282.0
    ledger = bars.height(trace, cycle, chosen)
    owned = wrap(blocks_sentence(cycle.blocks), int((width - 2 * MARGIN) / 7.3)) if cycle.blocks else ()
    room = len(wrap(whole, int((width - 2 * MARGIN) / 8.4)))
    foot = lanes + 21 * room + (19 * len(owned) + 6 if owned else 0) + 18
    total = foot + (ledger + 22 if ledger else 0) + 8

    c = Canvas()
    c.box(0.5, 0.5, width - 1, total - 1, "white", stroke="line", r=8)
    _header(c, trace, cycle, width, name)
    _tokens(c, cycle, cols, stage)
    if stage >= Stage.VERIFIED:
        _rows(c, cycle, cols, stage)
    _tape(c, trace, cycle, cols, "target KV", cycle.target_kv, 228, stage)
    if cycle.blocks is not None and stage == Stage.REWOUND:
        _borders(c, cycle.blocks, cols, 228)
    if cycle.draft_kv is not None:
        _tape(c, trace, cycle, cols, "draft KV", cycle.draft_kv, 290, stage)
    for i, line in enumerate(told):
        c.text(MARGIN, lanes + 16 + 21 * i, line, size=15)
    for i, line in enumerate(owned if stage == Stage.REWOUND else ()):
        c.text(MARGIN, lanes + 21 * room + 18 + 19 * i, line, fill="quiet")
    y = foot
    if ledger:
        c.path(f"M{MARGIN:.1f} {y:.1f}H{width - MARGIN:.1f}", stroke="line", wide=1)
    if stage < Stage.JUDGED:
        return c.close(width, total, f"Cycle {cycle.index} of a speculative decoding run", sentence)
    if chosen is not None:
        bars.draw_decision(
            c, trace, cycle, chosen, cols.drafts[chosen.position - 1], MARGIN, y + 14, width - 2 * MARGIN
        )
    elif cycle.last_top is not None:
        bars.draw_top(c, trace, cycle, cycle.last_top, MARGIN, y + 14, width - 2 * MARGIN)
    return c.close(width, total, f"Cycle {cycle.index} of a speculative decoding run", sentence)


def _sentence(trace: Trace, cycle: Cycle, cols: Columns) -> str:
    length = cycle.committed_before
    tokens = cols.text[length - cols.first : cycle.committed_after - cols.first]
    said = cycle_sentence(trace, cycle, tokens, cols.drafts)
    if cycle.parents is None:
        return said
    return f"{said} {tree_sentence(len(cycle.parents))}"


def _columns(trace: Trace, cycle: Cycle) -> Columns:
    """Choose the positions that fit, newest first: the whole cycle, and as much text before it as there is room for."""
    length, drafted = cycle.committed_before, len(cycle.proposed)
    known: list[int | None] = list(trace.prompt)
    known += [None] * (trace.cycles[0].committed_before - len(known))
    for c in trace.cycles:
        if c.index <= cycle.index:
            known += c.emitted
    text = labels(known, trace.pieces)
    tail = known[max(0, length - 4) : length]
    drafts = labels([*tail, *cycle.proposed], trace.pieces)[len(tail) :]

    def width(at: int) -> float:
        own = 26 + FONT * CHAR * min(11, columns(text[at][:40])) if at < len(text) else 52.0
        mine = 34 + FONT * CHAR * min(11, columns(drafts[at - length][:40])) if 0 <= at - length < drafted else 0.0
        return max(52.0, own - (12 if at < length else -8), mine)

    stop = length + drafted + 1
    first = max(0, length - 1)
    room = WIDTH - 2 * MARGIN - GUTTER - sum(width(i) for i in range(first, stop))
    while first > 0 and room - width(first - 1) >= 0:
        first -= 1
        room -= width(first)
    edges = [MARGIN + GUTTER]
    for at in range(first, stop):
        edges.append(edges[-1] + width(at))
    return Columns(first, tuple(text[first:]), tuple(drafts), tuple(edges))


def _header(c: Canvas, trace: Trace, cycle: Cycle, width: float, name: str) -> None:
    temperature = trace.meta.sampling.get("temperature")
    heat = "greedy" if temperature == 0 else "T unknown" if temperature is None else f"T = {mark(str(temperature))}"
    span = f"cycles {trace.cycles[0].index}–{trace.cycles[-1].index}"
    facts = f"{span} · {pace(gamma_of(cycle), trace.meta.planner)} · {heat} · {mark(trace.meta.verify)} rule"
    exact = {True: [], False: ["not lossless"], None: ["lossless or not is unknown"]}[trace.meta.lossless]
    flags = ["forced"] * (trace.meta.forced is not None) + exact
    c.text(MARGIN, 34, f"cycle {cycle.index}", size=18, bold=True)
    x = MARGIN + 24 + 11 * len(f"cycle {cycle.index}")
    if name:
        c.text(x, 34, name, size=15, fill="blue-ink", bold=True)
        x += 24 + 9.6 * len(name)
    c.text(x, 34, " · ".join(flags), fill="red-ink", bold=True)
    c.text(width - MARGIN, 34, facts, fill="quiet", anchor="end")


def _chip(
    c: Canvas, x: float, y: float, w: float, label: str, look: tuple[str, str, str, str, str], *, struck: bool = False
) -> None:
    glyph, fill, stroke, dash, ink = look
    c.box(x + 1.5, y, w - 3, CHIP, fill, stroke=stroke, r=4, dash=dash, wide=1.5)
    shown = clip(label, max(1, int((w - (26 if glyph else 12)) / (FONT * CHAR))))
    half = columns(shown) * FONT * 0.602 / 2
    center = x + w / 2 + (8 if glyph else 0)
    if glyph:
        c.text(center - half - 5, y + 19, glyph, fill=ink, bold=True, anchor="end")
    c.text(center, y + 19, shown, mono=True, anchor="middle", struck=struck, fill="quiet" if dash == "4 3" else "ink")


def _tokens(c: Canvas, cycle: Cycle, cols: Columns, stage: Stage) -> None:
    for y, name in ((77, "position"), (103, "text"), (155, "drafts"), (203, "rows")):
        c.text(MARGIN, y, name, fill="quiet")
    length, stop = cycle.committed_before, cols.first + len(cols.edges) - 1
    for at in range(cols.first, stop):
        x, w = cols.edge(at), cols.edge(at + 1) - cols.edge(at)
        c.text(x + w / 2, 77, str(at), size=12, fill="quiet", anchor="middle")
        waiting = {Stage.PROPOSED: length - 1, Stage.REWOUND: cycle.committed_after - 1}.get(stage)
        kind = LOOK.get(cycle.last_kind, ("✓", "none", "ink", "", "green-ink"))
        if at < (cycle.committed_after if stage == Stage.REWOUND else length):
            look = ("", "fill", "none", "", "ink") if at < length else ("✓", "fill", "none", "", "green-ink")
            if at == waiting:
                look = ("", "none", "ink", "5 3", "ink") if at < length else (kind[0], kind[1], kind[2], "5 3", kind[4])
                c.text(x + w / 2, 62, "pending", size=12, anchor="middle")
            _chip(c, x, 84, w, cols.text[at - cols.first], look)
        elif stage == Stage.JUDGED and cycle.last is not None and at == length + cycle.accepted:
            _chip(c, x, 84, w, cols.text[at - cols.first], kind)
        if length <= at < length + len(cycle.proposed):
            d = cycle.decisions[at - length]
            c.text(x + w / 2, 129, subscript("d", d.position), size=12, fill="quiet", anchor="middle")
            judged = stage >= Stage.JUDGED
            struck = judged and d.status == "rejected"
            _chip(c, x, 136, w, cols.drafts[at - length], LOOK[d.status] if judged else PROPOSAL, struck=struck)


def _rows(c: Canvas, cycle: Cycle, cols: Columns, stage: Stage) -> None:
    count = len(cycle.proposed)
    for i in range(count + 1):
        at = cycle.committed_before - 1 + i
        status: str = cycle.decisions[i].status if i < count else "bonus" if cycle.last_kind == "bonus" else "unused"
        if stage == Stage.VERIFIED:
            status = "open"
        x, w = cols.edge(at), cols.edge(at + 1) - cols.edge(at)
        dash = "3 3" if status in ("unused", "cut") else ""
        c.box(x + 2, 189, w - 4, 20, "none", stroke="purple" if status == "bonus" else "line", r=10, dash=dash, wide=1)
        c.text(x + w / 2, 203, f"row {i}", size=12, fill="quiet", anchor="middle")
        stroke = {"accepted": "green", "rejected": "red", "bonus": "purple"}.get(status, "stale")
        if i < count or status == "bonus":  # a row without a verdict points at its draft alone
            c.arrow(x + w / 2, 189, cols.middle(at + 1) - 6, 166 if i < count else 114, stroke=stroke, dash=dash)


def _tape(c: Canvas, trace: Trace, cycle: Cycle, cols: Columns, name: str, kv: KV, y: float, stage: Stage) -> None:
    """The slots in a stage, with the pointer's way through the cycle so far written under the lane's name."""
    fed = stage >= (Stage.VERIFIED if name[0] == "t" else Stage.PROPOSED)
    way = [kv.before, *([kv.written] if fed else []), *([kv.after] if stage == Stage.REWOUND else [])]
    pointer, committed = way[-1], cycle.committed_after if stage == Stage.REWOUND else cycle.committed_before
    valid = min(pointer, kv.after if stage == Stage.REWOUND else cycle.committed_before)
    earlier = [
        k for o in trace.cycles if o.index < cycle.index and (k := o.target_kv if name[0] == "t" else o.draft_kv)
    ]
    top = max([kv.written if fed else kv.before, *(k.written for k in earlier)])
    c.text(MARGIN, y + 15, name, fill="quiet")
    c.text(MARGIN, y + 33, " → ".join(map(str, way)), size=12, fill="quiet")
    for at in range(cols.first, cols.first + len(cols.edges) - 1):
        x, w = cols.edge(at) + 1.5, cols.edge(at + 1) - cols.edge(at) - 3
        if at < valid:
            c.box(x, y, w, CELL, "valid", r=2)
        elif at < top:
            new = at < pointer
            if new:
                c.box(x, y, w, CELL, "/amber", stroke="amber", r=2)
            else:
                c.box(x, y, w, CELL, "/stale", stroke="stale", r=2, dash="4 3", wide=1)
            j = at - cycle.committed_before
            if fed and at < kv.written:
                label = cols.drafts[j] if 0 <= j < len(cols.drafts) else cols.text[at - cols.first] if j < 0 else ""
                c.text(
                    x + w / 2,
                    y + 15,
                    label,
                    size=12,
                    fill="ink" if new else "quiet",
                    anchor="middle",
                    mono=True,
                    struck=not new,
                    width=w - 4,
                )
        else:
            c.box(x, y, w, CELL, "none", stroke="line", r=2, wide=1)
            if at < committed:
                c.text(x + w / 2, y + 15, "no KV", size=12, fill="quiet", anchor="middle")
    x, high = cols.edge(pointer), cols.edge(kv.written)
    c.path(f"M{x:.1f} {y - 4:.1f}V{y + CELL + 5:.1f}", stroke="ink", wide=2.4)
    c.path(f"M{x - 6:.1f} {y + CELL + 14:.1f}L{x:.1f} {y + CELL + 4:.1f}L{x + 6:.1f} {y + CELL + 14:.1f}Z", fill="ink")
    c.text(x - 10, y + CELL + 16, f"C = {pointer}", bold=True, anchor="end")
    if stage == Stage.REWOUND and kv.written > kv.after:
        c.path(f"M{high:.1f} {y + CELL + 7:.1f}v8", stroke="blue-ink", wide=1.6)
        c.arrow(high, y + CELL + 11, x + 11, y + CELL + 11, stroke="blue-ink", wide=1.6)
        told = f"rewind {kv.written - kv.after}"
        fits = high + 6 + 8 * len(told) < max(WIDTH, cols.edges[-1] + MARGIN)  # a tree's slots go on beyond the edge
        place = (high + 6, y + CELL + 15) if fits else (high, y + CELL + 27)
        c.text(*place, told, size=12, fill="blue-ink", bold=True, anchor="start" if fits else "end")


def _borders(c: Canvas, blocks: Blocks, cols: Columns, y: float) -> None:
    """Where a block begins, and its id: those of the table, and those that the rewind gave back."""
    stop = cols.first + len(cols.edges) - 1
    for index, block in enumerate((*blocks.owned, *reversed(blocks.freed))):
        low, high = max(cols.first, index * blocks.size), min(stop, (index + 1) * blocks.size)
        if low >= high:
            continue
        gone = index >= len(blocks.owned)
        x, w = cols.edge(low), cols.edge(high) - cols.edge(low)
        if low == index * blocks.size:
            c.path(f"M{x:.1f} {y - 15:.1f}v{CELL + 17:.1f}", stroke="quiet", wide=1.4, dash="3 3" if gone else "")
        more = " given back" if gone else " shared" if block in blocks.shared else ""
        text = f"block {block}{more}" if w > 100 else f"block {block}" if w > 50 else str(block)
        c.text(x + 5, y - 5, text, size=12, fill="quiet")
