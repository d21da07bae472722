"""Cycles on a tape and cycles the general way are one: tokens, counters, pointers, draw numbers, caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.graphs import Graphs
from specdec_teach.graphs.board import Board
from specdec_teach.graphs.cycle import Graphs as Cycles
from specdec_teach.stream import Stream

from .cases import SAMPLINGS, assert_alike, engine, told
from .tape import Tape

RULES = ("rejection", "coupled")


def graphs_of(made: sd.Engine) -> Graphs:
    assert made.graphs is not None
    return made.graphs


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("rule", RULES)
def test_a_text_is_the_same_text(rule: str, noise: float, sampling: str) -> None:
    """Two requests one after the other on one tape, drafts of every quality; whole traces agree."""
    ours, theirs = (engine(tape, rule=rule, noise=noise) for tape in (Tape(), None))
    ran, met = 0, set()
    for prompt, cap in (([1, 2, 3], 24), ([9], 12)):
        found, right = (it.generate(prompt, SAMPLINGS[sampling], max_new_tokens=cap) for it in (ours, theirs))
        assert found.tokens == right.tokens
        assert_alike(told(found), told(right))
        assert right.trace is not None
        for cycle in right.trace.cycles:
            ran += cycle.gamma == 3 or cycle.gamma in met
            met.add(cycle.gamma)
    assert (graphs_of(ours).cycles, graphs_of(ours).why) == (ran, None)


@pytest.mark.parametrize("mode", ["sample", "argmax"])
def test_every_number_of_accepted_drafts_is_met(mode: str) -> None:
    """Rejections at each draft, and all accepted, so that the draft catches up by two tokens."""
    accepted: set[int] = set()
    for seed in range(4):
        ours, theirs = (engine(tape, noise=0.05 + 0.1 * (seed % 2), mode=mode) for tape in (Tape(), None))
        found, right = (
            it.generate([5, 6], sd.Sampling(seed=seed, temperature=0.6), max_new_tokens=50) for it in (ours, theirs)
        )
        assert_alike(told(found), told(right))
        assert found.trace is not None
        accepted |= {cycle.accepted for cycle in found.trace.cycles if len(cycle.proposed) == 3}
        assert graphs_of(ours).cycles > 8
    assert accepted == {0, 1, 2, 3}


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_plain_decoding(sampling: str) -> None:
    """Without a drafter: the target over one token, and the verdict."""
    ours, theirs = (engine(tape) for tape in (Tape(), None))
    given: dict[str, Any] = {"max_new_tokens": 12, "speculate": False}
    found, right = (it.generate([1, 2], SAMPLINGS[sampling], **given) for it in (ours, theirs))
    assert_alike(told(found), told(right))
    assert graphs_of(ours).cycles == 12


def test_both_caches_hold_what_the_general_way_holds() -> None:
    """After every cycle, everything that must not count spoilt."""
    streams = [
        engine(tape, noise=0.15).stream([1, 2, 3], sd.Sampling(seed=4), max_new_tokens=40) for tape in (Tape(), None)
    ]
    for _ in zip(*streams, strict=True):
        for name in ("cache", "draft"):
            mine, other = (getattr(stream.sequence, name) for stream in streams)
            assert mine.pointer == other.pointer
            for left, right in zip(mine.contents(), other.contents(), strict=True):
                assert torch.allclose(left[0], right[0], atol=1e-5)
                assert torch.allclose(left[1], right[1], atol=1e-5)
            mine.poison()
    assert streams[0].result().tokens == streams[1].result().tokens
    assert graphs_of(streams[0].engine).cycles > 5


def test_stops_and_the_end_of_the_context() -> None:
    """A token that ends the text in the middle of accepted drafts; a context that is full."""
    plain = engine(None, noise=0.0).generate([1, 2], sd.Sampling.greedy(), max_new_tokens=20).tokens
    ending = sd.Sampling(temperature=0.0, seed=0, eos_token_id=plain[9])
    target, draft = sd.testing.tiny_llama(context=40), sd.testing.tiny_llama(noise=0.05, context=40)
    for given, sampling, cap, reason in (
        ({"noise": 0.0}, ending, 20, "eos"),
        ({"target": target, "draft": draft}, sd.Sampling(seed=1), 100, "context"),
    ):
        tape = Tape()
        found, right = (engine(it, **given).generate([1, 2], sampling, max_new_tokens=cap) for it in (tape, None))
        assert found.finish_reason == reason
        assert_alike(told(found), told(right))
        assert tape.replays > 0


def test_a_request_changes_from_one_way_to_the_other() -> None:
    """Now here, now there, at any cycle: the same text."""
    right = engine(None, noise=0.15).generate([1, 2], sd.Sampling(seed=8), max_new_tokens=40)
    made = engine(Tape(), noise=0.15)
    graphs, stream = graphs_of(made), made.stream([1, 2], sd.Sampling(seed=8), max_new_tokens=40)
    for number, _ in enumerate(stream):
        made.graphs = graphs if number % 3 else None
    assert stream.result().tokens == right.tokens
    assert 0 < graphs.cycles < right.stats.cycles


def test_two_requests_in_turn_share_one_memory() -> None:
    """Who has to leave takes a copy along, and its records were not touched."""
    made, other = engine(Tape(), noise=0.15), engine(None, noise=0.15)
    pair = [made.stream([n, 2], sd.Sampling(seed=n), max_new_tokens=24) for n in (1, 2)]
    for _ in range(24):
        for stream in pair:
            next(stream, None)
    for n, stream in zip((1, 2), pair, strict=True):
        right = other.generate([n, 2], sd.Sampling(seed=n), max_new_tokens=24)
        assert_alike(told(stream.result()), told(right))
    assert graphs_of(made).cycles > 10


def test_an_interrupt_anywhere_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two replays, before the copy, after the verdict: the next step goes on as if nothing had happened."""
    right = engine(None, noise=0.15).generate([1, 2], sd.Sampling(seed=8), max_new_tokens=30)
    for place in range(6):
        tape = Tape()
        made = engine(tape, noise=0.15)
        stream = made.stream([1, 2], sd.Sampling(seed=8), max_new_tokens=30)
        honest, calls = {"mark": tape.mark, "fetch": tape.fetch, "judge": Stream.judge}, [0]

        def late(
            name: str, *given: Any, calls: list[int] = calls, place: int = place, honest: Any = honest, **more: Any
        ) -> Any:
            calls[0] += 1
            if calls[0] == 14 + place:
                raise KeyboardInterrupt
            return honest[name](*given, **more)

        for name in ("mark", "fetch"):
            monkeypatch.setattr(Tape, name, lambda tape, *given, name=name: late(name, *given))
        monkeypatch.setattr(Stream, "judge", lambda *given, **more: late("judge", *given, **more))
        with pytest.raises(KeyboardInterrupt):
            stream.finish()
        monkeypatch.undo()
        assert_alike(told(stream.finish()), told(right))


