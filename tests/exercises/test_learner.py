"""Every exercise there is: enough of them, blank for the learner, solved for the teacher, usual mistakes known."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

from specdec_teach.exercises import every
from tests.lessons.lint import outputs

ROOT = Path(__file__).parents[2]
NAMES = every()
JUDGED = sorted([*ROOT.glob("tests/exercises/test_lesson_*.py"), *ROOT.glob("tests/interpreter/test_lesson_*.py")])


def printed(folder: Path) -> Counter[str]:
    """How often each mark stands before each exercise in the stored outputs, such as "✓ 03.1"."""
    said: Counter[str] = Counter()
    for path in folder.glob("[0-9][0-9]*.ipynb"):
        for output in outputs(nbformat.read(path, as_version=4)):
            said.update(re.findall(r"^([·✗✓] \d\d\.\d+)  ", output.get("text", ""), flags=re.MULTILINE))
    return said


def given(said: bool) -> set[str]:
    """The exercises whose usual mistakes (`said`: with what the judge says) or right answers are tried by a test."""
    found: set[str] = set()
    for path in JUDGED:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.parametrize":
                columns, cases = ast.unparse(node.args[0]), ast.unparse(node.args[1])
                if ("says" in columns) == said:
                    found.update(re.findall(r"['\"](\d\d\.\d+)['\"]", cases))
    return found


def test_there_are_enough() -> None:
    assert len(NAMES) >= 45
    assert {name[:2] for name in NAMES} == {f"{lesson:02}" for lesson in range(1, 14)}
    assert min(Counter(name[:2] for name in NAMES).values()) >= 3


@pytest.mark.parametrize(("folder", "mark"), [("lessons", "·"), ("lessons/solutions", "✓")])
def test_each_is_blank_for_the_learner_and_right_when_solved(folder: str, mark: str) -> None:
    said = printed(ROOT / folder)
    assert {name for name in NAMES if f"{mark} {name}" not in said} == set()
    assert [line for line in said if line[0] != mark] == []


def test_each_has_a_usual_mistake_with_its_counter_example_and_a_right_answer() -> None:
    assert set(NAMES) - given(said=True) == set()
    assert set(NAMES) - given(said=False) == set()
