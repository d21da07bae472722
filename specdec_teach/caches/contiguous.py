"""The contiguous key/value cache of one sequence: slot = position, one write pointer.

Three layouts share it, which differ in what a rejection costs. "contiguous": the pointer moves back, O(1), and a
forward reads only what lies below it. "masked": the pointer moves back just the same, but every slot that was ever
written is still read, and a mask has to hide the stale ones until the next append overwrites them. "recompute": nothing
can be taken back but everything, so a rollback or a compaction that is not idle empties the cache.
Invariant: slots below `pointer` hold the keys and values of the first `pointer` tokens.
It does not know models, tokens or why it is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Literal, final

import torch
from torch import Tensor

from specdec_kernels.errors import unknown_name
from specdec_teach.caches.base import chosen, no_room, rewound
from specdec_teach.caches.store import SlotStore

__all__ = ["ContiguousCache"]

_KINDS = ("contiguous", "masked", "recompute")
_LOUD = 1e4


@final
class ContiguousCache:
    """Keys and values of every layer for one sequence of at most `capacity` tokens. See `caches.base.Cache`.

    >>> cache = ContiguousCache(capacity=8)
    >>> k, v = cache.write(0, torch.zeros(1, 1, 5, 4), torch.zeros(1, 1, 5, 4))
    >>> cache.advance(5), cache.rollback(3), k.shape
    (5, 3, torch.Size([1, 1, 5, 4]))
    """

    __slots__ = ("__weakref__", "_written", "capacity", "kind", "pointer", "store")

    def __init__(self, capacity: int, kind: Literal["contiguous", "masked", "recompute"] = "contiguous") -> None:
        if kind not in _KINDS:
            raise unknown_name("kind", kind, _KINDS)
        self.capacity = capacity
        self.kind: str = kind
        self.pointer = 0
        self._written = 0
        self.store = SlotStore(capacity)

    def reserve(self, count: int) -> None:
        """See `Cache.reserve`."""
        if self.pointer + count > self.capacity:
            raise no_room(self.capacity, self.pointer + count)

    def span(self, count: int) -> int:
        """See `Cache.span`."""
        stop = self.pointer + count
        return max(stop, self._written) if self.kind == "masked" else stop

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cache.write`."""
        count = keys.shape[2]
        self.reserve(count)
        self.store.put(layer, slice(self.pointer, self.pointer + count), keys, values)
        return self.store.get(layer, slice(0, self.span(count)))

    def advance(self, count: int) -> int:
        """See `Cache.advance`."""
        self.pointer += count
        self._written = max(self._written, self.pointer)
        return self.pointer

    def rollback(self, to: int) -> int:
        """See `Cache.rollback`; what lies behind `to` stays in memory."""
        back = rewound(self.pointer, to)
        self.pointer = 0 if self.kind == "recompute" and back < self.pointer else back
        return self.pointer

    def compact(self, start: int, kept: Items[int]) -> int:
        """See `Cache.compact`."""
        source, stop = chosen(self.pointer, start, kept), start + len(kept)
        if self.kind != "recompute" and source != list(range(start, stop)):
            self.store.move(torch.tensor(source, dtype=torch.int64), slice(start, stop))
        return self.rollback(stop)

    def fork(self) -> ContiguousCache:
        """See `Cache.fork`."""
        twin = ContiguousCache(self.capacity, self.kind)  # type: ignore[arg-type]
        twin.pointer, twin._written, twin.store = self.pointer, self._written, self.store.copy()
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """See `Cache.contents`."""
        return [self.store.get(layer, slice(0, self.pointer)) for layer in self.store.layers]

    def poison(self) -> None:
        """See `Cache.poison`: NaN, or large numbers where a mask multiplies them by 0."""
        self.store.fill(slice(self.pointer, None), _LOUD if self.kind == "masked" else torch.nan)

    def adopt(self, tokens: Items[int]) -> int:
        """Others' slots cannot be shared."""
        return self.pointer

    def publish(self, tokens: Items[int]) -> None:
        """There is nobody to publish to."""

    def release(self) -> None:
        """See `Cache.release`."""
        self.pointer = self._written = 0

    def blocks(self) -> None:
        """There are no blocks."""

    def mark(self) -> None:
        """There is no account to keep."""
