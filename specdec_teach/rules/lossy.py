"""Rules that change what is said: accept more, and say so.

Invariant: none of them follows the target's distribution; every trace made with one is marked `lossless=False`.
After a rejection all of them draw from p. They do not know where p and q come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow

__all__ = ["Synthetic", "Threshold", "Typical"]


@final
@dataclass(frozen=True, slots=True)
class Threshold:
    """Accept a draft iff the target gives it at least `least`."""

    least: float = 0.1
    name: ClassVar[str] = "threshold"
    lossless: ClassVar[bool] = False
    by_number: ClassVar[bool] = False
    by_position: ClassVar[bool] = False
    branches: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _fraction("least", self.least)

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        return _left_to_right(proposal, p_RV, noise, first, lambda row, p: (p >= self.least, None))


@final
@dataclass(frozen=True, slots=True)
class Typical:
    """Accept a draft iff p(d) > min(epsilon, delta · exp(−H(p))), with H the entropy of its row.

    Source: Cai et al. 2024, "Medusa", section 2.3.1.
    """

    epsilon: float = 0.09
    delta: float = 0.3
    name: ClassVar[str] = "typical"
    lossless: ClassVar[bool] = False
    by_number: ClassVar[bool] = False
    by_position: ClassVar[bool] = False
    branches: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _fraction("epsilon", self.epsilon)
        _fraction("delta", self.delta)

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""

        def stands(row: int, p: float) -> tuple[bool, None]:
            p_V = p_RV[row]
            entropy = -float((p_V * p_V.clamp_min(1e-30).log()).sum())
            return p > min(self.epsilon, self.delta * math.exp(-entropy)), None

        return _left_to_right(proposal, p_RV, noise, first, stands)


@final
@dataclass(frozen=True, slots=True)
class Synthetic:
    """Accept every draft with the chance `rate`, whatever the target thinks: to measure speed at a given rate."""

    rate: float = 0.7
    name: ClassVar[str] = "synthetic"
    lossless: ClassVar[bool] = False
    by_number: ClassVar[bool] = True
    by_position: ClassVar[bool] = False
    branches: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _fraction("rate", self.rate)

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""

        def stands(row: int, p: float) -> tuple[bool, float | None]:
            return noise.accepts(first + row, self.rate, 1.0)

        return _left_to_right(proposal, p_RV, noise, first, stands, self.rate)


def _left_to_right(
    proposal: Proposal,
    p_RV: Tensor,
    noise: Noise,
    first: int,
    stands: Callable[[int, float], tuple[bool, float | None]],
    chance: float | None = None,
) -> Verdict:
    rows, count = Rows(proposal, p_RV), len(proposal.tokens)
    accepted = 0
    uniforms: list[float | None] = []
    chances: list[float | None] = []
    while accepted < count:
        p, _ = rows.at(accepted)
        yes, u = stands(accepted, p)
        uniforms.append(u)
        chances.append(None if u is None else chance)
        if not yes:
            break
        accepted += 1
    law_V = p_RV[accepted]
    token = follow(noise, first + accepted, law_V, accepted)
    return Verdict(accepted, token, law_V, rows.p, rows.q, tuple(uniforms), tuple(chances), (1.0,) * count)


def _fraction(name: str, value: float) -> None:
    if not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{name}={value!r}; give a number from 0 to 1")
