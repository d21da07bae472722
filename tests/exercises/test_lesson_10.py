"""Lesson 10's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_10 import Clock, best, flags


def stub(*given: Any) -> None:
    """Still to be written."""


def estimate(cycles: list[list[bool]]) -> float | None:
    stood = fell = 0
    for cycle in cycles:
        for flag in cycle:
            if not flag:
                fell += 1
                break
            stood += 1
    return stood / (stood + fell) if stood + fell else None


def naive(cycles: list[list[bool]]) -> float | None:
    every = [flag for cycle in cycles for flag in cycle]
    return sum(every) / len(every) if every else None


def first_only(cycles: list[list[bool]]) -> float | None:
    first = [cycle[0] for cycle in cycles if cycle]
    return sum(first) / len(first) if first else None


def sums_flags(cycles: list[list[bool]]) -> float | None:
    stood, fell = sum(map(sum, cycles)), sum(not all(cycle) for cycle in cycles)
    return stood / (stood + fell) if stood + fell else None


def zero_for_none(cycles: list[list[bool]]) -> float:
    return estimate(cycles) or 0.0


def divides(cycles: list[list[bool]]) -> float:
    stood = sum(next((k for k, flag in enumerate(cycle) if not flag), len(cycle)) for cycle in cycles)
    return stood / (stood + sum(not all(cycle) for cycle in cycles))


def speed_up(alpha: float, c: float, cost: float, gamma: int) -> float:
    return sum(alpha**k for k in range(gamma + 1)) / (cost + gamma * c)


def chooser(low: int, high: int, cost: Callable[[list[float], int], float]) -> Callable[..., int]:
    def choose(alpha: float, c: float, v: list[float]) -> int:
        return max(range(low, len(v) + high), key=lambda gamma: speed_up(alpha, c, cost(v, gamma), gamma))

    return choose


right_gamma = chooser(0, 0, lambda v, gamma: v[gamma])


def with_quotient(alpha: float, c: float, v: list[float]) -> int:
    return max(range(len(v)), key=lambda k: (1 - alpha ** (k + 1)) / (1 - alpha) / (v[k] + k * c))


@pytest.mark.parametrize(
    ("name", "answer"),
    [(f"10.{number}", answer) for number in range(1, 5) for answer in (None, ...)] + [("10.1", stub), ("10.4", stub)],
)
def test_blank_is_not_attempted(name: str, answer: Any) -> None:
    assert judge(name, answer).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("10.1", naive, "nobody judged"),
        ("10.1", first_only, "should be 0.5, not 1"),
        ("10.1", sums_flags, "whatever its flag says"),
        ("10.1", zero_for_none, "should be None"),
        ("10.1", divides, "divides by zero"),
        ("10.1", lambda cycles: cycles[9], "IndexError"),
        ("10.1", 0.5, "a function is wanted"),
        ("10.2", (2.3616, 1.968), "one token more"),
        ("10.2", (4.2, 3.5), "a power of α"),
        ("10.2", (3.3616, 3.3616 / 1.05), "not one"),
        ("10.2", (3.3616, 16.808), "target's forward"),
        ("10.2", (3.36, 3.36), "divide by what the cycle costs"),
        ("10.2", 3.36, "something else"),
        ("10.2", (1, 2, 3), "two numbers"),
        ("10.3", 0.48, "not 1"),
        ("10.3", 0.6, "bound for v = 1"),
        ("10.3", 0.86, "together"),
        ("10.3", "cheap", "something else"),
        ("10.4", chooser(1, 0, lambda v, gamma: v[gamma]), "α is below c"),
        ("10.4", chooser(0, 0, lambda v, gamma: 1.0), "the rows are not free"),
        ("10.4", chooser(0, -1, lambda v, gamma: v[gamma]), "only γ up to 3"),
        ("10.4", chooser(0, 1, lambda v, gamma: v[min(gamma, len(v) - 1)]), "should be"),
        ("10.4", with_quotient, "divides by zero"),
        ("10.4", lambda alpha, c, v: 4, "should be 8, not 4"),
        ("10.4", lambda alpha, c, v: 8.0 if alpha == 0.8 else 4.5, "whole number"),
    ],
)
def test_mistakes_get_their_case(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [("10.1", estimate), ("10.2", (3.36, 2.80)), ("10.3", 0.43), ("10.4", right_gamma)],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_the_engine_s_flags_give_alpha_back() -> None:
    for gamma in (1, 4):
        found = estimate(flags(gamma, 2000))
        assert found == pytest.approx(0.6, abs=0.05)  # 1200 judged drafts at least: four standard errors are 0.057
    assert naive(flags(6, 2000)) == pytest.approx(0.6 * (1 - 0.6**6) / 0.4 / 6, abs=0.03)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.3, 0.55, 0.8, 0.95])
@pytest.mark.parametrize("c", [0.02, 0.1, 0.4, 0.9])
def test_with_free_rows_it_pays_iff_alpha_is_above_c(alpha: float, c: float) -> None:
    assert (best(alpha, c, [1.0] * 30) > 0) == (alpha > c)


def test_best_gamma_by_hand() -> None:
    v = [1.0, 1.2, 1.3]  # alpha 0.5, c 0.1: 1, 1.5 / 1.3, 1.75 / 1.5
    assert best(0.5, 0.1, v) == 2
    assert best(0.5, 0.1, [1.0, 1.2, 1.4]) == 1


def test_a_clock_pays_once_and_slows_once() -> None:
    clock = Clock(first=10.0, hot_after=6.0, slow=2.0)
    assert [clock.run(4.0), clock.run(4.0), clock.run(4.0)] == [14.0, 6.0, 8.0]
    assert [Clock().run(3.0)] == [3.0]
