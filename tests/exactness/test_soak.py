"""Many requests, aborts and interrupts at every event: no block leaked, no text changed by a neighbour, memory flat."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach import events
from specdec_teach.request import Request

from ..engine.neighbours import LOOSE, Ask, Ear, alone, llama_engine, same, sound, submit, table_engine, tells

KINDS = (
    events.Prefilled,
    events.CycleStarted,
    events.Drafted,
    events.TargetRan,
    events.Verified,
    events.Committed,
    events.RolledBack,
    events.CycleFinished,
    events.Finished,
)


class ObserverBroke(Exception):
    """What an observer of somebody else's may raise."""


def crowd(vocab: int, count: int, longest: int, *, sampled: bool, seed: int = 0) -> list[Ask]:
    """Requests of random length; every third begins like one before it."""
    dice, asks = random.Random(seed), list[Ask]()
    for row in range(count):
        ids = [dice.randrange(vocab) for _ in range(dice.randrange(1, longest))]
        if row % 3 == 2:
            ids = [*asks[dice.randrange(len(asks))].prompt, *ids[:2]]
        heat = sd.Sampling(seed=row) if sampled and row % 2 else sd.Sampling.greedy()
        asks.append(Ask(ids, heat, dice.randrange(0, longest), dice.randrange(0, 5)))
    return asks


def serve(
    engine: sd.Engine, asks: list[Ask], blocks: int, kinds: tuple[type, ...], seed: int
) -> tuple[list[Request], sd.Scheduler, dict[type, int]]:
    """Hand requests in while others run; interrupt at random events of `kinds`, cancel at random, from inside too."""
    dice, waiting, got = random.Random(seed), list(asks), list[Request]()
    scheduler = sd.Scheduler(engine, max_batch=6, blocks=blocks, chunk=5)
    interrupts = dict.fromkeys(kinds, 0)
    calm = [0]

    def act(event: Any) -> None:
        calm[0] += 1
        if type(event) in interrupts and calm[0] > 30 and dice.random() < 0.2:
            calm[0] = 0
            interrupts[type(event)] += 1
            if dice.random() < 0.3:
                scheduler.cancel(dice.choice(got))
            raise dice.choice([KeyboardInterrupt, ObserverBroke])

    engine.observers.append(Ear(act))
    while True:
        try:
            while waiting and dice.random() < 0.5:
                got.append(submit(scheduler, waiting.pop(0)))
            if dice.random() < 0.03 and got:
                scheduler.cancel(dice.choice(got))
                sound(scheduler)
            if not scheduler.step() and not waiting:
                return got, scheduler, interrupts
        except (KeyboardInterrupt, ObserverBroke):
            pass
        sound(scheduler)


def ends_as_alone(got: list[Request], right: list[sd.Result], **how: Any) -> None:
    """Whoever finished has the text it has alone; whoever was cancelled has its beginning."""
    assert {"finished"} <= {request.state for request in got} <= {"finished", "cancelled"}
    for request, result in zip(got, right, strict=True):
        if request.state == "finished":
            same(request.result, result, resumed=True, **how)
        else:
            assert request.result.tokens == result.tokens[: len(request.result.tokens)]
            assert sd.invariants.check(request.trace) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_sixty_four_requests_interrupted_at_one_event(kind: type) -> None:
    """A roomy pool, where γ is never made less: results and traces are exactly those of each request alone."""
    asks = crowd(7, 64, 12, sampled=True)
    right = [alone(table_engine(), ask) for ask in asks]
    got, scheduler, interrupts = serve(table_engine(), asks, 80, (kind,), seed=KINDS.index(kind))
    assert interrupts[kind] > 3
    ends_as_alone(got, right)
    assert scheduler.blocks_in_use == 0
    tells(scheduler, got)


