"""Count the steps of a run as the player plays them.

Invariant: `steps(trace)` names the same stages in the same order as `frames` of static/player.js (a test compares
them). It does not know what a step looks like.
"""

from __future__ import annotations

from collections.abc import Iterator

from specdec_teach.trace import Cycle, Trace

__all__ = ["first_step", "step_count", "steps"]


def steps(trace: Trace) -> Iterator[tuple[int, str]]:
    """Yield (index into trace.cycles, stage) of every step; −1 where the run has no cycle."""
    if trace.prefill is not None and not trace.dropped:
        yield (0 if trace.cycles else -1), "prefill"
    for index, cycle in enumerate(trace.cycles):
        for stage in _stages(cycle):
            yield index, stage
    yield len(trace.cycles) - 1, "end"


def step_count(trace: Trace) -> int:
    """How many steps the run has; at least one."""
    return sum(1 for _ in steps(trace))


def first_step(trace: Trace, cycle: int) -> int:
    """The number of the step that starts `cycle`, counted in trace.cycles; 0 when there is no such cycle."""
    return next((i for i, (at, stage) in enumerate(steps(trace)) if at == cycle and stage == "start"), 0)


def _stages(cycle: Cycle) -> Iterator[str]:
    target, draft = cycle.target_kv, cycle.draft_kv
    yield "start"
    if draft is not None and draft.written > draft.before and cycle.committed_before > draft.before:
        yield "catchup"
    yield from ("draft" for _ in cycle.proposed)
    yield "target"
    yield from ("verdict" for d in cycle.decisions if d.status in ("accepted", "rejected"))
    if cycle.last is not None:
        yield "last"
    yield "commit"
    if cycle.proposed or target.after != target.written or (draft is not None and draft.after != draft.written):
        yield "rewind"
