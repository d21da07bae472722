"""No kernel touches a byte outside its tensors: every buffer lies against a page that kills whoever touches it."""

from __future__ import annotations

import ctypes
import faulthandler
import math
import mmap
import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.interpreter.cases import Case, tensors

_PAGE = mmap.PAGESIZE
_KEPT: list[mmap.mmap] = []


def _guarded(shape: tuple[int, ...], dtype: torch.dtype, at_end: bool) -> Tensor:
    """A tensor whose last byte (or first) touches a page without any right to read or write."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    pages = max(1, -(-size // _PAGE))
    memory = mmap.mmap(-1, (pages + 2) * _PAGE)
    _KEPT.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, pages + 1):
        assert protect(ctypes.c_void_p(start + page * _PAGE), ctypes.c_size_t(_PAGE), 0) == 0
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    offset = _PAGE + (pages * _PAGE - size if at_end else 0)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(shape)


def _in_child(work: Callable[[], None]) -> int:
    """Run in a forked child; return its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            faulthandler.disable()
            work()
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _moved(tensor: Tensor | None, at_end: bool) -> Tensor | None:
    return None if tensor is None else _guarded(tuple(tensor.shape), tensor.dtype, at_end).copy_(tensor)


def test_the_guard_guards() -> None:
    """One element behind the last, or before the first, ends the child; the last itself does not."""
    import numpy as np

    def touch(step: int, at_end: bool) -> Callable[[], None]:
        def work() -> None:
            tensor = _guarded((5,), torch.float32, at_end)
            address = tensor.data_ptr() + step * 4
            float(np.frombuffer((ctypes.c_char * 4).from_address(address), np.float32)[0])

        return work

    assert _in_child(touch(4, True)) == 0
    assert _in_child(touch(5, True)) == -signal.SIGSEGV
    assert _in_child(touch(-1, False)) == -signal.SIGSEGV


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_verification_stays_inside(rule: str, at_end: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, outputs, scratch and statistics, with widths that fill a tile and that do not."""
    from specdec_kernels import triton_launch, workspace

    def empty(*shape: int, dtype: torch.dtype, device: Any) -> Tensor:
        return _guarded(shape, dtype, at_end)

    def zeros(*shape: int, dtype: torch.dtype, device: Any) -> Tensor:
        return _guarded(shape, dtype, at_end).zero_()

    kept = {name: getattr(torch, name) for name in ("int64", "bool", "float32")}

    def work() -> None:
        workspace.torch = SimpleNamespace(**kept, empty=empty, zeros=zeros)  # type: ignore[assignment]
        for length, width, form, one_hot in (
            (0, 5, "p", True),
            (3, 16, "p", False),
            (2, 21, "float16", True),
            (1, 7, "float32", False),
            (3, 16, "float32", True),
            (2, 21, "float32", False),
        ):
            case = Case(rule, 2, length, width, length > 0, one_hot or rule == "coupled", form, 2, False, False)
            given = [_moved(tensor, at_end) for tensor in tensors(case).values()]
            verdict, status = triton_launch.verify(*given[:6], rule, given[6], tile=16, splits=2)  # type: ignore[arg-type]
            assert status.eq(0).all()
            assert verdict.accepted.ge(0).all()

    assert _in_child(work) == 0


@pytest.mark.parametrize("at_end", [True, False])
def test_ids_outside_the_vocabulary_are_not_followed(at_end: bool) -> None:
    """A huge id is refused without reading what it would point to."""
    from specdec_kernels import triton_launch

    def work() -> None:
        for rule in ("rejection", "block", "coupled"):
            given = tensors(Case(rule, 2, 2, 16, False, rule == "coupled", "p", 1, False, False))
            given["drafts"][1, 0], given["drafts"][0, 1] = 2**33, -(2**33)  # type: ignore[index]
            moved = [_moved(tensor, at_end) for tensor in given.values()]
            status = triton_launch.verify(*moved[:6], rule, tile=16, splits=1)[1]  # type: ignore[arg-type]
            assert status.tolist() == [1 | 1 << 8, 1]

    assert _in_child(work) == 0


@pytest.mark.parametrize("at_end", [True, False])
def test_cache_kernels_stay_inside(at_end: bool) -> None:
    from specdec_kernels import triton_cache

    def work() -> None:
        caches = [_guarded((2, 2, 5, 3), torch.float32, at_end) for _ in range(2)]
        new = [_guarded((2, 2, 3, 3), torch.float32, at_end) for _ in range(2)]
        for lengths in ([0, 2], [4, 9], [-1, -7]):
            moved = _moved(torch.tensor(lengths), at_end)
            assert moved is not None
            triton_cache.append(*caches, *new, moved)
            triton_cache.move(moved, moved.clone(), moved.clone(), 5, rollback=False)
        for slots in ([[0, 4], [1, 2]], [[-1, 5], [9, -3]]):
            places = [_moved(torch.tensor(slots), at_end), _moved(torch.tensor(slots).flip(1), at_end)]
            triton_cache.compact(*caches, *places)  # type: ignore[arg-type]

    assert _in_child(work) == 0
