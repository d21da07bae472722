"""Coupled verification: draft and target take their chances from the same noise, and a draft stands iff they agree.

Noise is keyed by (seed, absolute position, token id), so the target's own choice at a position does not depend on what
was drafted: for one seed the text is the same with and without speculation. Drafts need no q.
Source: the Gumbel-max coupling, e.g. Daliri et al. 2024, "Coupling without communication".
Invariant: every emitted token is the target's own choice under its position's noise. It does not know drafters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow

__all__ = ["Coupled"]


@final
@dataclass(frozen=True, slots=True)
class Coupled:
    """Draw the target's token in each row with its position's noise; keep drafts as long as they equal it."""

    name: ClassVar[str] = "coupled"
    lossless: ClassVar[bool] = True
    by_number: ClassVar[bool] = False
    by_position: ClassVar[bool] = True

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`; `first` is the absolute position of the first draft."""
        rows, count = Rows(proposal, p_RV), len(proposal.tokens)
        accepted = 0
        token = follow(noise, first, p_RV[0], 0)
        while accepted < count and token == proposal.tokens[accepted]:
            accepted += 1
            token = follow(noise, first + accepted, p_RV[accepted], accepted)
        judged = (None,) * min(count, accepted + 1)
        return Verdict(accepted, token, p_RV[accepted], rows.p, rows.q, judged, judged, (1.0,) * count)
