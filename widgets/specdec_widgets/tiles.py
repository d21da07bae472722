"""Draw the pool of blocks into a still: a tile for each block, and the block table of one request.

Invariant: a tile's coloured part is what is computed and reachable; whose it is shows by glyph, number, pattern and
colour together. It does not know what happened in earlier steps.
"""

from __future__ import annotations

from specdec_teach.timeline import Row, Timeline
from specdec_widgets import pool
from specdec_widgets.grid import flag
from specdec_widgets.owners import look
from specdec_widgets.pool import Block
from specdec_widgets.serving import label
from specdec_widgets.svg import Canvas
from specdec_widgets.words import listed, plural

__all__ = ["draw_table", "draw_tiles", "table_height", "tiles_height", "words"]

WIDE, TALL, GAP, LINE, MOST, LINES = 98.0, 58.0, 6.2, 22.0, 117, 8


def tiles_height(timeline: Timeline, step: int, width: float) -> float:
    """How tall the pool is."""
    count = len(_drawn(timeline, step))
    return (TALL + GAP) * -(-count // _across(width)) + (20 if count < timeline.meta.blocks else 0) + 22


def draw_tiles(c: Canvas, timeline: Timeline, step: int, x: float, y: float, width: float) -> None:
    """Draw the blocks at (x, y)."""
    blocks, across = _drawn(timeline, step), _across(width)
    for at, block in enumerate(blocks):
        _tile(c, block, timeline.meta.block_size, x + at % across * (WIDE + GAP), y + at // across * (TALL + GAP))
    below = y + (TALL + GAP) * -(-len(blocks) // across) + 14
    if len(blocks) < timeline.meta.blocks:
        drawn = {block.id for block in blocks}
        rest = [block for block in pool.blocks_after(timeline, step) if block.id not in drawn]
        kinds = (("free", "free"), ("idle", "idle"), ("owners", "in use"))
        counts = listed([f"{n} {name}" for key, name in kinds if (n := sum(bool(getattr(b, key)) for b in rest))])
        c.text(x, below, f"not drawn: {plural(len(rest), 'block')}, {counts}", fill="quiet")
        below += 20
    _legend(c, x, below)


def _legend(c: Canvas, x: float, y: float) -> None:
    parts = (
        (look(0).fill, "computed, of that request"), ("/stale", "stale: written, unreachable"), ("none", "not written"),
        ("valid", "idle: computed, held by nobody"), ("flag", "published"), ("shared", "shared"),
    )  # fmt: skip
    for sign, text in parts:
        if sign == "flag":
            flag(c, x + 3, y - 10)
        elif sign == "shared":
            c.box(x, y - 10, 14, 11, "none", stroke="ink", r=3, wide=2)
        else:
            c.box(x, y - 10, 14, 11, sign, stroke="stale", wide=1, dash="3 2" if sign == "/stale" else "")
        c.text(x + 20, y, text, size=12, fill="quiet")
        x += 20 + 6.6 * len(text) + 16


def _across(width: float) -> int:
    return max(1, int((width + GAP) / (WIDE + GAP)))


def _drawn(timeline: Timeline, step: int) -> tuple[Block, ...]:
    blocks = pool.blocks_after(timeline, step)[: pool.shown(timeline)]
    if len(blocks) > MOST:
        first = sorted(blocks, key=lambda block: (block.free, block.idle, not block.evicted, block.id))[:MOST]
        blocks = tuple(sorted(first, key=lambda block: block.id))
    return blocks


def words(block: Block, size: int) -> str:
    """Say what a block is in two or three words, as its tile does."""
    if block.evicted:
        return "evicted" if block.free else f"evicted {block.filled}/{size}"
    if block.idle:
        return "idle"
    if block.free:
        return "free"
    stale = block.written - block.filled
    if block.shared:
        return "shared" if block.filled == size else f"{block.filled}/{size} shared"
    return f"{block.filled}/{size}" + (f" {stale} stale" if stale else "")


def _tile(c: Canvas, block: Block, size: int, x: float, y: float) -> None:
    stroke, dash, wide = (
        ("line", "", 1.0) if block.owners else ("stale", "4 3", 1.0) if block.idle else ("line", "2 3", 1.0)
    )
    if block.shared:
        stroke, wide = "ink", 2.0
    c.box(x + 1, y + 1, WIDE - 2, TALL - 2, "none", stroke=stroke, dash=dash, r=4, wide=wide)
    c.text(x + 7, y + 16, str(block.id), size=12, fill="ink" if block.owners else "quiet", bold=bool(block.owners))
    if block.published:
        flag(c, x + 11 + 8.2 * len(str(block.id)), y + 6)
    right = x + WIDE - 7
    if len(block.owners) > 2:
        c.text(right, y + 16, f"×{len(block.owners)}", size=12, anchor="end", bold=True)
        right -= 12 + 7 * len(str(len(block.owners)))
    for owner in reversed(block.owners[:2] if len(block.owners) < 3 else block.owners[:1]):
        text = f"{look(owner).glyph}{owner}"
        c.text(right, y + 16, text, size=12, fill=look(owner).ink, anchor="end", bold=True)
        right -= 14 + 7.2 * len(str(owner))
    _slots(c, block, size, x + 7, y + 22, WIDE - 14, 14)
    c.text(x + 7, y + 50, words(block, size), size=12, fill="red-ink" if block.evicted else "quiet")


def _slots(c: Canvas, block: Block, size: int, x: float, y: float, w: float, h: float) -> None:
    one, bands = w / size, block.owners[:3]
    for at, owner in enumerate(bands):
        part = h / len(bands)
        c.box(x, y + at * part, one * block.filled, part, look(owner).fill)
    if block.idle:
        c.box(x, y, one * block.filled, h, "valid")
    c.box(
        x + one * block.filled, y, one * (block.written - block.filled), h, "/stale", stroke="stale", dash="3 2", wide=1
    )
    if one >= 3.5:
        for at in range(1, block.written):
            c.path(f"M{x + at * one:.1f} {y:.1f}v{h:.1f}", stroke="white", wide=0.8)
    c.box(x, y, w, h, "none", stroke="valid" if block.free else "stale", dash="2 3" if block.free else "", wide=1)


def table_height(row: Row | None) -> float:
    """How tall the block table of this row is."""
    if row is None:
        return 0.0
    return 54 + LINE * min(len(row.table), LINES) + (LINE if len(row.table) > LINES else 0) + 8


def draw_table(c: Canvas, timeline: Timeline, step: int, row: Row, x: float, y: float, width: float) -> None:
    """Draw the block table of a request: which block holds which positions, and where a slot is."""
    style, size = look(row.request), timeline.meta.block_size
    c.text(x, y + 14, "block table of", size=15, bold=True)
    c.text(x + 124, y + 14, f"{style.glyph} {row.request}", size=15, fill=style.ink, bold=True)
    c.text(x + 152 + 8 * len(str(row.request)), y + 14, label(timeline, row.request), size=15, bold=True)
    c.text(x + width, y + 14, pool.where(row, size), fill="quiet", anchor="end")
    for at, head in (
        (0, "index"),
        (70, "positions"),
        (190, "block"),
        (270, "slots"),
        (400, "computed"),
        (500, "also held by"),
    ):
        c.text(x + at, y + 40, head, size=12, fill="quiet")
    places = pool.places(timeline, step, row)
    for index, place in enumerate(places[:LINES]):
        base = y + 46 + LINE * index
        c.path(f"M{x:.1f} {base:.1f}h{width:.1f}", stroke="fill", wide=1)
        low = place.block * size
        c.text(x, base + 16, str(index))
        c.text(x + 70, base + 16, f"{place.first}–{place.first + size - 1}")
        c.text(x + 190, base + 16, str(place.block), bold=True)
        c.text(x + 270, base + 16, f"{low}–{low + size - 1}")
        c.text(x + 400, base + 16, f"{place.filled} of {size}")
        others = [f"{look(o).glyph} {o}" for o in place.others]
        c.text(x + 500, base + 16, listed(others) if len(others) < 9 else plural(len(others), "request"))
    if len(places) > LINES:
        c.text(x, y + 46 + LINE * LINES + 16, f"and {plural(len(places) - LINES, 'block')} more", fill="quiet")
