"""Block verification in torch: how much of a prefix's weight is left, and whether a prefix may stand.

Source: Sun et al., "Block verification accelerates speculative decoding", 2024, algorithm 2: with w₀ = 1 and
wᵢ = min(1, wᵢ₋₁·p(dᵢ)/q(dᵢ)), the mass that i accepted drafts leave is Sᵢ = Σ[wᵢ·pᵢ₊₁ − qᵢ₊₁]₊. The prefix of i < K
drafts may stand iff uᵢ·(Sᵢ + 1 − wᵢ) < Sᵢ, the whole block iff u < w_K; the longest prefix that may stand is taken. The
token that follows comes from [wᵢ·pᵢ₊₁ − qᵢ₊₁]₊, or from p_{K+1} behind the whole block.
Invariant: nothing divides by q where q could be 0; the masses of float32 rows are summed as integers, so that no order
of summation changes them. It does not know tokens or noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["mass", "prefix_weights", "standing"]

# A float32 mass is a sum of integers in units of 2⁻⁵².
UNIT_BITS = 52


def prefix_weights(p_BK: Tensor, q_BK: Tensor) -> Tensor:
    """Return w₀ … w_K, `[B, K + 1]`, from the probabilities of the drafts `[B, K]`.

    >>> prefix_weights(torch.tensor([[0.2, 0.9, 0.1]]), torch.tensor([[0.4, 0.3, 0.2]]))
    tensor([[1.0000, 0.5000, 1.0000, 0.5000]])
    """
    weight_B = p_BK.new_ones(p_BK.shape[0])
    weights = [weight_B]
    for p_B, q_B in zip(p_BK.unbind(-1), q_BK.unbind(-1), strict=True):
        product_B = weight_B * p_B
        ratio_B = torch.where(product_B >= q_B, 1.0, product_B / q_B)
        weight_B = torch.where(product_B <= 0, 0.0, ratio_B)
        weights.append(weight_B)
    return torch.stack(weights, -1)


def mass(rest_BV: Tensor) -> Tensor:
    """Return the mass of `[B, V]` residuals, `[B]`: in float32 the exact sum of the values cut to 52 binary places.

    >>> mass(torch.tensor([[0.25, 0.5]]))
    tensor([0.7500])
    """
    if rest_BV.dtype != torch.float32:
        return rest_BV.sum(-1)
    units_B = (rest_BV.nan_to_num(0.0, 0.0, 0.0) * 2.0**UNIT_BITS).to(torch.int64).sum(-1)
    return units_B.to(torch.float32) * 2.0**-UNIT_BITS


def standing(u_BK: Tensor, weights_BR: Tensor, masses_BK: Tensor, counts_B: Tensor) -> Tensor:
    """Return the length of the longest prefix that may stand, int64 `[B]`.

    `u_BK`: the numbers; `weights_BR` `[B, K + 1]`: w₀ … w_K; `masses_BK`: S₀ … S_{K−1}; `counts_B`: drafts in each row.

    >>> one = torch.ones(1, 1)
    >>> standing(0.4 * one, torch.tensor([[1.0, 0.5]]), one, torch.tensor([1]))
    tensor([1])
    """
    length = u_BK.shape[-1]
    best_B = torch.zeros_like(counts_B)
    for i in range(1, length + 1):
        u_B, w_B = u_BK[:, i - 1], weights_BR[:, i]
        whole_B = counts_B == i
        mass_B = w_B if i == length else torch.where(whole_B, w_B, masses_BK[:, i])
        total_B = torch.where(whole_B, 1.0, mass_B + (1.0 - w_B))
        best_B = torch.where((u_B * total_B < mass_B) & (i <= counts_B), i, best_B)
    return best_B
