"""The command line as a user meets it: help, bad input, and each command's status."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from specdec_kernels.errors import EngineFailure
from specdec_teach.cli import main, replay

COMMANDS = ("lab", "demo", "check", "replay", "bench", "fetch", "doctor")


def test_help_is_quick_and_loads_no_torch() -> None:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "specdec_teach.cli", "--help"], capture_output=True, text=True, check=True
        )
        times.append(time.perf_counter() - start)
        assert all(name in done.stdout for name in COMMANDS)
    assert min(times) < 0.5


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"specdec-teach {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "COMMAND"),
        (["lob"], "lob"),
        (["demo", "--gamma", "four"], "four"),
        (["demo", "--gama", "4"], "--gama"),
        (["demo", "--delay", "-1"], "--delay"),
        (["demo", "--temperature", "-1"], "temperature"),
        (["replay"], "TRACE"),
        (["replay", "no-such-file.json"], "no-such-file.json"),
        (["doctor", "--all"], "--all"),
    ],
)
def test_bad_input_ends_with_2_and_one_line(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("specdec-teach")
    assert named in err


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (EngineFailure("no renderer;\n install one"), 1, "specdec-teach: no renderer; install one\n"),
        (ModuleNotFoundError("No module named 'torch'", name="torch"), 1, "torch is not installed"),
    ],
)
def test_what_a_command_raises_becomes_a_status(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: object) -> int:
        raise error

    monkeypatch.setattr(replay, "run", fail)
    assert main(["replay", "run.json"]) == status
    assert said in capsys.readouterr().err


def test_a_reader_that_goes_away_ends_quietly(saved: Path) -> None:
    words = [sys.executable, "-m", "specdec_teach.cli", "replay", str(saved)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
