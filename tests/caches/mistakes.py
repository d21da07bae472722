"""The mistakes that caches really make, each as a patch of one honest method; the exam of the tests uses them.

Every mistake runs on: a crash would not count as being caught.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_teach.caches import base, contiguous, paged, selective
from specdec_teach.caches.contiguous import ContiguousCache
from specdec_teach.caches.paged import PagedCache
from specdec_teach.caches.pool import BlockPool
from specdec_teach.caches.selective import SelectiveCache

Patch = pytest.MonkeyPatch


def rollback_does_not_trim(patch: Patch) -> None:
    """Trim keeps its blocks."""
    honest = PagedCache.rollback

    def rollback(self: Any, to: int) -> int:
        policy, self._policy = self._policy, "keep"
        try:
            return honest(self, to)
        finally:
            self._policy = policy

    patch.setattr(PagedCache, "rollback", rollback)


def rollback_trims_the_partial_block(patch: Patch) -> None:
    """Whole blocks are counted downwards, and the room is taken again unseen."""
    honest = PagedCache.rollback

    def rollback(self: Any, to: int) -> int:
        back = honest(self, to)
        if self._policy == "trim" and to % self.pool.size and self.pool.can_take(1):
            own = self.pool.take()
            self.pool.drop(self._table[-1])
            self._table[-1], self._index = own, None
        return back

    patch.setattr(PagedCache, "rollback", rollback)


def written_to_a_shared_block(patch: Patch) -> None:
    """Nothing is copied before a write."""
    patch.setattr(PagedCache, "_own", lambda self, blocks: [self.pool.withdraw(b) for b in blocks])


def copied_without_the_old_tokens(patch: Patch) -> None:
    """A shared block is replaced by an empty one."""
    honest = PagedCache._copy

    def copy(self: Any, block: int) -> None:
        store = self.pool.store
        self.pool.store = SimpleNamespace(move=lambda source, target: None)
        try:
            honest(self, block)
        finally:
            self.pool.store = store

    patch.setattr(PagedCache, "_copy", copy)


def written_to_a_published_block(patch: Patch) -> None:
    """A block that is written again stays on the list."""
    patch.setattr(PagedCache, "_own", lambda self, blocks: [self._copy(b) for b in blocks if self.pool.holders[b] > 1])


def published_when_committed(patch: Patch) -> None:
    """The last block is published when its last token is committed, though it is not computed yet."""
    _publish_up_to(patch, lambda cache, tokens: min(len(tokens), cache.pointer + 1))


def published_when_computed(patch: Patch) -> None:
    """A block is published when it is written, by what was proposed: rejected drafts stay on the list."""
    honest = PagedCache.advance

    def advance(self: Any, count: int) -> int:
        start, pointer = self.pointer, honest(self, count)
        store = self.pool.store
        if store.layers:
            slots = self.slots(0, pointer)
            tokens = [int(token) for token in store.layers[0][0][0, 0, slots, 0].tolist()]
            if start and min(tokens) >= 0:
                self.publish(tokens)
                del self._keys[start // self.pool.size :]
        return pointer

    patch.setattr(PagedCache, "advance", advance)


def partial_blocks_published(patch: Patch) -> None:
    """The last block is published though it is not full."""
    _publish_up_to(
        patch, lambda cache, tokens: -(-min(len(tokens), cache.pointer) // cache.pool.size) * cache.pool.size
    )


def nothing_published(patch: Patch) -> None:
    """Right, and useless."""
    patch.setattr(PagedCache, "publish", lambda self, tokens: None)


def keys_outlive_a_rollback(patch: Patch) -> None:
    """The chain of hashes is not cut, so that the next block is known by tokens that were taken back."""
    honest = PagedCache.rollback

    def rollback(self: Any, to: int) -> int:
        keys = list(self._keys)
        back = honest(self, to)
        self._keys = keys
        return back

    patch.setattr(PagedCache, "rollback", rollback)


def keys_without_a_chain(patch: Patch) -> None:
    """A block is known by its own tokens only."""
    honest = paged.chain_key
    patch.setattr(paged, "chain_key", lambda before, tokens: honest(b"", tokens))


def adopted_without_holding(patch: Patch) -> None:
    """The finder is not counted as a holder."""
    honest = PagedCache.adopt

    def adopt(self: Any, tokens: Sequence[int]) -> int:
        before = len(self._table)
        pointer = honest(self, tokens)
        for block in self._table[before:]:
            if self.pool.holders[block] > 1:
                self.pool.drop(block)
        return pointer

    patch.setattr(PagedCache, "adopt", adopt)


def never_dropped(patch: Patch) -> None:
    """A block that was shared once is never free again."""
    honest = BlockPool.drop

    def drop(self: Any, block: int) -> None:
        if self.holders[block] != 2:
            honest(self, block)

    patch.setattr(BlockPool, "drop", drop)


def release_forgets_the_last_block(patch: Patch) -> None:
    """A leak of one block a request."""
    honest = PagedCache.release

    def release(self: Any) -> None:
        del self._table[-1:]
        honest(self)

    patch.setattr(PagedCache, "release", release)


def released_from_the_beginning(patch: Patch) -> None:
    """A beginning is evicted first, and what follows it can never be found again."""
    honest = PagedCache.release

    def release(self: Any) -> None:
        self._table.reverse()
        honest(self)

    patch.setattr(PagedCache, "release", release)


def last_used_is_evicted_first(patch: Patch) -> None:
    """The order of eviction is upside down."""
    honest = BlockPool.take

    def take(self: Any) -> int:
        if not self._free and self._idle:
            self._idle.move_to_end(next(reversed(self._idle)), last=False)
        return honest(self)

    patch.setattr(BlockPool, "take", take)


def evicted_and_still_found(patch: Patch) -> None:
    """An evicted block stays on the list while somebody else writes to it."""
    honest = BlockPool.take

    def take(self: Any) -> int:
        known = (dict(self._key_of), dict(self._block_of))
        block = honest(self)
        self._key_of, self._block_of = known
        return block

    patch.setattr(BlockPool, "take", take)


def taken_before_refusing(patch: Patch) -> None:
    """A reservation takes what there is and then fails."""
    patch.setattr(PagedCache, "_need", lambda self, missing: None)


def poison_in_shared_blocks(patch: Patch) -> None:
    """Poison asks nobody."""

    def poison(self: Any) -> None:
        size = self.pool.size
        for at, block in enumerate(self._table):
            used = min(max(self.pointer - at * size, 0), size)
            self.pool.store.fill(slice(block * size + used, (block + 1) * size), torch.nan)

    patch.setattr(PagedCache, "poison", poison)


def fork_takes_what_is_reserved(patch: Patch) -> None:
    """A twin holds its brother's empty blocks too."""
    honest = PagedCache.fork

    def fork(self: Any) -> PagedCache:
        twin = honest(self)
        for block in self._table[len(twin.table) :]:
            self.pool.hold(block)
            twin._table.append(block)
        return twin

    patch.setattr(PagedCache, "fork", fork)


