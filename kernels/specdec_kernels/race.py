"""One draw per row in torch: the race of `specdec_kernels.noise` over a residual, with the target's row behind it.

Invariant: a weight of zero or less never wins; where no residual weight is positive the target's row is drawn from,
with the same noise. It does not know which row is drawn from, or why.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["draw", "winner"]


def winner(weights_BV: Tensor, times_BV: Tensor) -> Tensor:
    """Return the token that arrives first: the largest w / E, the lowest id on ties; int64 `[B]`.

    `weights_BV`: float32 or float64 `[B, V]`; `times_BV`: float32 `[B, V]`. A row without a positive weight gives 0.

    >>> winner(torch.tensor([[0.0, 0.5, 0.5]]), torch.tensor([[0.1, 2.0, 1.0]]))
    tensor([2])
    """
    scores_BV = torch.where(weights_BV > 0, weights_BV / times_BV.to(weights_BV.dtype), -1.0)
    return scores_BV.argmax(-1)


def draw(rest_BV: Tensor, p_BV: Tensor, times_BV: Tensor) -> tuple[Tensor, Tensor]:
    """Return a token drawn from `rest_BV`, or from `p_BV` where the former is empty, and whether it was; both `[B]`.

    >>> draw(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.ones(1, 2))
    (tensor([1]), tensor([True]))
    """
    empty_B = ~(rest_BV > 0).any(-1)
    return winner(torch.where(empty_B[:, None], p_BV, rest_BV), times_BV), empty_B
