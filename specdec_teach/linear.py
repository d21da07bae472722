"""Matrix products with a few rows, in the form that is quickest for them.

On a CPU, torch multiplies a few rows much slower than one: five rows cost three times one in float32. Weights packed
for oneDNN do not have that penalty, and large ones are quicker packed even for a single row.
Invariant: the product is that of the modules' own weights, up to rounding. It does not know what is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["Linear"]

_PACKED_FOR = 5
_MOST_BYTES = 1 << 28
_FEW_BYTES = 1_000_000


@final
class Linear:
    """The products of several `nn.Linear` with one input, side by side: `[T, K]` → `[T, Σ N]`.

    >>> a, b = nn.Linear(8, 3), nn.Linear(8, 2)
    >>> x = torch.randn(4, 8)
    >>> torch.allclose(Linear([a, b])(x), torch.cat([a(x), b(x)], dim=1), atol=1e-6)
    True
    """

    __slots__ = ("_bias", "_packed", "_plain_row", "_weight")

    def __init__(self, modules: Items[nn.Linear]) -> None:
        with torch.inference_mode(mode=False), torch.no_grad():
            weights, biases = [m.weight for m in modules], [m.bias for m in modules]
            self._weight = weights[0].detach() if len(weights) == 1 else torch.cat([w.detach() for w in weights])
            given = [b.detach() for b in biases if b is not None]
            self._bias = (given[0] if len(given) == 1 else torch.cat(given)) if given else None
            self._packed = _pack(self._weight)
            self._plain_row = self._weight.dtype == torch.float32 and self._weight.nbytes <= _FEW_BYTES

    def __call__(self, x_TK: Tensor) -> Tensor:
        """Return x·Wᵀ + b."""
        if self._packed is None or (self._plain_row and len(x_TK) == 1):
            return F.linear(x_TK, self._weight, self._bias)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x_TK, self._packed, self._bias, "none", [], "")
        return y


def _pack(weight_NK: Tensor) -> Tensor | None:
    """Return the weight in oneDNN's own layout; None where that does not apply or would cost too much memory."""
    if weight_NK.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    if weight_NK.dtype not in (torch.float32, torch.bfloat16) or weight_NK.nbytes > _MOST_BYTES:
        return None
    try:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_NK.contiguous(), _PACKED_FOR)
    except (AttributeError, NotImplementedError, RuntimeError):
        return None
    return packed
