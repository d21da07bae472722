"""Every suite runs on tiny models, and reports what it should; no time is ever judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.bench import ours, peers, setting
from specdec_teach.bench.race import Pace
from specdec_teach.bench.records import Candidate, Report
from specdec_teach.bench.setting import Options
from specdec_teach.bench.suites import find, rollback, shares
from specdec_teach.bench.suites.verify import race_over
from specdec_teach.bench.task import Task, agreement, work
from specdec_teach.caches import BlockPool, new_cache
from specdec_teach.hf import ModelRunner

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
IDS = [3, 1, 4, 1, 5]


def tokenizer(text: str) -> Any:
    return SimpleNamespace(input_ids=[ord(letter) % 64 for letter in text[:24]])


TINY = sd.Pair(TARGET, NEAR, tokenizer)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The suites load the tiny pair, and a pair without a draft model where one is asked for."""

    def load(target: str | None, draft: str | None, *, dtype: str | None, tokenizers: str) -> sd.Pair:
        if dtype == "bfloat16":
            narrow = (sd.testing.tiny_llama(noise=noise).to(torch.bfloat16) for noise in (0.0, 0.08))
            return sd.Pair(*narrow, tokenizer)
        return TINY if target is None else sd.Pair(TARGET, None, tokenizer)

    monkeypatch.setattr(setting, "load_pair", load)


def suite(name: str, **options: Any) -> Report:
    return find(name)(Options(rounds=2, quick=True, **options), lambda line: None)


def names(report: Report) -> dict[str, set[str]]:
    return {race.name: {one.name for one in race.candidates} for race in report.races}


def test_speed() -> None:
    """All peers are there, the texts agree, and everybody made every token."""
    report = suite("speed")
    model = {
        "plain",
        "speculative γ=4",
        "speculative auto",
        "speculative +2/−1",
        "transformers plain",
        "transformers assisted γ=4",
    }
    found = names(report)
    assert model <= found["greedy"] == found["T=0.8"]
    assert [check.holds for check in report.checks] == [True]
    for race in report.races:
        assert len(race.rounds) == 2
        assert {count for one in race.rounds for count in one.units.values()} == {16}
    pairs = {(one.candidate, one.baseline) for one in report.races[0].comparisons}
    assert {
        ("speculative γ=4", "plain"),
        ("plain", "transformers plain"),
        ("speculative γ=4", "transformers assisted γ=4"),
        ("speculative auto", "plain"),
        ("speculative auto", "speculative γ=4"),
        ("speculative +2/−1", "speculative γ=4"),
    } <= pairs
    assert report.meta.dtype == "float32"
    for count in report.counts:
        assert count.values["accepted"] + count.values["cycles"] == count.values["emitted"] == 16


def test_a_narrow_race_is_checked_wide_as_well() -> None:
    report = suite("speed", dtype="bfloat16")
    assert report.meta.dtype == "bfloat16"
    assert [check.name for check in report.checks] == ["greedy texts, float32", "greedy texts, bfloat16"]
    assert report.checks[0].holds


def test_speed_without_a_draft_model() -> None:
    report = suite("speed", target="no draft")
    lookup = {
        "plain",
        "n-gram γ=4",
        "n-gram auto",
        "n-gram +2/−1",
        "transformers plain",
        "transformers prompt lookup γ=4",
    }
    assert names(report) == {"copying, greedy": lookup, "copying, T=0.8": lookup}
    assert report.checks[0].holds


