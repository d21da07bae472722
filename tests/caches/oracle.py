"""The oracle of the cache tests: keys and values that say which history they belong to.

The keys of a token hold the token, its position, a number that stands for the whole prefix that ends in it (a model's
keys depend on all of it) and the layer; the values are the negatives. So what a cache holds is right iff it equals
`states` of the list of tokens that the test keeps beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from specdec_teach.caches import BlockPool, Cache, PagedCache

LAYERS, HEADS = 2, 2
Entry = tuple[int, int, int]


def entries(tokens: Sequence[int], start: int = 0) -> list[Entry]:
    """Return (token, position, number of the prefix) of every token from position `start` on."""
    return [(tokens[at], at, crc32(bytes(tokens[: at + 1])) % 2**20) for at in range(start, len(tokens))]


def states(items: Sequence[Entry], layer: int) -> tuple[Tensor, Tensor]:
    """Return keys `[1, H, T, 4]` and values `[1, H, T, 5]`, whole numbers in float32."""
    rows = [[[*item, layer * HEADS + head] for item in items] for head in range(HEADS)]
    k_HTD = torch.tensor(rows, dtype=torch.float32).reshape(HEADS, len(items), 4)
    return k_HTD[None], -torch.cat([k_HTD, k_HTD[:, :, :1]], dim=2)[None]


def write(cache: Cache, history: Sequence[Entry], new: Sequence[Entry], layers: Iterable[int] = range(LAYERS)) -> None:
    """Write `new` behind `history` in every layer and compare what comes back; the pointer stays."""
    pointer, stop = cache.pointer, cache.pointer + len(new)
    assert pointer == len(history)
    for layer in layers:
        back = cache.write(layer, *states(new, layer))
        for got, want in zip(back, states([*history, *new], layer), strict=True):
            assert got.shape[2] == cache.span(len(new)) >= stop
            assert torch.equal(got[:, :, :stop], want)
    assert cache.pointer == pointer


def append(cache: Cache, history: list[Entry], new: Sequence[Entry]) -> None:
    """Do what a forward does: reserve, write every layer, advance; and the same in the list."""
    cache.reserve(len(new))
    write(cache, history, new)
    history.extend(new)
    assert cache.advance(len(new)) == cache.pointer == len(history)


def feed(cache: Cache, tokens: Sequence[int]) -> None:
    """Compute all of `tokens` that the cache lacks."""
    append(cache, entries(tokens)[: cache.pointer], entries(tokens, cache.pointer))


def holds(cache: Cache, history: Sequence[Entry]) -> None:
    """The cache holds exactly this, in every layer."""
    assert cache.pointer == len(history) <= cache.capacity
    pairs = cache.contents()
    assert len(pairs) == LAYERS or not history
    for layer, pair in enumerate(pairs):
        for got, want in zip(pair, states(history, layer), strict=True):
            assert torch.equal(got, want)


def held_right(pool: BlockPool, caches: Sequence[PagedCache]) -> None:
    """Every block is exactly one of free, idle and held; holders are tables; the counts say the same."""
    tables = [block for cache in caches for block in cache.table]
    assert pool.holders == [tables.count(block) for block in range(pool.blocks)]
    free, idle, held = list(pool._free), list(pool._idle), set(tables)
    assert sorted([*free, *idle, *held]) == list(range(pool.blocks))
    assert set(idle) <= pool.published
    assert not set(free) & pool.published
    assert (pool.in_use, pool.idle) == (len(held), len(idle))
    assert pool.available in (None, len(free) + len(idle))
    for cache in caches:
        assert len(set(cache.table)) == len(cache.table) >= -(-cache.pointer // pool.size)
    assert {key: block for block, key in pool._key_of.items()} == pool._block_of


def published_right(pool: BlockPool, known: dict[bytes, tuple[int, ...]]) -> None:
    """Every published block holds the last `size` tokens of the committed and computed prefix its key stands for."""
    for block in pool.published:
        assert pool._key_of[block] in known, "published, and not committed and computed"
        tokens = known[pool._key_of[block]]
        there = torch.arange(block * pool.size, (block + 1) * pool.size)
        for layer in range(LAYERS):
            for got, want in zip(
                pool.store.get(layer, there), states(entries(tokens, len(tokens) - pool.size), layer), strict=True
            ):
                assert torch.equal(got, want)


def picture(pool: BlockPool, caches: Sequence[PagedCache]) -> tuple[Any, ...]:
    """Return everything that a refused call must leave as it was."""
    return (
        list(pool.holders),
        sorted(pool._free),
        list(pool._idle),
        dict(pool._key_of),
        [(cache.table, cache.pointer, list(cache._keys), cache.blocks()) for cache in caches],
    )
