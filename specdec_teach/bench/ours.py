"""Our own engine as a candidate. It does not know how a cycle goes, or whom it is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_teach.bench.records import Candidate, Count
from specdec_teach.bench.setting import sampling
from specdec_teach.bench.task import Decode, Task
from specdec_teach.engine import Engine

__all__ = ["PLANNED", "candidate", "counted", "decode"]

PLANNED = {"auto": "auto", "heuristic": "+2/−1"}
"""What stands in the place of γ where it is planned, and how that is called."""


def candidate(gamma: int | str, drafter: str = "speculative") -> Candidate:
    """Return how this engine is called in a race at draft length γ, or with a planned one; γ = 0 is plain decoding."""
    if isinstance(gamma, str):
        return Candidate(f"{drafter} {PLANNED[gamma]}", "ours", f"gamma={gamma!r}")
    if gamma == 0:
        return Candidate("plain", "ours", "speculate=False")
    return Candidate(f"{drafter} γ={gamma}", "ours", f"gamma={gamma}", gamma)


def decode(engine: Engine, task: Task, gamma: int | str) -> Decode:
    """Return the engine as a function from prompt to new ids, at draft length γ (0: plain)."""

    def run(ids: list[int], seed: int) -> tuple[int, ...]:
        result = engine.generate(
            ids,
            sampling(task.temperature, seed),
            max_new_tokens=task.tokens,
            gamma=gamma,
            speculate=gamma != 0,
            trace=False,
        )
        return result.tokens

    return run


def counted(name: str, engine: Engine, prompts: Sequence[list[int]], task: Task, gamma: int | str) -> Count:
    """Return what a round of work holds: cycles, tokens drafted, accepted and emitted; speed follows from them."""
    total = dict.fromkeys(("cycles", "drafted", "accepted", "emitted"), 0)
    for ids in prompts:
        how = sampling(task.temperature, 0)
        stats = engine.generate(ids, how, max_new_tokens=task.tokens, gamma=gamma, trace=False).stats
        for part in total:
            total[part] += getattr(stats, part)
    return Count(f"{name}, γ={PLANNED.get(gamma, gamma) if isinstance(gamma, str) else gamma}", total)
