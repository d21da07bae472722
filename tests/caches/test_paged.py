"""Blocks one by one: who holds them, when they are trimmed, copied and given back, and the account of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specdec_kernels.errors import EngineFailure, InvalidInput, SpecDecError
from specdec_teach.caches import BlockPool, OutOfBlocks, PagedCache
from specdec_teach.trace import Blocks

from .oracle import entries, feed, held_right, holds, picture, write

EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("policy", "left"), [("trim", (0, 1)), ("keep", (0, 1, 2, 3, 4))])
def test_a_rollback_trims_whole_blocks_or_keeps_them(policy: Any, left: tuple[int, ...]) -> None:
    pool = BlockPool(8, size=2)
    cache = PagedCache(pool, 16, policy)
    feed(cache, EIGHT)
    cache.reserve(2)
    assert cache.table == (0, 1, 2, 3, 4)
    cache.mark()
    cache.rollback(3)
    assert cache.table == left
    assert pool.in_use == len(left)
    assert cache.blocks().freed == ((4, 3, 2) if policy == "trim" else ())
    before = pool.in_use
    assert cache.missing(5) == (2 if policy == "trim" else 0)
    feed(cache, [1, 2, 3, 9, 9, 9, 9, 9])
    assert pool.in_use == before + (2 if policy == "trim" else 0)


def test_lookahead_is_trimmed_when_everything_was_accepted() -> None:
    """A rollback to the pointer itself gives back what was only reserved."""
    cache = PagedCache(BlockPool(8, size=2), 16)
    feed(cache, [1, 2, 3])
    cache.reserve(5)
    assert cache.table == (0, 1, 2, 3)
    assert (cache.missing(5), cache.missing(6)) == (0, 1)
    cache.rollback(3)
    assert cache.table == (0, 1)


@pytest.mark.parametrize("first", ["old", "new"])
def test_a_shared_partial_block_is_copied_by_whoever_writes_first(first: str) -> None:
    pool = BlockPool(8, size=4)
    old = PagedCache(pool, 16)
    feed(old, EIGHT[:6])
    new = old.fork()
    assert old.table == new.table == (0, 1)
    assert old.blocks().shared == new.blocks().shared == (0, 1)
    writer, other = (old, new) if first == "old" else (new, old)
    writer.mark()
    assert (writer.missing(1), other.missing(1)) == (1, 1)
    feed(writer, [*EIGHT[:6], 9])
    assert writer.table == (0, 2)
    assert writer.blocks() == Blocks(4, owned=(0, 2), shared=(0,), copied=((1, 2),))
    holds(other, entries(EIGHT[:6]))
    other.mark()
    assert other.missing(1) == 0
    feed(other, [*EIGHT[:6], 5])
    assert other.blocks() == Blocks(4, owned=(0, 1), shared=(0,))
    holds(writer, entries([*EIGHT[:6], 9]))
    held_right(pool, [old, new])


def test_a_fork_of_a_fork_and_room_that_was_only_reserved() -> None:
    pool = BlockPool(9, size=2)
    first = PagedCache(pool, 16)
    feed(first, [1, 2, 3])
    first.reserve(4)
    second = first.fork()
    third = second.fork()
    assert second.table == third.table == (0, 1)  # nobody can use what another has reserved
    assert pool.holders[:4] == [3, 3, 1, 1]
    for cache, token in ((third, 7), (second, 8), (first, 9)):
        feed(cache, [1, 2, 3, token])
    assert pool.holders[0] == 3
    assert {cache.table[1] for cache in (first, second, third)} == {1, 4, 5}
    second.release()
    third.poison()
    for cache, token in ((third, 7), (first, 9)):
        holds(cache, entries([1, 2, 3, token]))
    held_right(pool, [first, second, third])


def test_a_refusal_changes_nothing() -> None:
    pool = BlockPool(3, size=2)
    cache, other = PagedCache(pool, 6), PagedCache(pool, 64)
    feed(cache, [1, 2, 3])
    other.reserve(1)
    before = picture(pool, [cache, other])
    calls = [
        (lambda: cache.reserve(4), EngineFailure, "holds 6 tokens and 7 were"),
        (lambda: cache.reserve(2), OutOfBlocks, "1 more blocks of 2 tokens are needed and the pool has 0 left"),
        (lambda: other.reserve(5), OutOfBlocks, "2 more blocks"),
        (pool.take, OutOfBlocks, "all 3 blocks of 2 tokens are held"),
        (lambda: cache.rollback(4), EngineFailure, "3 computed tokens back to 4"),
    ]
    for call, error, message in calls:
        with pytest.raises(error, match=message):
            call()
        assert picture(pool, [cache, other]) == before
    assert issubclass(OutOfBlocks, SpecDecError)
    cache.reserve(1)


def test_a_compaction_that_lacks_blocks_changes_nothing() -> None:
    """Two shared blocks would have to be copied and there is room for one."""
    pool = BlockPool(4, size=2)
    cache = PagedCache(pool, 16)
    feed(cache, [1, 2, 3, 4, 5, 6])
    twin = cache.fork()
    before = picture(pool, [cache, twin])
    with pytest.raises(OutOfBlocks):
        cache.compact(0, [1, 3, 5])
    assert picture(pool, [cache, twin]) == before
    cache.compact(2, [4])  # one block
    holds(twin, entries([1, 2, 3, 4, 5, 6]))
    holds(cache, [entries([1, 2, 3, 4, 5, 6])[at] for at in (0, 1, 4)])
    cache.compact(0, [0, 1])  # nothing moves, so nothing is copied
    assert cache.table[0] == twin.table[0]


def test_a_pool_that_grows_keeps_what_it_holds_and_evicts_before_it_grows() -> None:
    pool = BlockPool(None, size=2)
    first = PagedCache(pool, 1000)
    tokens = [at % 7 for at in range(30)]
    feed(first, tokens)
    twin, live = first.fork(), first.contents()
    assert pool.blocks == 16
    assert pool.available is None
    second = PagedCache(pool, 1000)
    feed(second, tokens[::-1])
    assert pool.blocks == 32
    feed(twin, [*tokens, 1, 2, 3])
    for cache, expected in ((first, tokens), (second, tokens[::-1]), (twin, [*tokens, 1, 2, 3])):
        holds(cache, entries(expected))
    assert all(
        torch.equal(a, b)
        for old, new in zip(live, first.contents(), strict=True)
        for a, b in zip(old, new, strict=True)
    )
    for request in range(20):
        third = PagedCache(pool, 1000)
        feed(third, [request + 10, *range(20)])
        third.publish([request + 10, *range(20)])
        third.release()
    assert pool.blocks == 64  # idle blocks are used again: requests one after the other cost the memory of one
    held_right(pool, [first, second, twin])


def test_the_account_of_blocks_begins_at_the_mark() -> None:
    pool = BlockPool(8, size=2)
    cache = PagedCache(pool, 16)
    feed(cache, [1, 2, 3])
    cache.publish([1, 2, 3])
    assert cache.blocks() == Blocks(2, owned=(0, 1), taken=(0, 1), published=(0,))
    twin = cache.fork()
    assert twin.blocks() == Blocks(2, owned=(0, 1), shared=(0, 1))
    cache.mark()
    feed(cache, [1, 2, 3, 4, 5, 6, 7])
    cache.rollback(5)
    cache.publish([1, 2, 3, 4, 5, 9])
    assert cache.blocks() == Blocks(
        2, owned=(0, 2, 3), taken=(3, 4), freed=(4,), published=(2,), shared=(0,), copied=((1, 2),)
    )
    cache.mark()
    assert cache.blocks() == Blocks(2, owned=(0, 2, 3), shared=(0,))
    twin.release()
    assert cache.blocks() == Blocks(2, owned=(0, 2, 3))


def test_an_abandoned_request_gives_its_blocks_back() -> None:
    pool = BlockPool(8, size=2)
    cache = PagedCache(pool, 16)
    feed(cache, EIGHT[:5])
    twin = cache.fork()
    del cache
    assert pool.in_use == 3
    holds(twin, entries(EIGHT[:5]))
    del twin
    assert (pool.in_use, pool.available) == (0, 8)


def test_blocks_cannot_be_given_back_twice_or_held_while_free() -> None:
    pool = BlockPool(2, size=2)
    block = pool.take()
    pool.drop(block)
    for call, message in (
        (lambda: pool.drop(block), "given back twice"),
        (lambda: pool.hold(block), "is free"),
        (lambda: pool.publish(block, b"key"), "is free"),
    ):
        with pytest.raises(EngineFailure, match=message):
            call()
    assert (pool.in_use, pool.available, pool.published) == (0, 2, frozenset())


@pytest.mark.parametrize(("blocks", "size"), [(0, 4), (-1, 4), (4, 0), (None, 0)])
def test_pools_that_cannot_be(blocks: Any, size: int) -> None:
    with pytest.raises(InvalidInput, match="give 1 or more of each"):
        BlockPool(blocks, size=size)


def test_a_policy_that_does_not_exist() -> None:
    with pytest.raises(InvalidInput, match="trim"):
        PagedCache(BlockPool(1, size=1), 1, "trimm")  # type: ignore[arg-type]


def test_every_layer_finds_its_block_whatever_the_order_of_layers() -> None:
    """The first layer that writes makes the block its own, be it layer 0 or not."""
    pool = BlockPool(4, size=4)
    cache = PagedCache(pool, 8)
    feed(cache, [1, 2])
    twin = cache.fork()
    write(twin, entries([1, 2]), entries([1, 2, 9], 2), layers=[1, 0])
    twin.advance(1)
    write(cache, entries([1, 2]), entries([1, 2, 8], 2), layers=[1, 0])
    cache.advance(1)
    holds(cache, entries([1, 2, 8]))
    holds(twin, entries([1, 2, 9]))
