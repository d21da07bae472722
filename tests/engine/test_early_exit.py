"""Early exit: the target drafts with its own first layers, and its verify forward goes on from where they stopped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach import invariants
from specdec_teach.caches import KINDS, BlockPool, Cache, new_cache
from specdec_teach.decoder import CompactDecoder
from specdec_teach.drafters.early import Exit
from specdec_teach.hf import ModelRunner
from specdec_teach.stash import Stash

from ..checks import pointers_and_caches, same_as_fresh, same_law

DEEP = sd.testing.tiny_llama(layers=4, context=320)
ROWS, GAMMAS = [[5], [7, 3, 9, 1, 4], [*range(1, 18)]], [2, 4, 3]
GREEDY = sd.Sampling.greedy()


def small(layers: int = 3) -> Any:
    """A Llama of four tokens in float64, soft enough that drafts are accepted and refused."""
    return sd.testing.tiny_llama(seed=2, vocab=4, layers=layers, context=64).double()


def leave_of(model: Any, seed: int = 1) -> Exit:
    """A random way out, as a trained one would be: not the target's own norm."""
    random, n = torch.Generator().manual_seed(seed), model.config.hidden_size
    shapes = {"norm": (n,), "adapter": (n, n), "gate": (8, n), "up": (8, n), "down": (n, 8)}
    weights = {name: torch.randn(shape, generator=random) * 0.1 + (name == "norm") for name, shape in shapes.items()}
    return Exit.of(weights, 1e-5, next(model.parameters()))


def engine(model: Any = DEEP, layers: int = 2, **settings: Any) -> sd.Engine:
    """An engine that drafts with the first layers of `model`."""
    return sd.Engine(model, drafter=sd.EarlyExitDrafter(model, layers), **{"gamma": 4} | settings)


@pytest.mark.parametrize(
    ("layers", "rule"),
    [
        *((layers, rule) for layers in (1, 2) for rule in ("rejection", "block")),
        (2, "coupled"),
        pytest.param(1, "coupled", marks=pytest.mark.exhaustive),
    ],
)
def test_the_law_is_the_targets(layers: int, rule: str) -> None:
    """Every choice of the real engine enumerated, with an exit that says something else than the target."""
    model = small()
    drafter = sd.EarlyExitDrafter(model, layers, leave=leave_of(model))
    subject = sd.Engine(model, drafter=drafter, gamma=2, verify=rule)
    right = sd.exact_law(subject.variant(drafter=None, gamma=0), [1, 2], 3)
    same_law(sd.exact_law(subject, [1, 2], 3), right)
    stats = subject.generate([1, 2], sd.Sampling(seed=1), max_new_tokens=40).stats
    assert 0 < stats.accepted < stats.drafted


def resumed(
    caches: list[Cache], feeds: list[list[int]], layers: int, model: Any, drafted: list[int]
) -> tuple[list[Tensor], CompactDecoder]:
    """Logits of every token of `feeds`, of which the first `drafted[b]` have been through the first layers one by one.

    Slots that nobody may read are spoilt in between.
    """
    decoder = CompactDecoder(model)
    stashes = [Stash(cache, layers, decoder) for cache in caches]
    for step in range(max(drafted)):
        rows = [row for row, count in enumerate(drafted) if step < count]
        for row in rows:
            caches[row].reserve(step + 1)
        decoder.stop_early([stashes[row] for row in rows], [[feeds[row][step]] for row in rows])
    for cache, feed in zip(caches, feeds, strict=True):
        cache.reserve(len(feed))
        cache.poison()
    return decoder(caches, feeds, [len(feed) for feed in feeds], stashes=stashes), decoder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_a_resumed_forward_is_a_fresh_one(dtype: torch.dtype, tolerance: float, kind: str) -> None:
    """Three rows of other lengths, other numbers of drafts, one without any: logits and caches of a fresh forward."""
    model = sd.testing.tiny_llama(layers=4).to(dtype)
    pool = BlockPool(40, size=4)
    feeds, drafted = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5]], [4, 0, 2]
    for layers in (1, 2, 3):
        caches = [new_cache(kind, 32, pool) for _ in ROWS]
        with torch.inference_mode():
            CompactDecoder(model)(caches, ROWS, [0, 0, 0])
            for cache, row in zip(caches, ROWS, strict=True):
                cache.advance(len(row))
            found, _ = resumed(caches, feeds, layers, model, drafted)
            for cache, row, feed, logits in zip(caches, ROWS, feeds, found, strict=True):
                cache.advance(len(feed))
                right = CompactDecoder(model)([new_cache("contiguous", 64)], [row + feed], [len(feed)])[0]
                assert (logits - right).abs().max() <= tolerance * max(1.0, float(right.abs().max()))
                same_as_fresh(model, [*row, *feed, 1], cache, tolerance)  # type: ignore[arg-type]
        for cache in caches:
            cache.release()


