"""The scheduler: every request is what it is alone, nobody overtakes, nothing is leaked, and the timeline is true."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import specdec_teach as sd
from specdec_teach import events

from ..checks import same_as_fresh
from .neighbours import (
    LOOSE,
    NEAR,
    RULES,
    TARGET,
    Ask,
    Ear,
    alone,
    contiguous,
    drain,
    llama_engine,
    peaked,
    requests,
    same,
    shrunk,
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


def smallest(engine: sd.Engine, asks: list[Ask]) -> int:
    """How many blocks the longest of the requests needs alone."""
    return max(-(-(len(ask.prompt) + ask.cap) // engine.block_size) for ask in asks)


@pytest.mark.parametrize("max_batch", [1, 3, 8])
@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("rule", RULES)
def test_results_are_what_they_are_alone(rule: str, chunk: int, max_batch: int) -> None:
    """A pool with room for all: exactly equal over tables, whatever the chunk and the places."""
    engine, asks = table_engine(verify=rule), requests(7)
    scheduler = sd.Scheduler(engine, max_batch=max_batch, blocks=120, chunk=chunk)
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask))
        assert request.state == "finished"
    timeline = tells(scheduler, got)
    assert all(row.state != "preempted" for step in timeline.steps for row in step.rows)


@pytest.mark.parametrize("rule", RULES)
def test_results_of_a_llama_are_what_they_are_alone(rule: str) -> None:
    engine, asks = llama_engine(verify=rule), requests(64)
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=120, chunk=5)
    got = [submit(scheduler, ask) for ask in asks]
    assert scheduler.run() == [request.result for request in got]
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), LOOSE)
    tells(scheduler, got)


@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_a_storm_of_preemptions_changes_no_text(rule: str, chunk: int, extra: int) -> None:
    """The smallest pool that fits each alone: it ends, and greedy and coupled texts are what they are alone."""
    engine = table_engine(verify=rule)
    how = [sd.Sampling(seed=row) if rule == "coupled" else GREEDY for row in range(7)]
    asks = [Ask([row] * (1 + row * 2), how[row], 20 - row) for row in range(7)]
    scheduler = sd.Scheduler(engine, max_batch=5, blocks=smallest(engine, asks) + extra, chunk=chunk)
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), freely=True)
    timeline = tells(scheduler, got)
    assert any(row.state == "preempted" for step in timeline.steps for row in step.rows)
    assert extra == 0 or any(any(shrunk(request, 3)) for request in got)


def test_preempted_requests_of_a_llama_compute_their_tokens_again() -> None:
    """Keys, values and next logits after every step are those of a fresh prefill; a sampled text stays what it was."""
    engine = llama_engine(gamma=0)
    asks = [Ask([row + 1] * (3 + 2 * row), sd.Sampling(seed=row), 22) for row in range(4)]
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=smallest(engine, asks) + 2, chunk=4)
    got = [submit(scheduler, ask) for ask in asks]
    while scheduler.step():
        sound(scheduler)
        for request in scheduler.live:
            if request.cache.pointer:
                same_as_fresh(TARGET, request.stream.sequence.tokens, contiguous(request.cache), 1e-5)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), LOOSE)
    timeline = tells(scheduler, got)
    assert any(row.state == "preempted" for step in timeline.steps for row in step.rows)
    assert any(row.adopted for step in timeline.steps for row in step.rows), "own blocks are taken over again"
    assert any(cycle.caught_up for request in got for cycle in request.trace.cycles)


workload = st.lists(
    st.tuples(st.integers(1, 14), st.integers(0, 14), st.integers(0, 4), st.integers(0, 3), st.booleans()),
    min_size=1,
    max_size=7,
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(workload, st.integers(1, 4), st.sampled_from([1, 2, 7]), st.integers(0, 6))
def test_nobody_overtakes(wishes: list[tuple[int, int, int, int, bool]], places: int, chunk: int, extra: int) -> None:
    """Random arrivals: places are given in order of arrival, also to requests that come back; greedy texts stay."""
    engine = table_engine(debug=True)
    asks = [
        Ask([at % 7 for at in range(length)] if common else [row] * length, GREEDY, cap, gamma)
        for row, (length, cap, gamma, _, common) in enumerate(wishes)
    ]
    scheduler = sd.Scheduler(engine, max_batch=places, blocks=smallest(engine, asks) + extra, chunk=chunk)
    got: list[sd.Request] = []
    for ask, (*_, later, _) in zip(asks, wishes, strict=True):
        got.append(submit(scheduler, ask))
        for _ in range(later):
            scheduler.step()
            sound(scheduler)
    drain(scheduler)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), freely=True)
    timeline = tells(scheduler, got)
    begun: list[int] = []
    for step in timeline.steps:
        at_work = [row.request for row in step.rows if row.cycle is not None or row.fed or row.adopted]
        begun += [number for number in at_work if number not in begun]
    assert begun == sorted(begun)


def test_blocks_of_others_are_adopted_and_give_the_same_text() -> None:
    """A second request with the same beginning computes only the rest; its numbers are those of a cold run."""
    for engine, tolerance in ((table_engine(), 0.0), (llama_engine(), LOOSE)):
        scheduler = sd.Scheduler(engine, max_batch=4, blocks=60)
        first = submit(scheduler, Ask([1, 2, 3, 4, 5, 6], GREEDY, 12))
        drain(scheduler)
        known = [1, 2, 3, 4, 5, 6, *first.result.tokens]
        asks = [Ask(known[:length], sd.Sampling(seed=length), 9) for length in (18, 13, 9, 8, 5, 4)]
        got = [submit(scheduler, ask) for ask in asks]
        drain(scheduler)
        for request, ask in zip(got, asks, strict=True):
            same(request.result, alone(engine, ask), tolerance)
            assert request.trace.prefill is not None
            full = min(len(ask.prompt) - 1, first.trace.cycles[-1].target_kv.after) // 4 * 4
            assert (request.trace.prefill.adopted, request.trace.prefill.target) == (full, len(ask.prompt) - 1 - full)
        assert got[0].trace.prefill.adopted == 16  # type: ignore[union-attr]
        tables = [cycle.blocks for request in got for cycle in request.trace.cycles]
        assert any(table.shared for table in tables if table is not None), "two of them held one block"
        tells(scheduler, [first, *got])


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_only_committed_tokens_are_found_by_others(at: int) -> None:
    """Blocks of 4, a prompt of 6, a rejection at each place: what was proposed misses, what was committed hits."""
    plain = llama_engine().generate([1, 2, 3, 4, 5, 6], GREEDY, max_new_tokens=20, speculate=False).tokens

    def script(committed: list[int], count: int) -> list[int]:
        right = list(plain[len(committed) - 6 :][:count])
        return [token if row + 1 < at else (token + 1) % 64 for row, token in enumerate(right)]

    engine = llama_engine().variant(drafter=sd.ScriptedDrafter(script))
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=40)
    first = submit(scheduler, Ask([1, 2, 3, 4, 5, 6], GREEDY, 18))
    proposed: list[list[int]] = []
    while scheduler.step():
        for cycle in first.trace.cycles[len(proposed) :]:
            known = [1, 2, 3, 4, 5, 6, *first.result.tokens]
            proposed.append([*known[: cycle.committed_before], *cycle.proposed])
    committed = [1, 2, 3, 4, 5, 6, *first.result.tokens]
    for ids in [*proposed, committed]:
        right = next((n for n, (a, b) in enumerate(zip(ids, committed, strict=False)) if a != b), len(ids))
        probe = submit(scheduler, Ask([*ids, 9], GREEDY, 3))
        drain(scheduler)
        assert probe.trace.prefill is not None
        safe = min(right, first.trace.cycles[-1].target_kv.after)
        assert probe.trace.prefill.adopted <= right // 4 * 4
        assert probe.trace.prefill.adopted >= safe // 4 * 4
        same(probe.result, alone(engine, Ask([*ids, 9], GREEDY, 3)), LOOSE)


def test_two_that_compute_the_same_block_at_once() -> None:
    """Equal prompts side by side: one block is published, the other copy is just given back."""
    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=30, chunk=3)
    ask = Ask([1, 2, 3, 4, 5, 6, 0, 1, 2], sd.Sampling(seed=3), 10)
    got = [submit(scheduler, ask) for _ in range(3)]
    drain(scheduler)
    for request in got:
        same(request.result, alone(engine, ask))
    assert scheduler.pool.idle == (len(ask.prompt) + ask.cap - 1) // 4
    tells(scheduler, got)


def test_what_a_request_publishes_can_be_evicted_by_the_next() -> None:
    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=6)
    asks = [Ask([row] * 6, GREEDY, 14) for row in range(4)]
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), freely=True)
    assert any(step.evicted for step in tells(scheduler, got).steps)


def test_gamma_grows_back_when_there_is_room_again() -> None:
    """Two requests in a pool that fits one and a half: γ is made less while both are there, and not afterwards."""
    engine = table_engine(gamma=5)
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=8)
    got = [submit(scheduler, Ask([1], GREEDY, 30)), submit(scheduler, Ask([2] * 10, GREEDY, 18))]
    drain(scheduler)
    for request in got:
        less = shrunk(request, 5)
        assert any(less), "the pool was never short"
        assert not all(less[less.index(True) :])
    first = got[0].trace.cycles
    after = [cycle.gamma for cycle, less in zip(first, shrunk(got[0], 5), strict=True) if not less]
    assert after.count(5) > 2


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


def test_pieces_of_two_requests_in_turn(pair: sd.Pair) -> None:
    """Both streams join to their texts, whoever's turn moves the steps; a third, cancelled, yields what it had."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=64)
    asks = [
        Ask("Once upon a time", GREEDY, 20),
        Ask("Mira", sd.Sampling(seed=2, stop=("and",)), 24),
        Ask("A dog", GREEDY, 30),
    ]
    got = [submit(scheduler, ask) for ask in asks]
    heard = ["", "", ""]
    streams = [request.pieces() for request in got]
    for turn in range(60):
        for at, stream in enumerate(streams):
            piece = next(stream, "")
            heard[at] += piece
        if turn == 2:
            scheduler.cancel(got[2])
    for at, (request, ask) in enumerate(zip(got, asks, strict=True)):
        assert heard[at] == request.result.text
        if at < 2:
            same(request.result, alone(engine, ask), LOOSE)
    assert got[2].state == "cancelled"
    assert heard[2]


