"""Lesson 07 where Triton does not interpret: blank answers, answers that are no kernels, and the compiler's report."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from specdec_teach.exercises import judge
from specdec_teach.exercises.ahead import Refused, compile_for, overflows
from specdec_teach.exercises.lesson_07 import picture

NAMES = [f"07.{k}" for k in range(1, 6)]


def stub(out_ptr: object) -> None:
    """Still to be written."""


def plain(out_ptr: object) -> int:
    return 1


@pytest.mark.parametrize("name", NAMES)
def test_blank(name: str) -> None:
    assert judge(name, ...).status == "not attempted"
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_function_is_no_kernel(name: str) -> None:
    for answer in (plain, 3):
        assert judge(name, answer).status == "wrong"
    assert "@triton.jit" in judge(name, plain).message


def test_a_blank_answer_does_not_import_triton() -> None:
    code = "import sys; from specdec_teach.exercises import check; check('07.1'); print('triton' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "False"


def test_a_kernel_that_does_not_interpret_is_told_from_a_plain_function() -> None:
    pytest.importorskip("triton")
    from specdec_kernels.triton_noise import uniform

    kernel = type("JITFunction", (), {"fn": staticmethod(uniform.fn), "__call__": lambda self: None})()
    outcome = judge("07.1", kernel)
    assert outcome.status == "wrong"
    assert "run the first cell" in outcome.message


def test_overflow_needs_a_program_and_the_width_and_32_bits() -> None:
    head = "%r = tt.get_program_id x : i32\n%s = tt.splat %r : i32 -> tensor<8xi32>\n"
    wide = "%w = tt.splat %V : i32 -> tensor<8xi32>\n"
    assert overflows(head + wide + "%a = arith.muli %s, %w : tensor<8xi32>") == ("%a",)
    assert overflows(head + wide + "%a = arith.muli %s, %s : tensor<8xi32>") == ()
    assert overflows(head + wide + "%a = arith.muli %s, %w : tensor<8xi64>") == ()


def test_the_real_kernel_compiles_ahead_of_time() -> None:
    pytest.importorskip("triton")
    types = {
        "*i64": "draft_ptr seed_ptr position_ptr scratch_ptr accepted_ptr tokens_ptr status_ptr",
        "*fp32": "q_ptr p_ptr statistics_ptr uniform_ptr",
        "*i1": "degenerate_ptr",
        "fp32": "temperature",
        "i32": "K V tiles",
    }
    signature = {name: kind for kind, names in types.items() for name in names.split()}
    constants = {"HAS_Q": True, "LOGITS": False, "PER_ROW": False, "GIVEN_U": False, "BLOCK_K": 8, "BLOCK_V": 1024}
    made = compile_for(90, "specdec_kernels.triton_chain:chain_kernel", signature, constants, num_warps=8)
    assert (made.target, made.spills, made.overflows) == ("sm_90", 0, ())
    assert 0 < made.registers < 128
    assert any("ld.global" in line for line in made.ptx)
    assert all(line.endswith(";") and not line.startswith((".", "//")) for line in made.ptx)
    with pytest.raises(Refused):
        compile_for(90, "specdec_kernels.triton_chain:chain_kernel", {}, constants)


def test_the_picture_has_words() -> None:
    words = repr(picture(2, p=torch.tensor([[0, 3, 0], [1, 1, 1]])))
    assert words == "elements read in each tile: p row 0 = 1, 0; p row 1 = 2, 1"
