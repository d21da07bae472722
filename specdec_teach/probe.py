"""Measure what a forward costs on this machine: v(T), the cost of T positions beside one, and c, of a draft step.

Invariant: all sizes are timed in turn, round after round, and medians are compared, so that a machine that slows down
slows them all. Seconds belong to this machine and moment; the ratios are what to reason with.
It does not know what is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any, final

import torch

from specdec_teach.hf import ModelRunner
from specdec_teach.pairs import Pair

__all__ = ["Costs", "alternate", "fastest", "measure"]


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """Median seconds of one forward: of the target by number of positions, and of the draft over one (None: no draft).

    >>> costs = Costs({1: 0.010, 5: 0.012}, 0.001)
    >>> round(costs.v(5), 3), costs.c, round(costs.cycle(4), 3)
    (1.2, 0.1, 0.016)
    """

    target: Mapping[int, float]
    draft: float | None

    def v(self, positions: int) -> float:
        """Return the cost of a target forward over `positions` in forwards over one, between measured sizes by line."""
        sizes = sorted(self.target)
        high = next((size for size in sizes if size >= positions), sizes[-1])
        low = next((size for size in reversed(sizes) if size <= positions), sizes[0])
        part = 0.0 if high == low else (positions - low) / (high - low)
        return (self.target[low] + part * (self.target[high] - self.target[low])) / self.target[1]

    @property
    def c(self) -> float | None:
        """The cost of a draft step in target forwards over one position."""
        return None if self.draft is None else self.draft / self.target[1]

    def cycle(self, gamma: int) -> float:
        """Return the seconds of the forwards of a cycle with γ drafts."""
        return self.v(gamma + 1) * self.target[1] + gamma * (self.draft or 0.0)


def alternate(candidates: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Return the seconds of every candidate in every round; each round runs all of them once, in order."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(warm_up + rounds):
        for name, run in candidates.items():
            start = perf_counter()
            run()
            if number >= warm_up:
                seconds[name].append(perf_counter() - start)
    return seconds


def measure(
    target: ModelRunner,
    draft: ModelRunner | None = None,
    *,
    positions: tuple[int, ...] = (1, 2, 3, 5, 8, 16),
    context: int = 64,
    rounds: int = 30,
) -> Costs:
    """Time forwards of both models behind `context` tokens (fewer where a model's own context is short).

    `positions`: how many tokens a target forward takes; 1 is always among them.
    """
    runs = {f"target {n}": _forward(target, context, n) for n in sorted({1, *positions})}
    if draft is not None:
        runs["draft"] = _forward(draft, context, 1)
    seconds = {name: median(times) for name, times in alternate(runs, rounds).items()}
    by_size = {int(name.split()[1]): value for name, value in seconds.items() if name != "draft"}
    return Costs(by_size, seconds.get("draft"))


def fastest(pairs: Mapping[str, Pair], *, gamma: int = 4, rounds: int = 9) -> Pair:
    """Return the pair made of the quickest target over γ + 1 positions and the quickest draft over one.

    `pairs`: the same pair in several precisions, by name; all models are timed in turn. A target that gains by half
    precision and a draft too small to gain by it end up in different ones.
    """
    roles = {"target": gamma + 1, "draft": 1}
    models = {(role, name): getattr(pair, role) for name, pair in pairs.items() for role in roles}
    runs = {
        f"{role} {name}": _forward(ModelRunner(model, role), 64, roles[role])
        for (role, name), model in models.items()
        if model is not None
    }
    seconds = {name: median(times) for name, times in alternate(runs, rounds).items()}

    def best(role: str) -> Any:
        known = [name for name in pairs if f"{role} {name}" in seconds]
        return models[role, min(known, key=lambda name: seconds[f"{role} {name}"])] if known else None

    one = next(iter(pairs.values()))
    return replace(one, target=best("target"), draft=best("draft"))


def _forward(runner: ModelRunner, context: int, count: int) -> Callable[[], object]:
    """Return a function that runs one forward over `count` tokens and takes it back; the first call fills the cache."""
    limit = runner.context or context + count
    before = max(0, min(context, limit - count))
    ids = [at % runner.vocab for at in range(1, before + count + 1)]
    cache = runner.new_cache(before + count)

    def run() -> None:
        with torch.inference_mode():
            if cache.pointer < before:
                runner.forward(cache, ids[:before], 0)
            runner.forward(cache, ids[before:], count)
            cache.rollback(before)

    return run
