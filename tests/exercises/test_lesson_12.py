"""Lesson 12's judges: blank is not attempted, usual mistakes meet a fact against them, solutions are right."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.checking.oracle import Fresh
from specdec_teach.exercises import judge
from specdec_teach.exercises.suspects import (
    CRAFTED,
    INCIDENTS,
    PROMPT,
    THOUGHT_OF,
    THOUGHTS,
    TWELVE,
    base,
    dice,
    incident,
    leaky,
    loaded_dice,
    record,
)
from specdec_teach.noise import StreamId

ACCUSED = {
    "engine_b": ("residual", 1),
    "engine_c": ("draft-lag", 0),
    "engine_e": ("rows", 0),
    "engine_g": ("acceptance", 4),
    "engine_j": ("published-committed", 0),
    "engine_l": ("draft-lag", 4),
    "engine_m": ("computed-behind-committed", 0),
    "engine_n": ("drawn-from-q", 12),
}
CLEAN = {"engine_d": "ends", "engine_f": "greedy", "engine_h": "penalties", "engine_i": "chi-square"}
LEAKS = {"red": (1, 13), "green": None, "blue": (3, 15)}
PROOFS = {"red": [1, 2, 3, 4], "blue": [1]}


def pointer_is_fine(cycle: sd.Cycle) -> bool:
    kv = cycle.draft_kv
    if kv is None:
        return True
    lag = cycle.committed_after - kv.after
    return (
        kv.after <= kv.written and lag >= 1 and (not cycle.proposed or lag <= (2 if cycle.last_kind == "bonus" else 1))
    )


def quick(engine: sd.Engine) -> bool:
    return all(sd.check(engine, [name]).ok for name in ("runs", "ends", "penalties", "greedy"))


def my_test(engine: sd.Engine) -> bool:
    return quick(engine) and dice(engine)[1] > 1e-4


def needed(p: list[float], wrong: list[float]) -> float:
    each = sum((b - a) ** 2 / a for a, b in zip(p, wrong, strict=True))
    return 30 / each if each > 1e-12 else math.inf


def stub(*given: Any) -> None:
    """Still to be written."""


def crashes(engine: sd.Engine) -> bool:
    raise KeyError("runs")


@pytest.mark.parametrize("name", [f"12.{number}" for number in range(1, 9)])
@pytest.mark.parametrize("blank", [..., None])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize("name", ["12.1", "12.5", "12.6"])
def test_a_stub_is_not_attempted(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


def never(engine: sd.Engine) -> bool:
    return False


def always(thing: object) -> bool:
    return True


def audits_the_noise(engine: sd.Engine) -> bool:
    """Whether draft and correction draw different tokens from one law: an honest coupled engine does not."""
    noise, flat_V = engine.parts.noise(engine.rule, sd.Sampling(seed=1), 1), torch.full((50,), 0.02)
    streams = list(StreamId)
    return any(noise.draw(streams[0], n, flat_V) != noise.draw(streams[-1], n, flat_V) for n in range(5))


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("12.1", always, "a run whose draft is rewound too far: you call cycle 4 (1 of 4 drafts stood, L ="),
        ("12.1", lambda c: c.committed_after - c.draft_kv.after <= 2, "raises AttributeError"),
        (
            "12.1",
            lambda c: c.draft_kv is None or c.committed_after - c.draft_kv.after == 1,
            "an honest run: you call cycle 0 (4 of 4 drafts stood, L = 12) broken",
        ),
        ("12.2", {}, "none of them?"),
        ("12.2", {"engine_q": ("rows", 0)}, "engine_q is not one of the twelve"),
        ("12.2", {"d": ("nothing-after-stop", 0)}, "engine_d: its record breaks no invariant, in any of its"),
        ("12.2", {"engine_b": ("acceptance", 1)}, "acceptance is not the first that breaks; it holds in every cycle"),
        ("12.2", {"engine_g": ("residual", 4)}, "it does break in cycle 6, but not first"),
        ("12.2", {"engine_b": ("residual", 2)}, "residual does not break first in cycle 2: it breaks there too, and"),
        ("12.2", {"engine_b": ("residual", 0)}, "it holds there"),
        ("12.2", {"engine_b": "residual"}, "the name of an invariant and a cycle are wanted, not 'residual'"),
        ("12.2", {"engine_b": ("residual", 1)}, "these 1 are right; 7 more records accuse their engines"),
        ("12.2", ["engine_b"], "a dictionary is wanted"),
        ("12.3", {"engine_b": "laws"}, "its own record accuses it"),
        ("12.3", {"engine_d": "greedy"}, "engine_d passes the section 'greedy'"),
        ("12.3", {"engine_i": "laws"}, "engine_i passes the section 'laws'"),
        ("12.3", {"engine_d": "eos"}, "a section of sd.check is wanted"),
        ("12.3", {"engine_d": "ends"}, "1 right so far; 3 more engines have clean records"),
        ("12.4", {"engine_b": "M"}, "a letter from A to L is wanted"),
        ("12.4", {"engine_b": "K"}, "1 of 12 are right, the others are missing: engine_c"),
        ("12.4", {"engine_c": "E"}, "0 of 12 are right. engine_c is not E: an engine with that thought passes"),
        ("12.5", always, "score 0/12, no false alarm; your test lets pass engine_b"),
        ("12.5", never, "score 0/12: a false alarm. The honest engine under the rejection rule"),
        ("12.5", audits_the_noise, "score 0/12: a false alarm. The honest engine under the coupled rule"),
        ("12.5", crashes, "raises KeyError"),
        ("12.6", lambda p, w: 30 / sum((b - a) ** 2 for a, b in zip(p, w, strict=True)), "divide each square by what"),
        ("12.6", lambda p, w: min(needed(p, w), 1e9), "is not 1e+09: the laws are equal"),
        ("12.6", lambda p, w: 1000, "is about 281, not 1000"),
        ("12.7", {"red": (1, 13)}, "nothing is said about green"),
        ("12.7", LEAKS | {"green": (0, 11)}, "green: every slot that is counted or offered was read"),
        ("12.7", LEAKS | {"red": None}, "red: something did leak"),
        ("12.7", LEAKS | {"blue": (0, 11)}, "nothing was rejected in cycle 0"),
        ("12.7", LEAKS | {"blue": (2, 14)}, "cycle 2 counts and offers only slots below"),
        ("12.7", LEAKS | {"red": (3, 21)}, "cycle 3 leaks, but it is not the first"),
        ("12.7", LEAKS | {"red": (1, 12)}, "Position 12 holds what was read as text"),
        ("12.7", LEAKS | {"red": (1, 14)}, "Position 14 is not counted by anybody"),
        ("12.7", LEAKS | {"red": (99, 14)}, "there is no cycle 99"),
        ("12.8", {"red": [1, 2, 3, 4]}, "nothing is said about blue"),
        ("12.8", PROOFS | {"blue": [1, 2]}, "blue: forced at 2 the first cycle leaks nothing, where L′ = 9"),
        ("12.8", PROOFS | {"red": [1]}, "red: forced at 2 it leaks too, where L′ = 9"),
        ("12.8", 1, "a dictionary with red and blue is wanted"),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("12.1", pointer_is_fine),
        ("12.2", ACCUSED),
        ("12.3", CLEAN),
        ("12.3", CLEAN | {"engine_f": "laws", "engine_h": "greedy"}),
        ("12.4", THOUGHT_OF),
        ("12.6", needed),
        ("12.7", LEAKS),
        ("12.8", PROOFS),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


@cache
def twelve_of_twelve() -> str:
    return judge("12.5", my_test).message


def test_the_solution_finds_all_twelve() -> None:
    assert twelve_of_twelve() == "score 12/12, and no false alarm under any of three exact rules"


def test_without_dice_one_engine_gets_away() -> None:
    assert judge("12.5", quick).message == "score 11/12, no false alarm; your test lets pass engine_i"


def test_every_pair_of_thoughts_is_told_apart_and_no_message_says_the_answer() -> None:
    assert len(set(THOUGHT_OF.values())) == len(THOUGHTS) == len(TWELVE) == 12
    for name in TWELVE:
        for letter in THOUGHTS:
            if letter == THOUGHT_OF[name]:
                continue
            outcome = judge("12.4", {name: letter})
            assert outcome.status == "wrong"
            assert f"{name} is not {letter}: an engine with that thought" in outcome.message
            assert not any(thought in outcome.message for thought in THOUGHTS.values())


@pytest.mark.parametrize("name", TWELVE)
def test_records_are_of_runs_that_went_to_their_end(name: str) -> None:
    trace = record(name)
    assert trace.finish_reason is not None
    assert sum(len(cycle.emitted) for cycle in trace.cycles) >= 40


@pytest.mark.parametrize(("name", "leaks"), [("red", True), ("green", False)])
def test_what_the_log_says_of_the_pointer_is_true_of_the_keys(name: str, leaks: bool) -> None:
    stream = leaky(name).stream(PROMPT, sd.Sampling(temperature=0.8, seed=3), max_new_tokens=16, reject_at=2)
    next(stream)
    delta, where = Fresh(base().target_runner, stream.sequence.tokens).distance(stream.sequence.cache)
    assert (delta > 0.01) == leaks, (delta, where)


@pytest.mark.parametrize(("position", "leaks"), [(1, True), (2, False), (3, False), (4, False)])
def test_a_second_request_meets_blue_s_leak(position: int, leaks: bool) -> None:
    engine, how = leaky("blue"), sd.Sampling(temperature=0.8, seed=3)
    pool = engine.new_pool()
    first = engine.open(PROMPT, how, max_new_tokens=16, reject_at=position, pool=pool)
    next(first)
    tokens = list(first.sequence.tokens)
    second = engine.open([*tokens, 5, 6], how, max_new_tokens=4, pool=pool)
    adopted = second.sequence.cache.adopt([*tokens, 5, 6])
    assert adopted >= 4
    delta, _ = Fresh(engine.target_runner, [*tokens, 5, 6]).distance(second.sequence.cache)
    assert (delta > 0.01) == leaks


def test_logs_are_of_one_prompt_and_differ() -> None:
    logs = {name: incident(name) for name in INCIDENTS}
    assert all(cycles[0].committed_before == 7 for cycles in logs.values())
    assert all(cycle.blocks is not None and cycle.blocks.size == 4 for cycles in logs.values() for cycle in cycles)


@pytest.mark.parametrize(("make", "seen"), [(lambda e: e, False), (loaded_dice, True)], ids=["honest", "loaded"])
def test_dice_on_the_crafted_law(make: Callable[[sd.Engine], sd.Engine], seen: bool) -> None:
    shares, chance = dice(make(base()))
    assert len(shares) == len(CRAFTED[0])
    assert sum(shares) == pytest.approx(1.0)
    assert (chance < 1e-4) == seen
