"""What may be published and found: whole blocks of committed and computed tokens, until they are evicted."""

from __future__ import annotations

import pytest

from specdec_teach.caches import BlockPool, OutOfBlocks, PagedCache
from specdec_teach.caches.pool import chain_key

from .oracle import append, entries, feed, held_right, holds, picture

EIGHT = [1, 2, 3, 4, 5, 6, 7, 8]


def finds(pool: BlockPool, tokens: list[int]) -> int:
    """Return how many of these tokens a new request would find."""
    return PagedCache(pool, 64).adopt(tokens)


def test_a_compaction_over_published_blocks_takes_them_off_the_list() -> None:
    """Nobody finds what has been moved; what is published next is known by what the blocks hold now."""
    pool = BlockPool(8, size=2)
    cache = PagedCache(pool, 16)
    path = [1, 2, 5, 6]
    append(cache, [], [*entries([1, 2, 3, 4]), *entries(path, 2)])  # two siblings of two tokens each
    cache.publish([1, 2, 3, 4])
    assert finds(pool, [1, 2, 3, 4]) == 4
    cache.compact(2, [4, 5])
    holds(cache, entries(path))
    assert finds(pool, [1, 2, 3, 4]) == 2
    feed(cache, [*path, 7, 8])
    cache.publish([*path, 7, 8])
    assert finds(pool, [*path, 7, 8]) == 6
    assert finds(pool, [1, 2, 3, 4, 7, 8]) == 2
    held_right(pool, [cache])


@pytest.mark.parametrize("rejected_at", range(5))
def test_only_committed_and_computed_tokens_are_published(rejected_at: int) -> None:
    """Four drafts behind a prompt of six, blocks of four, each rejected in turn; 4: all are accepted."""
    pool = BlockPool(8, size=4)
    cache, prompt, drafts, last = PagedCache(pool, 32), [1, 2, 3, 4, 5, 6], [11, 12, 13, 14], 9
    feed(cache, prompt)
    cache.publish(prompt)
    assert cache.blocks().published == (0,)
    feed(cache, [*prompt, *drafts])
    committed = [*prompt, *drafts[:rejected_at], last]
    cache.rollback(len(committed) - 1)
    cache.publish(committed)
    proposed = [*prompt, *drafts]
    computed = (len(committed) - 1) // 4 * 4
    assert finds(pool, committed) == computed
    assert finds(pool, proposed[:8]) == (8 if rejected_at >= 2 else 4)
    assert cache.blocks().published == ((0, 1) if rejected_at >= 2 else (0,))
    other = PagedCache(pool, 32)
    other.adopt(committed)
    holds(other, entries(committed[:computed]))
    feed(cache, committed)
    cache.publish(committed)  # now `last` is computed too
    assert finds(pool, committed) == len(committed) // 4 * 4


def test_a_rollback_into_a_published_block_leaves_it_right_for_others() -> None:
    """While its owner has not written, it can be found and is not spoilt; then it is withdrawn, or copied if held."""
    pool = BlockPool(8, size=4)
    for held in (False, True):
        cache = PagedCache(pool, 32, "keep")
        feed(cache, EIGHT)
        cache.publish(EIGHT)
        cache.rollback(5)
        cache.poison()
        cache.rollback(4)
        cache.poison()
        other = PagedCache(pool, 32)
        assert other.adopt(EIGHT) == 8
        holds(other, entries(EIGHT))
        if not held:
            other.release()
        cache.mark()
        feed(cache, [*EIGHT[:4], 9, 9, 9, 9])
        assert len(cache.blocks().copied) == held
        assert finds(pool, EIGHT) == (8 if held else 4)
        cache.publish([*EIGHT[:4], 9, 9, 9, 9])
        assert finds(pool, [*EIGHT[:4], 9, 9, 9, 9]) == 8
        if held:
            holds(other, entries(EIGHT))
        held_right(pool, [cache, other])
        cache.release()
        other.release()
        assert pool.in_use == 0