def compaction_keeps_the_keys(patch: Patch) -> None:
    """What has been moved is still known by the hashes of what was there."""
    honest = PagedCache.compact

    def compact(self: Any, start: int, kept: Sequence[int]) -> int:
        keys = list(self._keys)
        stop = honest(self, start, kept)
        self._keys = keys[: stop // self.pool.size]
        return stop

    patch.setattr(PagedCache, "compact", compact)


def stale_index(patch: Patch) -> None:
    """The slots are not worked out again after a copy."""
    honest = PagedCache._copy

    def copy(self: Any, block: int) -> None:
        index = self._index
        honest(self, block)
        self._index = index

    patch.setattr(PagedCache, "_copy", copy)


def twins_share_memory(patch: Patch) -> None:
    """A fork of a cache of its own is a second pointer into the same slots."""
    for kind in (ContiguousCache, SelectiveCache):
        honest = kind.fork

        def fork(self: Any, honest: Any = honest) -> Any:
            twin = honest(self)
            twin.store = self.store
            return twin

        patch.setattr(kind, "fork", fork)


def masked_like_contiguous(patch: Patch) -> None:
    """Nothing stale is read, so there is nothing to mask."""
    patch.setattr(ContiguousCache, "span", lambda self, count: self.pointer + count)


def stale_slots_read_after_a_release(patch: Patch) -> None:
    """The boundary of what was written survives the request."""
    honest = ContiguousCache.release

    def release(self: Any) -> None:
        written = self._written
        honest(self)
        self._written = written

    patch.setattr(ContiguousCache, "release", release)


def recompute_keeps_the_beginning(patch: Patch) -> None:
    """A cache that cannot rewind says that it did."""

    def rollback(self: Any, to: int) -> int:
        self.pointer = base.rewound(self.pointer, to)
        return to

    patch.setattr(ContiguousCache, "rollback", rollback)


def selective_copies_everything(patch: Patch) -> None:
    """Rejected drafts are copied too, and counted as settled."""
    honest = SelectiveCache.advance

    def advance(self: Any, count: int) -> int:
        self.pointer = honest(self, count)
        return self._keep(self.settled, range(self.settled, self.pointer))

    patch.setattr(SelectiveCache, "advance", advance)


def selective_compacts_behind_what_is_settled(patch: Patch) -> None:
    """The start of a compaction is not looked at."""

    def compact(self: Any, start: int, kept: Sequence[int]) -> int:
        base.chosen(self.pointer, start, kept)
        settled = [position for position in kept if position >= self.settled]
        return self._keep(self.settled, [*range(self.settled, start), *settled])

    patch.setattr(SelectiveCache, "compact", compact)


def anything_can_be_kept(patch: Patch) -> None:
    """Positions of a compaction are not checked."""
    for module in (contiguous, paged, selective):
        patch.setattr(module, "chosen", lambda pointer, start, kept: [min(position, pointer - 1) for position in kept])


def _publish_up_to(patch: Patch, count: Callable[[Any, Sequence[int]], int]) -> None:
    """Publish as if so many tokens were both committed and computed."""
    honest = PagedCache.publish

    def publish(self: Any, tokens: Sequence[int]) -> None:
        pointer, stop = self.pointer, count(self, tokens)
        self.pointer = min(stop, len(self._table) * self.pool.size)
        honest(self, [*tokens, *[0] * max(0, stop - len(tokens))])
        self.pointer = pointer

    patch.setattr(PagedCache, "publish", publish)
