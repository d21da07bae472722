"""The standard rejection rule as pure torch functions: accept, overlap and residual of one row or many.

Source: Leviathan et al. 2023 (algorithm 1) and Chen et al. 2023 (theorem 1): a draft y ~ q is accepted iff
u·q(y) < p(y) with u uniform on (0, 1); after a rejection the token comes from [p − q]₊ / Σ[p − q]₊. p is always the
target, q the draft.
Invariant: nothing divides by q, a token with p = 0 is never accepted and never drawn. It does not know where p, q and u
come from. A one-hot q is given as None together with the drafted token.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["accept_probability", "accepts", "overlap", "residual"]


def accepts(u: float, p: float, q: float) -> bool:
    """Return whether a draft is accepted: u·q < p, strictly. `u` in (0, 1); `p`, `q`: probabilities of the draft.

    >>> accepts(0.61, p=0.12, q=0.55), accepts(0.999, p=0.3, q=0.2), accepts(0.001, p=0.0, q=0.0)
    (False, True, False)
    """
    return u * q < p


def accept_probability(p: float, q: float) -> float:
    """Return min(1, p/q), the chance that `accepts` says yes; 0 where p = 0, also at q = 0.

    >>> accept_probability(0.3, 0.5), accept_probability(0.2, 0.0), accept_probability(0.0, 0.0)
    (0.6, 1.0, 0.0)
    """
    if p <= 0.0:
        return 0.0
    return 1.0 if p >= q else p / q


def overlap(p_V: Tensor, q_V: Tensor | None, token: Tensor) -> Tensor:
    """Return α = Σ min(p, q) along the last axis: the chance that a draft is accepted, 1 − TV(p, q).

    Shapes: `p_V` and `q_V` `[..., V]`, `token` int64 `[...]`; the result is `[...]`. With a one-hot q it is p(token).

    >>> p, q = torch.tensor([.6, .3, .1]), torch.tensor([.2, .5, .3])
    >>> round(overlap(p, q, torch.tensor(1)).item(), 6), round(overlap(p, None, torch.tensor(1)).item(), 6)
    (0.6, 0.3)
    """
    if q_V is None:
        return p_V.gather(-1, token[..., None])[..., 0]
    return torch.minimum(p_V, q_V).sum(-1)


def residual(p_V: Tensor, q_V: Tensor | None, token: Tensor) -> tuple[Tensor, Tensor]:
    """Return [p − q]₊, not normalised, and its mass β = 1 − α; the law of the correction is their ratio.

    Shapes as in `overlap`: `[..., V]` and `[...]`. A mass of 0 means a numerically empty residual: draw from p.

    >>> rest, mass = residual(torch.tensor([.4, .3, .2, .1]), torch.tensor([.1, .15, .25, .5]), torch.tensor(3))
    >>> [round(x, 4) for x in (rest / mass).tolist()], round(mass.item(), 4)
    ([0.6667, 0.3333, 0.0, 0.0], 0.45)
    """
    rest_V = p_V.scatter(-1, token[..., None], 0.0) if q_V is None else (p_V - q_V).clamp_min_(0.0)
    return rest_V, rest_V.sum(-1)
