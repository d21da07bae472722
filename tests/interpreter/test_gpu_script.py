"""The script for a GPU runs from end to end at tiny sizes, and its checks can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def test_it_runs() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_verify.py"), "--smoke"]
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "kernels")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[:4] for line in done.stdout.splitlines()[1:7]] == ["ok  "] * 6


def test_its_chi_square_sees_a_bias() -> None:
    from benchmarks.gpu_verify import chi_square_z

    expected = torch.linspace(1, 9, 64, dtype=torch.float64) * 1000
    noise = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert abs(chi_square_z(expected + noise * expected.sqrt(), expected)) < 3
    assert chi_square_z(expected * (1 + 0.02 * noise.sign()), expected) > 4.5


def test_its_checks_fail_for_a_broken_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is off by one token, or that answers otherwise for more than one split, is found."""
    from benchmarks import gpu_verify

    sizes = gpu_verify.Sizes.smoke()
    right = gpu_verify.kernel

    def broken(given: dict[str, Any], rule: str, splits: int | None = None, tile: int | None = None) -> Any:
        verdict, status = right(given, rule, splits, tile)
        if splits != 1:
            verdict.tokens[-1, 0] += 1
        return verdict, status

    monkeypatch.setattr(gpu_verify, "kernel", broken)
    assert not gpu_verify.answers(sizes, "cpu")["ok"]
    assert not gpu_verify.merge(sizes, "cpu")["ok"]


def test_its_attention_check_fails_for_a_broken_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """One position too many in the window, and one number that is none, are found; the honest kernel is not."""
    from benchmarks import gpu_attention

    sizes, right = gpu_attention.Sizes.smoke(), gpu_attention.paged_attention
    assert gpu_attention.check(sizes, "cpu")["ok"]

    def sees_too_much(**given: Any) -> Any:
        if given["backend"] == "triton" and "window" in given:
            given["window"] += 1
        return right(**given)

    def spoils(**given: Any) -> Any:
        found = right(**given)
        if given["backend"] == "triton":
            found[-1, -1, -1, -1] = float("nan")
        return found

    for broken in (sees_too_much, spoils):
        monkeypatch.setattr(gpu_attention, "paged_attention", broken)
        assert not gpu_attention.check(sizes, "cpu")["ok"]


def test_its_check_of_logits_fails_for_a_broken_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is off by one token, in the plain call or in the workspace alone."""
    from benchmarks import gpu_logits, gpu_verify

    sizes, right = gpu_verify.Sizes.smoke(), gpu_logits.call
    for replayed in (True, False):

        def broken(*arguments: Any, replayed: bool = replayed) -> Any:
            verdict = right(*arguments)
            if arguments[3] == "triton" and (len(arguments) == 5) == replayed:
                verdict.tokens[-1, 0] += 1
            return verdict

        monkeypatch.setattr(gpu_logits, "call", broken)
        found = gpu_logits.check(sizes, "cpu")
        assert (found["ok"], found["replayed"] > 0, found["differ"] > 0) == (False, replayed, not replayed)