def test_pieces_after_an_interrupt_in_the_last_step(pair: sd.Pair) -> None:
    """The last piece comes though the step that made it was interrupted."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=64)
    request = submit(scheduler, Ask("Once upon a time", GREEDY, 12))

    def act(event: Any) -> None:
        if isinstance(event, events.Verified) and event.index == request.stream.progress.stats.cycles == 2:
            engine.observers.clear()
            raise KeyboardInterrupt

    engine.observers.append(Ear(act))
    text, stream = "", request.pieces()
    while True:
        try:
            piece = next(stream, None)
        except KeyboardInterrupt:
            stream = request.pieces()
            text = ""
            continue
        if piece is None:
            break
        text += piece
    assert text == request.result.text == alone(engine, Ask("Once upon a time", GREEDY, 12)).text


def test_what_is_refused_changes_nothing() -> None:
    engine = table_engine()
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=6)
    kept = submit(scheduler, Ask([1, 2]))
    scheduler.step()

    def look() -> Any:
        return scheduler.live, scheduler.timeline(), list(scheduler.pool.holders), scheduler.blocks_in_use

    before = look()
    for prompt, how, words in (
        ([1] * 10, {"max_new_tokens": 20}, "can need 8 blocks of 4 tokens and there are 6"),
        ([7], {}, "target's ids"),
        ([1], {"max_new_tokens": -1}, "max_new_tokens"),
        ([1], {"gamma": -1}, "gamma"),
        ("text", {}, "tokenizer"),
        ([[1], [2]], {}, "prompt"),
    ):
        with pytest.raises(sd.InvalidInput, match=words):
            scheduler.submit(prompt, GREEDY, **how)
        assert look() == before
    other = sd.Scheduler(engine, max_batch=2, blocks=8)
    with pytest.raises(sd.InvalidInput, match="another scheduler"):
        other.cancel(kept)
    assert kept.state == "live"
    after = submit(scheduler, Ask([3]))
    assert (after.number, after.name) == (1, "request 1")
    drain(scheduler)
    other.cancel(kept)
    for wrong in ({"max_batch": 0}, {"blocks": 0}, {"chunk": 0}):
        with pytest.raises(sd.InvalidInput):
            sd.Scheduler(engine, **wrong)


@pytest.mark.parametrize("keep", [0, 1, 3, None])
def test_a_timeline_that_keeps_the_last_steps(keep: int | None, tmp_path: Path) -> None:
    engine = table_engine()
    whole, some = (sd.Scheduler(engine, max_batch=2, blocks=40, keep=kept) for kept in (None, keep))
    for scheduler in (whole, some):
        for ask in requests(7)[:5]:
            submit(scheduler, ask, name="x" * 3)
        scheduler.run()
    full, part = whole.timeline(), some.timeline()
    count = len(full.steps) if keep is None else keep
    for kept, right in zip(part.steps, full.steps[len(full.steps) - count :], strict=True):
        assert (kept.index, kept.rows, kept.published) == (right.index, right.rows, right.published)
    assert (part.names, part.prompts) == (("xxx",) * 5, tuple(len(ask.prompt) for ask in requests(7)[:5]))
    assert sd.Timeline.load(part.save(tmp_path / "t.json")) == part
    assert len(part.to_table().splitlines()) == 5


def test_seconds_of_an_interrupted_step_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that moves at each look: the steps' seconds add up to the whole, interrupted ones too."""
    clock = itertools.count()
    monkeypatch.setattr("specdec_teach.scheduler.perf_counter", lambda: float(next(clock)))
    subject = table_engine()
    scheduler = sd.Scheduler(subject, max_batch=2, blocks=20)
    submit(scheduler, Ask([1]))
    heard = itertools.count(1)

    def act(event: Any) -> None:
        if next(heard) == 6:
            raise KeyboardInterrupt

    subject.observers.append(Ear(act))
    with pytest.raises(KeyboardInterrupt):
        scheduler.run()
    scheduler.run()
    spent = sum(step.seconds for step in scheduler.timeline().steps)
    assert all(step.seconds > 0 for step in scheduler.timeline().steps)
    assert spent <= next(clock)


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


def test_the_pool_is_never_asked_for_more_than_it_has() -> None:
    """γ larger than the whole pool: what does not fit is not drafted, and the text is whole."""
    engine = table_engine(gamma=30)
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=4)
    asks = [Ask([row + 1] * 3, GREEDY, 13) for row in range(3)]
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    for request, ask in zip(got, asks, strict=True):
        same(request.result, alone(engine, ask), freely=True)


def test_a_live_watch_sees_no_wrong_in_preempted_and_shared_requests() -> None:
    """Debug mode and an observer that checks: chunks, preemption and adopted blocks break no invariant."""
    subject = table_engine(debug=True)
    watch = sd.invariants.Watch()
    subject.observers.append(watch)
    scheduler = sd.Scheduler(subject, max_batch=4, blocks=9, chunk=3)
    asks = [Ask([1, 2, 3, 4, 5, 6, 0][: 2 + row], sd.Sampling(seed=row), 16) for row in range(6)]
    got = [submit(scheduler, ask) for ask in asks]
    drain(scheduler)
    assert all(sd.invariants.check(request.trace) == [] for request in got)
    assert any(row.state == "preempted" for step in tells(scheduler, got).steps for row in step.rows)


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