def layer_tokens(subject: sd.Engine, run: Callable[[], Any]) -> int:
    """Count how often a token goes through a layer while `run` runs."""
    subject.target_runner.refresh()
    decoder, total = subject.target_runner.compact, 0
    assert decoder is not None
    for layer in decoder._layers:

        def counted(x_TN: Tensor, cos: Tensor, sin: Tensor, inner: Any = layer.project) -> Any:
            nonlocal total
            total += len(x_TN)
            return inner(x_TN, cos, sin)

        layer.project = counted  # type: ignore[method-assign]
    run()
    return total


@pytest.mark.parametrize("kind", ["contiguous", "paged"])
@pytest.mark.parametrize("layers", [1, 3])
def test_nothing_is_computed_twice(layers: int, kind: str) -> None:
    """A cycle of γ drafts takes E·γ products of a layer with a token to draft, and L·(γ + 1) − E·γ to verify."""
    subject, depth = engine(layers=layers, cache=kind), 4
    results: list[sd.Result] = []
    total = layer_tokens(subject, lambda: results.append(subject.generate([1, 2, 3], sd.Sampling(seed=3))))
    assert results[0].trace is not None
    gammas = [len(cycle.proposed) for cycle in results[0].trace.cycles]
    assert results[0].stats.accepted < results[0].stats.drafted
    drafts, verifies = sum(layers * n for n in gammas), sum(depth * (n + 1) - layers * n for n in gammas)
    assert total == drafts + verifies + depth * 2  # and the prefill of two tokens


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_plain_text(kind: str) -> None:
    """Alone and in a batch whose rows ask for other numbers of drafts, one of them for none."""
    subject = engine(cache=kind, block_size=4, debug=True)
    plain = subject.generate(ROWS, GREEDY, max_new_tokens=24, speculate=False)
    together = subject.generate(ROWS, GREEDY, max_new_tokens=24, gamma=[2, 0, 5])
    for prompt, right, row in zip(ROWS, plain, together, strict=True):
        assert row.tokens == right.tokens
        assert subject.generate(prompt, GREEDY, max_new_tokens=24).tokens == right.tokens
        assert row.trace is not None
        assert not invariants.check(row.trace)


@pytest.mark.parametrize("layers", [1, 3])
def test_caches_are_those_of_a_fresh_prefill(layers: int) -> None:
    """After every cycle, sampled, in double precision; unreachable slots are spoilt in between."""
    model = sd.testing.tiny_llama(layers=4, context=320).double()
    for gamma in (1, 4):
        subject = engine(model, layers, gamma=gamma)
        cycles = pointers_and_caches(
            subject.stream([7, 3], sd.Sampling(seed=gamma), max_new_tokens=30), model, None, tolerance=1e-12
        )
        assert cycles > 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_passes(kind: str) -> None:
    """`sd.check`: forced rejections at every draft, preemption, adopted blocks, neighbours, spoilt slots."""
    report = sd.check(engine(gamma=2, cache=kind), ["greedy", "second call", "runs"])
    assert report.ok, report.failures[:3]


def test_every_state_passes() -> None:
    report = sd.check(engine(gamma=2), ["states"])
    assert report.ok, report.failures[:3]
    assert {"contiguous", "paged"} <= {row.case.split(" · ")[0] for row in report.rows}


@pytest.mark.parametrize("event", ["Drafted", "TargetRan", "Verified", "Committed"])
def test_an_interrupt_changes_nothing(event: str) -> None:
    """Stopped at any event, gone on with: the same text."""
    subject = engine()
    right = subject.generate([1, 2, 3], sd.Sampling(seed=3), max_new_tokens=30).tokens

    class Stop:
        calls = 0

        def on_event(self, told: Any) -> None:
            self.calls += type(told).__name__ == event
            if type(told).__name__ == event and self.calls % 3 == 1:
                raise KeyboardInterrupt

    subject.observers.append(Stop())
    stream = subject.stream([1, 2, 3], sd.Sampling(seed=3), max_new_tokens=30)
    stops = 0
    while stream.goes_on:
        try:
            next(stream, None)
        except KeyboardInterrupt:
            stops += 1
    assert stops > 1
    assert stream.result().tokens == right


def test_preemption_and_chunks() -> None:
    """A scheduler with few blocks and a prompt in chunks: each text is what it is alone."""
    subject = engine(cache="paged", block_size=4)
    alone = [subject.generate(row, GREEDY, max_new_tokens=20).tokens for row in ROWS]
    scheduler = sd.Scheduler(subject, max_batch=3, blocks=18)
    requests = [scheduler.submit(row, GREEDY, max_new_tokens=20) for row in ROWS]
    scheduler.run()
    for request, right in zip(requests, alone, strict=True):
        assert request.result is not None
        assert request.result.tokens == right


