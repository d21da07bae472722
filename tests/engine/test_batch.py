"""Batches: every row is what it is alone, whoever its neighbours are and whatever becomes of them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach import rounds
from specdec_teach.caches import KINDS
from specdec_teach.drafters.base import Proposal
from specdec_teach.stream import Stream

from ..checks import same_as_fresh
from .neighbours import (
    LOOSE,
    NEAR,
    RULES,
    TABLE,
    TABLE_NEAR,
    TARGET,
    Ask,
    Ear,
    alone,
    llama_engine,
    peaked,
    requests,
    same,
    table_engine,
    together,
)

GREEDY = sd.Sampling.greedy()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_over_tables_are_exactly_what_they_are_alone(kind: str, rule: str) -> None:
    """float64, the whole prefix read out of the cache: results and traces are equal, not only near."""
    engine, asks = table_engine(cache=kind, verify=rule), requests(7)
    for row, ask in zip(together(engine, asks), asks, strict=True):
        same(row, alone(engine, ask))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_llama_are_what_they_are_alone(kind: str, rule: str) -> None:
    """float32: tokens, counts and pointers are equal, probabilities agree to the last bits of a wider product."""
    engine, asks = llama_engine(cache=kind, verify=rule), requests(64)
    for row, ask in zip(together(engine, asks), asks, strict=True):
        same(row, alone(engine, ask), LOOSE)


@pytest.mark.parametrize("kind", ["contiguous", "paged", "masked"])
def test_rows_with_texts_stops_and_grammars(pair: sd.Pair, kind: str) -> None:
    """The embedded pair: prompts as text, stop strings inside a block, a grammar, an end token, logprobs."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, cache=kind)
    digits = sd.Grammar.regex(r" (one|two|three) (cats|dogs)( and more)*\.")
    asks = [
        Ask("Once upon a time", GREEDY, 16),
        Ask("Mira", sd.Sampling(seed=2, stop=("e", "."), logprobs=2), 16),
        Ask("Mira counted", sd.Sampling(temperature=0, grammar=digits), 12),
        Ask("A", sd.Sampling(seed=3, stop=("the ",), frequency_penalty=0.3), 20, 6),
        Ask("The dog and the cat", sd.Sampling(seed=4, grammar=digits, temperature=0.8), 12, 2),
    ]
    rows = together(engine, asks)
    for row, ask in zip(rows, asks, strict=True):
        same(row, alone(engine, ask), LOOSE)
    assert {row.finish_reason for row in rows} >= {"stop", "length"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_does_not_matter(kind: str) -> None:
    engine, asks = table_engine(cache=kind), requests(7)
    first = together(engine, asks)
    for order in ([8, 0, 4, 2, 6, 1, 3, 7, 5], list(reversed(range(9)))):
        for row, at in zip(together(engine, [asks[at] for at in order]), order, strict=True):
            same(row, first[at])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_accept_none_two_and_four(kind: str) -> None:
    """Prompts of 1, 5 and 9 tokens whose drafts are right up to another place in each row: no common rollback fits."""
    prompts = [[3], [1, 2, 3, 4, 5], [(at * 7) % 64 for at in range(9)]]
    plain = [llama_engine().generate(p, GREEDY, max_new_tokens=40, speculate=False).tokens for p in prompts]

    kept = {0: 0, 1: 2, 2: 4}

    def script(committed: list[int], count: int) -> list[int]:
        row = next(at for at, prompt in enumerate(prompts) if committed[: len(prompt)] == prompt)
        start = len(committed) - len(prompts[row])
        ahead = plain[row][start : start + count]
        return [token if at < kept[row] else (token + 1) % 64 for at, token in enumerate(ahead)]

    engine = llama_engine(cache=kind)
    rows = engine.variant(drafter=sd.ScriptedDrafter(script)).generate(prompts, GREEDY, max_new_tokens=20)
    for row, right in enumerate(plain):
        assert rows[row].tokens == right[:20]
        assert rows[row].trace is not None
        full = [cycle for cycle in rows[row].trace.cycles if len(cycle.proposed) == 4]
        assert len(full) > 2
        assert {cycle.accepted for cycle in full} == {kept[row]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [GREEDY, sd.Sampling(seed=4)], ids=["greedy", "sampled"])
def test_forced_rejections_beside_rows_that_are_not_forced(kind: str, sampling: sd.Sampling) -> None:
    """Another place in each row, some rows free; the caches answer like a fresh prefill after every cycle."""
    engine, places = llama_engine(cache=kind), (1, None, 4, 0, 2, None)
    prompts = [[row + 1] * (1 + 3 * row) for row in range(len(places))]
    pool = engine.new_pool()
    streams = [
        engine.open(prompt, sampling, max_new_tokens=10, reject_at=at, row=row, pool=pool)
        for row, (prompt, at) in enumerate(zip(prompts, places, strict=True))
    ]
    while rounds.run([stream for stream in streams if stream.goes_on]):
        for stream in streams:
            if kind != "recompute":
                same_as_fresh(TARGET, stream.sequence.tokens, stream.sequence.cache, 1e-5)  # type: ignore[arg-type]
            same_as_fresh(NEAR, stream.sequence.tokens, stream.sequence.draft, 1e-5)  # type: ignore[arg-type]
    for stream, prompt, at in zip(streams, prompts, places, strict=True):
        same(stream.result(), engine.generate(prompt, sampling, max_new_tokens=10, reject_at=at), LOOSE)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_batch_whose_rows_are_all_forced(at: int) -> None:
    engine = table_engine()
    prompts = [[1], [2, 3, 4], [5] * 6]
    for row, prompt in zip(engine.generate(prompts, GREEDY, max_new_tokens=9, reject_at=at), prompts, strict=True):
        same(row, engine.generate(prompt, GREEDY, max_new_tokens=9, reject_at=at))


def test_a_row_whose_draft_is_full() -> None:
    """A draft of 16 positions beside a target of 40: one row leaves it, another never does, a third starts beyond."""
    target, draft = sd.testing.tiny_llama(context=40), sd.testing.tiny_llama(context=16, noise=0.05)
    engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=4)
    asks = [Ask([1] * 10, GREEDY, 20), Ask([2] * 3, sd.Sampling(seed=1), 9), Ask([3] * 25, GREEDY, 30), Ask([4] * 40)]
    rows = together(engine, asks)
    for row, ask in zip(rows, asks, strict=True):
        same(row, alone(engine, ask), LOOSE)
    assert [row.finish_reason for row in rows] == ["length", "length", "context", "context"]
    assert rows[2].stats.drafted == 0 < rows[0].stats.drafted


