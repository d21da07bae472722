"""What `specdec-teach lab` starts, with JupyterLab itself left out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from specdec_teach.cli import lab, main


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []

    def record(program: str, words: list[str]) -> None:
        assert program == words[0] == sys.executable
        calls.append(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", record)
    return calls


def test_arguments_reach_jupyterlab_unchanged(started: list[list[str]], tmp_path: Path) -> None:
    passed = [
        "--no-browser",
        "--port",
        "9999",
        "--ServerApp.token=mine",
        "--allow-root",
        "--collaborative=a b",
        "--fold",
    ]
    assert main(["lab", "--folder", str(tmp_path / "mine"), *passed]) == 0
    [words] = started
    assert words[1:3] == ["-m", "jupyterlab"]
    assert words[-len(passed) :] == passed
    assert f"--ServerApp.root_dir={tmp_path / 'mine'}" in words
    assert "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in words
    assert (tmp_path / "mine" / "00_start_here.ipynb").exists()


def test_a_setting_of_the_user_replaces_ours() -> None:
    words = lab.command(Path("mine"), "00.ipynb", ["--LabApp.default_url=/lab", "--ServerApp.root_dir", "there"])
    assert sum("default_url" in word for word in words) == 1
    assert sum("root_dir" in word for word in words) == 1


def test_the_folder_is_named_and_root_is_warned(
    started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    main(["lab", "--folder", str(tmp_path / "mine")])
    out = capsys.readouterr().out
    assert "copied 00_start_here.ipynb" in out
    assert "--allow-root" in out
    main(["lab", "--folder", str(tmp_path / "mine"), "--allow-root"])
    assert "--allow-root" not in capsys.readouterr().out