@pytest.mark.parametrize("target", [None, "no draft"])
def test_drafters(target: str | None) -> None:
    """Everybody has a turn on each kind of prompt, at one γ, and what is told is within its bounds."""
    report = suite("drafters", target=target)
    everybody = set(sd.drafters_for(TINY if target is None else sd.Pair(TARGET, None, tokenizer)))
    assert all(check.holds for check in report.checks)
    *kinds, long = report.races
    assert [race.name for race in kinds] == ["story", "copying", "list"]
    assert {one.name.split(",")[0] for one in long.candidates} == {"ngram", "retrieval"}
    assert long.name == "looking up behind 32,768 tokens"
    for race in kinds:
        planned = {fare.drafter: fare for fare in report.fares if fare.race == race.name and fare.gamma is None}
        fares = {fare.drafter: fare for fare in report.fares if fare.race == race.name and fare.gamma is not None}
        assert fares.keys() == planned.keys() == everybody
        told = {f"{n} γ={f.gamma}": f for n, f in fares.items()} | {f"{n} auto": f for n, f in planned.items()}
        assert {one.name for one in race.candidates} == {"plain", *told}
        assert len({count for one in race.rounds for count in one.units.values()}) == 1
        ratios = {one.candidate: one.ratio for one in race.comparisons if one.baseline == "plain"}
        planned_beside = {one.candidate: one.baseline for one in race.comparisons if one.baseline != "plain"}
        assert planned_beside == {f"{n} auto": f"{n} γ={fare.gamma}" for n, fare in fares.items()}
        for name, fare in told.items():
            assert fare.gamma in (2, 4, None)
            assert ratios[name] == fare.ratio > 0
            assert 1.0 <= fare.tokens_per_forward <= 1 + (fare.gamma or 12)
            assert fare.alpha is None or 0.0 <= fare.alpha <= 1.0
            assert 0.0 <= fare.draft_share < 1.0
        if target is None:
            assert fares["model"].tokens_per_forward > 1.2
            assert fares["model"].draft_share > fares["ngram"].draft_share
    assert any("retrieval: from what the target said" in note for note in report.notes)


def test_a_fare_is_arithmetic_on_its_requests() -> None:
    """α leaves drafts behind an end out; drafting is a share of all seconds."""
    from specdec_teach.bench.figures import compare
    from specdec_teach.bench.records import Race, Round
    from specdec_teach.bench.suites import drafters
    from specdec_teach.trace import Seconds

    entry = drafters._Entry(sd.Engine(TARGET), 2, [], Task(4, 0.0))
    entry.stats = [
        sd.Stats(cycles=2, drafted=4, accepted=1, emitted=3, stop_cut=2, seconds=Seconds(1.0, 2.0, 0.5, 0.5)),
        sd.Stats(cycles=2, drafted=4, accepted=2, emitted=5, seconds=Seconds(1.0, 2.0, 0.5, 0.5)),
    ]
    rounds = (Round({"plain": 6.0, "x γ=2": 3.0}, {"plain": 3, "x γ=2": 3}),)
    found = entry.fare("x", Race("story", "token", (), rounds, (compare(rounds, "x γ=2", "plain"),)))
    assert (found.alpha, found.tokens_per_forward) == (0.5, 2.0)
    assert (found.draft_share, found.microseconds, found.ratio) == (0.25, 5e5, 2.0)
    entry.stats = [sd.Stats(cycles=2, emitted=2, seconds=Seconds(0.0, 1.0, 0.0, 0.0))]
    assert entry.fare("x", Race("s", "token", (), rounds, (compare(rounds, "x γ=2", "plain"),))).alpha is None


@pytest.mark.parametrize("target", [None, "no draft"])
def test_recorder_and_shares(target: str | None) -> None:
    """All three ways run the same cycles; parts of a cycle add up to it."""
    for one in suite("recorder", target=target).races[0].rounds:
        assert len(set(one.units.values())) == 1
    for race in suite("shares", target=target).races:
        for one in race.rounds:
            spent = one.seconds
            assert spent["forwards"] == pytest.approx(spent["target forwards"] + spent["draft forwards"])
            parts = spent["forwards"] + spent["verify"] + spent["the rest"]
            assert parts == pytest.approx(spent["cycle"])
            assert 0 < spent["target forwards"] < spent["cycle"]
            assert (spent["draft forwards"] > 0) is (target is None)