def test_seeds_alone_together_reordered_and_beside_an_aborted_row() -> None:
    """A row with a seed never changes; two without one differ; equal seeds are equal."""
    engine, prompt = llama_engine(), [1, 2, 3]
    asks = [Ask(prompt, sd.Sampling(seed=1)), Ask(prompt, sd.Sampling()), Ask(prompt, sd.Sampling(seed=2))]
    right = [alone(engine, ask) for ask in asks]
    for order in itertools.permutations(range(3)):
        for row, at in zip(together(engine, [asks[at] for at in order]), order, strict=True):
            if at != 1:
                same(row, right[at], LOOSE)
    free = together(engine, [asks[1]] * 3)
    assert len({row.tokens for row in free}) > 1
    twins = together(engine, [asks[0], asks[1], asks[0]])
    assert twins[0].tokens == twins[2].tokens
    for stop_after in (1, 2):
        streams = [engine.open(a.prompt, a.sampling, max_new_tokens=a.cap, row=r) for r, a in enumerate(asks)]
        for _ in range(stop_after):
            rounds.run(streams)
        del streams[1]
        while rounds.run([stream for stream in streams if stream.goes_on]):
            pass
        same(streams[0].result(), right[0], LOOSE)
        same(streams[1].result(), right[2], LOOSE)


def _open(engine: sd.Engine, asks: list[Ask]) -> list[Stream]:
    pool = engine.new_pool()
    return [
        engine.open(a.prompt, a.sampling, max_new_tokens=a.cap, gamma=a.gamma, row=row, pool=pool)
        for row, a in enumerate(asks)
    ]


def nan_from(length: int) -> Any:
    def processor(ids: Tensor, logits: Tensor) -> Tensor:
        return logits * math.nan if ids.shape[1] >= length else logits

    return processor


