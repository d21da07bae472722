"""Write down what happened to every draft: from the cycle's tensors to plain records.

Invariant: every number is read off the tensors that decided, none is computed again from a model; nothing bigger than
the 16 likeliest tokens of a row is kept. It does not know how a cycle was run.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

import torch
from torch import Tensor

from specdec_kernels.rejection import overlap, residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.rules.base import Verdict
from specdec_teach.trace import Bar, Decision, Status, Top

__all__ = ["TOP", "decide", "top_rows"]

TOP = 16
_BARS = 6


def top_rows(p_RV: Tensor, count: int = TOP) -> list[Top]:
    """Return the `count` likeliest tokens of each row `[R, V]` and the mass of the rest; none with p = 0."""
    values_RK, ids_RK = p_RV.topk(min(count, p_RV.shape[-1]), dim=-1)
    return [_top(ids, values) for ids, values in zip(ids_RK.tolist(), values_RK.tolist(), strict=True)]


def _top(ids: list[int], values: list[float]) -> Top:
    if values[-1] <= 0.0:
        keep = sum(value > 0.0 for value in values)
        ids, values = ids[:keep], values[:keep]
    return Top(tuple(zip(ids, values, strict=True)), max(0.0, 1.0 - sum(values)))


def decide(
    proposal: Proposal, p_RV: Tensor, verdict: Verdict, kept: int, cut: bool, forced: Items[bool]
) -> tuple[tuple[Decision, ...], Top]:
    """Return a Decision per proposed token, and the distribution that the last token was drawn from.

    `kept`: drafts that stand; `cut`: the text ended before the last token. `forced`: which drafts were swapped in.
    """
    count = len(proposal.tokens)
    if count == 0:
        return (), top_rows(p_RV)[0]
    drafts_K = torch.tensor(proposal.tokens, dtype=torch.int64, device=p_RV.device)
    p_KV, q_KV = p_RV[:count], proposal.q_KV
    alpha = overlap(p_KV, q_KV, drafts_K).tolist()
    scaled_KV = p_KV if min(verdict.scales) == 1.0 else p_KV * p_KV.new_tensor(verdict.scales)[:, None]
    rest_KV, mass_K = residual(scaled_KV, q_KV, drafts_K)
    rest_KV = rest_KV / mass_K.clamp_min(torch.finfo(mass_K.dtype).tiny)[:, None]
    tops = top_rows(torch.cat([p_RV, rest_KV] if q_KV is None else [p_RV, rest_KV, q_KV]))
    p_tops, q_tops = tops[: count + 1], tops[2 * count + 1 :]
    rest_tops = [top if top.tokens else Top((), 0.0) for top in tops[count + 1 : 2 * count + 1]]
    if q_KV is None:
        q_tops = [Top(((token, 1.0),), 0.0) for token in proposal.tokens]
    bars = _bars(proposal, p_KV, q_KV, rest_KV, p_tops, q_tops, verdict)
    decisions = []
    for row, token in enumerate(proposal.tokens):
        status: Status = (
            "accepted" if row < kept else "cut" if cut else "rejected" if row == verdict.accepted else "unused"
        )
        judged = row < len(verdict.uniforms) and status != "unused"
        decisions.append(
            Decision(
                position=row + 1,
                token=token,
                p=verdict.p[row],
                q=verdict.q[row],
                u=verdict.uniforms[row] if judged else None,
                accept_probability=verdict.chances[row] if judged else None,
                accepted=status == "accepted",
                alpha=min(1.0, alpha[row]),
                p_top=p_tops[row],
                q_top=q_tops[row],
                residual_top=rest_tops[row],
                bars=bars[row],
                status=status,
                forced=forced[row],
            )
        )
    last_top = rest_tops[verdict.accepted] if verdict.source == "residual" else p_tops[verdict.accepted]
    return tuple(decisions), last_top


def _bars(
    proposal: Proposal,
    p_KV: Tensor,
    q_KV: Tensor | None,
    rest_KV: Tensor,
    p_tops: Items[Top],
    q_tops: Items[Top],
    verdict: Verdict,
) -> list[tuple[Bar, ...]]:
    """Gather p, q and residual of the tokens worth drawing: the likeliest of both, the draft, and what replaced it."""
    wanted: list[list[int]] = []
    for row, token in enumerate(proposal.tokens):
        ids = [t for t, _ in p_tops[row].tokens[:_BARS]] + [t for t, _ in q_tops[row].tokens[:_BARS]] + [token]
        wanted.append(list(dict.fromkeys([*ids, verdict.token] if row == verdict.accepted else ids)))
    width = max(map(len, wanted))
    ids_KW = torch.tensor([ids + ids[:1] * (width - len(ids)) for ids in wanted], device=p_KV.device)
    stack = (p_KV, rest_KV) if q_KV is None else (p_KV, rest_KV, q_KV)
    count = len(wanted)
    found = torch.cat(stack).gather(-1, ids_KW.repeat(len(stack), 1)).tolist()
    p, rest, q = found[:count], found[count : 2 * count], found[2 * count :]
    if q_KV is None:
        q = [[float(t == token) for t in ids] for ids, token in zip(wanted, proposal.tokens, strict=True)]
    rows = []
    for row, ids in enumerate(wanted):
        bars = [Bar(token, p[row][i], q[row][i], rest[row][i]) for i, token in enumerate(ids)]
        rows.append(tuple(sorted(bars, key=lambda bar: (-max(bar.p, bar.q), bar.token))))
    return rows
