"""Verification in torch, many rows at once: the three rules, each refusal as a status.

Row i of the target judges draft i (from 0); row n, behind n accepted drafts, gives the token that follows.
Invariant: a row's outcome depends on that row alone, and on nothing behind the rows that its rule reads; whatever a
kernel computes in float32 is computed here by the same operations in the same order. It does not know where the
probabilities come from, and it raises nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels import block, noise, race
from specdec_kernels.verdict import DRAFT_BAD, ID_BAD, NO_MASS, PADDING_BAD, TARGET_BAD, UNIFORM_BAD, Verdict

__all__ = ["verify"]


def verify(
    drafts_BK: Tensor,
    q_BKV: Tensor | None,
    p_BRV: Tensor,
    seeds_B: Tensor,
    positions_B: Tensor,
    u_BK: Tensor | None,
    rule: str,
) -> tuple[Verdict, Tensor]:
    """Return the verdict and the statuses int64 `[B]`; arguments as in `specdec_kernels.verify.verify_chain`.

    `p_BRV` is `[B, K + 1, V]`. A row with a status that is not 0 has accepted −1 and no tokens.
    """
    counts_B, codes_BK = _inspect(drafts_BK, p_BRV.shape[-1], u_BK)
    status_B = _first(codes_BK)
    if rule == "coupled":
        accepted_B, token_B, late_B = _coupled(drafts_BK, p_BRV, seeds_B, positions_B, counts_B)
        degenerate_B = torch.zeros_like(status_B, dtype=torch.bool)
    else:
        if u_BK is None:
            u_BK = noise.acceptance_uniforms(seeds_B, positions_B, drafts_BK.shape[1])
        judge = _block if rule == "block" else _rejection
        accepted_B, scale_B, early_B = judge(drafts_BK, q_BKV, p_BRV, u_BK, counts_B)
        p_BV, q_BV, rest_BV = _residual(drafts_BK, q_BKV, p_BRV, accepted_B, scale_B, counts_B)
        times_BV = noise.race_times(seeds_B, noise.TOKEN, positions_B + accepted_B, p_BRV.shape[-1])
        token_B, empty_B = race.draw(rest_BV, p_BV, times_BV)
        degenerate_B = empty_B & (accepted_B < counts_B)
        late_B = _else(early_B, _row_status(p_BV, q_BV, accepted_B))
    status_B = _else(status_B, late_B)
    fine_B = status_B == 0
    accepted_B = torch.where(fine_B, accepted_B, -1)
    return Verdict(accepted_B, _emit(drafts_BK, accepted_B, token_B), degenerate_B & fine_B), status_B


def _inspect(drafts_BK: Tensor, width: int, u_BK: Tensor | None) -> tuple[Tensor, Tensor]:
    """Count the drafts of each row, and mark those that cannot be used."""
    k_K = torch.arange(drafts_BK.shape[1], device=drafts_BK.device)
    counts_B = (drafts_BK != -1).to(torch.int64).cumprod(-1).sum(-1)
    inside_BK = k_K < counts_B[:, None]
    codes_BK = torch.zeros_like(drafts_BK)
    if u_BK is not None:
        codes_BK = torch.where(inside_BK & ~((u_BK > 0) & (u_BK < 1)), UNIFORM_BAD, codes_BK)
    codes_BK = torch.where(~inside_BK & (drafts_BK != -1), PADDING_BAD, codes_BK)
    return counts_B, torch.where((drafts_BK < -1) | (drafts_BK >= width), ID_BAD, codes_BK)


def _of_drafts(drafts_BK: Tensor, q_BKV: Tensor | None, p_BRV: Tensor, counts_B: Tensor) -> tuple[Tensor, ...]:
    """Return p and q of the drafts and a code where one of them is no number, all `[B, K]`."""
    length = drafts_BK.shape[1]
    index_BK1 = drafts_BK.clamp(0, p_BRV.shape[-1] - 1)[..., None]
    p_BK = p_BRV[:, :length].gather(-1, index_BK1)[..., 0]
    q_BK = torch.ones_like(p_BK) if q_BKV is None else q_BKV.gather(-1, index_BK1)[..., 0]
    codes_BK = torch.where(~q_BK.isfinite(), DRAFT_BAD, torch.zeros_like(drafts_BK))
    codes_BK = torch.where(~p_BK.isfinite(), TARGET_BAD, codes_BK)
    inside_BK = torch.arange(length, device=drafts_BK.device) < counts_B[:, None]
    return p_BK, q_BK, torch.where(inside_BK, codes_BK, 0)


def _rejection(
    drafts_BK: Tensor, q_BKV: Tensor | None, p_BRV: Tensor, u_BK: Tensor, counts_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Accept draft by draft, u·q < p, until the first refusal. Leviathan et al. 2023, algorithm 1."""
    p_BK, q_BK, codes_BK = _of_drafts(drafts_BK, q_BKV, p_BRV, counts_B)
    inside_BK = torch.arange(drafts_BK.shape[1], device=drafts_BK.device) < counts_B[:, None]
    stands_BK = (u_BK.to(p_BK.dtype) * q_BK < p_BK) & inside_BK & (codes_BK == 0)
    accepted_B = stands_BK.to(torch.int64).cumprod(-1).sum(-1)
    return accepted_B, p_BRV.new_ones(len(counts_B)), _status(codes_BK, accepted_B)


