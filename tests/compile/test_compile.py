"""Every kernel compiles for every kind of GPU, within the registers it has."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")


def _resources(target: str, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Compile in another process: this one may have imported Triton in another mode."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    inherited |= {"PYTHONPATH": str(ROOT / "kernels"), "TRITON_CACHE_DIR": str(cache)} | environment
    command = [sys.executable, str(ROOT / "benchmarks" / "kernel_resources.py"), "--targets", target, "--json"]
    return subprocess.run(command, env=inherited, capture_output=True, text=True, check=False)


def _launched() -> set[str]:
    """The names of all functions in the package that Triton compiles and somebody launches."""
    found = set()
    for path in (ROOT / "kernels" / "specdec_kernels").glob("triton_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel"):
                assert [ast.unparse(decorator) for decorator in node.decorator_list] == ["triton.jit"]
                found.add(node.name)
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_compiles(target: str, tmp_path: Path) -> None:
    """None spills on sm_90 and sm_100; elsewhere a spill would be a matter of speed only."""
    done = _resources(target, tmp_path)
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert {row["kernel"] for row in rows} == _launched()
    assert all(0 < row["registers"] <= 255 for row in rows)
    # Only the B lengths of `move_kernel` are small enough for 32 bits.
    narrow = {row["kernel"]: row["narrow_offsets"] for row in rows if row["narrow_offsets"]}
    assert narrow == {"move_kernel": ["accepted_ptr", "drafted_ptr", "lengths_ptr"]}
    if target in ("sm_90", "sm_100"):
        assert {row["variant"]: row["spills"] for row in rows if row["spills"]} == {}


def test_interpreted_kernels_are_refused(tmp_path: Path) -> None:
    done = _resources("sm_90", tmp_path, TRITON_INTERPRET="1")
    assert done.returncode != 0
    assert "unset it" in done.stderr