@pytest.mark.parametrize("target", [None, "no draft"])
def test_idle(target: str | None) -> None:
    """With a drafter and γ = 0 as many tokens are made as without one, and the two are held to 3 %."""
    report = suite("idle", target=target)
    assert [race.name for race in report.races] == ["greedy", "T=0.8"]
    for race in report.races:
        assert [one.name for one in race.candidates] == ["no drafter", "γ=0"]
        assert race.comparisons[0].tolerance == 0.03
        assert all(len(set(one.units.values())) == 1 for one in race.rounds)


@pytest.mark.parametrize("target", [None, "no draft"])
def test_planner(target: str | None) -> None:
    """Every drafter of chains on each kind of prompt; all plans make the tokens that were asked for; trees are not."""
    report = suite("planner", target=target)
    drafters = sd.drafters_for(sd.Pair(TARGET, None if target else NEAR, tokenizer))
    names = [name for name, one in drafters.items() if not hasattr(one, "nodes")]
    wanted = []
    for one in (f"{name}, {kind}" for name in names for kind in ("story", "copying", "list")):
        wanted += [one, f"{one}, in earnest"] if one.startswith("model,") else [one]
    assert [race.name for race in report.races] == wanted
    assert [check.name for check in report.checks] == [f"auto, {name}" for name in wanted]
    for race, check in zip(report.races, report.checks, strict=True):
        earnest = race.name.endswith("in earnest")
        fixed = ["plain", *(f"drafts γ={gamma}" for gamma in ((1, 2, 4, 8) if earnest else range(1, 9)))]
        assert [one.name for one in race.candidates] == [*fixed, "drafts auto", *([] if earnest else ["drafts +2/−1"])]
        counts = [count for one in race.rounds for count in one.units.values()]
        assert set(counts) == {16 * 2 * 2} if earnest else min(counts) >= 16 * 2 * 2
        ratios = {one.baseline: one.ratio for one in race.comparisons if one.candidate == "drafts auto"}
        assert list(ratios) == fixed
        assert check.holds == (min(ratios.values()) >= 0.95 and ratios["plain"] >= 0.97)
        assert check.detail.startswith(f"{min(ratios.values()):.3f} ×")


def test_a_clocked_runner_is_let_go() -> None:
    """Forwards are clocked while it is asked for, and not a moment longer."""
    runner = ModelRunner(TARGET, "target")
    honest = runner.forward_rows
    with shares._clocked(runner) as spent:
        runner.forward(runner.new_cache(4), [1, 2], 1)
    assert spent.seconds > 0
    before = spent.seconds
    runner.forward(runner.new_cache(4), [1, 2], 1)
    assert (spent.seconds, runner.forward_rows) == (before, honest)


def test_growth() -> None:
    curves = {curve.name: curve for curve in suite("growth").curves}
    assert set(curves) == {
        "a forward by its positions",
        "a token by its context",
        "speed by γ",
        "a token by the size of its batch",
        "judging by the vocabulary",
    }
    for curve in curves.values():
        for points in curve.series.values():
            assert [place.x for place in points] == sorted({place.x for place in points})
            assert all(place.median > 0 for place in points)
    assert curves["a forward by its positions"].series["target"][0].median == 1.0


def test_verify() -> None:
    """Each case happens before it is timed."""
    race, checks = race_over(500, Pace(2), turns=1)
    assert all(check.holds for check in checks)
    assert {one.baseline for one in race.comparisons} == {"softmax"}
    assert len(race.comparisons) == 6


