"""Requests that are cancelled, interrupted, fail, or come in the middle of a step: nobody else notices."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach import events, rounds
from specdec_teach.caches import BlockPool

from .neighbours import (
    LOOSE,
    NEAR,
    Ask,
    Ear,
    alone,
    drain,
    llama_engine,
    peaked,
    requests,
    same,
    sound,
    submit,
    table_engine,
    tells,
)

GREEDY = sd.Sampling.greedy()


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


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("who", [0, 1, 2, 3])
def test_cancelled_from_inside_any_event(kind: type, who: int) -> None:
    """At any event of request 1, request `who` is cancelled, itself too: it ends in that step, all others as alone."""
    engine = table_engine()
    asks = [Ask([row + 1] * (2 + 3 * row), sd.Sampling(seed=row), 12) for row in range(4)]
    right = [alone(engine, ask) for ask in asks]
    subject = table_engine()
    scheduler = sd.Scheduler(subject, max_batch=3, blocks=40, chunk=4)
    got = [submit(scheduler, ask) for ask in asks]
    done: list[int] = []

    def act(event: Any) -> None:
        if isinstance(event, kind) and event.row == 1 and not done:
            done.append(scheduler.timeline().meta.chunk)
            scheduler.cancel(got[who])

    subject.observers.append(Ear(act))
    drain(scheduler)
    assert done
    over_before = who == 0 and kind is events.Finished
    for row, request in enumerate(got):
        if row != who:
            same(request.result, right[row])
        elif request.state == "cancelled":
            assert request.result.finish_reason is None
            assert request.result.tokens == right[row].tokens[: len(request.result.tokens)]
        else:
            assert over_before or kind is events.Finished
    tells(scheduler, got)


def test_cancelled_while_idle_in_every_state() -> None:
    """Waiting, in the middle of its prefill, between cycles, preempted, finished: its blocks are free at once."""
    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=8, chunk=3)
    asks = [Ask([row + 1] * 9, GREEDY, 14) for row in range(6)]
    got = [submit(scheduler, ask) for ask in asks]
    scheduler.cancel(got[4])
    assert (got[4].state, got[4].result.tokens) == ("cancelled", ())
    scheduler.step()
    assert 0 < got[1].cache.pointer < 8
    scheduler.cancel(got[1])
    sound(scheduler)
    states = set[str]()
    while scheduler.step():
        sound(scheduler)
        last = {row.request: row.state for row in scheduler.timeline().steps[-1].rows}
        states |= set(last.values())
        if last.get(2) == "preempted" and not got[2].over:
            scheduler.cancel(got[2])
            sound(scheduler)
        if last.get(3) == "cycle" and got[3].stream.progress.stats.cycles == 2 and not got[3].over:
            scheduler.cancel(got[3])
            assert got[3].cache.table == ()
            sound(scheduler)
    assert "preempted" in states
    scheduler.cancel(got[0])
    assert [request.state for request in got].count("cancelled") == 4
    for at in (0, 5):
        assert got[at].state == "finished"
        same(got[at].result, alone(engine, asks[at]), freely=True)
    tells(scheduler, got)


def test_the_last_request_cancelled_between_steps_is_in_the_timeline() -> None:
    scheduler = sd.Scheduler(table_engine(), max_batch=1, blocks=12)
    first, second = submit(scheduler, Ask([1, 2])), submit(scheduler, Ask([3]))
    scheduler.step()
    scheduler.step()
    scheduler.cancel(first)
    scheduler.cancel(first)
    scheduler.cancel(second)
    assert scheduler.blocks_in_use == 0
    assert not scheduler.step()
    assert first.result.stats.emitted == len(first.result.tokens) > 0
    tells(scheduler, [first, second])
    again = submit(scheduler, Ask([4]))
    scheduler.run()
    tells(scheduler, [first, second, again])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_submitted_from_inside_any_event(kind: type) -> None:
    """Whoever comes in the middle of a step is served after it, and as alone; a step inside a step is refused."""
    engine, asks = table_engine(), requests(7)
    subject = table_engine()
    scheduler = sd.Scheduler(subject, max_batch=3, blocks=60)
    got, refused = [submit(scheduler, asks[0])], list[str]()

    def act(event: Any) -> None:
        if isinstance(event, kind) and len(got) < len(asks):
            got.append(submit(scheduler, asks[len(got)]))
            with pytest.raises(sd.EngineFailure, match="a step is running already") as caught:
                scheduler.step()
            refused.append(str(caught.value))

    subject.observers.append(Ear(act))
    scheduler.run()
    assert len(got) > 1
    assert len(refused) == len(got) - 1
    for request, ask in zip(got, asks, strict=False):
        same(request.result, alone(engine, ask))
    tells(scheduler, got)


@pytest.mark.parametrize("every", [1, 2, 3, 7, 19])
@pytest.mark.parametrize("blocks", [8, 60])
def test_interrupted_steps_go_on(every: int, blocks: int) -> None:
    """An observer that raises at every n-th event it has not raised at before: same texts, a true timeline."""
    engine = table_engine()
    asks = [Ask([row + 1] * (1 + 3 * row), GREEDY, 14) for row in range(4)] + [Ask([2], GREEDY, 0)]
    right = [alone(engine, ask) for ask in asks]
    subject = table_engine(debug=True)
    scheduler = sd.Scheduler(subject, max_batch=3, blocks=blocks, chunk=4)
    got = [submit(scheduler, ask) for ask in asks]
    seen, heard = set[Any](), itertools.count(1)

    def act(event: Any) -> None:
        what = (type(event), event.row, getattr(event, "index", None) or len(got[event.row].stream.sequence.tokens))
        if what not in seen:
            seen.add(what)
            if next(heard) % every == 0:
                raise KeyboardInterrupt

    subject.observers.append(Ear(act))
    interrupts = 0
    while True:
        try:
            if not scheduler.step():
                break
        except KeyboardInterrupt:
            interrupts += 1
        sound(scheduler)
    assert interrupts > 3
    for request, result in zip(got, right, strict=True):
        same(request.result, result, freely=True)
    tells(scheduler, got)


def test_an_interrupt_while_somebody_was_cancelled_frees_the_blocks() -> None:
    subject = table_engine()
    scheduler = sd.Scheduler(subject, max_batch=3, blocks=40)
    got = [submit(scheduler, Ask([row + 1] * 6)) for row in range(3)]

    def act(event: Any) -> None:
        if isinstance(event, events.TargetRan) and event.row == 2:
            subject.observers.clear()
            scheduler.cancel(got[1])
            raise KeyboardInterrupt

    subject.observers.append(Ear(act))
    with pytest.raises(KeyboardInterrupt):
        scheduler.run()
    assert got[1].state == "cancelled"
    sound(scheduler)
    drain(scheduler)
    tells(scheduler, got)


def test_a_request_that_fails_fails_alone() -> None:
    """No numbers from one request's processor: it is "failed" with its error, its blocks are free, others go on."""

    def broken(ids: Tensor, logits: Tensor) -> Tensor:
        return logits * math.nan if ids.shape[1] > 7 else logits

    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=40)
    bad = sd.Sampling(seed=1, processors=(broken,))
    asks = [Ask([1, 2]), Ask([3, 4], bad, 30), Ask([5], sd.Sampling(seed=3), 20), Ask([1, 1, 1])]
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    assert [request.state for request in got] == ["finished", "failed", "finished", "finished"]
    assert "not numbers" in str(got[1].error)
    assert 0 < len(got[1].result.tokens) < 7
    for at in (0, 2, 3):
        assert got[at].error is None
        same(got[at].result, alone(engine, asks[at]))
    tells(scheduler, got)


