"""Measure what a forward costs on this machine: v(T), the cost of T positions beside one, and c, of a draft step.

Invariant: all sizes are timed in turn, round after round, and medians are compared, so that a machine that slows down
slows them all. Seconds belong to this machine and moment; the ratios are what to reason with.
It does not know what is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from specdec_kernels.errors import EngineFailure
from specdec_teach.costs import Costs
from specdec_teach.hf import ModelRunner
from specdec_teach.pacing import Fixed
from specdec_teach.pairs import Pair
from specdec_teach.sampling import Sampling

if TYPE_CHECKING:
    from specdec_teach.engine import Engine

__all__ = ["Costs", "alternate", "cycles", "fastest", "measure"]


_OTHERS = ("target", "verify", "other")


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


def cycles(engine: Engine, *, gammas: tuple[int, ...] = (8, 4, 2, 1, 0), rounds: int = 8) -> Costs:
    """Return what cycles of `engine` cost, by running some: drafts by their length, the rest by the target's positions.

    So v, c and d count all that a cycle does beside its forwards, as lower quartiles, and more is never taken to cost
    less. Each round runs two cycles at every γ and looks at the second: the first finds what another γ left in the
    processor. A drafter that proposes nothing is taken to cost nothing; a tree counts by its depth.
    """
    runner = engine.target_runner
    quiet = engine.variant(pace="fixed", gamma=max(gammas), debug=False, blocks=None)
    room = 512 if runner.context is None else runner.context
    length = min(64, room // 2)
    ids = [at % min(16, runner.vocab) for at in range(length)]
    spent: dict[int, list[float]] = {}
    drafts: dict[int, list[float]] = {}
    stream = None
    for number in range(1 + rounds):
        for gamma, second in product(gammas, (False, True)):
            if stream is None or not stream.waits or stream.limits.gamma(gamma, len(stream.sequence.tokens)) < gamma:
                settings = Sampling(seed=number, eos_token_id=None)
                stream = quiet.open(ids, settings, max_new_tokens=room - length, trace=False)
            stream.progress = replace(stream.progress, outlook=Fixed(gamma))
            before = stream.progress.stats
            stream.step()
            now = stream.progress.stats
            if number >= 1 and second:
                drafted = min(now.drafted - before.drafted, gamma)
                total = sum(getattr(now.seconds, part) - getattr(before.seconds, part) for part in _OTHERS)
                spent.setdefault(drafted + 1, []).append(total)
                drafts.setdefault(drafted, []).append(now.seconds.draft - before.seconds.draft)
    if 1 not in spent:
        raise EngineFailure("no cycle without drafts could be run to measure its cost; give planner=Planner(Costs(…))")
    lengths = _rising({drafted: times for drafted, times in drafts.items() if drafted > 0})
    longest = max(lengths, default=1)
    return Costs(_rising(spent), lengths.get(longest, 0.0) / longest, lengths)


def _rising(spent: dict[int, list[float]]) -> dict[int, float]:
    """Return the quiet seconds of every size, none below those of a smaller one."""
    seconds: dict[int, float] = {}
    for size, times in sorted(spent.items()):
        seconds[size] = max(_quiet(times), *seconds.values(), 0.0)
    return seconds


def _quiet(times: list[float]) -> float:
    """Return the lower quartile: what a quiet machine takes, when others keep it busy now and then."""
    return sorted(times)[len(times) // 4]


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
