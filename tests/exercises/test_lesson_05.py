"""Lesson 05's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_05 import metered, step_log, with_cache

PAIR = sd.load_pair()
PROMPT = "Mira had a red lantern and"
STORY = sd.Sampling(temperature=0.8, seed=8)


def engine(cache: str = "contiguous") -> sd.Engine:
    return sd.Engine(
        PAIR.target, drafter=sd.ModelDrafter(PAIR.draft), tokenizer=PAIR.tokenizer, cache=cache, block_size=4
    )


def stub(*given: Any) -> None:
    """Still to be written."""


def stale(length: int, gamma: int, j: int) -> tuple[list[int], list[int]]:
    first = length - 1 + j
    return list(range(first, length + gamma)), list(range(first, length + gamma - 1))


def rewind(committed: int, proposed: int, emitted: int) -> tuple[int, int]:
    now = committed + emitted
    return now - 1, min(committed + proposed - 1, now - 1)


@pytest.mark.parametrize("name", ["05.1", "05.2", "05.3", "05.4"])
@pytest.mark.parametrize("blank", [..., None])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize("name", ["05.2", "05.3"])
def test_a_stub_is_not_attempted(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        (
            "05.1",
            ([25, 23, 24, 23], [25, 25, 24, 24]),
            "third draft falls: target, after is not 23: 23 tokens are comm",
        ),
        ("05.1", ([24, 22, 24, 22], [25, 25, 24, 24]), "it reads the pending token and every draft"),
        ("05.1", ([25, 22, 25, 22], [25, 25, 24, 24]), "the draft draws its last draft and never reads it"),
        ("05.1", ([25, 22, 24, 22], [25, 25, 24, 25]), "all five stand: draft, after is not 25: a rewind cannot raise"),
        ("05.1", ([25, 22, 24, 22], [25, 25, 24]), "all five stand should give 4 whole numbers, not 3"),
        ("05.1", [25, 22, 24, 22], "this has 4 parts"),
        ("05.1", (["a"], [1]), "third draft falls should give 4 whole numbers, not ['a']"),
        (
            "05.2",
            lambda L, g, j: (stale(L, g, j)[0][1:], stale(L, g, j)[1][1:]),
            "d3 itself lies in slot 9, and it was",
        ),
        (
            "05.2",
            lambda L, g, j: (stale(L, g, j)[0],) * 2,
            "the draft's stale slots are [9], not [9, 10]: the draft never",
        ),
        ("05.2", lambda L, g, j: stale(L + 1, g, j), "slots count from 0"),
        (
            "05.2",
            lambda L, g, j: stale(L, g, j)[0],
            "should give two lists, the target's slots and the draft's, not [9, 10]",
        ),
        ("05.2", lambda L, g, j: [stale(L, g, j)[0]], "should give two lists"),
        (
            "05.3",
            lambda L, g, e: (L + e, L + e),
            "(9, 9), yours (10, 10); 10 tokens are committed, and no model has read",
        ),
        (
            "05.3",
            lambda L, g, e: (L + e - 1, L + e - 1),
            "all four drafts stand: rewind(7, 4, 5): the engine's pointers",
        ),
        ("05.3", lambda L, g, e: (L + e - 1, L + e - 1), "the draft read up to d3 and cannot hold d4"),
        (
            "05.3",
            lambda L, g, e: (L + e - 1, L + e - 1 - (e >= g)),
            "the last of four drafts falls: rewind(7, 4, 4): the engine's pointers are (10, 10), yours (10, 9)",
        ),
        ("05.3", lambda L, g, e: L, "should give 2 whole numbers, not 7"),
        ("05.3", lambda L, g, e: 1 // 0, "raises ZeroDivisionError"),
        ("05.4", (4, "target", 23), "the target's pointer never rises"),
        ("05.4", (4, "q", 23), "the model is 'target' or 'draft', not 'q'"),
        ("05.4", (3, "draft", 19), "cycle 3 is not where it begins: both its pointers go where the rule says"),
        ("05.4", (8, "draft", 33), "cycle 8 is not where it begins: this comes from an earlier one"),
        ("05.4", (4, "draft", 24), "slot 24 is not the first that is not"),
        ("05.4", (4, "draft", 22), "slot 22 is one of them"),
        ("05.4", (4, "draft"), "a cycle, a model and a slot are wanted, not 2 things"),
        ("05.4", 23, "wants something else"),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("05.1", ([25, 22, 24, 22], [25, 25, 24, 24])),
        ("05.2", stale),
        ("05.3", rewind),
        ("05.4", (4, "draft", 23)),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_the_log_comes_from_a_broken_engine_and_the_honest_one_is_left_alone() -> None:
    assert [c.index for c in step_log() if c.draft_kv is not None and c.draft_kv.after > c.draft_kv.written] == [4, 8]
    trace = engine().generate(PROMPT, sd.Sampling.greedy(), max_new_tokens=28).trace
    assert trace is not None
    assert all(c.draft_kv is not None and c.draft_kv.after <= c.draft_kv.written for c in trace.cycles)
    assert [t for c in step_log() for t in c.emitted] == [t for c in trace.cycles for t in c.emitted]


def test_a_meter_counts_what_the_trace_says_was_read() -> None:
    for kind in ("contiguous", "selective", "recompute"):
        watched, meter = metered(engine(kind))
        trace = watched.generate(PROMPT, STORY, max_new_tokens=24).trace
        assert trace is not None
        passes = [c.target_kv.written for c in trace.cycles]
        prefill = len(trace.prompt) - 1
        again = [c.target_kv.before for c in trace.cycles if c.caught_up]
        assert (meter.read, meter.stale) == (prefill + sum(passes) + sum(again), 0)
        assert meter.copied == (trace.cycles[-1].target_kv.after if kind == "selective" else 0)
    assert again, "this run should have a rejection"


def test_a_masked_cache_reads_stale_slots_when_a_short_pass_follows_a_rejection() -> None:
    watched, meter = metered(engine("masked"))
    stream = watched.stream(PROMPT, STORY, max_new_tokens=24)
    stale_slots, rejected = 0, 0
    for cycle in stream:
        stale_slots += 0 if cycle.proposed else max(0, rejected - 1)
        rejected = cycle.target_kv.written - cycle.target_kv.after
        stream.fits = 0 if cycle.proposed else None
    assert meter.stale == stale_slots > 0


def test_with_cache_leaves_the_engine_as_it_was() -> None:
    honest = engine()
    made: list[Any] = []
    around = with_cache(honest, lambda cache: made.append(cache) or cache)
    honest.generate(PROMPT, STORY, max_new_tokens=4)
    assert not made
    around.generate(PROMPT, STORY, max_new_tokens=4)
    assert len(made) == 1
