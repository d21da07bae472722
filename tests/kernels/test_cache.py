"""K and V by length: the slots that are written, the pointers that move, and what is left alone."""

from __future__ import annotations

import pytest
import torch

from specdec_kernels import advance_lengths, append_kv, compact_kv, rollback_lengths
from specdec_kernels.errors import InvalidInput


def test_append_writes_behind_each_length_and_nothing_else() -> None:
    """Slot by slot against plain indexing; entries outside the cache are dropped."""
    generator = torch.Generator().manual_seed(0)
    for lengths in ([0, 3, 6], [5, 8, 7], [-1, 2, 20]):
        old = [torch.randn(3, 2, 8, 4, generator=generator) for _ in range(2)]
        new = [torch.randn(3, 2, 3, 4, generator=generator) for _ in range(2)]
        caches = [cache.clone() for cache in old]
        append_kv(*caches, *new, torch.tensor(lengths))
        for cache, before, entries in zip(caches, old, new, strict=True):
            for row, length in enumerate(lengths):
                for slot in range(8):
                    j = slot - length
                    right = entries[row, :, j] if 0 <= j < 3 else before[row, :, slot]
                    assert torch.equal(cache[row, :, slot], right)


def test_append_of_nothing() -> None:
    cache = torch.randn(1, 1, 4, 2)
    before = cache.clone()
    append_kv(cache, cache.clone(), cache[:, :, :0], cache[:, :, :0], torch.tensor([1]))
    assert torch.equal(cache, before)


def test_lengths_come_back_to_the_pointer_of_the_cycle() -> None:
    """Forward to C + K + 1 and back by K − n is the same as ahead by n + 1; a row that does not run stays."""
    start = torch.tensor([4, 4, 4, 7])
    drafted, accepted = torch.tensor([3, 3, 0, 5]), torch.tensor([3, 0, 0, -1])
    ahead, back = start.clone(), start + drafted + 1
    advance_lengths(ahead, accepted, capacity=64)
    rollback_lengths(back, drafted, accepted, capacity=64)
    assert ahead.tolist() == back.tolist() == [8, 5, 5, 7]


def test_lengths_stay_in_the_cache() -> None:
    lengths = torch.tensor([7, 1])
    advance_lengths(lengths, torch.tensor([3, 0]), capacity=8)
    assert lengths.tolist() == [8, 2]
    rollback_lengths(lengths, torch.tensor([2, 5]), torch.tensor([0, 0]), capacity=8)
    assert lengths.tolist() == [6, 0]


def test_refusals() -> None:
    cache, new = torch.zeros(2, 1, 4, 2), torch.zeros(2, 1, 1, 2)
    lengths = torch.zeros(2, dtype=torch.int64)
    with pytest.raises(InvalidInput, match="new_v"):
        append_kv(cache, cache.clone(), new, new.half(), lengths)
    with pytest.raises(InvalidInput, match="int64"):
        append_kv(cache, cache.clone(), new, new, lengths.int())
    with pytest.raises(InvalidInput, match="contiguous"):
        advance_lengths(torch.zeros(4, dtype=torch.int64)[::2], lengths, capacity=4)


def test_compact_keeps_a_path_and_leaves_the_rest() -> None:
    """Slot by slot against plain indexing; −1 and slots outside are left out."""
    generator = torch.Generator().manual_seed(4)
    old = [torch.randn(2, 2, 8, 3, generator=generator) for _ in range(2)]
    caches = [cache.clone() for cache in old]
    compact_kv(*caches, torch.tensor([[3, 6], [8, 5]]), torch.tensor([[2, 3], [0, -1]]))
    for cache, before in zip(caches, old, strict=True):
        assert torch.equal(cache[0, :, 2:4], before[0][:, [3, 6]])
        assert torch.equal(cache[0, :, [0, 1, 4, 5, 6, 7]], before[0][:, [0, 1, 4, 5, 6, 7]])
        assert torch.equal(cache[1], before[1])


def test_compact_refuses_what_does_not_fit() -> None:
    k, slots = torch.zeros(2, 1, 4, 1), torch.zeros(2, 1, dtype=torch.int64)
    for arguments in (
        (k, k[:1], slots, slots),
        (k, k.double(), slots, slots),
        (k, k, slots.int(), slots),
        (k, k, slots, slots[:, :0]),
        (k, k, slots[:1], slots[:1]),
        (k[0], k[0], slots, slots),
    ):
        with pytest.raises(InvalidInput):
            compact_kv(*arguments)
