"""Every lesson: in step with its source, executed, comparable, readable without pictures, and whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from lessons.build import ADDRESS, NOTEBOOKS, SOURCES, notebook_of, read_source, solution_of, stale

FEWEST_OUTPUTS = 3
LARGEST = 600_000
FORBIDDEN = ("Output(", "interact(", "clear_output", "tqdm", "%pip", "!pip", "update_display")
# 1.5 ms, 3 seconds, 12:34:56
TIMING = re.compile(r"\d\s?(?:ns|µs|us|ms|s|sec|secs|seconds?|it/s)\b|\b\d{1,2}:\d{2}:\d{2}\b")
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


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def markdown(notebook: Any) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def prose(text: str) -> str:
    """Return markdown without its fenced code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def outputs(notebook: Any) -> Iterator[Any]:
    return (output for cell in code_cells(notebook) for output in cell.outputs)


def compared(output: Any) -> str:
    """Return the text of an output that nbval compares."""
    return str(output.get("text", "") or output.get("data", {}).get("text/plain", ""))


def test_there_are_lessons_and_each_notebook_has_a_source() -> None:
    assert SOURCE_FILES
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} == {notebook_of(path).name for path in SOURCE_FILES}
    assert all(re.fullmatch(r"\d\d_[a-z_]+", path.stem) for path in SOURCE_FILES)


@each_lesson
def test_the_notebook_is_in_step_with_its_source(form: Form) -> None:
    assert not stale(form.source), f"run `make lessons ARGS={form.source.name[:2]}` and commit the notebook"


@each_lesson
def test_the_file_is_canonical(form: Form) -> None:
    notebook, text = load(form), form.path.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST
    assert "widgets" not in notebook.metadata
    assert "application/vnd.jupyter" not in text
    assert [cell.execution_count for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert not [output for output in outputs(notebook) if output.output_type == "error"]


@each_lesson
def test_enough_outputs_are_compared(form: Form) -> None:
    notebook = load(form)
    promised = read_source(form.source, solved=form.solved).metadata.lesson.outputs
    found = sum(bool(compared(output).strip()) for output in outputs(notebook))
    assert found >= promised >= FEWEST_OUTPUTS


@each_lesson
def test_outputs_do_not_differ_from_run_to_run(form: Form) -> None:
    notebook = load(form)
    for output in outputs(notebook):
        assert not TIMING.search(compared(output)), compared(output)
        assert not ADDRESS.search(compared(output)), compared(output)
    for cell in code_cells(notebook):
        assert not [word for word in FORBIDDEN if word in cell.source], cell.source


@each_lesson
def test_one_title_and_the_minutes_stand_at_the_top(form: Form) -> None:
    notebook = load(form)
    titles = re.findall(r"^# .+", prose(markdown(notebook)), re.MULTILINE)
    assert len(titles) == 1
    assert notebook.cells[0].source.startswith(f"# {form.source.name[:2]} ")
    head = "\n".join(cell.source for cell in notebook.cells[:2])
    assert re.search(rf"\b{notebook.metadata.lesson.minutes} minutes\b", head), "say how long it takes"


@each_lesson
def test_pictures_have_words(form: Form) -> None:
    notebook = load(form)
    html = [output.data.get("text/html", "") for output in outputs(notebook) if "data" in output]
    for tag in re.findall(r"<img\b[^>]*>", "".join([markdown(notebook), *html])):
        assert re.search(r'\balt="[^"]+"', tag), tag[:120]
    assert not re.findall(r"!\[\s*\]\(", markdown(notebook))
    for output in outputs(notebook):
        for kind in (kind for kind in output.get("data", {}) if kind.startswith("image/")):
            assert output.metadata.get(kind, {}).get("alt") or "text/html" in output.data, (
                "a bare picture has no alt text"
            )


@each_lesson
def test_links_resolve(form: Form) -> None:
    text = prose(markdown(load(form)))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            continue
        if "://" in target:
            assert target.startswith("https://"), target
        else:  # a learner's folder holds the notebooks and nothing else
            assert re.fullmatch(r"\d\d_[a-z_]+\.ipynb", target.partition("#")[0]), target
            assert (NOTEBOOKS / target.partition("#")[0]).exists(), target