def test_a_draft_that_cannot_begin_fails_its_request_while_others_are_fed() -> None:
    class Late:
        def __init__(self) -> None:
            self.inner = sd.ModelDrafter(NEAR)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def reset(self, sequence: Any, capacity: int) -> int:
            if sequence.row == 1:
                raise sd.EngineFailure("no room for a draft")
            return self.inner.reset(sequence, capacity)

    engine = llama_engine().variant(drafter=Late())
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=40, chunk=3)
    got = [submit(scheduler, Ask([row + 1] * 8, GREEDY, 6)) for row in range(3)]
    drain(scheduler)
    assert [request.state for request in got] == ["finished", "failed", "finished"]
    same(got[2].result, alone(llama_engine(), Ask([3] * 8, GREEDY, 6)), LOOSE)


def test_a_stream_that_leaves_a_scheduler_goes_on_by_itself() -> None:
    """What the scheduler set for its next step is forgotten: γ, the chunk and the step."""
    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=7, chunk=2)
    ask = Ask([1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4], GREEDY, 12)
    for steps in range(1, 9):
        request = submit(scheduler, ask)
        for _ in range(steps):
            scheduler.step()
        scheduler.cancel(request)
        assert request.stream.finish().tokens == alone(engine, ask).tokens
        request.stream.preempt()


def test_broken_models_are_not_the_schedulers_fault() -> None:
    """A model that raises stops the step with its own error, and the scheduler can go on when it is well again."""
    ill = [True]
    honest = peaked(3)

    def moody(prefix: tuple[int, ...]) -> Tensor:
        if ill[0] and len(prefix) > 5:
            raise ValueError("out of order")
        return honest(prefix)

    engine = sd.Engine(sd.testing.TabularLM(moody), drafter=table_engine().drafter, gamma=3, block_size=4)
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=20)
    got = [submit(scheduler, Ask([1])), submit(scheduler, Ask([2, 3]))]
    with pytest.raises(ValueError, match="out of order"):
        scheduler.run()
    sound(scheduler)
    ill[0] = False
    drain(scheduler)
    for request, ask in zip(got, (Ask([1]), Ask([2, 3])), strict=True):
        same(request.result, alone(table_engine(), ask), resumed=True)
    assert torch.is_inference_mode_enabled() is False


def test_blocks_lost_twice_are_in_no_account() -> None:
    """A request that is preempted while it computes its tokens again, and finds none of its blocks afterwards."""
    engine = table_engine(debug=True)
    pool = BlockPool(40, size=4)
    stream = engine.open([1, 2, 3, 4, 5, 6, 0, 1, 2, 3], GREEDY, max_new_tokens=16, pool=pool, cache="paged")
    stream.step()
    for chunk in (8, None):
        stream.preempt()
        for block in pool.published:
            pool.withdraw(block)
        for _ in range(3):
            pool.take()
        stream.chunk = chunk
        with torch.inference_mode():
            rounds.catch_up([stream])
    result = stream.finish()
    same(result, alone(table_engine(), Ask([1, 2, 3, 4, 5, 6, 0, 1, 2, 3], GREEDY, 16)), resumed=True)
    computed = stream.trace().cycles[0].committed_after - 1
    assert stream.trace().cycles[1].caught_up == 8 + computed
