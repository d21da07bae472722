"""Draw requests × steps into a still: a row for each request in order of arrival, a column for each step.

Invariant: a cell shows the numbers of its record and nothing else; steps behind the cursor are left open. It does not
know the pool of blocks.
"""

from __future__ import annotations

from specdec_teach.timeline import Row, Timeline
from specdec_widgets.owners import look
from specdec_widgets.serving import ending, label, left
from specdec_widgets.svg import Canvas

__all__ = ["ENDED", "draw_grid", "draw_legend", "height"]

COLUMN, LINE, HEAD, GUTTER, MOST = 38.0, 38.0, 24.0, 148.0, 24
ENDED = {"finished": ("✓", "green-ink"), "cancelled": ("⊘", "quiet"), "failed": ("!", "red-ink")}


def window(timeline: Timeline, step: int, width: float) -> range:
    """The steps that fit, the newest last; open ones behind the cursor only where there is room for all."""
    fit = max(1, int((width - GUTTER) / COLUMN))
    first = max(0, min(step + 1, len(timeline.steps)) - fit)
    return range(first, min(len(timeline.steps), first + fit))


def requests(timeline: Timeline, step: int, width: float) -> list[int]:
    """The requests of these steps up to the cursor, in order of arrival."""
    steps = window(timeline, step, width)
    return sorted({row.request for at in steps if at <= step for row in timeline.steps[at].rows})


def height(timeline: Timeline, step: int, width: float) -> float:
    """How tall the grid is."""
    count = len(requests(timeline, step, width))
    return HEAD + LINE * min(count, MOST) + (22 if count > MOST else 0)


def draw_grid(c: Canvas, timeline: Timeline, step: int, x: float, y: float, width: float) -> None:
    """Draw the grid at (x, y)."""
    steps, names = window(timeline, step, width), requests(timeline, step, width)
    most = max([timeline.meta.gamma, 1, *(row.drafted for at in steps for row in timeline.steps[at].rows)])
    left_edge, rows = x + GUTTER, _first(timeline, steps, step, names)
    cursor = left_edge + (step - steps.start) * COLUMN
    c.text(x, y + 14, "step", size=12, fill="quiet")
    c.box(cursor + 0.5, y - 3, COLUMN - 1, HEAD + LINE * len(rows) + 3, "none", stroke="ink", r=5, wide=1.6)
    for at in steps:
        now = at == step
        c.text(
            left_edge + (at - steps.start + 0.5) * COLUMN,
            y + 14,
            str(timeline.steps[at].index),
            size=12,
            fill="ink" if now else "quiet",
            anchor="middle",
            bold=now,
        )
    for line, request in enumerate(rows):
        top = y + HEAD + LINE * line
        style = look(request)
        c.path(f"M{x:.1f} {top:.1f}h{GUTTER + COLUMN * len(steps):.1f}", stroke="fill", wide=1)
        c.box(x, top + 11, 16, 16, style.fill, stroke=style.ink, r=3, wide=1)
        c.text(x + 22, top + 24, f"{style.glyph} {request}", fill=style.ink, bold=True)
        c.text(x + 54 + 7 * (len(str(request)) - 1), top + 24, label(timeline, request, 12), width=GUTTER - 60)
        for at in steps:
            edge = left_edge + (at - steps.start) * COLUMN
            if at > step:
                c.path(f"M{edge + COLUMN / 2:.1f} {top + LINE / 2:.1f}h.1", stroke="valid", wide=3)
                continue
            row = next((row for row in timeline.steps[at].rows if row.request == request), None)
            if row is not None:
                _cell(c, row, edge + 2, top + 2, COLUMN - 4, LINE - 4, most)
            elif request in left(timeline, at):
                c.text(edge + COLUMN / 2, top + 24, "⊘", fill="quiet", anchor="middle", bold=True)
    if len(names) > MOST:
        c.text(x, y + HEAD + LINE * MOST + 17, f"{len(names) - MOST} more requests are not drawn", fill="quiet")


def _first(timeline: Timeline, steps: range, step: int, names: list[int]) -> list[int]:
    """The requests to draw where there is no room for all: those that did the most; in order of arrival."""
    rows = [row for at in steps if at <= step for row in timeline.steps[at].rows if row.state != "waiting"]
    busy = {name: sum(row.request == name for row in rows) for name in names} if len(names) > MOST else {}
    return sorted(sorted(names, key=lambda name: (-busy.get(name, 0), name))[:MOST])


def _cell(c: Canvas, row: Row, x: float, y: float, w: float, h: float, most: int) -> None:
    end, middle = ending(row), x + w / 2
    if row.cycle is not None:
        c.box(x, y, w, h, "green-tint", r=4)
        c.text(x + 5 if end else middle, y + 16, f"+{row.emitted}", bold=True, anchor="start" if end else "middle")
        for draft in range(row.drafted):
            kept, wide = draft < row.accepted, (w - 6) / most
            at = x + 3 + draft * wide
            c.box(
                at + 0.5, y + h - 12, wide - 1, 8, "green" if kept else "/red", stroke="none" if kept else "red", wide=1
            )
    elif row.state == "prefill":
        c.box(x, y, w, h, "fill", stroke="valid", r=4, wide=1)
        c.text(middle, y + (15 if row.adopted else 21), f"p{row.fed}", anchor="middle")
        if row.adopted:
            flag(c, x + 4, y + 20)
            c.text(x + w - 3, y + 30, str(row.adopted), size=12, fill="blue-ink", anchor="end", bold=True)
    elif row.state == "preempted":
        c.box(x, y, w, h, "red-tint", stroke="red", r=4, dash="4 3", wide=1.3)
        c.text(middle, y + 22, "x", size=15, fill="red-ink", anchor="middle", bold=True)
    elif not end:
        c.box(x, y, w, h, "none", stroke="valid", r=4, dash="3 3", wide=1)
        c.text(middle, y + 21, "w", fill="quiet", anchor="middle")
    if end:
        glyph, ink = ENDED[end]
        if row.cycle is not None:
            c.text(x + w - 3, y + 16, glyph, fill=ink, bold=True, anchor="end")
        else:
            c.text(middle, y + 21, glyph, fill=ink, bold=True, anchor="middle")
        c.path(f"M{x + w + 1:.1f} {y:.1f}v{h:.1f}", stroke=ink, wide=2.4)


def flag(c: Canvas, x: float, y: float) -> None:
    """The mark of a published block: a ribbon."""
    c.path(f"M{x:.1f} {y:.1f}h8v11l-4 -3.5l-4 3.5z", fill="blue-ink")


def draw_legend(c: Canvas, x: float, y: float) -> None:
    """Say what the cells mean, in one line."""
    parts = (
        ("w", "waits"), ("p", "computes tokens"), ("flag", "taken over"), ("+", "emits"), ("green", "draft kept"),
        ("/red", "not kept"), ("x", "blocks given back"), ("✓", "ended"), ("⊘", "cancelled"), ("!", "failed"),
    )  # fmt: skip
    for sign, text in parts:
        if sign == "flag":
            flag(c, x, y - 10)
        elif len(sign) > 1:
            c.box(x, y - 9, 10, 9, sign, stroke="red" if sign == "/red" else "none", wide=1)
        else:
            c.text(x, y, sign, size=12, bold=True, fill="red-ink" if sign in "x!" else "ink")
        c.text(x + 14, y, text, size=12, fill="quiet")
        x += 14 + 6.6 * len(text) + 16
