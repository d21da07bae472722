"""The contiguous key/value cache of one sequence: slot = position, one write pointer, rollback in O(1).

Invariant: slots below `pointer` hold the keys and values of the first `pointer` tokens; a slot at or past it is never
read before it is written again. A forward writes at the pointer and the pointer moves once, after the last layer, so
an interrupted forward leaves the cache as it was. It does not know models, tokens or why it is rolled back.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure

__all__ = ["ContiguousCache"]


@final
class ContiguousCache:
    """Keys and values of every layer for one sequence of at most `capacity` tokens.

    Shapes: a layer stores `[1, H, capacity, D]` for keys and the same for values, allocated at its first write.

    >>> cache = ContiguousCache(capacity=8)
    >>> k, v = cache.write(0, torch.zeros(1, 1, 5, 4), torch.zeros(1, 1, 5, 4))
    >>> cache.advance(5), cache.rollback(3), k.shape
    (5, 3, torch.Size([1, 1, 5, 4]))
    """

    __slots__ = ("_stores", "capacity", "pointer")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pointer = 0
        self._stores: dict[int, tuple[Tensor, Tensor]] = {}

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put `[1, H, T, D]` at the pointer of `layer`; return views `[1, H, pointer + T, D]` of all that is readable.

        EngineFailure when T more tokens do not fit.
        """
        start, stop = self.pointer, self.pointer + keys.shape[2]
        if stop > self.capacity:
            raise EngineFailure(f"the cache holds {self.capacity} tokens and {stop} were asked for; roll back first")
        if layer not in self._stores:
            shapes = [(*new.shape[:2], self.capacity, new.shape[3]) for new in (keys, values)]
            self._stores[layer] = (keys.new_zeros(shapes[0]), values.new_zeros(shapes[1]))
        store_k, store_v = self._stores[layer]
        store_k[:, :, start:stop] = keys
        store_v[:, :, start:stop] = values
        return store_k[:, :, :stop], store_v[:, :, :stop]

    def advance(self, count: int) -> int:
        """Count `count` freshly written slots as computed; return the new pointer."""
        self.pointer += count
        return self.pointer

    def rollback(self, to: int) -> int:
        """Move the pointer back to `to`; what lies behind it stays in memory, unreachable. Return the new pointer."""
        if not 0 <= to <= self.pointer:
            raise EngineFailure(
                f"cannot roll a cache of {self.pointer} computed tokens back to {to}; give 0..{self.pointer}"
            )
        self.pointer = to
        return to

    def fork(self) -> ContiguousCache:
        """Return an independent copy with the same contents and pointer."""
        twin = ContiguousCache(self.capacity)
        twin.pointer = self.pointer
        twin._stores = {layer: (keys.clone(), values.clone()) for layer, (keys, values) in self._stores.items()}
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """Return per layer the readable keys and values, `[1, H, pointer, D]` each."""
        stop = self.pointer
        return [(keys[:, :, :stop], values[:, :, :stop]) for _, (keys, values) in sorted(self._stores.items())]

    def poison(self) -> None:
        """Fill every unreachable slot with NaN, so that reading one is seen at once."""
        with torch.inference_mode():
            for store in (store for pair in self._stores.values() for store in pair):
                store[:, :, self.pointer :] = torch.nan
