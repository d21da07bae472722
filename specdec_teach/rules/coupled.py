"""Coupled verification: draft and target take their chances from the same noise, and a draft stands iff they agree.

Noise is keyed by (seed, absolute position, token id), so the target's own choice at a position does not depend on what
was drafted: for one seed the text is the same with and without speculation. Drafts need no q.
Source: the Gumbel-max coupling, e.g. Daliri et al. 2024, "Coupling without communication".
Invariant: every emitted token is the target's own choice under its position's noise. It does not know drafters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

from torch import Tensor

from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow

__all__ = ["Coupled"]


@final
@dataclass(frozen=True, slots=True)
class Coupled:
    """Draw the target's token in each row with its position's noise; keep drafts as long as one equals it."""

    name: ClassVar[str] = "coupled"
    lossless: ClassVar[bool] = True
    by_number: ClassVar[bool] = False
    by_position: ClassVar[bool] = True
    branches: ClassVar[bool] = True

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`; `first` is the absolute position of the first draft."""
        rows, count, node = Rows(proposal, p_RV), len(proposal.tokens), -1
        path: list[int] = []
        judged: list[int] = []
        while True:
            token = follow(noise, first + len(path), p_RV[node + 1], node + 1)
            family = rows.families[node + 1]
            agreed = next((child for child in family if proposal.tokens[child] == token), None)
            judged += [child for child in family if agreed is None or child <= agreed]
            if agreed is None:
                break
            path.append(agreed)
            node = agreed
        none = (None,) * (len(judged) if proposal.parents is None else count)
        verdict = Verdict(len(path), token, p_RV[node + 1], rows.p, rows.q, none, none, (1.0,) * count)
        if proposal.parents is None:
            return verdict
        return replace(verdict, path=tuple(path), judged=tuple(judged), fallen=family[-1] if family else None)
