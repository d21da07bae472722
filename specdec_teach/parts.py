"""The parts that an engine gives each request, so that one of them can be swapped for a broken one.

Invariant: `Parts()` is the honest engine. It does not know what a part is used for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from specdec_teach.caches import BlockPool, Cache, new_cache
from specdec_teach.ending import Ending
from specdec_teach.history import History
from specdec_teach.limits import Limits
from specdec_teach.noise import CounterNoise, CoupledNoise, GreedyNoise, Noise
from specdec_teach.policy import Policy
from specdec_teach.rules import Rule
from specdec_teach.sampling import Sampling

__all__ = ["Parts", "noise_for"]


def noise_for(rule: Rule, sampling: Sampling, seed: int) -> Noise:
    """Return the source of a request's random choices."""
    if sampling.greedy_now and rule.lossless:
        return GreedyNoise()
    return CoupledNoise(seed) if rule.by_position else CounterNoise(seed)


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """How a request's cache, noise, ending and limits are made, and its way from logits to probabilities."""

    cache: Callable[[str, int, BlockPool | None], Cache] = new_cache
    noise: Callable[[Rule, Sampling, int], Noise] = noise_for
    ending: Callable[[Ending], Ending] = lambda ending: ending
    limits: Callable[[Limits], Limits] = lambda limits: limits
    policy: Callable[[Sampling, History | None], Policy] = Policy
