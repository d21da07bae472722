"""The paged cache of one sequence: a table of blocks from a pool; slot = table[pos // size] · size + pos % size.

A rollback moves the pointer back and then, by policy, gives whole blocks behind it back ("trim") or keeps them for the
next append ("keep"); either way the last block may stay partly filled. Before a block is written that somebody else
holds too, it is copied. Only blocks full of tokens that are committed and computed are published.
Invariant: the table covers at least `pointer` tokens; a slot at or past the pointer is never read before it is written.
It does not know models, or which request it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Literal, final

import torch
from torch import Tensor

from specdec_kernels.errors import unknown_name
from specdec_teach.caches.base import chosen, no_room, rewound
from specdec_teach.caches.pool import BlockPool, OutOfBlocks, chain_key
from specdec_teach.trace import Blocks

__all__ = ["PagedCache"]

_POLICIES = ("trim", "keep")


@final
class PagedCache:
    """A cache of at most `capacity` tokens in blocks of `pool`. See `caches.base.Cache`.

    >>> cache = PagedCache(BlockPool(4, size=4), capacity=16)
    >>> cache.reserve(6); cache.table
    (0, 1)
    """

    __slots__ = (
        "_at",
        "_copied",
        "_freed",
        "_index",
        "_keys",
        "_policy",
        "_published",
        "_table",
        "_taken",
        "capacity",
        "pointer",
        "pool",
    )  # fmt: skip

    kind = "paged"

    def __init__(self, pool: BlockPool, capacity: int, policy: Literal["trim", "keep"] = "trim") -> None:
        if policy not in _POLICIES:
            raise unknown_name("policy", policy, _POLICIES)
        self.pool = pool
        self.capacity = capacity
        self.pointer = 0
        self._policy = policy
        self._table: list[int] = []
        self._keys: list[bytes] = []
        self._index: Tensor | None = None
        self.mark()

    @property
    def table(self) -> tuple[int, ...]:
        """The block ids, in order of position."""
        return tuple(self._table)

    def missing(self, count: int) -> int:
        """Return how many blocks `reserve(count)` would take from the pool, copies included."""
        stop = self.pointer + count
        more = max(0, -(-stop // self.pool.size) - len(self._table))
        return more + (sum(self.pool.holders[block] > 1 for block in self._open(count)) if count else 0)

    def reserve(self, count: int) -> None:
        """See `Cache.reserve`; also gives the cache blocks of its own wherever the tokens will be written."""
        if self.pointer + count > self.capacity:
            raise no_room(self.capacity, self.pointer + count)
        self._need(self.missing(count))
        self._own(self._open(count))
        while len(self._table) * self.pool.size < self.pointer + count:
            block = self.pool.take()
            self._table.append(block)
            if block in self._freed:  # an interrupted forward gave it back
                self._freed.remove(block)
            if block not in self._taken:
                self._taken.append(block)
            self._index = None

    def _open(self, count: int) -> list[int]:
        """Return the blocks of the table that the next `count` tokens are written to."""
        first = self.pointer // self.pool.size
        return self._table[first : -(-(self.pointer + count) // self.pool.size)] if count else []

    def _need(self, missing: int) -> None:
        """Refuse before anything is changed."""
        if not self.pool.can_take(missing):
            raise OutOfBlocks(
                f"{missing} more blocks of {self.pool.size} tokens are needed and the pool has {self.pool.available} "
                "left; give more blocks, or wait for a request to end"
            )

    def _own(self, blocks: Items[int]) -> None:
        """Make blocks that will be written nobody else's: shared ones are copied, published ones withdrawn."""
        for block in blocks:
            if self.pool.holders[block] > 1:
                self._copy(block)
            else:
                self.pool.withdraw(block)

    def _copy(self, block: int) -> None:
        """Put a copy in the place of a block that others hold too."""
        own, size = self.pool.take(), self.pool.size
        source = torch.arange(block * size, (block + 1) * size)
        self.pool.store.move(source, slice(own * size, (own + 1) * size))
        self.pool.drop(block)
        self._table[self._table.index(block)] = own
        self._copied.append((block, own))
        self._index = None

    def span(self, count: int) -> int:
        """See `Cache.span`."""
        return self.pointer + count

    def slots(self, start: int, stop: int) -> Tensor:
        """Return the slots int64 `[stop − start]` of these positions."""
        device = self.pool.store.device
        if self._index is None or self._index.device != device:
            size = self.pool.size
            starts = torch.tensor(self._table, dtype=torch.int64) * size
            self._index = (starts[:, None] + torch.arange(size)).reshape(-1).to(device)
        return self._index[start:stop]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cache.write`; reads gather the blocks."""
        count = keys.shape[2]
        self.reserve(count)
        stop = self.pointer + count
        self.pool.store.put(layer, self.slots(self.pointer, stop), keys, values)
        return self.pool.store.get(layer, self.slots(0, stop))

    def advance(self, count: int) -> int:
        """See `Cache.advance`."""
        self.pointer += count
        return self.pointer

    def rollback(self, to: int) -> int:
        """See `Cache.rollback`."""
        self.pointer = rewound(self.pointer, to)
        full = -(-to // self.pool.size)
        del self._keys[to // self.pool.size :]
        while self._policy == "trim" and len(self._table) > full:
            block = self._table.pop()
            self.pool.drop(block)
            self._freed.append(block)
            self._index = None
        return self.pointer

    def compact(self, start: int, kept: Items[int]) -> int:
        """See `Cache.compact`; blocks that others hold too are copied first."""
        source, stop, size = chosen(self.pointer, start, kept), start + len(kept), self.pool.size
        stay = next((at for at in range(start, stop) if source[at - start] != at), stop)
        if stay < stop:
            blocks = self._table[stay // size : -(-stop // size)]
            self._need(sum(self.pool.holders[block] > 1 for block in blocks))
            self._own(blocks)
            moved = torch.tensor(source[stay - start :], dtype=torch.int64, device=self.pool.store.device)
            self.pool.store.move(self.slots(0, self.pointer)[moved], self.slots(stay, stop))
            del self._keys[stay // size :]
        return self.rollback(stop)

    def fork(self) -> PagedCache:
        """See `Cache.fork`: both hold every block that has tokens, and whoever writes first copies."""
        twin = PagedCache(self.pool, self.capacity, self._policy)
        for block in self._table[: -(-self.pointer // self.pool.size)]:
            self.pool.hold(block)
            twin._table.append(block)
        twin._keys, twin.pointer = list(self._keys), self.pointer
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """See `Cache.contents`."""
        store, slots = self.pool.store, self.slots(0, self.pointer)
        return [store.get(layer, slots) for layer in store.layers]

    def poison(self) -> None:
        """See `Cache.poison`; a block that others hold too, or can find, is left alone."""
        size, known = self.pool.size, self.pool.published
        for at, block in enumerate(self._table):
            used = min(max(self.pointer - at * size, 0), size)
            if used < size and self.pool.holders[block] == 1 and block not in known:
                self.pool.store.fill(slice(block * size + used, (block + 1) * size), torch.nan)
        self.pool.poison()

    def adopt(self, tokens: Items[int]) -> int:
        """See `Cache.adopt`: an empty cache holds the published blocks of the beginning of `tokens`."""
        size, key = self.pool.size, b""
        if self._table:
            return self.pointer
        for start in range(0, min(len(tokens), self.capacity) - size + 1, size):
            key = chain_key(key, tokens[start : start + size])
            block = self.pool.find(key)
            if block is None:
                break
            self.pool.hold(block)
            self._table.append(block)
            self._keys.append(key)
            self._index = None
        self.pointer = len(self._table) * size
        return self.pointer

    def known(self, tokens: Items[int]) -> int:
        """Return how many held blocks an empty cache would share if it adopted `tokens` now."""
        size, key, shared = self.pool.size, b"", 0
        for start in range(0, 0 if self._table else len(tokens) - size + 1, size):
            key = chain_key(key, tokens[start : start + size])
            block = self.pool.find(key)
            if block is None:
                break
            shared += self.pool.holders[block] > 0
        return shared

    def publish(self, tokens: Items[int]) -> None:
        """See `Cache.publish`: whole blocks of tokens that are both committed and computed."""
        size = self.pool.size
        full = min(len(tokens), self.pointer) // size
        while len(self._keys) < full:
            at = len(self._keys)
            key = chain_key(self._keys[-1] if self._keys else b"", tokens[at * size : (at + 1) * size])
            if self.pool.publish(self._table[at], key):
                self._published.append(self._table[at])
            self._keys.append(key)

    def release(self) -> None:
        """See `Cache.release`; the last blocks go first, so that a beginning is evicted last."""
        while self._table:
            self.pool.drop(self._table.pop())
        self._keys, self._index, self.pointer = [], None, 0

    def blocks(self) -> Blocks:
        """See `Cache.blocks`."""
        shared = tuple(block for block in self._table if self.pool.holders[block] > 1)
        return Blocks(
            self.pool.size, self.table, tuple(self._taken), tuple(self._freed), tuple(self._published), shared,
            tuple(self._copied),
        )  # fmt: skip

    def mark(self) -> None:
        """See `Cache.mark`."""
        self._taken: list[int] = []
        self._freed: list[int] = []
        self._published: list[int] = []
        self._copied: list[tuple[int, int]] = []

    def __del__(self) -> None:
        """Give the blocks of an abandoned request back."""
        if getattr(self, "_table", None):
            self.release()
