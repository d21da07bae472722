"""Draw one round in four steps: proposed, verified, judged (accepted, rejected, discarded), committed.

Invariant: a column is a position of the text in all four steps, and every number is in the record of the cycle. It
does not know the caches: the still of a cycle shows those.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Cycle, Decision, Trace
from specdec_widgets.picture import Picture
from specdec_widgets.svg import CHAR, Canvas, wrap
from specdec_widgets.words import clip, columns, cycle_sentence, gamma_of, labels, num, pace, plural, subscript

__all__ = ["round_of"]

MARGIN, GUTTER, CHIP, FONT, MOST = 24.0, 132.0, 30.0, 13.0, 8
LOOK = {
    "proposed": ("", "/amber", "amber", "", "amber-ink"),
    "accepted": ("✓", "green-tint", "green", "", "green-ink"),
    "rejected": ("✗", "red-tint", "red", "", "red-ink"),
    "unused": ("·", "none", "stale", "4 3", "quiet"),
    "cut": ("✂", "none", "stale", "4 3", "quiet"),
    "correction": ("↺", "blue-tint", "blue", "", "blue-ink"),
    "bonus": ("★", "purple-tint", "purple", "", "purple-ink"),
    "kept": ("✓", "fill", "none", "", "green-ink"),
    "text": ("", "fill", "none", "", "ink"),
}
VERDICT = {"accepted": "accepted", "rejected": "rejected", "unused": "discarded", "cut": "cut"}


@dataclass(frozen=True, slots=True)
class _Columns:
    """What stands where: labels of the text before, of the drafts shown, of what was committed; and the widths."""

    before: tuple[str, ...]
    drafts: tuple[str, ...]
    emitted: tuple[str, ...]
    start: float
    wide: float

    def x(self, at: int) -> float:
        """The left edge of a column; 0 is the first draft's, the pending token stands at −1."""
        return self.start + at * self.wide


def round_of(trace: Trace, cycle: int = 0, *, dark: bool = False, width: float = 980) -> Picture:
    """Return the four-step picture of the cycle with this index; InvalidInput when the trace does not hold it."""
    found = next((c for c in trace.cycles if c.index == cycle), None)
    if found is None or isinstance(cycle, bool):
        known = f"{trace.cycles[0].index} to {trace.cycles[-1].index}" if trace.cycles else "none"
        raise InvalidInput(f"cannot draw cycle {cycle!r}; the cycles of this trace: {known}")
    if not width >= 300:
        raise InvalidInput(f"width={width!r} leaves no room; give 300 or more pixels")
    return _picture(trace, found, dark, width)


def _columns(trace: Trace, cycle: Cycle, width: float) -> _Columns:
    known: list[int | None] = list(trace.prompt)
    known += [None] * (trace.cycles[0].committed_before - len(known))
    for c in trace.cycles:
        if c.index <= cycle.index:
            known += c.emitted
    length = cycle.committed_before
    tail = known[max(0, length - 4) : length]
    text = labels(known[: length + len(cycle.emitted)], trace.pieces)
    drafts = labels([*tail, *cycle.proposed], trace.pieces)[len(tail) :]
    narrow = width < 620
    left = MARGIN + (0 if narrow else GUTTER)
    room, shown = width - MARGIN - left, min(len(drafts), MOST)
    before = 1 if narrow else min(2, length)
    wide = min(132.0, room / (shown + 1 + before))
    return _Columns(
        tuple(text[length - before : length]), tuple(drafts[:shown]), tuple(text[length:][: shown + 1]),
        left + before * wide, wide,
    )  # fmt: skip