def test_a_trace_tells_whose_layers_drafted() -> None:
    result = engine().generate([1, 2, 3], sd.Sampling(seed=3), max_new_tokens=12)
    assert result.trace is not None
    assert result.trace.meta.drafter == "early-exit"
    assert "first 2 of 4 layers" in result.trace.meta.models["draft"]
    assert all(cycle.draft_kv is None for cycle in result.trace.cycles)
    for before, after in pairwise(result.trace.cycles):
        assert after.target_kv.before == before.target_kv.after


def test_forced_patterns() -> None:
    for at in (0, 1, 3):
        result = engine().generate([1, 2, 3], GREEDY, max_new_tokens=20, reject_at=at)
        assert result.tokens == engine().generate([1, 2, 3], GREEDY, max_new_tokens=20, speculate=False).tokens


def test_a_stash_serves_its_own_place_only() -> None:
    """Another cache, another pointer, other tokens, another decoder: it is not used."""
    decoder, cache = CompactDecoder(DEEP), new_cache("contiguous", 32)
    stash = Stash(cache, 2, decoder)
    with torch.inference_mode():
        for token in (5, 6, 7):
            decoder.stop_early([stash], [[token]])
    assert stash.agree(CompactDecoder(DEEP), cache, [5, 6, 7, 8]) == 0
    stash = Stash(cache, 2, decoder)
    stash.add([5, 6, 7], torch.zeros(3, 1))
    assert stash.agree(decoder, cache, [5, 6, 9, 8]) == 2
    assert stash.agree(decoder, cache, [5, 6]) == 1
    assert stash.agree(decoder, new_cache("contiguous", 32), [5, 6, 7]) == 0
    stash = Stash(cache, 2, decoder)
    stash.add([5, 6], torch.zeros(2, 1))
    cache.advance(1)
    assert stash.agree(decoder, cache, [5, 6, 7]) == 0


def test_hooks_that_come_later_leave_plain_decoding() -> None:
    model = sd.testing.tiny_llama(layers=3)
    subject = engine(model)
    right = subject.generate([1, 2], GREEDY, max_new_tokens=9, speculate=False).tokens
    model.model.layers[1].mlp.register_forward_hook(lambda *args: None)
    result = subject.generate([1, 2], GREEDY, max_new_tokens=9)
    assert (result.tokens, result.stats.drafted) == (right, 0)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(sd.InvalidInput, match="layers=4; give how many of its 4 draft"):
        sd.EarlyExitDrafter(DEEP, 4)
    with pytest.raises(sd.InvalidInput, match="layers='two'"):
        sd.EarlyExitDrafter(DEEP, "two")  # type: ignore[arg-type]
    with pytest.raises(sd.InvalidInput, match=r"TabularLM runs through transformers.* use NgramDrafter"):
        sd.EarlyExitDrafter(sd.testing.TabularLM([0.0, 1.0]), 1)
    drafter = sd.EarlyExitDrafter(DEEP, 1)
    with pytest.raises(sd.InvalidInput, match="another model"):
        sd.Engine(sd.testing.tiny_llama(layers=4, context=320), drafter=drafter)
    with pytest.raises(sd.InvalidInput, match="decoder='hf' cannot stop"):
        sd.Engine(DEEP, drafter=drafter, decoder="hf")
    assert ModelRunner(DEEP, "target").stash(new_cache("contiguous", 4), 1) is None


def test_the_exit_of_the_embedded_pair() -> None:
    """It drafts better than the target's own head at that depth, and belongs to no other target."""
    pair = sd.load_pair()
    trained = sd.EarlyExitDrafter.of(pair)
    rates = []
    for drafter in (trained, sd.EarlyExitDrafter(pair.target, trained.layers)):
        subject = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=3)
        stats = subject.generate("Once upon a time", sd.Sampling(seed=1, temperature=0.8), max_new_tokens=60).stats
        rates.append(stats.accepted / stats.drafted)
    assert rates[0] > rates[1] + 0.1
    assert sd.EarlyExitDrafter.of(pair, trained.layers).revision == pair.target.config._commit_hash
    with pytest.raises(sd.InvalidInput, match="layers=9 has no trained exit"):
        sd.EarlyExitDrafter.of(pair, 9)
    with pytest.raises(sd.InvalidInput, match="trained for the embedded target at revision"):
        sd.EarlyExitDrafter.of(sd.Pair(DEEP, None, None))
