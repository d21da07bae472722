"""Lesson 01's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from specdec_teach.exercises import judge

EXERCISES = ("01.1", "01.2", "01.3", "01.4")


def stub(*given: Any) -> None:
    """Still to be written."""


def favourites(forward: Any, committed: list[int], guesses: list[int]) -> list[int]:
    said: list[int] = forward(committed + guesses).argmax(-1).tolist()
    return said[len(committed) - 1 :]


def agreeing(forward: Any, committed: list[int], guesses: list[int]) -> int:
    said = favourites(forward, committed, guesses)
    return next((k for k, guess in enumerate(guesses) if guess != said[k]), len(guesses))


def all_agreeing(forward: Any, committed: list[int], guesses: list[int]) -> int:
    said = favourites(forward, committed, guesses)
    return sum(guess == token for guess, token in zip(guesses, said, strict=False))


def one_row_late(forward: Any, committed: list[int], guesses: list[int]) -> int:
    said = favourites(forward, committed, guesses)[1:]
    return next((k for k, guess in enumerate(guesses) if guess != said[k]), len(guesses))


def one_by_one(forward: Any, committed: list[int], guesses: list[int]) -> int:
    kept = 0
    while kept < len(guesses) and int(forward(committed + guesses[:kept])[-1].argmax()) == guesses[kept]:
        kept += 1
    return kept


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("blank", [..., None, stub])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    wanted = "wrong" if name == "01.1" and blank is stub else "not attempted"
    assert judge(name, blank).status == wanted


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("01.1", (8, 0.16), "does not read 8 GB: that is the number of weights, and each has 2 bytes"),
        ("01.1", (16e9, 0.32), "that is in bytes; a GB is 10⁹ of them"),
        ("01.1", (2, 0.04), "2 bytes each, not 2 bits"),
        ("01.1", (32, 0.64), "every weight is read once"),
        ("01.1", (16, 3.125), "16 GB at 50 GB per second do not take 3.125: that is how many passes fit"),
        ("01.1", (16, 800), "divide GB by GB per second"),
        ("01.1", (16,), "two numbers are wanted"),
        ("01.1", 16, "wants something else"),
        ("01.2", lambda p, b, w, t: p * b / w, "not 0.28: that is the time of a pass, and it yields 3.5 tokens"),
        ("01.2", lambda p, b, w, t: p * b / w * t, "more tokens per pass mean less time for each"),
        ("01.2", lambda p, b, w, t: w * t / p / b, "should be 0.32, not 3.125: that is tokens per second"),
        ("01.2", lambda p, b, w, t: p / w / t, "a weight has 2 bytes"),
        ("01.2", lambda p, b, w, t: p * b // w, "should be 0.32, not 0"),
        ("01.3", lambda b, w, f: f / w, "should be 20, not 10: that is FLOPs per byte"),
        ("01.3", lambda b, w, f: b * f / w, "should be 10, not 20: each weight takes two FLOPs"),
        ("01.3", lambda b, w, f: f / (2 * w), "should be 10, not 5: a weight has 2 bytes"),
        ("01.3", lambda b, w, f: 2 * w / (b * f), "upside down"),
        ("01.3", lambda b, w, f: 7.0, "should be 10, not 7: at your T a weight takes 4e-11 to read and 2.8e-11"),
        ("01.3", lambda b, w, f: math.nan, "should be 10, not nan"),
        ("01.4", all_agreeing, "should be 1, not 3: guess 2 is not its row's favourite, and the rows behind it"),
        ("01.4", lambda f, c, g: agreeing(f, c, g) + 1, "not the token that the target adds"),
        ("01.4", one_row_late, "the row of the last committed token judges the first guess"),
        ("01.4", one_by_one, "agreeing(forward, [3], [4, 5, 6]) is right, and took 3 passes"),
        ("01.4", lambda f, c, g: 9, "should be 3, not 9: the rows' favourites are [4, 5, 6, 7]"),
        ("01.4", lambda f, c, g: f(1), "(<function forward>, [3], [4, 5, 6]) raises TypeError"),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("01.1", (16, 0.32)),
        ("01.1", [16.0, 16 / 50]),
        ("01.2", lambda p, b, w, t: p * b / (w * t)),
        ("01.3", lambda b, w, f: b * f / 2 / w),
        ("01.3", lambda b, w, f: b * f // (2 * w)),
        ("01.4", agreeing),
        ("01.4", lambda f, c, g: torch.tensor(agreeing(f, c, g))),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message
