"""The learner's folder: copies arrive, newer versions arrive, edits stay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.cli import lessons


def write(path: Path, source: str, output: str = "") -> None:
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cells = [{"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": outputs}]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cells": cells}))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in ("00_start", "01_next"):
        write(tmp_path / "shipped" / f"{name}.ipynb", f"print('{name}')\n")
    write(tmp_path / "shipped" / "notes.ipynb", "not a lesson")
    return tmp_path / "shipped"


@pytest.fixture
def mine(source: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    assert lessons.update(source, folder) == ["copied 00_start.ipynb", "copied 01_next.ipynb"]
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != lessons.RECORD)


def test_a_second_start_changes_nothing(source: Path, mine: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in mine.glob("*.ipynb")}
    assert lessons.update(source, mine) == []
    assert {path: path.stat().st_mtime_ns for path in mine.glob("*.ipynb")} == before
    assert names(mine) == ["00_start.ipynb", "01_next.ipynb"]


def test_a_lesson_that_was_only_run_is_updated(source: Path, mine: Path) -> None:
    write(mine / "00_start.ipynb", "print('00_start')\n", output="00_start\n")
    write(source / "00_start.ipynb", "print('newer')\n")
    assert lessons.update(source, mine) == ["updated 00_start.ipynb to the newer version (you had not edited yours)"]
    assert (mine / "00_start.ipynb").read_bytes() == (source / "00_start.ipynb").read_bytes()


def test_an_edit_stays_and_the_newer_version_goes_beside_it_once(source: Path, mine: Path) -> None:
    write(mine / "00_start.ipynb", "print('my answer')\n")
    edited = (mine / "00_start.ipynb").read_bytes()
    assert lessons.update(source, mine) == []

    write(source / "00_start.ipynb", "print('newer')\n")
    [line] = lessons.update(source, mine)
    assert "kept your 00_start.ipynb" in line
    assert "00_start.new.ipynb" in line
    assert (mine / "00_start.new.ipynb").read_bytes() == (source / "00_start.ipynb").read_bytes()
    assert lessons.update(source, mine) == []

    write(source / "00_start.ipynb", "print('newest')\n")
    assert len(lessons.update(source, mine)) == 1
    assert (mine / "00_start.new.ipynb").read_bytes() == (source / "00_start.ipynb").read_bytes()

    write(mine / "00_start.new.ipynb", "print('edited too')\n")
    write(source / "00_start.ipynb", "print('newest of all')\n")
    assert "00_start.new2.ipynb" in lessons.update(source, mine)[0]
    assert (mine / "00_start.ipynb").read_bytes() == edited
    assert "edited too" in (mine / "00_start.new.ipynb").read_text()


def test_a_file_of_unknown_origin_is_never_overwritten(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "00_start.ipynb").write_text("not a notebook at all")
    lessons.update(source, folder)
    assert (folder / "00_start.ipynb").read_text() == "not a notebook at all"
    assert "00_start.new.ipynb" in names(folder)


def test_a_lost_record_costs_no_edit(source: Path, mine: Path) -> None:
    write(mine / "00_start.ipynb", "print('my answer')\n")
    (mine / lessons.RECORD).write_text("{ broken")
    lessons.update(source, mine)
    assert "my answer" in (mine / "00_start.ipynb").read_text()


def test_a_deleted_lesson_comes_back(source: Path, mine: Path) -> None:
    (mine / "01_next.ipynb").unlink()
    assert lessons.update(source, mine) == ["copied 01_next.ipynb"]


def test_folders_that_cannot_be_used_are_refused(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="original lessons"):
        lessons.update(source, source)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--folder"):
        lessons.update(source, tmp_path / "file")


def test_the_shipped_lessons_are_found() -> None:
    assert (lessons.shipped() / "00_start_here.ipynb").exists()


def test_a_dead_widget_gives_way_to_its_still(tmp_path: Path) -> None:
    """Saved after a run, opened after a restart: the still is shown; cells and other outputs stay as they are."""
    view = "application/vnd.jupyter.widget-view+json"
    outputs = [
        {"output_type": "execute_result", "data": {view: {"model_id": "x"}, "text/html": "<img>", "text/plain": "p"}},
        {"output_type": "execute_result", "data": {view: {"model_id": "y"}}},
    ]
    cell = {"cell_type": "code", "source": "show()", "metadata": {}, "outputs": outputs}
    source, folder = tmp_path / "source", tmp_path / "mine"
    source.mkdir()
    folder.mkdir()
    (source / "00_a.ipynb").write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    path = folder / "my_own.ipynb"
    path.write_text(json.dumps({"cells": [cell], "metadata": {"mine": 1}}))
    lessons.update(source, folder)
    kept = json.loads(path.read_text())
    assert kept["metadata"] == {"mine": 1}
    assert [sorted(output["data"]) for output in kept["cells"][0]["outputs"]] == [["text/html", "text/plain"], [view]]
    before = path.read_bytes()
    lessons.update(source, folder)
    assert path.read_bytes() == before
