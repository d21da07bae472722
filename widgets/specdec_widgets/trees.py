"""Where the nodes of a draft tree stand, what each may see, and the still of a tree that was judged.

Invariant: a node's column is its depth, and the first child stands in its parent's row, so a chain is one straight
line; the mask follows from the parents alone. It mirrors static/tree.js (a test compares them).
"""

from __future__ import annotations

from collections.abc import Sequence

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Cycle, Decision, Trace
from specdec_widgets.picture import Picture
from specdec_widgets.rounds import LOOK, VERDICT
from specdec_widgets.svg import CHAR, Canvas, wrap
from specdec_widgets.words import clip, columns, labels, listed, num, plural, quote

__all__ = ["leaf_rows", "mask", "places", "sentence", "tree_of"]

Place = tuple[int, int]
MARGIN, COLUMN, ROW, CHIP, FONT, SMALL = 24.0, 130.0, 50.0, 28.0, 13.0, 13.0


def places(parents: Sequence[int]) -> tuple[Place, ...]:
    """Return (column, row) of every node; the pending token, parent −1, stands at (0, 0).

    >>> places((-1, -1, 0, 0, 1))
    ((1, 0), (1, 2), (2, 0), (2, 1), (2, 2))
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        children.setdefault(parent, []).append(node)
    found: dict[int, Place] = {-1: (0, 0)}
    rows = 0
    waiting = [-1]
    while waiting:
        node = waiting.pop()
        column, row = found[node]
        if row < 0:
            row, rows = rows + 1, rows + 1
            found[node] = (column, row)
        for index, child in reversed(list(enumerate(children.get(node, ())))):
            found[child] = (column + 1, row if index == 0 else -1)
            waiting.append(child)
    return tuple(found[node] for node in range(len(parents)))


def leaf_rows(parents: Sequence[int]) -> int:
    """Return how many rows the tree takes.

    >>> leaf_rows((-1, 0, 1)), leaf_rows((-1, -1))
    (1, 2)
    """
    return 1 + max((row for _, row in places(parents)), default=0)


def mask(parents: Sequence[int]) -> tuple[tuple[bool, ...], ...]:
    """Return which fed token sees which: row and column 0 are the pending token, k + 1 is draft k.

    >>> [[int(x) for x in row] for row in mask((-1, -1, 0))]
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]
    """
    rows: list[tuple[bool, ...]] = [(True, *(False for _ in parents))]
    for node, parent in enumerate(parents):
        above = rows[parent + 1]
        rows.append((*above[: node + 1], True, *above[node + 2 :]))
    return tuple(rows)


def sentence(trace: Trace, cycle: Cycle) -> str:
    """Say what became of a tree, with its numbers."""
    parents, path = cycle.parents or (), cycle.path or ()
    drafts, tokens = _drafts(trace, cycle), labels(cycle.emitted, trace.pieces)
    judged = [d for d in cycle.decisions if d.status in ("accepted", "rejected")]
    depth = max((column for column, _ in places(parents)), default=0)
    head = f"{plural(len(parents), 'draft')} in a tree of depth {depth}, {len(judged)} of them judged"
    kept = f"the path {listed([quote(drafts[node]) for node in path])} is kept" if path else "none is kept"
    fallen = sum(d.status == "rejected" for d in judged)
    if fallen:
        kept += f", {fallen} {'falls' if fallen == 1 else 'fall'}"
    if cycle.last is None:
        return f"{head}: {kept}, and the text ends there."
    kind = {"correction": "corrects", "bonus": "follows as the bonus"}[cycle.last_kind]
    return f"{head}: {kept}, and {quote(tokens[-1])} {kind}."


def tree_of(trace: Trace, cycle: int = 0, *, dark: bool = False) -> Picture:
    """Return the still of a cycle's tree; InvalidInput when the trace holds no tree there."""
    found = next((c for c in trace.cycles if c.index == cycle), None)
    if found is None or isinstance(cycle, bool) or found.parents is None:
        trees = [c.index for c in trace.cycles if c.parents is not None]
        known = listed(trees[:12]) + (" …" if len(trees) > 12 else "") if trees else "none"
        raise InvalidInput(
            f"cannot draw the tree of cycle {cycle!r}; cycles of this trace that drafted a tree: {known}"
        )
    return _picture(trace, found, dark)


