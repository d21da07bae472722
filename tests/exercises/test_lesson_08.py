"""Lesson 08: every judge says "not attempted", "wrong" with its counter-example, or "right"; and its own functions."""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.drafters.ngram import _Index
from specdec_teach.exercises import judge
from specdec_teach.exercises.laws import first_token, model_of
from specdec_teach.exercises.lesson_08 import TakesBack, estimate, look_up, shared_part

from ..checks import P4, Q4

NAMES = [f"08.{k}" for k in range(1, 6)]


def stub(*given: object) -> None:
    """Still to be written."""


@pytest.mark.parametrize("name", NAMES)
def test_blank(name: str) -> None:
    assert judge(name, ...).status == "not attempted"
    if name not in ("08.2", "08.5"):
        assert judge(name, stub).status == "not attempted"


def counted(cycles: Any) -> float:
    stood, fell = 1.0, 0.5
    for drafted, accepted, cut in cycles:
        stood, fell = stood + accepted, fell + (accepted < drafted and not cut)
    return stood / (stood + fell)


def first_place(tokens: list[int], count: int) -> list[int]:
    for size in range(min(3, len(tokens) - 1), 0, -1):
        for start in range(len(tokens) - size):
            if tokens[start : start + size] == tokens[-size:]:
                return (tokens + tokens[start + size :])[len(tokens) :][:count]
    return []


def itself(tokens: list[int], count: int) -> list[int]:
    return tokens[-1:] * count


def stops_at_the_end(tokens: list[int], count: int) -> list[int]:
    found = look_up(tokens, count)
    return found[:1] if tokens == [5, 5] else found


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("08.1", itself, "look_up([1, 2, 3, 1], 2) should be [2, 3]"),
        ("08.1", first_place, "the later one counts"),
        ("08.1", lambda tokens, count: look_up(tokens, count, 1), "a longer end that fits beats a later place"),
        ("08.1", lambda tokens, count: look_up(tokens, count, 2), "three tokens fit"),
        ("08.1", stops_at_the_end, "go on with what you drafted"),
        ("08.2", (0.6, 0.6), "Σ min(p, q)"),
        ("08.2", (0.9, 1.0), "its q is 1, not 0.5"),
        ("08.2", (0.9,), "two numbers"),
        ("08.3", lambda q, shared: [value if at in shared else 0.0 for at, value in enumerate(q)], "sums to 0.75"),
        ("08.3", lambda q, shared: q, "shared_part([0.5, 0.25, 0.25], [0, 2])"),
        ("08.3", lambda q, shared: [q[at] for at in shared], "should give 3 numbers"),
        ("08.4", lambda cycles: 0.5, "the prior alone"),
        (
            "08.4",
            lambda cycles: (1 + sum(k for _, k, _ in cycles)) / (1.5 + sum(n for n, _, _ in cycles)),
            "the fourth was never judged",
        ),
        ("08.4", lambda cycles: counted([(n, k, False) for n, k, _ in cycles]), "nobody was refused"),
        ("08.5", (8, 0), "γ = 8 is not the best at α = 0.6"),
        ("08.5", (2, 8), "the target's wider forward is on the bill"),
        ("08.5", (2,), "two numbers"),
    ],
)
def test_wrong(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong", outcome
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [("08.1", look_up), ("08.2", (0.9, 0.6)), ("08.3", shared_part), ("08.4", counted), ("08.5", (2, 0))],
)
def test_right(name: str, answer: Any) -> None:
    assert judge(name, answer).status == "right"


def test_the_lookup_is_the_engines() -> None:
    """Against the drafter's index, on texts that repeat themselves."""
    for seed in range(30):
        text = [(at * at + seed * at) % (3 + seed % 4) for at in range(2 + seed)]
        index = _Index(3, 1)
        index.follow(text)
        assert look_up(text, 5) == index.look_up(text, 5)


def test_what_is_taken_back_bends_the_law() -> None:
    """The control of the lesson fails as it must; with nothing to take back it is the honest drafter."""
    for least, exact in ((0.3, False), (0.0, True)):
        drafter: Any = TakesBack(sd.ModelDrafter(model_of(Q4)), least)
        law = first_token(sd.Engine(model_of(P4), drafter=drafter, gamma=2))
        assert (max(abs(a - b) for a, b in zip(law, P4, strict=True)) < 1e-12) is exact


def test_estimate_is_a_mean_of_counts() -> None:
    assert estimate([(4, 2, False), (3, 3, False), (2, 0, True)]) == pytest.approx((1 + 5) / (1.5 + 5 + 1))
