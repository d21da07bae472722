"""Lesson 13's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import specdec_teach as sd
from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_13 import rounded

CLAIMS = [False, True, False, True, True, False, False, False, True, False]
Verdict = tuple[int, str] | None


def stub(*given: Any) -> None:
    """Still to be written."""


def not_written(*given: Any) -> None:
    raise NotImplementedError


def first_flip(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    if a == b:
        return None
    at = next((at for at in range(min(len(a), len(b))) if a[at] != b[at]), None)
    if at is None:
        return min(len(a), len(b)), "bug"
    return at, "tie" if gaps[at] < band else "bug"


def inclusive(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    return first_flip(a, b, gaps, band + 1e-9)


def any_tie(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    return first_flip(a, b, [min(gaps)] * len(gaps), band)


def last_flip(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    differ = [at for at in range(min(len(a), len(b))) if a[at] != b[at]]
    return (differ[-1], "tie" if gaps[differ[-1]] < band else "bug") if differ else first_flip(a, b, gaps, band)


def ends_alike(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    return first_flip(a[: len(b)], b[: len(a)], gaps, band)


def end_is_a_tie(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    found = first_flip(a, b, gaps, band)
    return None if found is None else (found[0], "tie" if gaps[min(found[0], len(gaps) - 1)] < band else "bug")


def always_none_for_ties(a: list[int], b: list[int], gaps: list[float], band: float) -> Verdict:
    found = first_flip(a, b, gaps, band)
    return found if found and found[1] == "bug" else None


def with_claim(number: int) -> list[bool]:
    return [claim != (at == number) for at, claim in enumerate(CLAIMS, 1)]


@pytest.mark.parametrize(
    ("name", "blank"),
    [(f"13.{number}", blank) for number in (1, 2, 3, 4) for blank in (..., None)]
    + [("13.1", stub), ("13.1", not_written), ("13.1", lambda *given: ...)],
)
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("13.1", inclusive, "first_flip([5], [6], [0.1], 0.1) should be (0, 'bug'), not (0, 'tie'): a gap as wide"),
        ("13.1", any_tie, "should be (1, 'bug'), not (1, 'tie'): the gap counts where the texts part"),
        ("13.1", last_flip, "should be (1, 'tie'), not (2, 'bug'): behind the first flip the prefixes differ"),
        ("13.1", ends_alike, "should be (2, 'bug'), not None: no token was exchanged, the text just ends"),
        ("13.1", end_is_a_tie, "should be (2, 'bug'), not (2, 'tie'): no token was exchanged"),
        ("13.1", always_none_for_ties, "should be (1, 'tie'), not None: at the first difference"),
        ("13.1", lambda a, b, gaps, band: (0, "bug"), "first_flip([5, 6], [5, 6], [1.0, 0.0], 0.1) should be None"),
        ("13.1", lambda a, b, gaps, band: "bug", "should be None, not 'bug'"),
        ("13.1", lambda a, b, gaps, band: first_flip(a, b, [], band), "IndexError"),
        ("13.1", (1, "tie"), "a function is wanted here"),
        ("13.2", ([0.68, 0.24, 0.08], 0.16), "0.16 counts every difference twice"),
        ("13.2", ([0.68, 0.24, 0.08], 0.4), "its TV is not 0.4: half of |0.68 − 0.6| + |0.24 − 0.3| + |0.08 − 0.1|"),
        ("13.2", ([0.6, 0.3, 0.1], 0.0), "that is p, the law of an exact rule"),
        ("13.2", ([0.44, 0.42, 0.14], 0.16), "here a draft with p below q never stands"),
        ("13.2", ([1.0, 0.0, 0.0], 0.4), "p has three tokens"),
        ("13.2", ([0.2, 0.0, 0.0], 0.4), "sums to 0.2: where does a draft's chance go when it falls?"),
        ("13.2", ([0.5, 0.5], 0.1), "the law should have 3 numbers, not 2"),
        ("13.2", 0.08, "something else"),
        ("13.3", [0.4, 0.2, 0.2, 0.2], "the judge is fooled, but the TV is 0"),
        ("13.3", [0.4, 0.4, 0.1, 0.1], "the TV is 0.2, and 0.3 is wanted"),
        ("13.3", [1.0, 0.0, 0.0, 0.0], "it says token 0 too often"),
        ("13.3", [0.1, 0.3, 0.3, 0.3], "it says token 0 too seldom"),
        ("13.3", [0.4, 0.9, -0.3, 0.0], "is not a distribution"),
        ("13.3", [0.4, 0.6], "the law should have 4 numbers, not 2"),
        ("13.4", CLAIMS[:9], "there are 10 claims, and you give 9 answers"),
        ("13.4", ["no", *CLAIMS[1:]], "claim 1: give True or False, not 'no'"),
        *(
            ("13.4", with_claim(number), f"claim {number} is {'true' if CLAIMS[number - 1] else 'false'}: ")
            for number in range(1, 11)
        ),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("13.1", first_flip),
        ("13.1", lambda a, b, gaps, band: None if a == b else list(first_flip(a, b, gaps, band) or ())),
        ("13.2", ([0.68, 0.24, 0.08], 0.08)),
        ("13.3", [0.4, 0.6, 0.0, 0.0]),
        ("13.3", [0.4, 0.05, 0.5, 0.05]),
        ("13.4", CLAIMS),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rounded_weights_lie_on_their_grid_and_the_model_is_as_it_was(bits: int) -> None:
    model = sd.testing.tiny_llama(vocab=5)
    before = [part.detach().clone() for part in model.parameters()]
    twin = rounded(model, bits)
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))
    most = 2 ** (bits - 1) - 1
    pairs = [
        (old.weight.detach(), new.weight.detach())
        for old, new in zip(model.modules(), twin.modules(), strict=True)
        if isinstance(old, nn.Linear)
    ]
    assert pairs
    for old, new in pairs:
        step = old.abs().amax(1, keepdim=True) / most
        assert torch.allclose(new / step, (new / step).round(), atol=1e-4)
        assert bool(((new - old).abs() <= step * 0.5001).all())
        assert not torch.equal(new, old)


@pytest.mark.parametrize("bits", [1, 17, 4.0])
def test_bits_out_of_range_are_refused(bits: Any) -> None:
    with pytest.raises(sd.InvalidInput, match="from 2 to 16"):
        rounded(nn.Linear(2, 2), bits)