def _drafts(trace: Trace, cycle: Cycle) -> list[str]:
    """The label of every node, read after its own path."""
    parents, out = cycle.parents or (), []
    for node in range(len(cycle.proposed)):
        path: list[int] = []
        at = node
        while at >= 0:
            path.append(at)
            at = parents[at]
        out.append(labels([cycle.proposed[k] for k in reversed(path)], trace.pieces)[-1])
    return out


def _picture(trace: Trace, cycle: Cycle, dark: bool) -> Picture:
    parents, path = cycle.parents or (), cycle.path or ()
    spots, drafts = places(parents), _drafts(trace, cycle)
    tip = path[-1] if path else -1
    # The last token hangs below the path's end, in the row of its own where a child stands beside it.
    end = (0, 0) if tip < 0 else spots[tip]
    taken = any(parent == tip for parent in parents)
    rows = leaf_rows(parents)
    last = (end[0] + 1, rows if taken else end[1]) if cycle.last is not None else None
    deep = 1 + max([column for column, _ in spots] + ([last[0]] if last else []))
    tall = rows + (1 if last and taken else 0)
    wide, count = MARGIN + deep * COLUMN, len(parents) + 1
    size = max(9.0, min(SMALL, 330 / count))
    side = max(164.0, 30 + count * size)
    beside = wide + side + MARGIN <= 980
    width = 980.0 if beside or wide + MARGIN <= 980 else wide + MARGIN
    told = wrap(sentence(trace, cycle), int((width - 2 * MARGIN) / 7.9))
    top = 62.0
    grid_x, grid_y = (width - MARGIN - side, top) if beside else (MARGIN, top + tall * ROW + 24)
    bottom = max(top + tall * ROW, grid_y + 34 + count * size) + 14
    total = bottom + 20 * len(told) + 12
    c = Canvas(dark=dark)
    c.box(0.5, 0.5, width - 1, total - 1, "white", stroke="line", r=8)
    c.text(MARGIN, 34, f"draft tree of cycle {cycle.index}", size=18, bold=True)
    facts = f"{plural(len(parents), 'draft')} · one forward over {count} tokens"
    c.text(width - MARGIN, 34, facts, fill="quiet", anchor="end")
    _edges(c, cycle, spots, end, last, top)
    pending = (labels(_before(trace, cycle), trace.pieces) or ["?"])[-1]
    _node(c, (0, 0), top, pending, "text", "pending", "")
    for node, d in enumerate(cycle.decisions):
        _node(c, spots[node], top, drafts[node], d.status, _numbers(d), str(node + 1))
    if last is not None:
        label = labels(cycle.emitted, trace.pieces)[-1]
        _node(c, last, top, label, cycle.last_kind, cycle.last_kind, "")
    _mask(c, parents, path, grid_x, grid_y, size)
    for i, line in enumerate(told):
        c.text(MARGIN, bottom + 12 + 20 * i, line, size=14)
    words = sentence(trace, cycle)
    return Picture(c.close(width, total, f"Draft tree of cycle {cycle.index}", words), words, _table(cycle, drafts))


def _before(trace: Trace, cycle: Cycle) -> list[int | None]:
    """The last committed tokens before a cycle."""
    known: list[int | None] = list(trace.prompt)
    if trace.cycles:
        known += [None] * (trace.cycles[0].committed_before - len(known))
    for c in trace.cycles:
        if c.index < cycle.index:
            known += c.emitted
    return known[-4:]


def _numbers(d: Decision) -> str:
    if d.q is None:
        return VERDICT[d.status]
    if d.u is not None and d.p is not None:
        return f"q {num(d.q)} p {num(d.p)} u {num(d.u)}"
    judged = d.status in ("accepted", "rejected") and d.p is not None
    return f"q {num(d.q)}" + (f" p {num(d.p)}" if judged else "")


def _spot(place: Place, top: float) -> tuple[float, float]:
    return MARGIN + place[0] * COLUMN, top + place[1] * ROW