def _block(
    drafts_BK: Tensor, q_BKV: Tensor | None, p_BRV: Tensor, u_BK: Tensor, counts_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the longest prefix that may stand; the rule is in `specdec_kernels.block`."""
    p_BK, q_BK, codes_BK = _of_drafts(drafts_BK, q_BKV, p_BRV, counts_B)
    weights_BR = block.prefix_weights(p_BK, q_BK)
    status_B, masses_BK = _first(codes_BK), torch.zeros_like(p_BK)
    for i in range(1, drafts_BK.shape[1]):
        at_B = torch.full_like(counts_B, i)
        p_BV, q_BV, rest_BV = _residual(drafts_BK, q_BKV, p_BRV, at_B, weights_BR[:, i], counts_B)
        masses_BK[:, i] = block.mass(rest_BV)
        status_B = _else(status_B, torch.where(counts_B > i, _numbers(p_BV, q_BV, at_B), 0))
    accepted_B = block.standing(u_BK.to(p_BK.dtype), weights_BR, masses_BK, counts_B)
    scale_B = torch.where(accepted_B == counts_B, 1.0, _at(weights_BR, accepted_B))
    return accepted_B, scale_B, status_B


def _coupled(
    drafts_BK: Tensor, p_BRV: Tensor, seeds_B: Tensor, positions_B: Tensor, counts_B: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw every position's own token from p with the noise of that position; a draft stands iff it is that token."""
    length = drafts_BK.shape[1]
    tokens, statuses = [], []
    for i in range(length + 1):
        times_BV = noise.race_times(seeds_B, noise.COUPLED, positions_B + i, p_BRV.shape[-1])
        tokens.append(race.winner(p_BRV[:, i], times_BV))
        statuses.append(_row_status(p_BRV[:, i], None, torch.full_like(counts_B, i)))
    tokens_BR, status_BR = torch.stack(tokens, -1), torch.stack(statuses, -1)
    inside_BK = torch.arange(length, device=drafts_BK.device) < counts_B[:, None]
    stands_BK = (tokens_BR[:, :length] == drafts_BK) & inside_BK & (status_BR[:, :length] == 0)
    accepted_B = stands_BK.to(torch.int64).cumprod(-1).sum(-1)
    return accepted_B, _at(tokens_BR, accepted_B), _at(status_BR, accepted_B)


def _residual(
    drafts_BK: Tensor, q_BKV: Tensor | None, p_BRV: Tensor, rows_B: Tensor, scale_B: Tensor, counts_B: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return row `rows_B` of p, of q, and [scale·p − q]₊; behind the last draft there is no q, and the rest is p."""
    batch_B = torch.arange(len(rows_B), device=rows_B.device)
    p_BV = p_BRV[batch_B, rows_B]
    length = drafts_BK.shape[1]
    if length == 0:
        return p_BV, None, p_BV
    judged_B1 = (rows_B < counts_B)[:, None]
    at_B = rows_B.clamp_max(length - 1)
    scaled_BV = scale_B[:, None] * p_BV
    if q_BKV is None:
        index_B1 = drafts_BK[batch_B, at_B].clamp(0, p_BV.shape[-1] - 1)[:, None]
        rest_BV = torch.where(judged_B1, scaled_BV.scatter(-1, index_B1, 0.0), p_BV)
        return p_BV, None, rest_BV
    q_BV = torch.where(judged_B1, q_BKV[batch_B, at_B], 0.0)
    return p_BV, q_BV, torch.where(judged_B1, (scaled_BV - q_BV).clamp_min(0.0), p_BV)


def _numbers(p_BV: Tensor, q_BV: Tensor | None, steps_B: Tensor) -> Tensor:
    bad_B = torch.zeros_like(steps_B)
    if q_BV is not None:
        bad_B = torch.where(q_BV.isfinite().all(-1), bad_B, DRAFT_BAD | steps_B << 8)
    return torch.where(p_BV.isfinite().all(-1), bad_B, TARGET_BAD | steps_B << 8)


def _row_status(p_BV: Tensor, q_BV: Tensor | None, steps_B: Tensor) -> Tensor:
    """Status of a row that was drawn from: not numbers, or nothing in it."""
    empty_B = torch.where((p_BV > 0).any(-1), torch.zeros_like(steps_B), NO_MASS | steps_B << 8)
    return _else(_numbers(p_BV, q_BV, steps_B), empty_B)


def _first(codes_BK: Tensor) -> Tensor:
    """Return the status of the first marked step of each row, 0 where none is marked."""
    return _status(codes_BK, (codes_BK == 0).to(torch.int64).cumprod(-1).sum(-1))


def _status(codes_BK: Tensor, steps_B: Tensor) -> Tensor:
    codes_B = _at(codes_BK, steps_B)
    return torch.where(codes_B == 0, 0, codes_B | steps_B << 8)


def _at(values_BK: Tensor, steps_B: Tensor) -> Tensor:
    """Return `values_BK` at one step a row, and 0 for a step behind the last."""
    if values_BK.shape[1] == 0:
        return values_BK.new_zeros(len(steps_B))
    found_B = values_BK.gather(-1, steps_B.clamp_max(values_BK.shape[1] - 1)[:, None])[:, 0]
    return torch.where(steps_B < values_BK.shape[1], found_B, 0)


def _else(status_B: Tensor, other_B: Tensor) -> Tensor:
    return torch.where(status_B == 0, other_B, status_B)


def _emit(drafts_BK: Tensor, accepted_B: Tensor, token_B: Tensor) -> Tensor:
    """Lay out the accepted drafts, the token that follows, and −1; a refused row (accepted −1) is −1 throughout."""
    k_R = torch.arange(drafts_BK.shape[1] + 1, device=drafts_BK.device)
    padded_BR = torch.nn.functional.pad(drafts_BK, (0, 1), value=-1)
    follows_BR = torch.where(k_R == accepted_B[:, None], token_B[:, None], -1)
    return torch.where(k_R < accepted_B[:, None], padded_BR, follows_BR)
