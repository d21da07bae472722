"""Honest traces and ways to edit them, for the tests of the invariants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import specdec_teach as sd
from specdec_teach.invariants import check
from specdec_teach.trace import KV, Blocks, Cycle

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def honest(result: object) -> sd.Trace:
    """The trace of a result, in which nothing is broken."""
    assert isinstance(result, sd.Result)
    assert result.trace is not None
    assert check(result.trace) == []
    return result.trace


def run(sampling: sd.Sampling, rule: str = "rejection", **extra: Any) -> sd.Trace:
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4, verify=rule)
    return honest(engine.generate([1, 2, 3], sampling, **{"max_new_tokens": 40, **extra}))


SAMPLED = run(sd.Sampling(temperature=0.9, eos_token_id=None, seed=6))
GREEDY = run(sd.Sampling.greedy())
BLOCK = run(sd.Sampling(temperature=0.9, seed=6), rule="block")


def find(trace: sd.Trace, wanted: Callable[[Cycle], bool]) -> int:
    """The index of the first cycle that has a successor and fits."""
    return next(cycle.index for cycle in trace.cycles[:-1] if wanted(cycle))


def edit(trace: sd.Trace, at: int, /, **changes: Any) -> sd.Trace:
    cycles = list(trace.cycles)
    cycles[at] = replace(cycles[at], **changes)
    return replace(trace, cycles=tuple(cycles))


def redecide(trace: sd.Trace, index: int, at: int, **changes: Any) -> sd.Trace:
    decisions = list(trace.cycles[index].decisions)
    decisions[at] = replace(decisions[at], **changes)
    return edit(trace, index, decisions=tuple(decisions))


def counted(trace: sd.Trace) -> sd.Trace:
    """All counts and pointers again, from what was emitted."""
    length, cycles = len(trace.prompt), []
    for cycle in trace.cycles:
        before, length = length, length + len(cycle.emitted)
        reach = before + len(cycle.proposed)
        cycles.append(
            replace(
                cycle,
                committed_before=before,
                committed_after=length,
                target_kv=KV(before - 1, reach, min(reach, length - 1)),
                draft_kv=KV(before - 1, reach - 1, min(reach - 1, length - 1)),
            )
        )
    return replace(trace, cycles=tuple(cycles))


def until(trace: sd.Trace, index: int) -> sd.Trace:
    """The run as it stood after a cycle."""
    return replace(trace, cycles=trace.cycles[: index + 1], finish_reason=None)


def paged(size: int = 4) -> sd.Trace:
    """The sampled run on a paged cache that publishes what is full."""
    cycles, done = [], 0
    for cycle in SAMPLED.cycles:
        computed = cycle.target_kv.after
        full = computed // size
        table = tuple(range(100, 100 + -(-computed // size)))
        cycles.append(replace(cycle, blocks=Blocks(size, table, published=table[done:full])))
        done = full
    return replace(SAMPLED, cycles=tuple(cycles), meta=replace(SAMPLED.meta, cache="paged"))


def reblock(**changes: Any) -> sd.Trace:
    """One cycle's blocks changed: the last one before the end."""
    trace = paged()
    at = len(trace.cycles) - 2
    old = trace.cycles[at].blocks
    assert old is not None
    return edit(trace, at, blocks=replace(old, **changes))


def of(trace: sd.Trace, **changes: Any) -> sd.Trace:
    """Another meta."""
    return replace(trace, meta=replace(trace.meta, **changes))


def sampled_with(trace: sd.Trace, **changes: Any) -> sd.Trace:
    return of(trace, sampling={**trace.meta.sampling, **changes})
