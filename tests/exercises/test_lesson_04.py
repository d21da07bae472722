"""Lesson 04: every judge says "not attempted", "wrong" with its counter-example, or "right"; and its enumeration."""

from __future__ import annotations

import math
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_04 import expected_accepted, picture, rule_law

from ..checks import P3, P4, Q3, Q4, logs, product_law, same_law, tabular

NAMES = [f"04.{k}" for k in range(1, 7)]
LATER = 6e5
"""Runs of the seeded experiment that the enumeration with a memory is compared with."""


def stub(*given: object) -> None:
    """Still to be written."""


def residual(p: Any, q: Any) -> list[float]:
    rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return [value / sum(rest) for value in rest]


def law(p: Any, q: Any, accept: Any, redraw: Any) -> list[float]:
    kept = [q_y * accept(p_y, q_y) for p_y, q_y in zip(p, q, strict=True)]
    return [stays + (1.0 - sum(kept)) * again for stays, again in zip(kept, redraw(p, q), strict=True)]


def whole_block(ratios: Any) -> tuple[float, float]:
    weight = 1.0
    for ratio in ratios:
        weight = min(1.0, weight * ratio)
    return math.prod(min(1.0, ratio) for ratio in ratios), weight


def accepted_only(p: Any, q: Any, accept: Any, redraw: Any) -> list[float]:
    kept = [q_y * accept(p_y, q_y) for p_y, q_y in zip(p, q, strict=True)]
    return [value / (sum(kept) or 1.0) for value in kept]