def _picture(trace: Trace, cycle: Cycle, dark: bool, width: float) -> Picture:
    cols, narrow = _columns(trace, cycle, width), width < 620
    drafts = labels([*trace.prompt[-1:], *cycle.proposed], trace.pieces)[1:]
    tokens = labels(cycle.emitted, trace.pieces)
    words = cycle_sentence(trace, cycle, tokens, drafts)
    told = wrap(words, int((width - 2 * MARGIN) / 7.9))
    step = 104.0 if narrow else 88.0
    top = 66.0
    total = top + 4 * step + 20 * len(told) + 14
    c = Canvas(dark=dark)
    c.box(0.5, 0.5, width - 1, total - 1, "white", stroke="line", r=8)
    c.text(MARGIN, 34, f"cycle {cycle.index} in four steps", size=18, bold=True)
    if not narrow:
        facts = f"{pace(gamma_of(cycle), trace.meta.planner)} · {clip(trace.meta.verify, 20)} rule"
        c.text(width - MARGIN, 34, facts, fill="quiet", anchor="end")
    more = len(cycle.proposed) - len(cols.drafts)
    by = f"+ {more} more" if more else "by the draft" if cycle.proposed else "nothing"
    steps = (
        ("1", "proposed", by), ("2", "verified", "in one pass"),
        ("3", "judged", "left to right"), ("4", "committed", f"+ {plural(len(cycle.emitted), 'token')}"),
    )  # fmt: skip
    for i, (number, name, note) in enumerate(steps):
        y = top + i * step
        if i:
            c.path(f"M{MARGIN:.1f} {y - 8:.1f}H{width - MARGIN:.1f}", stroke="fill", wide=1)
        c.text(MARGIN, y + 16, number, size=15, bold=True, fill="quiet")
        c.text(MARGIN + 18, y + 16, name, size=15, bold=True)
        c.text(MARGIN + (34 + 9 * len(name) if narrow else 18), y + (16 if narrow else 35), note, size=12, fill="quiet")
    low = top + (22 if narrow else 0)
    for y in (low, low + 2 * step, low + 3 * step):
        _text(c, cols, y)
    for j, d in enumerate(cycle.decisions[: len(cols.drafts)]):
        _draft(c, trace, cols, d, j, low, step)
    _pass(c, cycle, cols, low + step)
    _committed(c, cycle, cols, low + 3 * step)
    for i, line in enumerate(told):
        c.text(MARGIN, top + 4 * step + 12 + 20 * i, line, size=14)
    c_words = f"One round in four steps: proposed, verified, judged, committed. {words}"
    return Picture(c.close(width, total, f"Cycle {cycle.index} in four steps", c_words), c_words, _table(cycle, drafts))


def _chip(c: Canvas, cols: _Columns, at: int, y: float, label: str, kind: str, *, struck: bool = False) -> None:
    glyph, fill, stroke, dash, ink = LOOK[kind]
    x, w = cols.x(at) + 2, cols.wide - 4
    c.box(x, y, w, CHIP, fill, stroke=stroke, r=4, dash=dash, wide=1.5)
    if w < 80 and label[:1] == "␣" and len(label) > 1:
        label = label[1:]
    shown = clip(label, max(1, int((w - (24 if glyph else 8)) / (FONT * CHAR))))
    half, center = columns(shown) * FONT * 0.602 / 2, x + w / 2 + (8 if glyph else 0)
    if glyph:
        c.text(center - half - 5, y + 20, glyph, fill=ink, bold=True, anchor="end")
    c.text(center, y + 20, shown, mono=True, anchor="middle", struck=struck, fill="quiet" if dash else "ink")


def _text(c: Canvas, cols: _Columns, y: float) -> None:
    """The committed tokens before the round."""
    for i, label in enumerate(cols.before):
        _chip(c, cols, i - len(cols.before), y, label, "text")


