"""Judge a proposal: which drafts stand, and which token follows them.

Invariant: rows are p_1 … p_{K+1} in order, row i judges draft i, the row behind the last accepted draft gives the one
token that follows: a correction from the residual, or the bonus when every draft stood. Never both.
It does not know models, caches or where a text ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure
from specdec_kernels.rejection import residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import Noise, StreamId

__all__ = ["Verdict", "verify"]


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """`accepted` drafts stand, `token` follows; `uniforms` holds the number each judged draft was judged with.

    `p`, `q`: each draft's probability in its row, for all K. `degenerate`: the residual was empty, p was used instead.
    """

    accepted: int
    token: int
    kind: Literal["correction", "bonus"]
    uniforms: tuple[float | None, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    degenerate: bool


def verify(proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
    """Apply the standard rejection rule to K drafts with the target's rows `p_RV` `[K + 1, V]`.

    Draft i (from 0) is judged with draw number `first + i`; the token after n accepted drafts is drawn with number
    `first + n` of the token stream. EngineFailure when a row that is needed is not numbers.
    Source: Leviathan et al. 2023, algorithm 1.
    """
    count = len(proposal.tokens)
    drafts_K = torch.tensor(proposal.tokens, dtype=torch.int64, device=p_RV.device)
    p = tuple(p_RV[:count].gather(-1, drafts_K[:, None])[:, 0].tolist())
    q_KV = proposal.q_KV
    q = (1.0,) * count if q_KV is None else tuple(q_KV.gather(-1, drafts_K[:, None])[:, 0].tolist())
    accepted, uniforms = 0, []
    for row in range(count):
        if math.isnan(p[row]) or math.isnan(q[row]):
            raise _not_numbers(row, "target" if math.isnan(p[row]) else "draft")
        stands, u = noise.accepts(first + row, p[row], q[row])
        uniforms.append(u)
        if not stands:
            break
        accepted += 1
    weights_V, degenerate = p_RV[accepted], False
    if accepted < count:
        q_V = None if q_KV is None else q_KV[accepted]
        rest_V, mass = residual(weights_V, q_V, drafts_K[accepted])
        degenerate = not bool(mass > 0)
        weights_V = weights_V if degenerate else rest_V
    token = noise.draw(StreamId.TOKEN, first + accepted, weights_V)
    if token >= weights_V.shape[-1] or math.isnan(float(weights_V[token])):
        raise _not_numbers(accepted, "target")
    kind: Literal["correction", "bonus"] = "bonus" if accepted == count else "correction"
    return Verdict(accepted, token, kind, tuple(uniforms), p, q, degenerate)


def _not_numbers(row: int, who: str) -> EngineFailure:
    return EngineFailure(
        f"the {who}'s logits in row {row} are not numbers (NaN, +inf, or all −inf); "
        "check its weights and dtype (float16 overflows on a CPU), or the processors that mask tokens"
    )
