"""The kit: three outcomes, nothing raises for what a learner does, predictions lock."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import specdec_teach as sd
from specdec_teach.exercises import NotYet, ask, check, exercise, judge, kit, predict


@exercise("99.double")
def _double(answer: Any) -> str:
    for given in (0, 3):
        if ask(answer, given) != 2 * given:
            raise NotYet(f"double({given}) should be {2 * given}")
    return "it doubles"


def stub(value: int) -> int:  # type: ignore[empty-body]
    """Still to be written."""


def raises(value: int) -> int:
    """Wrong in another way."""
    raise ZeroDivisionError("oh")


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (..., "not attempted", "three dots"),
        (None, "not attempted", "three dots"),
        (stub, "not attempted", "three dots"),
        (lambda value: value, "wrong", "double(3) should be 6"),
        (lambda value: 2 * value, "right", "it doubles"),
        (raises, "wrong", "raises(0) raises ZeroDivisionError: oh"),
        (5, "wrong", "a function is wanted here"),
        (lambda: 3, "wrong", "TypeError"),
    ],
)
def test_three_outcomes(answer: Any, status: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = judge("99.double", answer)
    assert (outcome.status, says in outcome.message) == (status, True)
    check("99.double", answer)
    assert capsys.readouterr().out == f"{kit._MARKS[status]} 99.double  {outcome.message}\n"


def test_unknown_exercises_are_named() -> None:
    for name in ("98.1", "00.dmo", "x"):
        with pytest.raises(sd.InvalidInput, match="exercise"):
            judge(name, 1)


def test_the_first_prediction_counts(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def truth() -> int:
        asked.append(1)
        return 3

    predict("99.p", ..., truth)
    assert asked == []
    predict("99.p", 2, truth)
    predict("99.p", 3, truth)
    lines = capsys.readouterr().out.splitlines()
    assert "no prediction yet" in lines[0]
    assert lines[1] == lines[2] == "→ 99.p  the engine says 3; you said 2"
    predict("99.q", 3, truth)
    assert "you were right" in capsys.readouterr().out


def test_arrays_and_tensors_never_raise(capsys: pytest.CaptureFixture[str]) -> None:
    """Comparing them with a number gives several answers, which Python refuses to take for one."""
    for answer in (np.arange(3), torch.arange(3), [torch.arange(3)]):
        assert judge("00.demo", answer).status == "wrong"
        predict(f"98.{type(answer).__name__}", answer, lambda: 4)
    assert capsys.readouterr().out.count("→") == 3
