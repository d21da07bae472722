"""Every lesson: in step with its source, executed, comparable, readable without pictures, and whole."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lessons.build import NOTEBOOKS, SOURCES, notebook_of, read_source, solution_of, stale
from tests.lessons.lint import RULES, Rule, code_cells, outputs

LARGEST = 600_000
SOURCE_FILES = sorted(SOURCES.glob("*.py"))


@dataclass(frozen=True)
class Form:
    """A lesson as a student gets it, or with its solutions."""

    source: Path
    path: Path
    solved: bool


FORMS = [Form(source, notebook_of(source), False) for source in SOURCE_FILES]
FORMS += [Form(source, path, True) for source in SOURCE_FILES if (path := solution_of(source)) is not None]
each_lesson = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: form.path.stem + ("-solved" if form.solved else "")
)


def load(form: Form) -> Any:
    return nbformat.read(form.path, as_version=4)


def test_there_are_lessons_and_each_notebook_has_a_source() -> None:
    assert SOURCE_FILES
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} == {notebook_of(path).name for path in SOURCE_FILES}
    assert all(re.fullmatch(r"\d\d_[a-z_]+", path.stem) for path in SOURCE_FILES)


@each_lesson
def test_the_notebook_is_in_step_with_its_source(form: Form) -> None:
    number = form.source.name[:2]
    assert not stale(form.source), (
        f"run `make lessons ARGS={number}` (if only slides or tags changed: ARGS='--metadata {number}', which executes "
        "nothing) and commit the notebook"
    )


@each_lesson
def test_the_file_is_canonical(form: Form) -> None:
    notebook, text = load(form), form.path.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert "widgets" not in notebook.metadata
    assert "application/vnd.jupyter" not in text
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert all(set(cell.metadata) <= {"tags", "slideshow"} for cell in notebook.cells)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert not [output for output in outputs(notebook) if output.output_type == "error"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@each_lesson
def test_the_lesson_keeps_the_rule(form: Form, rule: Rule) -> None:
    assert rule(load(form)) == []


@each_lesson
def test_a_promise_is_the_one_of_the_source(form: Form) -> None:
    assert load(form).metadata.lesson == read_source(form.source, solved=form.solved).metadata.lesson
    assert load(form).cells[0].source.startswith(f"# {form.source.name[:2]} ")
