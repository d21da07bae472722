"""What `doctor` finds, and what it advises when something is missing."""

from __future__ import annotations

import re
import shutil

import pytest

from specdec_kernels.errors import EngineFailure
from specdec_teach import views
from specdec_teach.cli import doctor, main


def test_this_environment_can_run_the_lessons(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])
    out = capsys.readouterr().out
    assert status == 0, out
    for name in (*doctor.TESTED, "python", "renderer", "model pair", "speed", "gpu", "chromium"):
        assert f" {name} " in out
    assert re.search(r"float32 v\(1\) = 1\.00, (v\([259]\) = [\d.]+, ){3}c = [\d.]+; bfloat16", out)
    assert re.search(r'"auto" takes (float32|bfloat16) for the target and (float32|bfloat16) for the draft', out)


def test_every_problem_comes_with_advice() -> None:
    assert all(finding.advice for finding in doctor.examine() if finding.state != "fine")


def test_something_required_that_is_missing_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise EngineFailure("no renderer; install the project")

    monkeypatch.setattr(views, "renderer", missing)
    monkeypatch.setitem(doctor.TESTED, "no-such-package", "1.0")
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "✗ no-such-package" in out
    assert "pip install no-such-package==1.0" in out
    assert "→ no renderer; install the project" in out


def test_another_version_and_a_missing_browser_are_only_mentioned(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(doctor.TESTED, "rich", "0.0.1")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "tested with 0.0.1" in out
    assert "apt-get install chromium" in out
