"""Selective commit: what a forward computes goes to a scratch space, and only what is kept is copied into the cache.

No slot of the cache ever holds a token that might be rejected; the price is a copy of every kept token.
Invariant: the cache's own slots hold committed tokens alone, scratch holds the rest of the computed ones.
It does not know models, tokens or why it is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_teach.caches.base import chosen, no_room, rewound
from specdec_teach.caches.store import SlotStore

__all__ = ["SelectiveCache"]


@final
class SelectiveCache:
    """A cache of at most `capacity` tokens, `settled` of which are beyond doubt. See `caches.base.Cache`.

    >>> cache = SelectiveCache(capacity=8)
    >>> k, v = cache.write(0, torch.ones(1, 1, 3, 1), torch.ones(1, 1, 3, 1))
    >>> cache.advance(3), cache.settled, cache.rollback(2), cache.settled
    (3, 0, 2, 2)
    """

    __slots__ = ("_scratch", "capacity", "pointer", "settled", "store")

    kind = "selective"

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pointer = self.settled = 0
        self.store = SlotStore(capacity)
        self._scratch: dict[int, tuple[Tensor, Tensor]] = {}

    def reserve(self, count: int) -> None:
        """See `Cache.reserve`."""
        if self.pointer + count > self.capacity:
            raise no_room(self.capacity, self.pointer + count)

    def span(self, count: int) -> int:
        """See `Cache.span`."""
        return self.pointer + count

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cache.write`."""
        self.reserve(keys.shape[2])
        pending = self.pointer - self.settled
        if pending:
            old = self._scratch[layer]
            keys, values = (torch.cat([o[:, :, :pending], n], dim=2) for o, n in zip(old, (keys, values), strict=True))
        self._scratch[layer] = (keys, values)
        if self.settled == 0:
            return keys, values
        base_k, base_v = self.store.get(layer, slice(0, self.settled))
        return torch.cat([base_k, keys], dim=2), torch.cat([base_v, values], dim=2)

    def advance(self, count: int) -> int:
        """See `Cache.advance`."""
        self.pointer += count
        return self.pointer

    def rollback(self, to: int) -> int:
        """See `Cache.rollback`: what is kept of the scratch space is copied, the rest is dropped."""
        rewound(self.pointer, to)
        return self._keep(min(to, self.settled), range(self.settled, to))

    def compact(self, start: int, kept: Items[int]) -> int:
        """See `Cache.compact`."""
        positions = chosen(self.pointer, start, kept)
        return self._keep(min(start, self.settled), [*range(self.settled, start), *positions])

    def _keep(self, base: int, positions: Items[int]) -> int:
        """Move the tokens at the rising `positions`, settled ones before those in scratch, behind the first `base`."""
        inside = [position for position in positions if position < self.settled]
        pending = [position - self.settled for position in positions if position >= self.settled]
        middle, stop = base + len(inside), base + len(positions)
        if inside:
            self.store.move(torch.tensor(inside, dtype=torch.int64), slice(base, middle))
        for layer, (keys, values) in self._scratch.items() if pending else ():
            at = torch.tensor(pending, dtype=torch.int64, device=keys.device)
            self.store.put(layer, slice(middle, stop), keys[:, :, at], values[:, :, at.to(values.device)])
        self.settled = self.pointer = stop
        self._scratch = {}
        return stop

    def fork(self) -> SelectiveCache:
        """See `Cache.fork`."""
        twin = SelectiveCache(self.capacity)
        twin.pointer, twin.settled, twin.store = self.pointer, self.settled, self.store.copy()
        twin._scratch = {layer: (keys.clone(), values.clone()) for layer, (keys, values) in self._scratch.items()}
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """See `Cache.contents`."""
        pairs, pending = [], self.pointer - self.settled
        for layer in sorted({*self.store.layers, *(self._scratch if pending else ())}):
            parts = [self.store.get(layer, slice(0, self.settled))] if layer in self.store.layers else []
            if pending:
                parts.append(tuple(s[:, :, :pending] for s in self._scratch[layer]))  # type: ignore[arg-type]
            pairs.append((torch.cat([k for k, _ in parts], dim=2), torch.cat([v for _, v in parts], dim=2)))
        return pairs

    def poison(self) -> None:
        """See `Cache.poison`."""
        self.store.fill(slice(self.settled, None), torch.nan)

    def adopt(self, tokens: Items[int]) -> int:
        """Others' slots cannot be shared."""
        return self.pointer

    def publish(self, tokens: Items[int]) -> None:
        """There is nobody to publish to."""

    def release(self) -> None:
        """See `Cache.release`."""
        self.pointer = self.settled = 0
        self._scratch = {}

    def blocks(self) -> None:
        """There are no blocks."""

    def mark(self) -> None:
        """There is no account to keep."""
