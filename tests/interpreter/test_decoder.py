"""The compact decoder with the paged attention kernel: the logits of the gathered way, in the interpreter."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_teach.caches import BlockPool, ContiguousCache, PagedCache, new_cache
from specdec_teach.decoder import CompactDecoder
from specdec_teach.paged import PagedRows
from specdec_teach.stash import Stash
from specdec_teach.tree import Parents, levels

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


@pytest.mark.parametrize(("name", "size"), [("llama", 16), ("mistral, window", 4)])
def test_trees_of_several_rows(name: str, size: int) -> None:
    """Rows with different trees, one with a chain, one that feeds committed tokens before its tree; a path stays."""
    model = model_of(name)
    ways = [CompactDecoder(model, backend) for backend in ("triton", "torch")]
    pools = [BlockPool(64, size=size) for _ in ways]
    rows = [[PagedCache(pool, 48) for _ in range(3)] for pool in pools]
    trees: list[Parents | None] = [(-1, -1, 0, 2, 1), None, levels((3, 2))]
    kept = [[2, 3], [], [1, 6]]
    random = torch.Generator().manual_seed(size)
    with torch.inference_mode():
        for lacking in (3, 1, 6):
            chains = [lacking, 4, 1]
            counts = [n + len(tree or ()) for n, tree in zip(chains, trees, strict=True)]
            feeds = [torch.randint(64, (count,), generator=random).tolist() for count in counts]
            logits = []
            for way, caches in zip(ways, rows, strict=True):
                for cache, feed in zip(caches, feeds, strict=True):
                    cache.reserve(len(feed))
                for cache in caches:
                    cache.poison()
                logits.append(way(caches, feeds, counts, trees=trees))
                for cache, count, chain, path in zip(caches, counts, chains, kept, strict=True):
                    start = cache.pointer + chain
                    cache.advance(count)
                    cache.compact(start, [start + node for node in path])
            for ours, theirs in zip(*logits, strict=True):
                assert torch.allclose(ours, theirs, atol=2e-5)
            for ours, theirs in zip(*rows, strict=True):
                for left, right in zip(ours.contents(), theirs.contents(), strict=True):
                    assert torch.allclose(left[0], right[0], atol=2e-5)


def test_an_engine_with_the_kernels_drafts_trees() -> None:
    """Greedy text with trees is the plain text, over one contiguous cache and over blocks."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
    for cache in ("contiguous", "paged"):
        drafter = sd.TreeDrafter(sd.ModelDrafter(near), (2, 2))
        engine = sd.Engine(target, drafter=drafter, gamma=2, cache=cache, backend="triton", block_size=4)
        plain = sd.Engine(target).generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=12, speculate=False)
        assert engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=12).tokens == plain.tokens


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
    assert PagedRows.of([one], [17], device, [(-1, -1)]) is not None
    assert PagedRows.of([one], [1], device, [(-1, -1)]) is None  # a node that is in the cache is seen by some only
    flat = [ContiguousCache(8), ContiguousCache(8)]
    assert PagedRows.of(flat[:1], [2], device) is not None
    assert PagedRows.of(flat, [2, 2], device) is None
    assert PagedRows.of([ContiguousCache(8, "masked")], [2], device) is None


@pytest.mark.parametrize("kind", ["contiguous", "paged"])
def test_the_kernel_goes_on_from_a_stash(kind: str) -> None:
    """The first layers gather what the others read in place: logits and stored keys of a forward without a stash."""
    model = model_of("llama")
    way, plain = CompactDecoder(model, "triton"), CompactDecoder(model, "torch")
    pool, text, feed = BlockPool(16, size=4), [*range(1, 10)], [3, 1, 4, 1]
    with torch.inference_mode():
        caches = [new_cache(kind, 24, pool) for _ in range(2)]
        for cache in caches:
            cache.reserve(len(text))
            plain([cache], [text], [0])
            cache.advance(len(text))
            cache.reserve(len(feed))
        stash = Stash(caches[0], 2, way)
        for token in feed[:-1]:
            way.stop_early([stash], [[token]])
        caches[0].poison()
        (found,) = way([caches[0]], [feed], [len(feed)], stashes=[stash])
        (right,) = plain([caches[1]], [feed], [len(feed)])
        assert torch.allclose(found, right, atol=2e-5)
        for cache in caches:
            cache.advance(len(feed))
        for ours, theirs in zip(*(cache.contents() for cache in caches), strict=True):
            assert torch.allclose(ours[0], theirs[0], atol=2e-5)