def test_one_copy_a_cycle_and_none_to_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once everything is recorded: the host reads what was fetched and nothing else, and writes the board once."""
    written = []
    honest = Board.write
    monkeypatch.setattr(Board, "write", lambda *given: (written.append(1), honest(*given))[1])
    for rule in RULES:
        tape = Tape()
        made = engine(tape, rule=rule, noise=0.15)
        made.debug = False
        given: dict[str, Any] = {"max_new_tokens": 30, "trace": False}
        whole = [made.generate([1, 2], sd.Sampling(seed=8), **given) for _ in range(2)][1]
        recorded, fetched, before = tape.recorded, tape.fetched, graphs_of(made).cycles
        honest_way = Cycles.work_out

        def watched(graphs: Any, stream: Any, plan: Any, tape: Tape = tape, way: Any = honest_way) -> Any:
            with tape.watched():
                return way(graphs, stream, plan)

        monkeypatch.setattr(Cycles, "work_out", watched)
        written.clear()
        again = made.generate([1, 2], sd.Sampling(seed=8), **given)
        monkeypatch.setattr(Cycles, "work_out", honest_way)
        assert again.tokens == whole.tokens
        assert tape.recorded == recorded  # draft over 1 and 2, draw, target, verdict; the last two again for a short γ
        assert tape.fetched - fetched == graphs_of(made).cycles - before == again.stats.cycles > 5
        assert len(written) == 2  # when it came, once before and once after nothing had to be recorded


def test_other_seeds_draw_other_tokens_from_one_record() -> None:
    """Seeds, numbers, lengths and tokens are no part of what was recorded."""
    tape = Tape()
    ours, theirs = engine(tape), engine(None)
    texts = set()
    for seed in range(6):
        sampling = sd.Sampling(seed=seed * 2**61)
        found, right = (it.generate([1 + seed] * (1 + seed), sampling, max_new_tokens=20) for it in (ours, theirs))
        assert found.tokens == right.tokens
        texts.add(found.tokens)
    assert len(texts) == 6
    assert tape.recorded <= 5 + 2 * 3, "one record of each shape: γ of 3, 2, 1 and 0"