@pytest.mark.parametrize("layout", ["contiguous", "paged", "masked"])
def test_what_a_rollback_does_is_independent_of_the_context(layout: str) -> None:
    """No tensor is touched; blocks are given back by how much is rejected, never by how much is kept."""
    seen = set()
    for length in (128, 1024):
        cache = new_cache(layout, length, BlockPool(length // 16, size=16) if layout == "paged" else None)
        cache.reserve(length)
        cache.write(0, torch.zeros(1, 1, length, 4), torch.zeros(1, 1, length, 4))
        cache.advance(length)
        seen.add(tuple(tuple(rollback.counts(cache, back).items()) for back in (1, 16, 40)))
        assert cache.pointer == length
    (found,) = seen
    assert [dict(one)["operations"] for one in found] == [0, 0, 0]
    assert [dict(one)["blocks"] for one in found] == ([0, 1, 2] if layout == "paged" else [0, 0, 0])
    assert [dict(one)["stale"] for one in found] == ([0, 15, 39] if layout == "masked" else [0, 0, 0])


def test_rollback_recomputes_are_seen() -> None:
    """The counter does count: compacting a cache moves tensors."""
    cache = new_cache("contiguous", 8)
    cache.write(0, torch.zeros(1, 1, 8, 4), torch.zeros(1, 1, 8, 4))
    cache.advance(8)
    with rollback._Operations() as operations:
        cache.compact(2, [3, 5])
    assert operations.seen > 0


def test_peers_leave_everything_as_it_was() -> None:
    """Settings of both models and the global random state are restored, also when a call fails."""
    target, assistant = TARGET.generation_config.to_dict(), NEAR.generation_config.to_dict()
    state = torch.random.get_rng_state()
    task = Task(6, 0.8)
    decoders = [peers.plain(TARGET, task), peers.assisted(TARGET, NEAR, task, 3), peers.lookup(TARGET, task, 3, 3)]
    for decode in decoders:
        first = decode(IDS, 1)
        assert len(first) == 6
        assert decode(IDS, 1) == first
        assert decode(IDS, 2) != first
    with pytest.raises(IndexError):
        decoders[1]([-1], 0)
    assert TARGET.generation_config.to_dict() == target
    assert NEAR.generation_config.to_dict() == assistant
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_assistant_drafts_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """γ forwards of the draft for each of the target, call after call: the length neither grows nor shrinks."""
    counts = {"target": 0, "draft": 0}
    twin = sd.testing.tiny_llama()
    for name, model in (("target", TARGET), ("draft", twin)):
        honest = model.forward

        def forward(*args: Any, name: str = name, honest: Any = honest, **kwargs: Any) -> Any:
            counts[name] += 1
            return honest(*args, **kwargs)

        monkeypatch.setattr(model, "forward", forward)
    decode = peers.assisted(TARGET, twin, Task(25, 0.0), 4)
    for _ in range(2):  # a draft that is its target is always right: five tokens a cycle
        counts.update(target=0, draft=0)
        assert len(decode(IDS, 0)) == 25
        assert counts == {"target": 5, "draft": 20}


def test_nothing_ends_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """All go on behind an end-of-sequence token that the models' settings name."""
    plain = ours.decode(sd.Engine(TARGET), Task(12, 0.0), 0)(IDS, 0)
    monkeypatch.setattr(TARGET.generation_config, "eos_token_id", plain[3])
    monkeypatch.setattr(NEAR.generation_config, "eos_token_id", plain[3])
    task = Task(12, 0.0)
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR))
    for decode in (
        ours.decode(engine, task, 4),
        peers.plain(TARGET, task),
        peers.assisted(TARGET, NEAR, task, 4),
        peers.lookup(TARGET, task, 4, 3),
    ):
        assert decode(IDS, 0) == plain


def test_texts_that_part_are_told() -> None:
    right, wrong = (lambda ids, seed: (1, 2, 3)), (lambda ids, seed: (1, 2, 4))
    entries = {Candidate("plain", "ours"): right, Candidate("other", "ours"): wrong}
    found = agreement("stories", entries, [IDS, IDS], "float32", "plain")
    assert not found.holds
    assert found.detail == "other parts from plain at new token 2 of prompt 1"
    assert "legal in bfloat16" in agreement("stories", entries, [IDS], "bfloat16", "plain").detail


def test_work_counts_new_tokens() -> None:
    assert work(lambda ids, seed: (0,) * seed, [IDS, IDS])(3).units == 6