def raises_from(length: int) -> Any:
    def processor(ids: Tensor, logits: Tensor) -> Tensor:
        if ids.shape[1] >= length:
            raise ValueError("no more")
        return logits

    return processor


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("processor", "words"), [(nan_from, "not numbers"), (raises_from, "no more")])
@pytest.mark.parametrize("gamma", [0, 3])
def test_a_row_that_fails_fails_alone(kind: str, processor: Any, words: str, gamma: int) -> None:
    """Its error is raised when the others have been settled; they go on and end as they would have alone."""
    engine = table_engine(cache=kind)
    bad = Ask([5, 5], sd.Sampling(seed=9, processors=(processor(8),)), 60, gamma)
    asks = [Ask([1], GREEDY, 20), bad, Ask([2, 3, 4], sd.Sampling(seed=3), 22, 2), Ask([6] * 7, GREEDY, 18, 1)]
    with pytest.raises(sd.EngineFailure, match=words):
        together(engine, asks)
    streams, failures = _open(engine, asks), []
    while True:
        try:
            if not rounds.run([stream for stream in streams if stream.goes_on and stream.error is None]):
                break
        except sd.EngineFailure as error:
            failures.append(error)
    assert failures == [streams[1].error]
    assert words in str(failures[0])
    assert streams[1].finish_reason is None
    for at in (0, 2, 3):
        same(streams[at].result(), alone(engine, asks[at]))


def test_a_target_that_gives_no_numbers_for_one_history() -> None:
    """NaN rows of the model itself: the error names the cycle, the neighbours are untouched."""
    honest = peaked(3)

    def broken(prefix: tuple[int, ...]) -> Tensor:
        return torch.full((7,), math.nan, dtype=torch.float64) if prefix[0] == 5 and len(prefix) > 6 else honest(prefix)

    engine = sd.Engine(sd.testing.TabularLM(broken), drafter=sd.ModelDrafter(TABLE_NEAR), gamma=3)
    asks = [Ask([1]), Ask([5, 1]), Ask([2, 3])]
    with pytest.raises(sd.EngineFailure, match="cycle"):
        together(engine, asks)
    streams = _open(engine, asks)
    while live := [stream for stream in streams if stream.goes_on and stream.error is None]:
        try:
            rounds.run(live)
        except sd.EngineFailure:
            assert live[1] is streams[1]
    right = table_engine()
    same(streams[0].result(), alone(right, asks[0]))
    same(streams[2].result(), alone(right, asks[2]))


