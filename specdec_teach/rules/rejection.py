"""The standard rule: each draft on its own, from left to right, until one falls.

Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023, algorithm 2.
Invariant: exact for drafts drawn from the reported q. It does not know where p and q come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from torch import Tensor

from specdec_kernels.rejection import accept_probability, residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow

__all__ = ["Rejection"]


@final
@dataclass(frozen=True, slots=True)
class Rejection:
    """Accept draft i iff u·q(dᵢ) < p(dᵢ); after the first rejection draw from [p − q]₊, else from p_{K+1}."""

    name: ClassVar[str] = "rejection"
    lossless: ClassVar[bool] = True
    by_number: ClassVar[bool] = True
    by_position: ClassVar[bool] = False

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        rows, count = Rows(proposal, p_RV), len(proposal.tokens)
        accepted = 0
        uniforms: list[float | None] = []
        chances: list[float | None] = []
        while accepted < count:
            p, q = rows.at(accepted)
            stands, u = noise.accepts(first + accepted, p, q)
            uniforms.append(u)
            chances.append(None if u is None else accept_probability(p, q))
            if not stands:
                break
            accepted += 1
        law_V, degenerate = p_RV[accepted], False
        if accepted < count:
            rest_V, mass = residual(law_V, rows.q_V(accepted), rows.drafts_K[accepted])
            degenerate = not bool(mass > 0)
            law_V = law_V if degenerate else rest_V
        token = follow(noise, first + accepted, law_V, accepted)
        source: Literal["p", "residual"] = "residual" if accepted < count and not degenerate else "p"
        ones = (1.0,) * count
        return Verdict(
            accepted, token, law_V, rows.p, rows.q, tuple(uniforms), tuple(chances), ones, source, degenerate
        )
