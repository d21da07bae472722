"""What the pool of blocks looks like after a step: whose each block is, which slots hold what, what can be found.

Invariant: everything follows from the records of a Timeline; a slot is exactly one of filled (computed and reachable),
stale (written since the block was taken, and unreachable) or unwritten. It mirrors static/pool.js (a test compares
them) and does not know how a block is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_kernels.errors import InvalidInput
from specdec_teach.timeline import Row, Timeline

__all__ = ["Block", "Place", "blocks_after", "chosen", "places", "shown", "step_at", "where"]


@dataclass(frozen=True, slots=True)
class Block:
    """One block after a step.

    `owners`: the requests that hold it, in order of arrival. `filled`: slots from its first one on that are computed.
    `written`: slots written since it was taken, at least `filled`. `published`: it can be found by its tokens.
    `evicted`: it was forgotten in this step to make room.
    """

    id: int
    owners: tuple[int, ...]
    filled: int
    written: int
    published: bool
    evicted: bool

    @property
    def idle(self) -> bool:
        """Nobody holds it, and it can be found."""
        return self.published and not self.owners

    @property
    def free(self) -> bool:
        """Nobody holds it, and it cannot be found."""
        return not self.published and not self.owners

    @property
    def shared(self) -> bool:
        """More than one request holds it."""
        return len(self.owners) > 1


@dataclass(frozen=True, slots=True)
class Place:
    """One line of a block table: positions [first, first + size) live in `block`, of which `filled` are computed."""

    first: int
    block: int
    filled: int
    others: tuple[int, ...]


def step_at(timeline: Timeline, step: int) -> int:
    """Return `step` counted from the front; InvalidInput outside of the run."""
    count = len(timeline.steps)
    if not count:
        raise InvalidInput("this run has no step to draw; submit a request and call step() first")
    if isinstance(step, bool) or not isinstance(step, int) or not -count <= step < count:
        raise InvalidInput(f"cannot draw step {step!r}: this run has the steps 0 to {count - 1}; give one of these")
    return step % count


def blocks_after(timeline: Timeline, step: int) -> tuple[Block, ...]:
    """Return every block of the pool, by id, after the step with this index."""
    size = timeline.meta.block_size
    before: dict[int, tuple[set[int], int]] = {}
    filled: dict[int, int] = {}
    for moment in timeline.steps[: step + 1]:
        now: dict[int, tuple[set[int], int]] = {}
        filled = {}
        for row in moment.rows:
            for at, block in enumerate(row.table):
                owners, high = now.get(block, (set[int](), 0))
                now[block] = (owners | {row.request}, max(high, _within(peak(row) - at * size, size)))
                filled[block] = max(filled.get(block, 0), _within(row.computed - at * size, size))
        for block, (owners, high) in now.items():
            known, reached = before.get(block, (set[int](), 0))
            if owners & known:
                now[block] = (owners, max(high, reached))
        before = now
    last = timeline.steps[step]
    published, idle = set(last.published), set(last.idle)
    return tuple(
        Block(
            id, tuple(sorted(before[id][0])) if id in before else (), size if id in idle else filled.get(id, 0),
            size if id in idle else before[id][1] if id in before else 0, id in published, id in last.evicted,
        )
        for id in range(timeline.meta.blocks)
    )  # fmt: skip


def peak(row: Row) -> int:
    """Return the tokens that the target had written at most during the step: those of all drafts, in a cycle."""
    return max(row.computed, row.committed - row.emitted + row.drafted) if row.cycle is not None else row.computed


def shown(timeline: Timeline) -> int:
    """Return how many blocks, from 0 on, the run ever used: the others are free from its beginning to its end."""
    used = [
        block
        for step in timeline.steps
        for block in (*step.published, *step.evicted, *(b for row in step.rows for b in row.table))
    ]
    return 1 + max(used, default=-1)


def chosen(timeline: Timeline, step: int) -> Row | None:
    """Return the row whose block table is worth showing: the longest one, the earliest request first."""
    return max(
        (row for row in timeline.steps[step].rows if row.table),
        key=lambda row: (len(row.table), -row.request),
        default=None,
    )


def places(timeline: Timeline, step: int, row: Row) -> tuple[Place, ...]:
    """Return the block table of a request after a step."""
    size, blocks = timeline.meta.block_size, blocks_after(timeline, step)
    return tuple(
        Place(
            at * size,
            block,
            _within(row.computed - at * size, size),
            tuple(o for o in blocks[block].owners if o != row.request),
        )
        for at, block in enumerate(row.table)
    )


def where(row: Row, size: int) -> str:
    """Say how the slot of the newest computed token follows from the table.

    >>> where(Row(0, "cycle", computed=6, committed=7, table=(2, 9)), 4)
    'position 5: table[5 // 4] = table[1] = block 9, slot 9 · 4 + 5 % 4 = 37'
    """
    at = row.computed - 1
    if at < 0 or at // size >= len(row.table):
        return ""
    block = row.table[at // size]
    return (
        f"position {at}: table[{at} // {size}] = table[{at // size}] = block {block}, "
        f"slot {block} · {size} + {at} % {size} = {block * size + at % size}"
    )


def _within(count: int, size: int) -> int:
    return max(0, min(count, size))