def _edges(c: Canvas, cycle: Cycle, spots: Sequence[Place], end: Place, last: Place | None, top: float) -> None:
    """A line from each node to its parent; the chosen path is the thick one."""
    path, quiet = cycle.path or (), []
    for node, parent in enumerate(cycle.parents or ()):
        quiet.append((node in path, cycle.decisions[node].status, (0, 0) if parent < 0 else spots[parent], spots[node]))
    for chosen, status, start, stop in sorted(quiet, key=lambda edge: edge[0]):
        stroke = "green" if chosen else "red" if status == "rejected" else "stale"
        _line(c, start, stop, top, stroke, 2.6 if chosen else 1.2, "" if chosen or status == "rejected" else "4 3")
    if last is not None:
        _line(c, end, last, top, "blue" if cycle.last_kind == "correction" else "purple", 2.6, "")


def _line(c: Canvas, start: Place, stop: Place, top: float, stroke: str, wide: float, dash: str) -> None:
    (x1, y1), (x2, y2) = _spot(start, top), _spot(stop, top)
    x1, y1, y2 = x1 + COLUMN - 22, y1 + CHIP / 2, y2 + CHIP / 2
    bend = f"H{x2:.1f}" if y1 == y2 else f"h6Q{x1 + 11:.1f} {y1:.1f} {x1 + 11:.1f} {y1 + 6:.1f}V{y2 - 6:.1f}"
    tail = "" if y1 == y2 else f"Q{x1 + 11:.1f} {y2:.1f} {x1 + 17:.1f} {y2:.1f}H{x2:.1f}"
    c.path(f"M{x1:.1f} {y1:.1f}{bend}{tail}", stroke=stroke, wide=wide, dash=dash)


def _node(c: Canvas, place: Place, top: float, label: str, kind: str, note: str, number: str) -> None:
    glyph, fill, stroke, dash, ink = LOOK[kind]
    x, y = _spot(place, top)
    w = COLUMN - 22
    c.box(x, y, w, CHIP, "white")
    c.box(x, y, w, CHIP, fill, stroke=stroke, r=4, dash=dash, wide=1.5)
    room = w - (24 if glyph else 8) - (16 if number else 0)
    shown = clip(label, max(1, int(room / (FONT * CHAR))))
    center = x + (w + (16 if number else 0) + (14 if glyph else 0)) / 2
    if number:
        c.text(x + 5, y + 18, number, size=12, fill="quiet")
    if glyph:
        c.text(center - columns(shown) * FONT * 0.301 - 4, y + 19, glyph, fill=ink, bold=True, anchor="end")
    struck, quiet = kind == "rejected", "quiet" if dash else "ink"
    c.text(center, y + 19, shown, mono=True, anchor="middle", struck=struck, fill=quiet)
    c.text(x + 2, y + CHIP + 14, clip(note, 21), size=12, fill="quiet")


def _mask(c: Canvas, parents: Sequence[int], path: Sequence[int], x: float, y: float, size: float) -> None:
    """Which fed token sees which: a full square sees, an empty one does not; the path's rows are dark."""
    c.text(x, y + 10, "mask: row sees column", size=12, fill="quiet")
    chosen = {0, *(node + 1 for node in path)}
    left, top = x + 30, y + 34
    for at in range(len(parents) + 1):
        if size >= 12 or at % 5 == 0:
            name = str(at)
            c.text(left + (at + 0.5) * size, top - 5, name, size=12, fill="quiet", anchor="middle")
            c.text(left - 5, top + (at + 0.5) * size + 4, name, size=12, fill="quiet", anchor="end")
    for row, sees in enumerate(mask(parents)):
        for column, seen in enumerate(sees):
            fill = ("green" if row in chosen else "valid") if seen else "none"
            c.box(
                left + column * size + 1, top + row * size + 1, size - 2, size - 2, fill,
                stroke="none" if seen else "line", r=1, wide=1,
            )  # fmt: skip


def _table(cycle: Cycle, drafts: Sequence[str]) -> str:
    wide = max([5, *map(columns, drafts)])
    lines = [f" # under {'draft':<{wide}}      q      p      u  verdict"]
    for node, (d, name, parent) in enumerate(zip(cycle.decisions, drafts, cycle.parents or (), strict=True), 1):
        text = name + " " * (wide - columns(name))
        lines.append(f"{node:>2} {parent + 1:>5} {text} {num(d.q):>6} {num(d.p):>6} {num(d.u):>6}  {VERDICT[d.status]}")
    return "\n".join(lines)
