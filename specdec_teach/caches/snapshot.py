"""The cache of a model that cannot rewind: whole states, one kept from before every forward that may be taken back.

A recurrent state has no slots: what a token did to it cannot be undone. So a forward works on a copy, and the state it
began with stays as a snapshot. A rollback returns to the latest snapshot at or before the wanted length; what it lacks
then is committed and not yet computed, and is computed again like anything else that is.
Invariant: `state` is the one after `pointer` tokens, and a state that the cache holds is never changed. So forks share
states. The price is a copy of the whole state for each forward, and memory for each snapshot.
It does not know models, or what a state is made of.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Items
from typing import final

from torch import Tensor

from specdec_kernels.errors import EngineFailure
from specdec_teach.caches.base import chosen, no_room, rewound

__all__ = ["SnapshotCache"]


@final
class SnapshotCache:
    """The states of one sequence of at most `capacity` tokens. See `caches.base.Cache`.

    >>> cache = SnapshotCache(capacity=8)
    >>> cache.put(["after three"]); cache.advance(3)
    3
    >>> cache.put(["after five"]); cache.advance(2), cache.rollback(4), cache.working()
    (5, 3, ['after three'])
    """

    __slots__ = ("_fresh", "_past", "capacity", "pointer", "state")

    kind = "snapshot"

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.pointer = 0
        self.state: object | None = None
        self._fresh: object | None = None
        self._past: list[tuple[int, object | None]] = []

    def reserve(self, count: int) -> None:
        """See `Cache.reserve`."""
        if self.pointer + count > self.capacity:
            raise no_room(self.capacity, self.pointer + count)

    def span(self, count: int) -> int:
        """See `Cache.span`."""
        return self.pointer + count

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """EngineFailure: there are no slots to write to."""
        raise EngineFailure("a snapshot cache holds whole states; put the state that a forward made, then advance")

    def working(self) -> object | None:
        """Return a copy of the state for a forward to change; None for an empty cache."""
        return copy.deepcopy(self.state)

    def put(self, state: object) -> None:
        """Hand over the state that a forward made of a `working` copy; it counts once the cache advances."""
        self._fresh = state

    def advance(self, count: int) -> int:
        """See `Cache.advance`; the state so far becomes a snapshot. EngineFailure when none was put."""
        if self._fresh is None:
            raise EngineFailure(f"{count} tokens were counted as computed and no state was put for them")
        self._past.append((self.pointer, self.state))
        self.state, self._fresh = self._fresh, None
        self.pointer += count
        return self.pointer

    def rollback(self, to: int) -> int:
        """See `Cache.rollback`; returns to the latest snapshot that is not past `to`, and lets older ones go."""
        rewound(self.pointer, to)
        while self.pointer > to:
            self.pointer, self.state = self._past.pop() if self._past else (0, None)
        del self._past[:-1]
        self._fresh = None
        return self.pointer

    def compact(self, start: int, kept: Items[int]) -> int:
        """See `Cache.compact`; tokens out of the middle cannot be taken out of a state, so it goes back before them."""
        idle = chosen(self.pointer, start, kept) == list(range(start, start + len(kept)))
        return self.rollback(start + len(kept) if idle else start)

    def fork(self) -> SnapshotCache:
        """See `Cache.fork`."""
        twin = SnapshotCache(self.capacity)
        twin.pointer, twin.state, twin._past = self.pointer, self.state, list(self._past)
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """Nothing: a state cannot be compared token by token, only by what the model says next."""
        return []

    def poison(self) -> None:
        """There is no slot that could be read by mistake."""

    def adopt(self, tokens: Items[int]) -> int:
        """Others' states cannot be shared."""
        return self.pointer

    def publish(self, tokens: Items[int]) -> None:
        """There is nobody to publish to."""

    def release(self) -> None:
        """See `Cache.release`."""
        self.pointer, self.state, self._fresh, self._past = 0, None, None, []

    def blocks(self) -> None:
        """There are no blocks."""

    def mark(self) -> None:
        """There is no account to keep."""