class Flaky:
    """The honest drafter, failing as a whole whenever `bad` is among the rows it is asked about."""

    def __init__(self, bad: int, *, every: bool) -> None:
        self.inner = sd.ModelDrafter(TABLE_NEAR)
        self.bad, self.every, self.numbers = bad, every, list[tuple[int, int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(self, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
        """Draft, and throw it away where the bad row is asked about together with others, or always."""
        found = self.inner.propose(sequences, counts)
        rows = [sequence.row for sequence in sequences]
        if self.bad in rows and (self.every or len(rows) > 1):
            raise sd.EngineFailure("the drafter stumbled")
        self.numbers += [
            (s.row, s.number + at) for s, p in zip(sequences, found, strict=True) for at in range(len(p.tokens))
        ]
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_asked_for_again_use_the_same_numbers(kind: str) -> None:
    """A drafter that fails for all of a batch is asked row by row: no number is skipped, no result differs."""
    engine, asks = table_engine(cache=kind), requests(7)
    flaky = Flaky(1, every=False)
    rows = together(engine.variant(drafter=flaky), asks)
    for row, ask in zip(rows, asks, strict=True):
        same(row, alone(engine, ask))
    assert len(set(flaky.numbers)) == len(flaky.numbers) > 20


def test_a_drafter_that_fails_for_one_row_fails_that_row() -> None:
    engine, asks = table_engine(), requests(7)
    streams = _open(engine.variant(drafter=Flaky(1, every=True)), asks)
    with pytest.raises(sd.EngineFailure, match="stumbled"):
        rounds.run(streams)
    assert [stream.error is not None for stream in streams] == [row == 1 for row in range(len(asks))]
    while rounds.run([stream for stream in streams if stream.goes_on and stream.error is None]):
        pass
    for row, (stream, ask) in enumerate(zip(streams, asks, strict=True)):
        if row != 1:
            same(stream.result(), alone(engine, ask))


def test_a_drafter_that_cannot_begin_fails_its_row_alone() -> None:
    """The draft's prefill raises for one row."""

    class Late(Flaky):
        def reset(self, sequence: Any, capacity: int) -> int:
            if sequence.row == 1:
                raise sd.EngineFailure("no room for a draft")
            return self.inner.reset(sequence, capacity)

    engine, asks = table_engine(), requests(7)
    streams = _open(engine.variant(drafter=Late(-1, every=False)), asks)
    with pytest.raises(sd.EngineFailure, match="no room for a draft"):
        rounds.run(streams)
    assert [stream.progress.stats.cycles for stream in streams][:3] == [1, 0, 1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("victim", range(3))
def test_an_error_while_one_row_is_settled(kind: str, victim: int) -> None:
    """Row 2 of 3 raises in the middle of settling: rows before it are settled, the others at the next call."""
    engine = table_engine(cache=kind)
    asks = [Ask([1], GREEDY), Ask([2, 3, 4], sd.Sampling(seed=3), 14, 2), Ask([6] * 7, sd.Sampling(seed=4), 9)]
    streams = _open(engine, asks)
    rounds.run(streams)
    broken, at, patch = streams[victim].sequence.cache, len(streams[victim].sequence.tokens), pytest.MonkeyPatch()
    honest = type(broken).publish

    def publish(self: Any, tokens: Any) -> None:
        if self is broken and len(tokens) > at:
            patch.undo()
            raise KeyboardInterrupt
        honest(self, tokens)

    patch.setattr(type(broken), "publish", publish)
    with pytest.raises(KeyboardInterrupt):
        rounds.run(streams)
    assert [stream.waits for stream in streams] == [row < victim for row in range(3)]
    while rounds.run([stream for stream in streams if stream.goes_on]):
        pass
    for stream, ask in zip(streams, asks, strict=True):
        same(stream.result(), alone(engine, ask))


@pytest.mark.parametrize("kind", KINDS)
def test_an_observer_that_raises_at_any_event_of_a_batch(kind: str) -> None:
    """At the n-th event of all, for every n up to the end of the third cycle: each row ends as alone."""
    asks = [Ask([1], GREEDY, 8), Ask([2, 3, 4], sd.Sampling(seed=3), 8, 2), Ask([6] * 7, sd.Sampling(seed=4), 0)]
    right = [alone(table_engine(cache=kind), ask) for ask in asks]
    for at in range(1, 40):
        engine, heard = table_engine(cache=kind), itertools.count(1)

        def act(event: Any, heard: Any = heard, at: int = at) -> None:
            if next(heard) == at:
                raise KeyboardInterrupt

        engine.observers.append(Ear(act))
        streams, interrupts = _open(engine, asks), 0
        while True:
            try:
                if not rounds.run([stream for stream in streams if stream.goes_on]):
                    break
            except KeyboardInterrupt:
                interrupts += 1
        assert interrupts == 1
        for stream, result in zip(streams, right, strict=True):
            same(stream.result(), result, resumed=True)


def test_seconds_of_rows_add_up_to_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that moves by one at each look, no second is given to two rows, and few are given to none."""
    clock = itertools.count()
    monkeypatch.setattr("specdec_teach.rounds.perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr("specdec_teach.stream.perf_counter", lambda: float(next(clock)))
    asks = [Ask([1], GREEDY, 24), Ask([2, 3, 4], sd.Sampling(seed=3), 24), Ask([6] * 7, sd.Sampling(seed=4), 24)]
    rows = together(table_engine(), asks)
    spent = 0.0
    for row in rows:
        assert row.trace is not None
        assert row.trace.prefill is not None
        spent += row.trace.prefill.seconds
        for cycle in row.trace.cycles:
            parts = (cycle.seconds.draft, cycle.seconds.target, cycle.seconds.verify, cycle.seconds.other)
            assert min(parts) >= 0
            spent += sum(parts)
    wall = next(clock)
    assert 0.5 * wall < spent <= wall


def test_what_a_batch_refuses() -> None:
    """Settings that do not fit the rows, and prompts that cannot be, before anything runs."""
    engine = llama_engine(cache="paged", blocks=6)
    with pytest.raises(sd.InvalidInput, match="3 entries for a batch of 2"):
        engine.generate([[1], [2]], GREEDY, gamma=[1, 2, 3])
    with pytest.raises(sd.InvalidInput, match="can need 8 blocks"):
        engine.generate([[1] * 4, [2] * 4], GREEDY, max_new_tokens=12)
    with pytest.raises(sd.InvalidInput, match="is 64; the target's ids"):
        engine.generate([[1], [64]], GREEDY, max_new_tokens=4)


def test_tables_are_not_the_only_ones() -> None:
    """A target that drafts for itself accepts everything, in every row of a batch."""
    engine = sd.Engine(TABLE, drafter=sd.ModelDrafter(TABLE), gamma=3)
    for row in together(engine, [Ask([1], GREEDY, 13), Ask([2] * 6, GREEDY, 9), Ask([3] * 4, GREEDY, 21)]):
        assert row.stats.accepted == row.stats.drafted > 0
