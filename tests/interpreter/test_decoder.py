"""The compact decoder with the paged attention kernel: the logits of the gathered way, in the interpreter."""

from __future__ import annotations

import pytest
import torch

from specdec_teach.caches import BlockPool, ContiguousCache, PagedCache
from specdec_teach.decoder import CompactDecoder
from specdec_teach.paged import PagedRows

from ..engine.test_decoder import model_of


@pytest.mark.parametrize(("name", "size"), [("llama", 16), ("mistral, window", 4), ("qwen3, window", 1)])
def test_the_kernel_reads_what_a_gather_reads(name: str, size: int) -> None:
    """Three rows of unequal length, after rewinds, everything unreachable spoilt; logits and stored keys agree."""
    model = model_of(name)
    ways = [CompactDecoder(model, backend) for backend in ("triton", "torch")]
    pools = [BlockPool(64, size=size) for _ in ways]
    rows = [[PagedCache(pool, 48) for _ in range(3)] for pool in pools]
    random = torch.Generator().manual_seed(size)
    with torch.inference_mode():
        for cycle in range(3):
            feeds = [torch.randint(64, (1 + (row + cycle) % 5,), generator=random).tolist() for row in range(3)]
            logits = []
            for way, caches in zip(ways, rows, strict=True):
                for cache, feed in zip(caches, feeds, strict=True):
                    cache.reserve(len(feed))
                for cache in caches:
                    cache.poison()
                logits.append(way(caches, feeds, [1, len(feeds[1]), 1]))
                for cache, feed in zip(caches, feeds, strict=True):
                    cache.advance(len(feed))
                    cache.rollback(cache.pointer - cycle % 2)
            for ours, theirs in zip(*logits, strict=True):
                assert torch.allclose(ours, theirs, atol=2e-5)
            for ours, theirs in zip(*rows, strict=True):
                for left, right in zip(ours.contents(), theirs.contents(), strict=True):
                    assert torch.allclose(left[0], right[0], atol=2e-5)


def test_a_contiguous_cache_is_one_block() -> None:
    """Its shapes never change while the text grows; a rewind changes a length and nothing else."""
    model = model_of("mistral, window")
    ways = [CompactDecoder(model, backend) for backend in ("triton", "torch")]
    caches = [ContiguousCache(23) for _ in ways]
    with torch.inference_mode():
        for feed, back in (([1, 2, 3, 4], 0), ([5, 6, 7], 2), ([9, 8], 0), ([4], 0)):
            for cache in caches:
                cache.poison()
            ours, theirs = (way([c], [feed], [len(feed)])[0] for way, c in zip(ways, caches, strict=True))
            assert torch.allclose(ours, theirs, atol=2e-5)
            for cache in caches:
                cache.advance(len(feed))
                cache.rollback(cache.pointer - back)


def test_what_the_kernel_is_not_asked_for() -> None:
    """Long feeds, other layouts and several stores are gathered."""
    device, pool = torch.device("cpu"), BlockPool(64, size=4)
    one, other = PagedCache(pool, 64), PagedCache(BlockPool(4, size=4), 16)
    one.reserve(17)
    other.reserve(2)
    assert PagedRows.of([one], [16], device) is not None
    assert PagedRows.of([one], [17], device) is None
    assert PagedRows.of([one, other], [2, 2], device) is None
    flat = [ContiguousCache(8), ContiguousCache(8)]
    assert PagedRows.of(flat[:1], [2], device) is not None
    assert PagedRows.of(flat, [2, 2], device) is None
    assert PagedRows.of([ContiguousCache(8, "masked")], [2], device) is None
