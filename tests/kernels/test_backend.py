"""Where kernels run: nothing heavy on import, torch on a CPU, and a clear word when Triton cannot run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from specdec_kernels.backend import choose

ROOT = Path(__file__).resolve().parents[2]
_CALL = (
    "import torch; from specdec_kernels import verify_chain; z = torch.zeros(1, dtype=torch.int64)\n"
    "print(verify_chain(torch.zeros(1, 0, dtype=torch.int64), None, torch.tensor([[[0.0, 1.0]]]),"
    " seeds=z, positions=z, backend='triton').tokens.tolist())"
)


def _python(code: str, interpret: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT / "kernels")} | ({"TRITON_INTERPRET": interpret} if interpret else {})
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_importing_the_package_loads_neither_torch_nor_triton() -> None:
    code = "import sys, specdec_kernels, specdec_kernels.errors; print({'torch', 'triton'} & sys.modules.keys())"
    assert _python(code).stdout.strip() == "set()"


def test_torch_is_the_choice_on_a_cpu_and_triton_stays_unimported() -> None:
    code = _CALL.replace("'triton'", "'auto'") + "\nimport sys; print('triton' in sys.modules)"
    assert _python(code).stdout.split("\n")[:2] == ["[[1]]", "False"]


@pytest.mark.parametrize(
    ("before", "interpret"),
    [
        ("", ""),
        ("import triton, os; os.environ['TRITON_INTERPRET'] = '1'\n", ""),
        ("import triton, os; del os.environ['TRITON_INTERPRET']\n", "1"),
    ],
    ids=["never set", "set too late", "unset between"],
)
def test_triton_on_a_cpu_needs_the_interpreter_from_the_start(before: str, interpret: str) -> None:
    done = _python(before + _CALL, interpret)
    assert "InvalidInput" in done.stderr
    assert "TRITON_INTERPRET=1" in done.stderr


def test_triton_on_a_cpu_runs_in_the_interpreter() -> None:
    assert _python(_CALL, "1").stdout.strip() == "[[1]]"


def test_names_are_known() -> None:
    assert choose("torch", torch.zeros(1)) == choose("auto", torch.zeros(1), None) == "torch"
    with pytest.raises(AttributeError, match="nothing_here"):
        __import__("specdec_kernels").nothing_here  # noqa: B018
