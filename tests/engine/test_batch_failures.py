"""Rows that fail, drafters that stumble and observers that raise: the other rows of a batch do not notice."""

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

from .neighbours import (
    TABLE_NEAR,
    Ask,
    Ear,
    alone,
    peaked,
    requests,
    same,
    table_engine,
    together,
)

GREEDY = sd.Sampling.greedy()


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
