"""The scheduler: every request is what it is alone, nobody overtakes, and blocks are shared, lost and found again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach.request import Request

from ..checks import same_as_fresh
from .neighbours import (
    LOOSE,
    RULES,
    TARGET,
    Ask,
    alone,
    contiguous,
    drain,
    llama_engine,
    requests,
    same,
    shrunk,
    sound,
    submit,
    table_engine,
    tells,
)

GREEDY = sd.Sampling.greedy()


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
    got: list[Request] = []
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


def test_equal_tokens_behind_another_beginning_are_not_shared() -> None:
    """A block is known by all tokens before it too: its keys and values depend on them."""
    engine = llama_engine()
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=40)
    known, other, common = [1, 2, 3, 4], [9, 8, 7, 6], [5, 5, 6, 6]
    for prompt in ([*known, *common, 1], [*other, *[20] * 4, 1]):
        submit(scheduler, Ask(prompt, GREEDY, 1))
    drain(scheduler)
    ask = Ask([*other, *common, 1], GREEDY, 8)
    probe = submit(scheduler, ask)
    drain(scheduler)
    same(probe.result, alone(engine, ask), LOOSE)
    assert probe.trace.prefill is not None
    assert probe.trace.prefill.adopted == 4


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
        assert any(cycle.gamma == 5 for cycle in request.trace.cycles[less.index(True) :])


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
