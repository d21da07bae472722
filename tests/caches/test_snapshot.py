"""Snapshots of a state that cannot rewind: beside a list of tokens, and below a recurrent model."""

from __future__ import annotations

import functools
from collections.abc import Sequence as Items
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.caches import KINDS, BlockPool, Cache, ContiguousCache, SnapshotCache, new_cache
from specdec_teach.hf import ModelRunner

from ..architectures import build

GREEDY = sd.Sampling.greedy()
PROMPT = [7, 3, 9, 1, 4]
RECURRENT = {"Mamba-2": True, "Mamba": False}  # and whether a verify step is one forward

pytestmark = pytest.mark.filterwarnings("default")  # warnings of transformers about itself are no concern of ours


@functools.cache
def engine(label: str, verify: str = "rejection", gamma: int = 3) -> sd.Engine:
    """A recurrent target under a recurrent draft near it."""
    drafter = sd.ModelDrafter(build(label, noise=0.05))
    return sd.Engine(build(label), drafter=drafter, verify=verify, gamma=gamma)


def feed(cache: SnapshotCache, tokens: Items[int]) -> None:
    """Do what a forward does with a state that is a list of tokens: change a copy, hand it over, count."""
    state: Any = cache.working() or []
    state.extend(tokens)
    cache.put(state)
    cache.advance(len(tokens))


@pytest.mark.parametrize("seed", range(20))
def test_a_state_is_that_of_its_pointer(seed: int) -> None:
    """On random walks with forks; a rollback gives up no more than it has to, and never a fork's tokens."""
    random = Random(seed)
    lines: list[tuple[SnapshotCache, list[int], set[int]]] = [(SnapshotCache(30), [], {0})]
    for _ in range(60):
        at = random.randrange(len(lines))
        cache, tokens, reach = lines[at]
        step = random.choice(["feed", "feed", "interrupt", "rollback", "compact", "fork"])
        new = random.choices(range(8), k=random.randint(1, 4))
        if step == "feed" and cache.pointer + len(new) <= 30:
            reach.add(cache.pointer)
            feed(cache, new)
            tokens += new
        elif step == "interrupt":
            state: Any = cache.working() or []
            state.extend(new)
        elif step in ("rollback", "compact"):
            to = random.randint(0, cache.pointer)
            wanted = max(stop for stop in {*reach, cache.pointer} if stop <= to)
            back = cache.rollback(to) if step == "rollback" else cache.compact(0, range(to))
            assert back == cache.pointer <= to
            assert back in (wanted, 0), "either the latest snapshot before `to`, or one that had been let go"
            del tokens[back:]
            reach = {stop for stop in reach if stop < back} | {0}
            lines[at] = (cache, tokens, reach)
        elif step == "fork" and len(lines) < 4:
            lines.append((cache.fork(), list(tokens), set(reach)))
        for cache, tokens, _ in lines:
            assert cache.pointer == len(tokens)
            assert (cache.state or []) == tokens


def test_the_latest_snapshot_is_found_while_it_may_be_needed() -> None:
    """Four steps of one token each, as a draft takes them, can all be taken back one by one."""
    for to in range(3, 8):
        cache = SnapshotCache(8)
        feed(cache, [1, 2, 3])
        for token in (4, 5, 6, 7):
            feed(cache, [token])
        assert (cache.rollback(to), cache.state) == (to, [1, 2, 3, 4, 5, 6, 7][:to])
    feed(cache, [8])
    assert (cache.rollback(8), cache.rollback(7), cache.rollback(6)) == (8, 7, 0), "one snapshot outlives a rollback"


def test_tokens_out_of_the_middle_are_not_kept() -> None:
    """A path of a draft tree that skips a token goes back before it; one that does not is a rollback."""
    cache = SnapshotCache(8)
    feed(cache, [1, 2])
    feed(cache, [3, 4, 5])
    twin = cache.fork()
    assert (cache.compact(2, [2, 4]), cache.state) == (2, [1, 2])
    assert (twin.compact(2, [2, 3, 4]), twin.state) == (5, [1, 2, 3, 4, 5])


