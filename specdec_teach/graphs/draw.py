"""Draws whose seed and number are tensors: the choices of `specdec_teach.noise`, made where the weights lie.

Invariant: the same seed and number choose the same token as there; no value is read on the host. It does not know
models, or what is drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels.noise import COUPLED, race_times, words
from specdec_kernels.race import winner

__all__ = ["pick", "pick_coupled", "uniform"]

_WIDE, _PART = 4096, 512


def uniform(seed_1: Tensor, stream: int, number_1: Tensor) -> Tensor:
    """Return draw `number_1` of `stream` under `seed_1`, both int64 `[1]`: float64 `[1]` in (0, 1), 51 random bits.

    >>> from specdec_kernels import philox
    >>> one = torch.ones(1, dtype=torch.int64)
    >>> float(uniform(7 * one, 0, 5 * one)) == philox.uniform(7, 0, 5)
    True
    """
    high, low, _, _ = words(seed_1, stream, number_1, torch.zeros_like(number_1))
    bits = (high << 19) | (low >> 13)
    return (2 * bits + 1).to(torch.float64) * 2.0**-52


def pick(weights_V: Tensor, u_1: Tensor) -> Tensor:
    """Return the token at quantile `u_1` of `weights_V`, int64 `[1]`: `noise.pick`, step for step.

    Weights that are not numbers give some token of the vocabulary.

    >>> u = torch.tensor([0.26], dtype=torch.float64)
    >>> pick(torch.tensor([0.0, 0.25, 0.0, 0.75]), u)
    tensor([3])
    """
    if len(weights_V) <= _WIDE:
        cumulative_V = weights_V.cumsum(-1, dtype=torch.float64)
        return _search(cumulative_V, u_1 * cumulative_V[-1:])
    # 1. Which part: full ones, then what is left over.
    whole = len(weights_V) // _PART * _PART
    ends_B = weights_V[:whole].view(-1, _PART).sum(-1).cumsum(-1, dtype=torch.float64)
    if whole < len(weights_V):
        ends_B = torch.cat([ends_B, ends_B[-1:] + weights_V[whole:].sum()])
    target_1 = u_1 * ends_B[-1:]
    part_1 = _search(ends_B, target_1)
    before_1 = torch.where(part_1 > 0, ends_B[(part_1 - 1).clamp_min(0)], 0.0)
    inside_1 = ((target_1 - before_1) / (ends_B[part_1] - before_1)).clamp(2.0**-60, 1.0 - 2.0**-53)
    # 2. Which token of it; what lies past the last one weighs nothing.
    tokens_P = part_1 * _PART + torch.arange(_PART, device=weights_V.device)
    weights_P = weights_V[tokens_P.clamp_max(len(weights_V) - 1)].masked_fill(tokens_P >= len(weights_V), 0.0)
    cumulative_P = weights_P.cumsum(-1, dtype=torch.float64)
    token_1 = part_1 * _PART + _search(cumulative_P, inside_1 * cumulative_P[-1:])
    return token_1.clamp_max(len(weights_V) - 1)


def _search(cumulative_V: Tensor, target_1: Tensor) -> Tensor:
    """Return the first place whose running sum is above the target, the last one where none is."""
    return torch.searchsorted(cumulative_V, target_1, right=True).clamp_max(len(cumulative_V) - 1)


def pick_coupled(weights_V: Tensor, seed_1: Tensor, position_1: Tensor) -> Tensor:
    """Return the token of `weights_V` under the noise of an absolute position, int64 `[1]`.

    >>> one = torch.ones(1, dtype=torch.int64)
    >>> pick_coupled(torch.tensor([0.0, 1.0]), one, one)
    tensor([1])
    """
    return winner(weights_V[None].float(), race_times(seed_1, COUPLED, position_1, len(weights_V)))
