"""A saved run as a table and as a page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import specdec_teach as sd
from specdec_teach.cli import main


def test_the_table_is_printed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(saved)]) == 0
    assert capsys.readouterr().out.rstrip("\n") == sd.Trace.load(saved).to_table().rstrip("\n")


def test_one_cycle_is_printed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(saved), "--cycle", "1"]) == 0
    one = capsys.readouterr().out
    assert main(["replay", str(saved)]) == 0
    assert 0 < len(one) < len(capsys.readouterr().out)


def test_a_cycle_that_is_not_there_is_refused(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = len(sd.Trace.load(saved).cycles) - 1
    assert main(["replay", str(saved), "--cycle", "99"]) == 2
    assert f"0 to {last}" in capsys.readouterr().err


def test_the_page_is_written(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "run.html"
    assert main(["replay", str(saved), "--html", str(page)]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")


def test_stills_and_a_moving_picture_are_written(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heads = {"svg": b"<svg", "png": b"\x89PNG", "gif": b"GIF8"}
    words = [part for kind in heads for part in (f"--{kind}", str(tmp_path / f"run.{kind}"))]
    assert main(["replay", str(saved), *words, "--cycle", "1", "--last", "1"]) == 0
    assert capsys.readouterr().out.count("wrote ") == 3
    for kind, head in heads.items():
        assert (tmp_path / f"run.{kind}").read_bytes().startswith(head)
    assert (tmp_path / "run.svg").read_text(encoding="utf-8") == sd.Trace.load(saved).to_svg(1)


def test_two_runs_go_on_one_page(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "pair.html"
    assert main(["replay", str(saved), "--compare", str(saved), "--html", str(page)]) == 0
    assert "Two runs on one clock" in page.read_text(encoding="utf-8")
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compare", "other.json"], "add --html"),
        (["--last", "3"], "add --gif"),
        (["--svg", "missing/run.svg"], "choose a folder"),
        (["--png", "run.png", "--cycle", "99"], "0 to"),
        (["--gif", "run.gif", "--last", "99"], "give a last one from 0"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(
    saved: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["replay", str(saved), *words]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {"broken.json": "{", "other.json": '{"meta": {}}', "list.json": "[1]"}.items():
        (tmp_path / name).write_text(text)
        assert main(["replay", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_no_torch_is_needed(saved: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None;"
        f"from specdec_teach.cli import main; sys.exit(main(['replay', {str(saved)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
