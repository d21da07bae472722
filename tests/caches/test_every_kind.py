"""What every kind of cache promises, on random walks beside a list, and the few things that differ by kind."""

from __future__ import annotations

from random import Random

import pytest
import torch

from specdec_kernels.errors import EngineFailure
from specdec_teach.caches import KINDS, BlockPool, Cache, SelectiveCache, new_cache

from .oracle import LAYERS, Entry, append, entries, feed, holds, states, write

CAPACITY = 20


def make(kind: str, capacity: int = CAPACITY) -> Cache:
    """A cache, with room for some forks of it if it is paged."""
    return new_cache(kind, capacity, BlockPool(40, size=3) if kind == "paged" else None)


def walk(kind: str, seed: int, steps: int = 50) -> None:
    """Take random steps with a few forks of one cache, and look at all of them after each."""
    random = Random(seed)
    caches: list[tuple[Cache, list[Entry]]] = [(make(kind), [])]
    lines: list[list[int]] = [[]]  # the tokens that the entries stand for
    for _ in range(steps):
        at = random.randrange(len(caches))
        (cache, history), tokens = caches[at], lines[at]
        new = random.choices(range(8), k=random.randint(1, 6))
        fits = cache.pointer + len(new) <= CAPACITY
        step = random.choice(
            ["append", "append", "append", "interrupt", "rollback", "fork", "compact", "poison", "end"]
        )
        if step in ("append", "interrupt") and not fits:
            with pytest.raises(EngineFailure, match="roll back first"):
                cache.reserve(len(new))
            with pytest.raises(EngineFailure, match="roll back first"):
                cache.write(0, *states(entries(tokens + new, len(tokens)), 0))
        elif step == "append":
            append(cache, history, entries(tokens + new, len(tokens)))
            tokens += new
        elif step == "interrupt":
            write(cache, history, entries(tokens + new, len(tokens)), layers=range(random.randrange(LAYERS)))
        elif step == "rollback":
            to = random.randint(0, len(tokens))
            back = cache.rollback(to)
            assert back == (0 if kind == "recompute" and to < len(tokens) else to)
            del history[back:], tokens[back:]
        elif step == "fork" and len(caches) < 4:
            caches.append((cache.fork(), list(history)))
            lines.append(list(tokens))
        elif step == "compact":
            start = random.randint(0, len(tokens))
            kept = [position for position in range(start, len(tokens)) if random.random() < 0.7]
            idle = kept == list(range(start, len(tokens)))
            back = cache.compact(start, kept)
            history[start:] = [history[position] for position in kept]
            tokens[start:] = [tokens[position] for position in kept]
            assert back == (0 if kind == "recompute" and not idle else start + len(kept))
            del history[back:], tokens[back:]
        elif step == "poison":
            cache.poison()
        elif step == "end" and random.random() < 0.3:
            cache.release()
            history.clear()
            tokens.clear()
        for other, expected in caches:
            holds(other, expected)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_beside_a_list(kind: str, seed: int) -> None:
    walk(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_changes_nothing(kind: str) -> None:
    cache = make(kind, 8)
    feed(cache, [1, 2, 3, 4, 5, 6])
    refusals = [
        (lambda: cache.reserve(3), "the cache holds 8 tokens and 9 were asked for"),
        (lambda: cache.write(0, *states(entries([0] * 3), 0)), "the cache holds 8 tokens and 9 were asked for"),
        (lambda: cache.rollback(7), "6 computed tokens back to 7; give 0..6"),
        (lambda: cache.rollback(-1), "back to -1"),
        (lambda: cache.compact(7, []), "back to 7"),
        (lambda: cache.compact(4, [5, 6]), r"cannot keep the tokens at \[5, 6\]; give rising positions of 4..5"),
        (lambda: cache.compact(2, [1, 3]), "give rising positions of 2..5"),
        (lambda: cache.compact(2, [3, 3]), "give rising positions of 2..5"),
        (lambda: cache.compact(2, [4, 3]), "give rising positions of 2..5"),
    ]
    for call, message in refusals:
        with pytest.raises(EngineFailure, match=message):
            call()
        holds(cache, entries([1, 2, 3, 4, 5, 6]))
    feed(cache, [1, 2, 3, 4, 5, 6, 7, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_forwards_run_in_inference_mode_and_all_else_outside(kind: str) -> None:
    """Tensors made in inference mode are read-only outside: rewinds, copies, moves and poison write all the same."""
    cache = make(kind)
    with torch.inference_mode():
        feed(cache, [1, 2, 3, 4])
    twin = cache.fork()
    twin.reserve(2)
    cache.rollback(4)
    cache.poison()
    with torch.inference_mode():
        feed(cache, [1, 2, 3, 4, 5, 6, 7])
    cache.compact(5, [5, 6])
    cache.compact(4, [4, 6] if kind != "recompute" else [4, 5, 6])
    cache.poison()
    assert cache.pointer == (7 if kind == "recompute" else 6)
    feed(twin, [1, 2, 3, 4, 9])
    holds(twin, entries([1, 2, 3, 4, 9]))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_not_kept(kind: str) -> None:
    cache = make(kind)
    keys, values = states(entries([1, 2]), 0)
    cache.write(0, keys.requires_grad_(), values.requires_grad_())
    cache.advance(2)
    cache.rollback(2)
    assert not any(tensor.requires_grad for tensor in cache.contents()[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_elsewhere_is_addressed_there(kind: str) -> None:
    """On the device of the keys, wherever it is: an index on the CPU would wait for every step of a GPU."""
    cache = make(kind)
    keys, values = (tensor.to("meta") for tensor in states(entries([1, 2, 3, 4]), 0))
    cache.reserve(4)
    for layer in range(LAYERS):
        back = cache.write(layer, keys, values)
        assert back[0].device.type == "meta"
        assert back[0].shape == keys.shape
    cache.advance(4)
    cache.fork().reserve(2)
    assert cache.compact(1, [1, 3] if kind != "recompute" else [1, 2, 3]) == (4 if kind == "recompute" else 3)
    if kind == "paged":
        assert cache.slots(0, 3).device.type == "meta"  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "paged"])
def test_caches_of_their_own_share_nothing(kind: str) -> None:
    cache = make(kind)
    feed(cache, [1, 2, 3])
    cache.publish([1, 2, 3])
    cache.mark()
    assert cache.blocks() is None
    assert make(kind).adopt([1, 2, 3]) == 0


@pytest.mark.parametrize("kind", ["contiguous", "paged", "selective", "recompute"])
def test_a_forward_reads_no_more_than_it_has_to(kind: str) -> None:
    cache = make(kind)
    feed(cache, list(range(8)))
    cache.rollback(cache.rollback(8) - 3)
    assert cache.span(2) == cache.pointer + 2


def test_masked_returns_stale_slots_until_they_are_overwritten() -> None:
    cache = make("masked")
    feed(cache, [1, 2, 3, 4, 5, 6])
    assert cache.rollback(3) == 3
    assert [cache.span(count) for count in (0, 1, 3, 4)] == [6, 6, 6, 7]
    for layer in range(LAYERS):
        keys, values = cache.write(layer, *states(entries([1, 2, 3, 7], 3), layer))
        fresh, old = states(entries([1, 2, 3, 7]), layer), states(entries([1, 2, 3, 4, 5, 6], 4), layer)
        for got, new, stale in zip((keys, values), fresh, old, strict=True):
            assert torch.equal(got[:, :, :4], new)
            assert torch.equal(got[:, :, 4:], stale)
    cache.advance(1)
    cache.poison()
    got, _ = cache.write(0, *states(entries([1, 2, 3, 7, 8], 4), 0))
    assert torch.equal(got[:, :, :5], states(entries([1, 2, 3, 7, 8]), 0)[0])
    assert got[:, :, 5:].unique().tolist() == [1e4]
    feed(cache, [1, 2, 3, 7, 8, 9, 0])
    assert cache.span(1) == 8
    assert cache.fork().span(0) == 7
    cache.release()
    assert cache.span(2) == 2


def test_selective_settles_only_what_is_kept() -> None:
    """No slot of the cache's own is written before the rollback; and each is written once only."""
    cache = SelectiveCache(8)
    feed(cache, [1, 2, 3])
    assert cache.settled == 0
    assert not cache.store.layers
    cache.rollback(2)
    feed(cache, [1, 2, 5, 6, 7])
    keys, _ = cache.store.get(0, slice(0, 8))
    assert torch.equal(keys[:, :, :2], states(entries([1, 2]), 0)[0])
    assert not keys[:, :, 2:].any()
    assert (cache.pointer, cache.settled) == (5, 2)
    cache.compact(1, [1, 3])
    assert (cache.pointer, cache.settled) == (3, 3)
    holds(cache, [entries([1, 2, 5, 6, 7])[at] for at in (0, 1, 3)])
