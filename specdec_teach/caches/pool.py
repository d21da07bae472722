"""A pool of key/value blocks that requests share: who holds a block, which are free, and what has been published.

A published block is known by a hash of its tokens and of all tokens before them, so that a request with the same
beginning can hold it too. A block that nobody holds is free, or idle if it was published: idle blocks are evicted, the
longest unused first, when the free ones have run out.
Invariant: a block is exactly one of free, idle or held; `holders` counts the tables it stands in.
It does not know requests, positions or when a token is committed.
"""

from __future__ import annotations

import hashlib
import heapq
from array import array
from collections import OrderedDict
from collections.abc import Sequence as Items
from typing import final

import torch

from specdec_kernels.errors import EngineFailure, InvalidInput
from specdec_teach.caches.store import SlotStore

__all__ = ["BlockPool", "OutOfBlocks", "chain_key"]


class OutOfBlocks(EngineFailure):
    """Every block of the pool is held; nothing was changed."""


def chain_key(before: bytes, tokens: Items[int]) -> bytes:
    """Return the hash of a block: of the hash of the block before it (b"" for the first) and its own tokens.

    >>> chain_key(b"", [1, 2]) == chain_key(chain_key(b"", [1]), [2])
    False
    """
    return hashlib.sha256(before + array("q", tokens).tobytes()).digest()


@final
class BlockPool:
    """`blocks` blocks of `size` tokens each; None: as many as are held at once.

    >>> pool = BlockPool(2, size=4)
    >>> first, second = pool.take(), pool.take()
    >>> pool.publish(first, chain_key(b"", [5, 6, 7, 8]))
    True
    >>> pool.drop(first); pool.drop(second); (pool.in_use, pool.idle, pool.available)
    (0, 1, 2)
    """

    __slots__ = ("_block_of", "_fixed", "_free", "_idle", "_key_of", "holders", "size", "store")

    def __init__(self, blocks: int | None, *, size: int) -> None:
        if size < 1 or (blocks is not None and blocks < 1):
            raise InvalidInput(f"a pool of {blocks} blocks of {size} tokens cannot be; give 1 or more of each")
        self.size = size
        self._fixed = blocks is not None
        self.holders: list[int] = [0] * (blocks or 0)
        self._free: list[int] = list(range(blocks or 0))
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._key_of: dict[int, bytes] = {}
        self._block_of: dict[bytes, int] = {}
        self.store = SlotStore(len(self.holders) * size)

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return len(self.holders)

    @property
    def in_use(self) -> int:
        """How many blocks are held."""
        return len(self.holders) - len(self._free) - len(self._idle)

    @property
    def idle(self) -> int:
        """How many published blocks nobody holds: they can be found, or evicted."""
        return len(self._idle)

    @property
    def available(self) -> int | None:
        """How many blocks can be taken now; None where the pool grows."""
        return len(self._free) + len(self._idle) if self._fixed else None

    @property
    def published(self) -> frozenset[int]:
        """The blocks that can be found by their tokens."""
        return frozenset(self._key_of)

    def can_take(self, count: int) -> bool:
        """Return whether `count` blocks can be taken."""
        return self.available is None or count <= self.available

    def take(self) -> int:
        """Return a block that nobody holds, now held once. OutOfBlocks when there is none."""
        if not self._free:
            if self._idle:
                self.withdraw(next(iter(self._idle)))
            elif not self._fixed:
                self._grow()
            else:
                raise OutOfBlocks(
                    f"all {self.blocks} blocks of {self.size} tokens are held; give more blocks, or wait for a request"
                )
        block = heapq.heappop(self._free)
        self.holders[block] = 1
        return block

    def hold(self, block: int) -> None:
        """Hold a block once more; an idle one comes back to life. EngineFailure for a free one."""
        self._known(block)
        self._idle.pop(block, None)
        self.holders[block] += 1

    def drop(self, block: int) -> None:
        """Hold a block once less."""
        if self.holders[block] < 1:
            raise EngineFailure(f"block {block} was given back twice")
        self.holders[block] -= 1
        if self.holders[block] == 0:
            if block in self._key_of:
                self._idle[block] = None
            else:
                heapq.heappush(self._free, block)

    def publish(self, block: int, key: bytes) -> bool:
        """Make a held block known under `key`; False when another block is known under it already, or this one is."""
        self._known(block)
        if key in self._block_of or block in self._key_of:
            return False
        self._key_of[block], self._block_of[key] = key, block
        return True

    def withdraw(self, block: int) -> None:
        """Forget what a block was known as; an idle one becomes free."""
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]
        if block in self._idle:
            del self._idle[block]
            heapq.heappush(self._free, block)

    def find(self, key: bytes) -> int | None:
        """Return the block known under `key`."""
        return self._block_of.get(key)

    def poison(self) -> None:
        """Fill every free block with NaN."""
        starts = torch.tensor(self._free, dtype=torch.int64) * self.size
        self.store.fill((starts[:, None] + torch.arange(self.size)).reshape(-1), torch.nan)

    def _known(self, block: int) -> None:
        """Refuse a free block: whoever takes it next would overwrite it."""
        if self.holders[block] < 1 and block not in self._idle:
            raise EngineFailure(f"block {block} is free; take it before it is held or published")

    def _grow(self) -> None:
        old = self.blocks
        new = max(16, 2 * old)
        self.holders += [0] * (new - old)
        self._free += range(old, new)
        self.store.grow(new * self.size)