def test_sixty_four_requests_interrupted_anywhere_in_a_small_pool() -> None:
    """Preemption, eviction, shrunken γ and every kind of interrupt together: greedy texts stay what they were."""
    asks = crowd(64, 64, 14, sampled=False)
    right = [alone(llama_engine(), ask) for ask in asks]
    got, scheduler, interrupts = serve(llama_engine(debug=True), asks, 12, KINDS, seed=5)
    assert sum(count > 0 for count in interrupts.values()) > 5
    ends_as_alone(got, right, tolerance=LOOSE, freely=True)
    assert scheduler.blocks_in_use == 0
    timeline = tells(scheduler, got)
    assert {row.state for step in timeline.steps for row in step.rows} >= {"preempted", "waiting", "prefill", "cycle"}
    assert any(step.evicted for step in timeline.steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_long_soak(seed: int) -> None:
    """Longer texts, several pools, everything at random."""
    for blocks in (20, 32, 200):
        asks = crowd(7, 64, 40, sampled=blocks == 200, seed=seed)
        right = [alone(table_engine(), ask) for ask in asks]
        got, scheduler, _ = serve(table_engine(debug=True), asks, blocks, KINDS, seed)
        ends_as_alone(got, right, freely=blocks < 200)
        assert scheduler.blocks_in_use == 0
        tells(scheduler, got)


def tensors() -> int:
    """How many tensors are alive."""
    gc.collect()
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def flat(work: Callable[[int], None], warm: int, rounds: int) -> Iterator[str]:
    """What grew while `work` ran `rounds` times after a warm-up."""
    for at in range(warm):
        work(at)
    before = tensors(), resident()
    for at in range(rounds):
        work(at)
    after = tensors(), resident()
    if after[0] != before[0]:
        yield f"{before[0]} tensors became {after[0]}"
    if after[1] > before[1] * 1.02:
        yield f"{before[1]} resident bytes became {after[1]}"


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")


@needs_proc
@pytest.mark.parametrize("kind", ["contiguous", "paged"])
def test_memory_is_flat_over_two_hundred_generates(kind: str) -> None:
    """Traces on, of the last thousand cycles, and off; with an observer; half of the runs without drafts."""
    engine = llama_engine(cache=kind)
    heard: list[int] = []
    engine.observers.append(Ear(lambda event: heard.append(1)))
    quiet = llama_engine(cache=kind)

    def work(at: int) -> None:
        which = engine if at % 5 == 0 else quiet
        traced: bool | int = (True, 1000, False)[at % 3]
        which.generate([1, 2, 3], sd.Sampling(seed=at), max_new_tokens=12, gamma=4 * (at % 2), trace=traced)
        heard.clear()

    assert list(flat(work, 40, 200)) == []


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("traced", [True, 1000, False], ids=["trace", "last 1000", "off"])
def test_memory_is_flat_over_long_texts(traced: bool | int) -> None:
    """200 runs of 64 tokens in each way of tracing."""
    engine = llama_engine()

    def work(at: int) -> None:
        engine.generate([1, 2, 3], sd.Sampling(seed=at), max_new_tokens=64, gamma=4 * (at % 2), trace=traced)

    assert list(flat(work, 40, 200)) == []


@needs_proc
def test_memory_of_a_scheduler_is_flat() -> None:
    """Two hundred requests through one scheduler, some cancelled: nothing of them stays but what is published."""
    engine = llama_engine()
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=24, keep=3)

    def work(at: int) -> None:
        got = [submit(scheduler, Ask([at % 60 + 1] * 5, sd.Sampling(seed=at), 6)) for _ in range(2)]
        scheduler.step()
        if at % 4 == 0:
            scheduler.cancel(got[0])
        scheduler.run()

    assert list(flat(work, 30, 100)) == []
    assert scheduler.blocks_in_use == 0


def test_growth_would_be_seen() -> None:
    """The measure itself: a tensor kept by each run is counted, and so are the bytes of large ones."""
    kept: list[torch.Tensor] = []
    grown = list(flat(lambda at: kept.append(torch.ones(4_000_000)), 1, 3))
    count = tensors()
    assert grown[0] == f"{count - 3} tensors became {count}"
    assert "resident" in grown[1]