def test_adoption_takes_a_chain_from_its_beginning_only() -> None:
    pool = BlockPool(8, size=2)
    cache = PagedCache(pool, 16)
    feed(cache, EIGHT)
    cache.publish(EIGHT)
    assert finds(pool, EIGHT) == 8
    assert finds(pool, EIGHT[:7]) == 6
    assert finds(pool, EIGHT[:1]) == 0
    assert finds(pool, [9, *EIGHT[1:]]) == 0
    assert finds(pool, [*EIGHT[:2], 9, *EIGHT[3:]]) == 2
    assert finds(pool, EIGHT[2:]) == 0  # the same blocks at other positions are other blocks
    assert PagedCache(pool, 5).adopt(EIGHT) == 4
    cache.release()
    pool.withdraw(cache.pool.find(chain_key(b"", EIGHT[:2])) or 0)
    assert finds(pool, EIGHT) == 0
    held_right(pool, [cache])


def test_only_an_empty_cache_adopts() -> None:
    pool = BlockPool(8, size=2)
    first, second = PagedCache(pool, 16), PagedCache(pool, 16)
    feed(first, EIGHT)
    first.publish(EIGHT)
    feed(second, [1])
    before = picture(pool, [first, second])
    assert second.adopt(EIGHT) == 1
    assert picture(pool, [first, second]) == before


def test_adopted_released_and_published_again() -> None:
    pool = BlockPool(6, size=2)
    first, second = PagedCache(pool, 16), PagedCache(pool, 16)
    feed(first, EIGHT[:4])
    first.publish(EIGHT[:4])
    first.release()
    assert (pool.in_use, pool.idle) == (0, 2)
    assert second.adopt(EIGHT) == 4
    feed(second, EIGHT)
    second.publish(EIGHT)
    assert second.blocks().published == second.table[2:]
    second.release()
    assert (pool.in_use, pool.idle, pool.available) == (0, 4, 6)
    assert first.adopt(EIGHT) == 8  # a released cache can be used again
    holds(first, entries(EIGHT))
    first.release()
    held_right(pool, [first, second])


def test_the_same_prefix_computed_twice_is_published_once() -> None:
    pool = BlockPool(8, size=2)
    first, second = PagedCache(pool, 16), PagedCache(pool, 16)
    feed(first, EIGHT[:5])
    feed(second, EIGHT[:7])
    first.publish(EIGHT[:5])
    second.publish(EIGHT[:7])
    assert first.blocks().published == first.table[:2]
    assert second.blocks().published == second.table[2:3]
    assert pool.published == {*first.table[:2], second.table[2]}
    second.release()
    assert pool.idle == 1
    holds(first, entries(EIGHT[:5]))
    assert finds(pool, EIGHT) == 6


def test_the_longest_unused_is_evicted_first_and_a_beginning_last() -> None:
    pool = BlockPool(6, size=2)
    ends: dict[str, list[int]] = {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]}
    for tokens in ends.values():
        cache = PagedCache(pool, 16)
        feed(cache, tokens)
        cache.publish(tokens)
        cache.release()
    assert (pool.idle, pool.available) == (4, 6)
    again = PagedCache(pool, 16)
    assert again.adopt(ends["a"]) == 4  # used now, so b is the older one
    again.release()
    keys = {}
    for name, tokens in ends.items():
        keys[name + "0"] = chain_key(b"", tokens[:2])
        keys[name + "1"] = chain_key(keys[name + "0"], tokens[2:])
    seen = []
    for _ in range(6):
        pool.take()
        seen.append(" ".join(name for name, key in keys.items() if pool.find(key) is not None))
    assert seen == ["a0 a1 b0 b1", "a0 a1 b0 b1", "a0 a1 b0", "a0 a1", "a0", ""]
    with pytest.raises(OutOfBlocks):
        pool.take()