def test_misuse_is_an_error() -> None:
    """Slots are not there to be written, a state has to be put before it counts, and the capacity is a limit."""
    cache = SnapshotCache(4)
    with pytest.raises(sd.EngineFailure, match="no state was put"):
        cache.advance(1)
    with pytest.raises(sd.EngineFailure, match="whole states"):
        cache.write(0, torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
    with pytest.raises(sd.EngineFailure, match="roll back first"):
        cache.reserve(5)
    with pytest.raises(sd.EngineFailure, match="cannot roll"):
        cache.rollback(1)


@pytest.mark.parametrize("label", RECURRENT)
def test_the_text_of_a_seed_is_the_same_without_drafts(label: str) -> None:
    """Coupled, at T = 1: every token that was sampled behind a restored state is the one plain decoding samples."""
    subject = engine(label, "coupled")
    for seed in range(4):
        fast = subject.generate(PROMPT, sd.Sampling(seed=seed), max_new_tokens=20)
        assert fast.stats.accepted < fast.stats.drafted
        assert (
            fast.tokens == subject.generate(PROMPT, sd.Sampling(seed=seed), max_new_tokens=20, speculate=False).tokens
        )


@pytest.mark.parametrize(("label", "at_once"), RECURRENT.items())
def test_the_trace_tells_what_is_computed_again(label: str, at_once: bool) -> None:
    """Fed at once, a rejection gives the whole verify step up; fed one by one, nothing but the rejected tokens."""
    result = engine(label).generate(PROMPT, GREEDY, max_new_tokens=12, reject_at=2)
    assert result.trace is not None
    assert result.trace.meta.cache == "snapshot"
    for cycle in result.trace.cycles[1:-1]:
        assert cycle.accepted == 1
        assert cycle.caught_up == (2 if at_once else 0)
        assert cycle.target_kv.after == cycle.committed_after - 1 - cycle.caught_up
    assert not sd.invariants.check(result.trace)


@pytest.mark.parametrize("label", RECURRENT)
@pytest.mark.parametrize("who", ["target", "draft"])
def test_an_interrupted_forward_leaves_the_states_as_they_were(label: str, who: str) -> None:
    """Interrupted again and again inside a forward of either model, the text goes on as if nothing had happened."""
    target, draft = build(label), build(label, noise=0.05)
    subject = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=3)
    whole = subject.generate(PROMPT, GREEDY, max_new_tokens=10).tokens
    calls = 0

    def interrupt(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if int(calls**0.5) ** 2 == calls:  # rarer and rarer, so that the text comes to its end
            raise KeyboardInterrupt

    model = target if who == "target" else draft
    hook = model.get_submodule("backbone.norm_f").register_forward_hook(interrupt)  # all layers have run by then
    stream = subject.stream(PROMPT, GREEDY, max_new_tokens=10)
    interrupts = 0
    while stream.finish_reason is None and interrupts < 100:
        try:
            next(stream)
        except KeyboardInterrupt:
            interrupts += 1
    hook.remove()
    assert 2 < interrupts < 100
    assert stream.result().tokens == whole


def test_layouts_with_slots_are_refused_by_name() -> None:
    """When the engine is made, when a request asks for one, and for a draft's runner."""
    target = build("Mamba-2")
    for kind in KINDS[1:]:
        with pytest.raises(
            sd.InvalidInput, match=f"cache='{kind}' holds keys and values by slot, and Mamba2ForCausalLM"
        ):
            sd.Engine(target, cache=kind)
        with pytest.raises(sd.InvalidInput, match=f"cache='{kind}' holds"):
            ModelRunner(target, "draft").new_cache(8, kind, BlockPool(None, size=4))
    assert sd.Engine(target).cache == sd.Engine(target, cache="snapshot").cache == "snapshot"
    with pytest.raises(sd.InvalidInput, match="cache='paged' holds"):
        sd.Engine(target).open(PROMPT, GREEDY, cache="paged")
    with pytest.raises(sd.InvalidInput, match="cache='paged' holds"):
        sd.Scheduler(sd.Engine(target))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_does_not_roll_back_is_noticed(kind: str) -> None:
    """One whose rollback does nothing stops the text at the next cycle, before a token that depends on it."""

    class Stuck:
        """A cache that lost the ability to rewind."""

        def __init__(self, inner: Cache) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def rollback(self, to: int) -> int:
            return self.inner.pointer

    draft = sd.testing.tiny_llama(noise=0.05)
    honest = sd.Engine(sd.testing.tiny_llama(), drafter=sd.ModelDrafter(draft), gamma=4, cache=kind)
    broken = honest.variant(
        parts=replace(honest.parts, cache=lambda kind, size, pool: Stuck(new_cache(kind, size, pool)))
    )
    right = honest.generate(PROMPT, GREEDY, max_new_tokens=20, reject_at=1).tokens
    stream = broken.stream(PROMPT, GREEDY, max_new_tokens=20)
    with pytest.raises(sd.EngineFailure, match="has run ahead"):
        list(stream)
    found = stream.result().tokens
    assert found == right[: len(found)]
    assert len(found) < 20


def test_contiguous_stays_what_it_was() -> None:
    """A model that can rewind gets no snapshots."""
    runner = ModelRunner(sd.testing.tiny_llama(), "target")
    assert (runner.rolls_back, runner.shares, runner.at_once) == (True, True, True)
    assert isinstance(runner.new_cache(8), ContiguousCache)
