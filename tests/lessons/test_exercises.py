"""Exercises by kind, and predictions: enough in each lesson, silent while they are blank, answered once locked.

The sources say which there are; nbval runs the stored notebooks again, so what they print is what a learner sees.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lessons.build import SOURCES, notebook_of, read_source, solution_of
from tests.lessons.lint import code_cells, outputs

LEARNERS = {path.name[:2]: path for path in sorted(SOURCES.glob("*.py")) if path.name[:2] != "00"}
each_lesson = pytest.mark.parametrize("number", LEARNERS)


def called(number: str, function: str) -> dict[str, str]:
    """Return the code of the cell in which `function` is called, by the exercise's id."""
    cells = code_cells(read_source(LEARNERS[number]))
    return {
        name: cell.source
        for cell in cells
        for name in re.findall(rf'^{function}\("({number}\.\w+)"', cell.source, re.M)
    }


def kind(source: str) -> str:
    """Return "code" where the learner writes a function, else "calculation"."""
    written = re.search(r"^(?:def|@triton\.jit)\b(?:.|\n)*?^    \.\.\.", source, re.MULTILINE)
    return "code" if written else "calculation"


def printed(path: Path) -> str:
    return "".join(output.get("text", "") for output in outputs(nbformat.read(path, as_version=4)))


def test_there_are_enough_of_every_kind() -> None:
    kinds = [kind(source) for number in LEARNERS for source in called(number, "check").values()]
    predictions = sum(len(called(number, "predict")) for number in LEARNERS)
    assert len(kinds) >= 45
    assert kinds.count("code") >= 25
    assert kinds.count("calculation") >= 15
    assert predictions >= 45


@each_lesson
def test_every_lesson_has_some(number: str) -> None:
    exercises, predictions = called(number, "check"), called(number, "predict")
    assert len(exercises) >= 4
    assert len(predictions) >= 3
    assert "code" in {kind(source) for source in exercises.values()}


@each_lesson
def test_a_blank_prediction_reveals_nothing(number: str) -> None:
    text = printed(notebook_of(LEARNERS[number]))
    for name in called(number, "predict"):
        assert f"· {name}  no prediction yet" in text
    assert not re.search(r"^[✓✗→] \d\d\.", text, re.MULTILINE)


@each_lesson
def test_a_locked_prediction_is_answered_by_the_engine(number: str) -> None:
    solved: Any = solution_of(LEARNERS[number])
    text = printed(solved)
    for name in called(number, "predict"):
        assert re.search(rf"^[✓→] {re.escape(name)}  the engine says", text, re.MULTILINE), name