@pytest.mark.parametrize("name", NAMES)
def test_blank(name: str) -> None:
    assert judge(name, ...).status == "not attempted"
    if name not in ("04.3", "04.5"):
        assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("04.1", lambda p, q: [a - b for a, b in zip(p, q, strict=True)], "should be [1, 0], and yours gives [1, -1]"),
        ("04.1", lambda p, q: residual(q, p), "should be [1, 0], and yours gives [0, 1]"),
        (
            "04.1",
            lambda p, q: [max(a - b, 0.0) for a, b in zip(p, q, strict=True)],
            "residual([0.5, 0.5], [0.75, 0.25]) should be [0, 1], and yours gives [0, 0.25]",
        ),
        ("04.1", lambda p, q: p, "residual([0.5, 0.5], [0.75, 0.25]) should be [0, 1]"),
        (
            "04.1",
            lambda p, q: [float(value == max(residual(p, q))) for value in residual(p, q)],
            "should be [0.6667, 0.3333, 0, 0], and yours gives [1, 0, 0, 0]",
        ),
        ("04.1", lambda p, q: [1.0], "should give 2 numbers, and yours gives 1"),
        ("04.1", lambda p, q: 0.4, "should give 2 numbers, and yours gives 0.4"),
        ("04.2", accepted_only, "with a rule that accepts nothing"),
        ("04.2", lambda p, q, accept, redraw: p, "with a rule that accepts everything"),
        (
            "04.2",
            lambda p, q, accept, redraw: [accept(a, b) for a, b in zip(p, q, strict=True)],
            "law([0.5, 0.5], [0.75, 0.25], …) should be [0.75, 0.25], and yours gives [1, 1]",
        ),
        (
            "04.2",
            lambda p, q, accept, redraw: law(p, q, accept, lambda p, q: p),
            "with a rule that accepts nothing, law([0.5, 0.5], [0.75, 0.25], …) should be [0, 1]",
        ),
        ("04.3", (P3, Q3), "the residual is [1, 0, 0]: only one token can be drawn"),
        ("04.3", (P3, P3), "here p = q"),
        ("04.3", ([0.4, 0.4, 0.3], Q3), "p = [0.4, 0.4, 0.3] is not a distribution"),
        ("04.3", ([0.4, 0.35, 0.25], [0.3, 0.3, 0.4]), "the right kind; but the worst token"),
        ("04.3", (P4, Q4), "should give 3 numbers, and yours gives 4"),
        ("04.3", 5, "something else"),
        ("04.4", lambda p, bias, z: z * p * (1 - p) / bias**2, "runs_needed(0.5, 0.1, 2.0) should be 100"),
        ("04.4", lambda p, bias, z: z**2 * p / bias**2, "yours gives 200: after that many runs the standard error"),
        ("04.4", lambda p, bias, z: z * math.sqrt(p * (1 - p)) / bias, "and yours gives 10"),
        ("04.5", (2 / 3, 2 / 3), "u = 0.1 would draw token 0, but it never gets there"),
        ("04.5", (2 / 3, 2 / 3 - 0.2), "divide by all that reject it"),
        ("04.5", (0.4, 7 / 12), "a fresh number knows nothing of the draft"),
        ("04.5", (2 / 3, 0.5), "u = 0.5 rejects the draft"),
        ("04.5", 2 / 3, "should give 2 numbers"),
        (
            "04.6",
            lambda ratios: (whole_block(ratios)[0],) * 2,
            "whole_block([0.5, 2]) should be (0.5, 1), and yours gives (0.5, 0.5)",
        ),
        (
            "04.6",
            lambda ratios: (whole_block(ratios)[0], min(1.0, math.prod(ratios))),
            "whole_block([2, 0.5]) should be (0.5, 0.5), and yours gives (0.5, 1)",
        ),
        ("04.6", lambda ratios: (math.prod(ratios), math.prod(ratios)), "whole_block([2]) should be (1, 1)"),
    ],
)
def test_wrong(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong", outcome
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("04.1", residual),
        ("04.2", law),
        ("04.3", ([0.4, 0.4, 0.2], [0.1, 0.1, 0.8])),
        ("04.3", ([0.5, 0.4, 0.1], [0.2, 0.3, 0.5])),
        ("04.4", lambda p, bias, z: z**2 * p * (1 - p) / bias**2),
        ("04.4", lambda p, bias, z: math.ceil(z**2 * p * (1 - p) / bias**2)),
        ("04.5", (2 / 3, 7 / 12)),
        ("04.5", (0.667, 0.583)),
        ("04.6", whole_block),
    ],
)
def test_right(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome


@pytest.mark.parametrize(("p", "q"), [(P3, Q3), (P4, Q4)])
@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_enumeration_of_a_rule_is_the_one_of_the_engine(rule: str, p: Any, q: Any) -> None:
    """With fresh numbers, through models and caches or not; and both are the target's law."""
    found = rule_law(rule, p, q, gamma=2, tokens=2)
    same_law(found, sd.exact_law(tabular(logs(p), logs(q), 2, "sample", rule), [0], 2))
    same_law(found, product_law(lambda prefix: p, (), 2))


def test_reused_numbers_harm_block_only() -> None:
    """γ = 3, three tokens: a seeded experiment of 600,000 runs found a chi-square of 2512 on 63 degrees of freedom."""
    right = product_law(lambda prefix: P4, (), 3)
    same_law(rule_law("rejection", P4, Q4, gamma=3, tokens=3, reuse=True), right)
    found = rule_law("block", P4, Q4, gamma=3, tokens=3, reuse=True)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    expected = 63 + LATER * sum((found[text] - right[text]) ** 2 / right[text] for text in right)
    assert abs(expected - 2512) < 4 * 2 * math.sqrt(expected)
    small = rule_law("block", P4, Q4, gamma=2, tokens=2, reuse=True)
    assert small[0, 3] == pytest.approx(0.0475, abs=5e-5)


def test_expected_drafts() -> None:
    assert expected_accepted("rejection", P4, Q4, 1) == pytest.approx(0.55, abs=1e-12)
    for gamma in (1, 2, 3):
        gain = expected_accepted("block", P4, Q4, gamma) - expected_accepted("rejection", P4, Q4, gamma)
        assert gain > 0.01 if gamma > 1 else abs(gain) < 1e-12


def test_the_picture_says_its_numbers() -> None:
    shown = picture(P3, Q3)
    assert "token 0 = 0.200 accepted + 0.400 corrected" in repr(shown)
    assert f'alt="{shown!r}"' in shown._repr_html_()  # type: ignore[attr-defined]
