"""What a scheduler shows and refuses: pieces of text, the timeline's steps and seconds, requests that cannot be."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach import events

from .neighbours import (
    LOOSE,
    Ask,
    Ear,
    alone,
    drain,
    requests,
    same,
    submit,
    table_engine,
)

GREEDY = sd.Sampling.greedy()


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
