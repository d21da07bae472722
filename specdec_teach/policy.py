"""The processed distribution: from logits to the probabilities that are really sampled from.

Invariant: this one function makes every p and every q, so draw, acceptance ratio and residual can never disagree about
which distribution they mean. Rows that hold NaN or +inf, or nothing but −inf, come out as NaN, never as silence.
It does not know models, random numbers or which row belongs to which token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_teach.sampling import Sampling

__all__ = ["fit_width", "processed"]


def processed(logits_RV: Tensor, sampling: Sampling) -> Tensor:
    """Return probabilities `[R, V]` after temperature, top-k, top-p and min-p; one-hot rows when greedy.

    Computed in float32, or in float64 where the logits are. Ties at the top go to the lowest id.

    >>> logits = torch.tensor([[.4, .3, .2, .1]]).log()
    >>> processed(logits, Sampling(top_k=2)).mul(1000).round().tolist()
    [[571.0, 429.0, 0.0, 0.0]]
    """
    logits_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
    top_R1 = logits_RV.amax(-1, keepdim=True)
    if sampling.greedy_now:
        winner_R1 = logits_RV.argmax(-1, keepdim=True)
        return torch.zeros_like(logits_RV).scatter_(-1, winner_R1, 1.0 + (top_R1 - top_R1))
    scores_RV = logits_RV - top_R1
    if sampling.temperature != 1.0:
        scores_RV = scores_RV / sampling.temperature
    if 0 < sampling.top_k < scores_RV.shape[-1]:
        floor_R1 = scores_RV.topk(sampling.top_k, dim=-1).values[:, -1:]
        scores_RV = scores_RV.masked_fill(scores_RV < floor_R1, -torch.inf)
    p_RV = scores_RV.softmax(-1)
    if sampling.top_p < 1.0:
        p_RV = _nucleus(p_RV, sampling.top_p)
    if sampling.min_p > 0.0:
        p_RV = p_RV.masked_fill(p_RV < sampling.min_p * p_RV.amax(-1, keepdim=True), 0.0)
        p_RV = p_RV / p_RV.sum(-1, keepdim=True)
    return p_RV


def _nucleus(p_RV: Tensor, top_p: float) -> Tensor:
    """Keep the likeliest tokens until their mass reaches `top_p` (the one that crosses it included) and renormalise."""
    sorted_RV, order_RV = p_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(-1) - sorted_RV
    kept_RV = sorted_RV.masked_fill(before_RV >= top_p, 0.0)
    kept_RV = kept_RV / kept_RV.sum(-1, keepdim=True)
    return torch.zeros_like(p_RV).scatter_(-1, order_RV, kept_RV)


def fit_width(logits_RV: Tensor, width: int) -> Tensor:
    """Cut the last axis to `width`, or widen it with −inf: two models may pad one vocabulary differently.

    >>> fit_width(torch.zeros(1, 2), 3).tolist()
    [[0.0, 0.0, -inf]]
    """
    have = logits_RV.shape[-1]
    if have >= width:
        return logits_RV[..., :width]
    return torch.nn.functional.pad(logits_RV, (0, width - have), value=-torch.inf)
