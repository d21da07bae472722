"""Block verification: all drafts judged together, from the last position backwards.

Source: Sun et al. 2024, "Block verification accelerates speculative decoding", algorithm 2. With w_0 = 1 and
w_i = min(1, w_{i−1} · p(dᵢ)/q(dᵢ)), the first i drafts stand with chance h_i = S_i / (S_i + 1 − w_i), where
S_i = Σ [w_i·p_{i+1} − q_{i+1}]₊, and h_K = w_K. The longest prefix that stands is kept.
Invariant: exact, and accepts at least as many drafts in expectation as the standard rule, provided that every draw is
fresh: a number used in two cycles would break it. It does not know where p and q come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from torch import Tensor

from specdec_kernels.rejection import residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow

__all__ = ["Block"]


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Keep the longest prefix i with uᵢ < h_i; then draw from [w_i·p_{i+1} − q_{i+1}]₊, or the bonus from p_{K+1}."""

    name: ClassVar[str] = "block"
    lossless: ClassVar[bool] = True
    by_number: ClassVar[bool] = True
    by_position: ClassVar[bool] = False
    branches: ClassVar[bool] = False

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        rows, count = Rows(proposal, p_RV), len(proposal.tokens)
        weights = [1.0]
        for row in range(count):
            p, q = rows.at(row)
            share = weights[-1] * p
            weights.append(0.0 if share <= 0.0 else 1.0 if share >= q else share / q)
        scales_K1 = p_RV.new_tensor(weights[:count])[:, None]
        rest_KV, mass_K = residual(p_RV[:count] * scales_K1, rows.q_KV, rows.drafts_K)
        masses = mass_K.tolist()
        accepted = 0
        uniforms: list[float | None] = [None] * count
        chances: list[float | None] = [None] * count
        for kept in range(count, 0, -1):
            chance = weights[kept] if kept == count else _chance(weights[kept], masses[kept])
            stands, u = noise.accepts(first + kept - 1, chance, 1.0)
            uniforms[kept - 1], chances[kept - 1] = u, None if u is None else chance
            if stands:
                accepted = kept
                break
        law_V, degenerate = p_RV[accepted], False
        if accepted < count:
            degenerate = not masses[accepted] > 0
            law_V = law_V if degenerate else rest_KV[accepted]
        token = follow(noise, first + accepted, law_V, accepted)
        source: Literal["p", "residual"] = "residual" if accepted < count and not degenerate else "p"
        scales = tuple(weights[:count])
        return Verdict(
            accepted, token, law_V, rows.p, rows.q, tuple(uniforms), tuple(chances), scales, source, degenerate
        )


def _chance(weight: float, mass: float) -> float:
    """Return S / (S + 1 − w); a prefix of full weight stands, also where nothing is left over behind it."""
    return 1.0 if weight >= 1.0 else mass / (mass + 1.0 - weight)
