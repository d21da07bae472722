"""Progress: kept in one file, safe from all that happens to files, invisible in a cell, shown by the report."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.exercises import check, exercise, forget, kit, predict, progress, report


@exercise("99.four")
def _four(answer: Any) -> str:
    if answer != 4:
        raise kit.NotYet("it is four")
    return "four it is"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner's file, and predictions that nobody made yet."""
    path = tmp_path / "mine" / "progress.json"
    monkeypatch.setenv("SPECDEC_TEACH_PROGRESS", str(path))
    monkeypatch.setattr(kit, "_LOCKED", {})
    monkeypatch.setattr(progress, "_trouble", [])
    return path


def line(lesson: str) -> progress.Line:
    return next(line for line in report().lines if line.lesson == lesson)


def test_it_remembers_what_came_of_answers(file: Path) -> None:
    """A blank leaves no mark; right stays right, whatever is tried later; the first guess is the one that counts."""
    check("13.3", ...)
    assert not file.exists()
    check("99.four", 5)
    assert report().open == ("99.four",)
    for answer in (4, 5):
        check("99.four", answer)
    kept = json.loads(file.read_text())
    assert kept["exercises"] == {"99.four": {"status": "right", "tries": 3}}
    for guess in (1, 2):
        kit._LOCKED.clear()  # as after a restart of the kernel
        predict("03.p9", guess, lambda: 2)
    predict("03.p8", 2, lambda: 2)
    kept = json.loads(file.read_text())
    assert kept["predictions"]["03.p9"] == {"guess": "1", "found": "2", "right": False}
    assert (line("03").predicted, line("03").foreseen) == (2, 1)


def test_cells_print_the_same_with_and_without(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cell() -> str:
        kit._LOCKED.clear()
        check("99.four", 5)
        check("99.four", 4)
        predict("03.p9", 1, lambda: 2)
        return capsys.readouterr().out

    kept = [cell(), cell()]
    monkeypatch.setenv("SPECDEC_TEACH_PROGRESS", "off")
    assert [*kept, cell()] == [kept[0]] * 3
    assert "SPECDEC_TEACH_PROGRESS is off" in str(report())
    monkeypatch.setenv("SPECDEC_TEACH_PROGRESS", str(file.parent))  # a folder where a file should be
    assert cell() == kept[0]
    assert "another file in SPECDEC_TEACH_PROGRESS" in str(report())


@pytest.mark.parametrize("bad", ["{", "[]", '{"version": 99}', '{"version": 1, "exercises": {"01.1": 3}}', "\udcff"])
def test_a_file_that_makes_no_sense_is_kept_aside(file: Path, bad: str) -> None:
    file.parent.mkdir()
    file.write_bytes(bad.encode("utf-8", "surrogateescape"))
    check("99.four", 4)
    assert json.loads(file.read_text())["exercises"]["99.four"]["status"] == "right"
    assert file.with_name("progress.json.old").read_bytes() == bad.encode("utf-8", "surrogateescape")
    assert "it was kept as" in str(report())


def _answers(path: str, first: int) -> None:
    os.environ["SPECDEC_TEACH_PROGRESS"] = path
    for number in range(first, first + 20):
        progress.note("exercises", f"98.{number}", lambda entry: entry.update(status="right"))


def test_two_notebooks_at_once_lose_nothing(file: Path) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_answers, args=(str(file), first)) for first in (0, 20)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert len(json.loads(file.read_text())["exercises"]) == 40
    assert [other.exitcode for other in others] == [0, 0]


def test_a_lock_that_stays_is_told_and_waits_no_longer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    file.parent.mkdir()
    with progress.FileLock(f"{file}.lock"):
        _in_another_thread(lambda: check("99.four", 4))
    assert not file.exists()
    assert "another notebook holds" in str(report())


def _in_another_thread(act: Any) -> None:
    import threading

    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def test_solved_notebooks_and_tests_leave_it_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPECDEC_TEACH_PROGRESS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert progress.place() is None, "pytest names itself"
    monkeypatch.delenv("PYTEST_VERSION")
    assert progress.place() == tmp_path / "specdec-teach" / "progress.json"
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/my-lessons/solutions/03_acceptance.ipynb")
    assert progress.place() is None
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/my-lessons/03_acceptance.ipynb")
    assert progress.place() is not None


def test_the_report_counts_and_saves(file: Path, tmp_path: Path) -> None:
    empty = report()
    assert sum(line.exercises for line in empty.lines) == len(kit.every())
    assert str(empty).splitlines()[-1].startswith("all     0 of ")
    check("13.4", 3.0)
    page, table = report().save(tmp_path / "mine.html"), report().save(tmp_path / "mine.md")
    assert "<th scope='col'>exercises right</th>" in page.read_text()
    assert table.read_text().startswith("| lesson | exercises right | tried | predictions right |\n| --- |")
    assert "13.4" in page.read_text()
    with pytest.raises(sd.InvalidInput, match=r"mine.txt is neither"):
        report().save(tmp_path / "mine.txt")
    with pytest.raises(sd.EngineFailure, match="give another path"):
        report().save(tmp_path / "nowhere" / "mine.md")
    forget()
    assert report().lines == empty.lines
    forget()
