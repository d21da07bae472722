"""The script for a GPU runs from end to end at tiny sizes, and its checks can fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_teach.graphs import Replayed
from specdec_teach.graphs import model as fixed

ROOT = Path(__file__).resolve().parents[2]


def test_it_runs(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "gpu_engine.py"),
        "--smoke",
        "--json",
        str(tmp_path / "it.json"),
    ]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "kernels"))),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[:4] for line in done.stdout.splitlines()[1:3]] == ["ok  "] * 2
    told = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert [row["kind"] for row in told["speeds"]] == ["greedy", "drawn", "plain"]
    assert "no figure is a GPU's" in told["device"]


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks import gpu_engine

    monkeypatch.setattr(sys, "argv", ["gpu_engine.py"])
    assert gpu_engine.main() == 2
    assert "no GPU here" in capsys.readouterr().out


def test_its_equality_fails_for_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that is off by one slot; recording that fails, so that the general way is held against itself."""
    from benchmarks import gpu_engine

    sizes, honest = gpu_engine.Sizes.smoke(), fixed._attend

    def off(q: Any, k: Any, v: Any, places: torch.Tensor, *rest: Any) -> torch.Tensor:
        return honest(q, k, v, (places - 1).clamp_min(0), *rest)

    monkeypatch.setattr(fixed, "_attend", off)
    found = gpu_engine.equality(sizes, "cpu")
    assert (found["ok"], found["differ"] > 0, found["transformers_differ"] > 0) == (False, True, True)
    monkeypatch.undo()

    def refuses(capture: Replayed, work: object) -> Any:
        raise RuntimeError("no graphs today")

    monkeypatch.setattr(Replayed, "record", refuses)
    with pytest.warns(RuntimeWarning, match="no graphs today"):
        found = gpu_engine.equality(sizes, "cpu")
    assert (found["ok"], found["differ"]) == (False, 0)


def test_planted_drafts_agree_as_often_as_was_wanted() -> None:
    from benchmarks import gpu_engine, gpu_models

    sizes = gpu_engine.Sizes.smoke()
    pair = gpu_models.planted((sizes.target, sizes.draft), 1.0, 300, 256, "cpu", torch.float32)
    found = gpu_engine.planted(sizes, pair, "cpu")
    assert (found["ok"], found["accepted"]) == (True, found["drafted"])