def _draft(c: Canvas, trace: Trace, cols: _Columns, d: Decision, j: int, y: float, step: float) -> None:
    """One draft, proposed and judged, with the numbers that each step adds."""
    middle, roomy = cols.x(j) + cols.wide / 2, cols.wide >= 96
    _chip(c, cols, j, y, cols.drafts[j], "proposed")
    name = subscript("d", d.position)
    head = "" if d.q is None else f"q = {num(d.q)}" if roomy else f"q {num(d.q)}"
    c.text(middle, y + CHIP + 16, f"{name}  {head}" if roomy else head, size=12, fill="quiet", anchor="middle")
    under = y + 2 * step
    _chip(c, cols, j, under, cols.drafts[j], d.status, struck=d.status == "rejected")
    ink = {"accepted": "green-ink", "rejected": "red-ink"}.get(d.status, "quiet")
    why, said = "", VERDICT[d.status]
    if d.u is not None and d.accept_probability is not None:
        digits = next((n for n in range(2, 6) if num(d.u, n) != num(d.accept_probability, n)), 6)
        sign = "<" if d.u < d.accept_probability else "≥"
        limit = "p/q" if trace.meta.verify == "rejection" else "a"
        why = f"u {num(d.u, digits)} {sign} {limit} {num(d.accept_probability, digits)}"
    fits = why and len(why) * 6.6 <= cols.wide
    if cols.wide >= 72:
        c.text(middle, under + CHIP + 16, why if fits else said, size=12, fill=ink, anchor="middle")
    if fits:
        c.text(middle, under + CHIP + 31, said, size=12, fill=ink, anchor="middle", bold=True)


def _pass(c: Canvas, cycle: Cycle, cols: _Columns, y: float) -> None:
    """The target's one forward: from the pending token to the last draft, and what row i says of the draft above it."""
    count = len(cols.drafts)
    x, w = cols.x(-1) + 2, (count + 1) * cols.wide - 4
    c.box(x, y + 2, w, 22, "fill", stroke="quiet", r=11, wide=1.2)
    rows = len(cycle.proposed) + 1
    text = f"target: one forward over {plural(rows, 'token')}"
    text = text if len(text) * 6.4 < w else clip("one forward", int(w / 6.4))
    c.text(x + w / 2, y + 18, text, size=12, anchor="middle")
    for j in range(count + 1):
        d = cycle.decisions[j] if j < len(cycle.decisions) else None
        if j == count and cycle.last_kind != "bonus":
            break
        known = cycle.last_top.tokens if d is None and cycle.last_top else ()
        p = d.p if d is not None else next((value for token, value in known if token == cycle.last), None)
        middle = cols.x(j) + cols.wide / 2
        ink = {"accepted": "green", "rejected": "red"}.get(d.status, "stale") if d is not None else "purple"
        c.arrow(middle - cols.wide + 6, y + 26, middle, y + 40, stroke=ink, dash="3 3" if ink == "stale" else "")
        if p is not None:
            label = f"p = {num(p)}" if cols.wide >= 60 else f"p {num(p)}"
            c.text(middle, y + 56, label, size=12, fill="quiet" if ink == "stale" else "ink", anchor="middle")


def _committed(c: Canvas, cycle: Cycle, cols: _Columns, y: float) -> None:
    for j, label in enumerate(cols.emitted):
        last = cycle.last is not None and j == len(cycle.emitted) - 1
        _chip(c, cols, j, y, label, cycle.last_kind if last else "kept")
        if last:
            said = "next token" if not cycle.proposed else cycle.last_kind
            ink = "blue-ink" if cycle.last_kind == "correction" else "purple-ink"
            c.text(cols.x(j) + cols.wide / 2, y + CHIP + 16, said, size=12, fill=ink, anchor="middle", bold=True)


def _table(cycle: Cycle, drafts: list[str]) -> str:
    wide = max(5, *(columns(d) for d in drafts)) if drafts else 5
    lines = [f"  {'draft':<{wide}}      q      p      u  verdict"]
    for d, name in zip(cycle.decisions, drafts, strict=True):
        text = name + " " * (wide - columns(name))
        lines.append(f"{d.position} {text} {num(d.q):>6} {num(d.p):>6} {num(d.u):>6}  {VERDICT[d.status]}")
    return "\n".join([*lines, f"committed: {plural(len(cycle.emitted), 'token')}"])
