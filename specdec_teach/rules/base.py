"""What every verification rule gives back, and the parts that all of them need.

Invariant: row 0 of p is the pending token's and row i + 1 that of draft i; a draft is judged by its parent's row (in a
chain: draft i by row i), and the row behind the last accepted draft gives the one token that follows: a correction, or
the bonus where no draft stands behind it. Never both.
It does not know models, caches or where a text ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise, StreamId
from specdec_teach.tree import children

__all__ = ["Rows", "Rule", "Verdict", "follow", "numbers"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What a rule decided about K drafts.

    `accepted` drafts stand and `token` follows, drawn from `law_V` `[V]` (not normalised). `p`, `q`: each draft's
    probability in its row. `uniforms`, `chances`: for the judged drafts, the number each was judged with and the
    chance it had, None where the rule used none. `scales`: the factor on p in each row's residual [scale·p − q]₊.
    `source`: whether `law_V` is a row's p or its residual. `degenerate`: the residual was empty, so p was used instead.
    Of a tree: `path`: the accepted drafts; `judged`: the drafts that were judged, in order, where `uniforms` and
    `chances` have an entry for every draft; `fallen`: the last draft judged, if it fell; `left`: for each draft that
    was judged after a sibling fell, what was left of its row then, normalised. In a chain `path` is None.
    """

    accepted: int
    token: int
    law_V: Tensor
    p: tuple[float, ...]
    q: tuple[float, ...]
    uniforms: tuple[float | None, ...]
    chances: tuple[float | None, ...]
    scales: tuple[float, ...]
    source: Literal["p", "residual"] = "p"
    degenerate: bool = False
    path: tuple[int, ...] | None = None
    judged: tuple[int, ...] = ()
    fallen: int | None = None
    left: tuple[tuple[int, Tensor], ...] = ()

    @property
    def kind(self) -> Literal["correction", "bonus"]:
        """Where `token` comes from: the row of a rejected draft, or the row behind the last one of a way."""
        return "bonus" if self.deciding == len(self.p) else "correction"

    @property
    def deciding(self) -> int:
        """The draft whose row gave `token`; the number of drafts where none stood in that row."""
        if self.path is None:
            return self.accepted
        return len(self.p) if self.fallen is None else self.fallen

    def standing(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Return the accepted ones of the drafts `tokens`."""
        return tokens[: self.accepted] if self.path is None else tuple(tokens[node] for node in self.path)

    @property
    def rows(self) -> list[int]:
        """The row of p that each emitted token comes from."""
        return list(range(self.accepted + 1)) if self.path is None else [0, *(node + 1 for node in self.path)]


class Rule(Protocol):
    """A verification rule.

    `lossless`: what it emits follows the target's processed distribution exactly. `by_number`: drafts are judged by
    uniform numbers, which a demonstration can choose. `by_position`: draw numbers are absolute positions, and draft
    and target share them. `branches`: it judges draft trees too.
    """

    @property
    def name(self) -> str:
        """How the rule is called in a trace."""

    @property
    def lossless(self) -> bool:
        """Whether the emitted text follows the target exactly."""

    @property
    def by_number(self) -> bool:
        """Whether drafts are judged by uniform numbers."""

    @property
    def by_position(self) -> bool:
        """Whether draw numbers are absolute positions."""

    @property
    def branches(self) -> bool:
        """Whether draft trees can be judged."""

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """Judge K drafts with the target's rows `[K + 1, V]`.

        Draft i (from 0) is judged with draw number `first + i`, in a tree too; the token after n accepted drafts is
        drawn with number `first + n`. EngineFailure when a row that is needed is not numbers.
        """


@final
class Rows:
    """The drafts of a proposal in the target's rows: p(dᵢ), q(dᵢ), checked to be numbers when they are asked for.

    `families`: the children of the pending token, then those of each draft.
    """

    __slots__ = ("drafts_K", "families", "p", "p_RV", "q", "q_KV")

    def __init__(self, proposal: Proposal, p_RV: Tensor) -> None:
        count = len(proposal.tokens)
        self.p_RV, self.q_KV = p_RV, proposal.q_KV
        self.drafts_K = torch.tensor(proposal.tokens, dtype=torch.int64, device=p_RV.device)
        self.families = children(proposal.shape)
        p_KV = p_RV[:count] if proposal.parents is None else p_RV[[parent + 1 for parent in proposal.parents]]
        self.p: tuple[float, ...] = tuple(p_KV.gather(-1, self.drafts_K[:, None])[:, 0].tolist())
        self.q: tuple[float, ...] = (1.0,) * count
        if self.q_KV is not None:
            self.q = tuple(self.q_KV.gather(-1, self.drafts_K[:, None])[:, 0].tolist())

    def at(self, row: int) -> tuple[float, float]:
        """Return p and q of draft `row`; EngineFailure when either is NaN."""
        return numbers(self.p[row], self.q[row], row)

    def q_V(self, row: int) -> Tensor | None:
        """Return the draft's distribution `[V]` in `row`, None when it is one-hot."""
        return None if self.q_KV is None else self.q_KV[row]


def numbers(p: float, q: float, row: int) -> tuple[float, float]:
    """Return p and q; EngineFailure when either is NaN."""
    if math.isnan(p) or math.isnan(q):
        raise not_numbers(row, "target" if math.isnan(p) else "draft")
    return p, q


def follow(noise: Noise, number: int, law_V: Tensor, row: int) -> int:
    """Draw the token that follows from `law_V`; EngineFailure when that row is not numbers."""
    token = noise.draw(StreamId.TOKEN, number, law_V)
    if token >= law_V.shape[-1] or math.isnan(float(law_V[token])):
        raise not_numbers(row, "target")
    return token


def not_numbers(row: int, who: str) -> EngineFailure:
    """Build the error for logits that cannot be used."""
    return EngineFailure(
        f"the {who}'s logits in row {row} are not numbers (NaN, +inf, or all −inf); "
        "check its weights and dtype (float16 overflows on a CPU), or the processors that mask tokens"
    )
