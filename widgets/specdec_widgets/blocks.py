"""Draw one step of a Timeline as a still: requests × steps, one sentence, the pool of blocks, one block table.

Invariant: the same timeline and step give the same SVG text, byte for byte; timings are left out for that reason.
It shows what stands after the step.
"""

from __future__ import annotations

from specdec_teach.timeline import Timeline
from specdec_widgets import grid, pool, tiles
from specdec_widgets.owners import patterns
from specdec_widgets.serving import Sums, gist, sentence, sums
from specdec_widgets.still import tag
from specdec_widgets.svg import Canvas, wrap
from specdec_widgets.words import pace, plural

__all__ = ["image", "telling_step", "to_svg"]

MARGIN, WIDTH = 24.0, 980.0
INNER = WIDTH - 2 * MARGIN


def to_svg(timeline: Timeline, step: int) -> str:
    """Return the still after a step, counted from 0, or from the end if negative; InvalidInput outside of the run."""
    return _draw(timeline, pool.step_at(timeline, step))


def image(timeline: Timeline) -> str:
    """Return an <img> of the run's most telling step, described in words; "" when there is no step."""
    if not timeline.steps:
        return ""
    step = telling_step(timeline)
    return tag(to_svg(timeline, step), f"{gist(timeline)}. {sentence(timeline, step)}")


def telling_step(timeline: Timeline) -> int:
    """The step to show when there is room for one: a preemption, else the one with most blocks shared, else in use."""
    lost = (at for at, step in enumerate(timeline.steps) if any(row.state == "preempted" for row in step.rows))
    first = next(lost, None)
    if first is not None:
        return first

    def weight(at: int) -> tuple[int, int]:
        held = [block for row in timeline.steps[at].rows for block in row.table]
        return len(held) - len(set(held)), len(held)

    return max(range(len(timeline.steps)), key=weight)


def _draw(timeline: Timeline, step: int) -> str:
    after, row, meta = sums(timeline, step), pool.chosen(timeline, step), timeline.meta
    told = wrap(sentence(timeline, step), int(INNER / 8.4))
    top = 62.0
    legend = top + grid.height(timeline, step, INNER) + 24
    words = legend + 18
    counts = words + 21 * len(told) + 26
    pool_now, so_far = _counts(timeline, after)
    more = 19 if (len(pool_now) + len(so_far)) * 7 + 76 > INNER else 0  # a second line where one is too short
    blocks = counts + 18 + more
    table = blocks + tiles.tiles_height(timeline, step, INNER) + 16
    total = table + tiles.table_height(row) + 8

    c = Canvas()
    c.box(0.5, 0.5, WIDTH - 1, total - 1, "white", stroke="line", r=8)
    c.text(MARGIN, 34, f"step {timeline.steps[step].index}", size=18, bold=True)
    facts = (
        f"{plural(len(timeline.steps), 'step')} · {plural(len(timeline.prompts), 'request')}, {meta.max_batch} at once"
    )
    facts += f" · {plural(meta.blocks, 'block')} of {plural(meta.block_size, 'token')}"
    facts += f" · {pace(meta.gamma, meta.planner, run=True)}"
    c.text(WIDTH - MARGIN, 34, facts, fill="quiet", anchor="end")
    grid.draw_grid(c, timeline, step, MARGIN, top, INNER)
    grid.draw_legend(c, MARGIN, legend)
    for i, line in enumerate(told):
        c.text(MARGIN, words + 16 + 21 * i, line, size=15)
    c.path(f"M{MARGIN:.1f} {counts - 14:.1f}h{INNER:.1f}", stroke="line", wide=1)
    c.text(MARGIN, counts + 6, "blocks", size=15, bold=True)
    c.text(MARGIN + 62, counts + 6, pool_now, fill="quiet")
    c.text(WIDTH - MARGIN, counts + 6 + more, so_far, fill="quiet", anchor="end")
    tiles.draw_tiles(c, timeline, step, MARGIN, blocks, INNER)
    if row is not None:
        tiles.draw_table(c, timeline, step, row, MARGIN, table, INNER)
    return c.close(WIDTH, total, f"Step {timeline.steps[step].index} of a scheduler's run", " ".join(told), patterns())


def _counts(timeline: Timeline, after: Sums) -> tuple[str, str]:
    """Return the pool in numbers, and what the run has done so far."""
    text = f"{after.in_use} of {timeline.meta.blocks} in use · {after.shared} shared · {after.published} published"
    kept = f" · {after.accepted} of {after.drafted} drafts kept" if after.drafted else ""
    first = timeline.steps[0].index
    since = f"since step {first}" if first else "so far"
    done = f"{plural(after.emitted, 'token')} {since}{kept} · {after.adopted} taken over"
    return f"{text} · {after.idle} idle · {after.free} free", done
