"""Lesson 03's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

import math
from typing import Any

import pytest

from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises import judge
from specdec_teach.exercises.laws import engine_with, first_token, model_of

EXERCISES = ("03.1", "03.2", "03.3", "03.4", "03.5", "03.6")


def stub(*given: Any) -> None:
    """Still to be written."""


def top(row: list[float]) -> int:
    return row.index(max(row))


def greedy(rows: list[list[float]], drafts: list[int]) -> list[int]:
    kept = next((k for k in range(len(drafts)) if drafts[k] != top(rows[k])), len(drafts))
    return [*drafts[:kept], top(rows[kept])]


def last_of_ties(rows: list[list[float]], drafts: list[int]) -> list[int]:
    def last(row: list[float]) -> int:
        return max(range(len(row)), key=lambda token: (row[token], token))

    kept = next((k for k in range(len(drafts)) if drafts[k] != last(rows[k])), len(drafts))
    return [*drafts[:kept], last(rows[kept])]


def goes_on(rows: list[list[float]], drafts: list[int]) -> list[int]:
    return [top(row) for row in rows]


def accept_all(rows: list[list[float]], drafts: list[int]) -> list[int]:
    return [*drafts, top(rows[-1])]


def left(p: list[float], q: list[float]) -> list[float]:
    return [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]


def scaled(parts: list[float]) -> list[float]:
    return [part / sum(parts) for part in parts]


def correction(p: list[float], q: list[float]) -> list[float]:
    return scaled(left(p, q)) if sum(left(p, q)) > 0 else p


def largest(p: list[float], q: list[float]) -> list[float]:
    rest = left(p, q)
    return [float(part == max(rest)) for part in rest] if max(rest) > 0 else p


def one_hot(q: list[float]) -> list[float]:
    return [float(token == top(q)) for token in range(len(q))]


def filtered(law: list[float], k: int) -> list[float]:
    return scaled([chance if chance >= sorted(law)[-k] else 0.0 for chance in law])


def masked_by_p(p: list[float], q: list[float], k: int) -> tuple[list[float], list[float]]:
    kept = filtered(p, k)
    return kept, scaled([b if a > 0 else 0.0 for a, b in zip(kept, q, strict=True)])


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("blank", [..., None, stub])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("03.1", lambda r, d: greedy(r, d)[:-1], "should be [1, 0], not [1]: one token always follows"),
        ("03.1", last_of_ties, "two tokens share the top, and then the lowest id"),
        ("03.1", goes_on, "should be [1], not [1, 0]: nothing may follow a correction"),
        ("03.1", accept_all, "should be [1], not [2, 0]: draft 1 is not its row's favourite"),
        ("03.2", lambda u, p, q: u < p / q, "raises ZeroDivisionError"),
        ("03.2", lambda u, p, q: u * q <= p, "accepts(u=0.5, p=0.2, q=0.4) should be False: u·q equals p here"),
        ("03.2", lambda u, p, q: p >= q, "accepts(u=0.5, p=0.3, q=0.5) should be True: p < q makes it uncertain"),
        ("03.2", lambda u, p, q: u < p, "accepts(u=0.9, p=0.3, q=0.2) should be True: the target likes it more"),
        ("03.2", lambda u, p, q: u * q < p or q == 0, "0 < 0 is false"),
        ("03.2", lambda u, p, q: q > 0 and u < p / q, "q may be reported as 0 after rounding"),
        ("03.3", lambda p, q: p, "should be [1, 0, 0], not [0.6, 0.3, 0.1]: this is p again"),
        ("03.3", lambda p, q: [a - b for a, b in zip(p, q, strict=True)], "a probability below 0 cannot be drawn"),
        ("03.3", lambda p, q: scaled([abs(a - b) for a, b in zip(p, q, strict=True)]), "q offered enough of gets 0"),
        ("03.3", left, "these are the right parts and they sum to 0.4; scale them to 1"),
        ("03.3", lambda p, q: scaled(left(p, q)), "ZeroDivisionError"),
        ("03.3", largest, "should be [0.667, 0.333, 0, 0], not [1, 0, 0, 0]"),
        ("03.3", lambda p, q: [math.nan] * len(p), "holds nan"),
        ("03.3", lambda p, q: [1.0], "should have 3 numbers, one for each token, not 1"),
        ("03.4", lambda p, q: sum(a * b for a, b in zip(p, q, strict=True)), "how often two separate draws agree"),
        ("03.4", lambda p, q: 1 - sum(abs(a - b) for a, b in zip(p, q, strict=True)), "counts every difference twice"),
        ("03.4", lambda p, q: sum(max(a, b) for a, b in zip(p, q, strict=True)), "not what both have"),
        (
            "03.4",
            lambda p, q: sum(min(1, a / b) for a, b in zip(p, q, strict=True)) / len(p),
            "should be 0.6, not 0.644444: tokens are not drafted equally often",
        ),
        ("03.5", lambda q: q, "With [0.2, 0.5, 0.3] the engine emits [0.4, 0.6, 0] where the target"),
        ("03.5", lambda q: [1.0] * len(q), "should be probabilities that sum to 1"),
        ("03.5", lambda q: one_hot(q[::-1])[::-1], "should be [1, 0, 0]: the drafter proposes 0 every time"),
        ("03.6", lambda p, q, k: (p, q), "p should be [0.571, 0.429, 0, 0], not [0.4, 0.3, 0.2, 0.1]"),
        ("03.6", lambda p, q, k: (filtered(p, k), q), "the engine emits [0.396, 0.604, 0, 0] where the target"),
        ("03.6", masked_by_p, "q should be [0, 0.538, 0.462, 0], not [0.222, 0.778, 0, 0]"),
        ("03.6", lambda p, q, k: filtered(p, k), "should give two distributions"),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("03.1", greedy),
        ("03.2", lambda u, p, q: u * q < p),
        ("03.3", correction),
        ("03.4", lambda p, q: sum(map(min, p, q))),
        ("03.5", one_hot),
        ("03.6", lambda p, q, k: (filtered(p, k), filtered(q, k))),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_a_rule_of_two_functions_agrees_with_the_engine() -> None:
    p, q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]
    for gamma in (1, 2):
        drafter = ModelDrafter(model_of(q))
        ours = engine_with(
            model_of(p),
            drafter,
            lambda p, q, d: min(1.0, p[d] / q[d]),
            lambda p, q, d: left(p, q),
            gamma=gamma,
        )
        assert first_token(ours) == pytest.approx(p, abs=1e-12)
        assert first_token(ours) == pytest.approx(first_token(Engine(model_of(p), drafter=drafter, gamma=gamma)))
        assert not next(ours.stream([0])).degenerate_residual


@pytest.mark.parametrize(
    ("chance", "redraw", "law"),
    [
        (lambda p, q, d: min(1.0, p[d] / q[d]), lambda p, q, d: p, [0.44, 0.42, 0.14]),
        (lambda p, q, d: float(p[d] >= q[d]), lambda p, q, d: p, [0.68, 0.24, 0.08]),
    ],
)
def test_laws_of_known_mistakes(chance: Any, redraw: Any, law: list[float]) -> None:
    engine = engine_with(model_of([0.6, 0.3, 0.1]), ModelDrafter(model_of([0.2, 0.5, 0.3])), chance, redraw)
    assert first_token(engine) == pytest.approx(law, abs=1e-12)
