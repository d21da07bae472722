"""The attention kernels against their reference: shapes, borders, trees and windows, and what they never touch."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from specdec_kernels import attention
from specdec_kernels.attention import paged_attention
from specdec_kernels.errors import InvalidInput
from tests.interpreter.test_bounds import _guarded, _in_child, _moved
from tests.kernels.test_attention import ancestors, forest

NAN = math.nan


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison; every slot that no query sees holds NaN."""

    batch: int
    queries: int
    heads: tuple[int, int]
    size: int
    block: int
    dtype: str
    lengths: str
    tree: bool
    window: int | None
    ragged: bool
    strided: bool
    splits: int

    def __str__(self) -> str:
        flags = [name for name in ("tree", "ragged", "strided") if getattr(self, name)]
        shape = "x".join(map(str, (self.batch, self.queries, *self.heads, self.size)))
        return "-".join(
            [shape, f"b{self.block}", self.dtype, self.lengths, f"w{self.window}", f"s{self.splits}", *flags]
        )


_VALUES: dict[str, tuple[Any, ...]] = {
    "batch": (1, 3),
    "queries": (1, 5, 8),
    "heads": ((4, 4), (4, 2), (6, 1)),
    "size": (8, 16, 80),
    "block": (4, 16),
    "dtype": ("float32", "float16", "bfloat16"),
    "lengths": ("none", "at", "across"),
    "tree": (False, True),
    "window": (None, 1, 6),
    "ragged": (False, True),
    "strided": (False, True),
    "splits": (1, 3),
}


def pairwise() -> list[Case]:
    """A set in which every two values meet: greedy, the same list each time."""
    rng = random.Random(0)
    missing = set()
    for (i, left), (j, right) in itertools.combinations(enumerate(_VALUES.values()), 2):
        missing |= {(i, a, j, b) for a in left for b in right}
    chosen = []
    while missing:
        pool = [Case(*map(rng.choice, _VALUES.values())) for _ in range(300)]
        best = max(pool, key=lambda case: len(missing & _pairs(case)))
        if missing & _pairs(best):
            chosen.append(best)
            missing -= _pairs(best)
    return chosen


def _pairs(case: Case) -> set[tuple[int, Any, int, Any]]:
    values = [getattr(case, field.name) for field in fields(case)]
    return {(i, values[i], j, values[j]) for i, j in itertools.combinations(range(len(values)), 2)}


PAIRWISE = pairwise()


def tensors(case: Case, seed: int = 0) -> dict[str, Any]:
    """Keyword arguments of `paged_attention` for a case."""
    rng, generator = random.Random(f"{seed} {case}"), torch.Generator().manual_seed(seed)
    (heads, kv_heads), dtype, block = case.heads, getattr(torch, case.dtype), case.block
    low, high = {"none": (0, 0), "at": (1, 5), "across": (1, 5)}[case.lengths]
    lengths = [block * rng.randint(low, high) - (case.lengths == "across") for _ in range(case.batch)]
    counts = [rng.randint(0, case.queries) if case.ragged else case.queries for _ in lengths]
    columns = -(-(max(lengths) + case.queries) // block) + 1
    ids = rng.sample(range(case.batch * columns + 1), case.batch * columns)
    tables = torch.tensor(ids).view(case.batch, columns).to(rng.choice([torch.int32, torch.int64]))
    both = torch.full(((case.batch * columns + 1) * block, 2, kv_heads, case.size), NAN, dtype=dtype)
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        first = max(0, length - (case.window or length + 1) + 1)
        for t in range(first, length + count if count else 0):
            at = ids[row * columns + t // block] * block + t % block
            both[at] = torch.randn(both[at].shape, generator=generator).to(dtype)
        tables[row, -(-(length + count) // block) :] = -1
        tables[row, : first // block] = -1
    stores = (both[:, 0], both[:, 1]) if case.strided else both.unbind(1)
    if not case.strided:
        stores = tuple(store.contiguous() for store in stores)
    q = torch.randn(case.batch, heads, case.queries, case.size, generator=generator).to(dtype)
    trees = torch.stack([ancestors(forest(case.queries, rng)) for _ in lengths])
    return {
        "q": q.transpose(1, 2).contiguous().transpose(1, 2) if case.strided else q,
        "k_store": stores[0],
        "v_store": stores[1],
        "tables": tables,
        "lengths": torch.tensor(lengths),
        "block_size": block,
        "counts": torch.tensor(counts) if case.ragged else None,
        "tree_mask": trees if case.tree else None,
        "window": case.window,
    }


def _launched(given: dict[str, Any], **plan: int) -> Tensor:
    """The public function, with the launch's plan replaced."""
    from specdec_kernels import triton_attention

    kept = triton_attention.attend
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_attention, "attend", lambda *arguments: kept(*arguments, **plan))
        return paged_attention(**given, backend="triton")


def _same(found: Tensor, right: Tensor) -> None:
    """Half precision rounds the weights before they meet V, and the result."""
    assert found.dtype == right.dtype
    rtol, atol = {torch.float32: (1e-5, 2e-6), torch.float16: (2e-3, 2e-3), torch.bfloat16: (8e-3, 1e-3)}[right.dtype]
    torch.testing.assert_close(found, right, rtol=rtol, atol=atol)


def test_the_set_is_pairwise_and_small() -> None:
    assert len(PAIRWISE) <= 40
    assert {pair for case in PAIRWISE for pair in _pairs(case)} == {
        (i, a, j, b)
        for (i, left), (j, right) in itertools.combinations(enumerate(_VALUES.values()), 2)
        for a in left
        for b in right
    }


@pytest.mark.parametrize("case", PAIRWISE, ids=str)
def test_kernel_is_reference(case: Case) -> None:
    given = tensors(case)
    right = paged_attention(**given, backend="torch")
    assert right.isfinite().all()
    _same(_launched(given, tile=16, splits=case.splits), right)


CASE = Case(2, 5, (4, 2), 16, 4, "float32", "across", True, None, True, False, 1)


def test_neither_tiles_nor_splits_change_anything() -> None:
    """One tile, many tiles, more splits than tiles: the same but for rounding."""
    for case in (CASE, Case(2, 5, (4, 2), 16, 16, "float32", "at", False, 6, False, False, 1)):
        given = tensors(case)
        right = _launched(given, tile=64, splits=1)
        for tile, splits in ((16, 1), (16, 2), (16, 5), (32, 2), (16, 64)):
            torch.testing.assert_close(_launched(given, tile=tile, splits=splits), right, rtol=1e-5, atol=1e-6)


def test_many_queries_take_several_tiles() -> None:
    """Six query heads of a kv head times 20 nodes: four tiles of 32."""
    given = tensors(Case(1, 20, (6, 1), 8, 4, "float32", "across", True, 3, False, False, 1))
    _same(_launched(given, splits=2), paged_attention(**given, backend="torch"))


def test_a_seen_slot_of_nan_shows() -> None:
    """The poison works: position 0 is behind every query, and its K alone spoils them all, on both backends."""
    given = tensors(Case(1, 5, (4, 2), 8, 4, "float32", "across", False, None, False, False, 1))
    given["k_store"][int(given["tables"][0, 0]) * 4] = NAN
    for backend in ("torch", "triton"):
        assert paged_attention(**given, backend=backend).isnan().all()


def _complete(given: dict[str, Any]) -> list[Any]:
    """The arguments of `attend`, as the public function hands them over."""
    from specdec_kernels import triton_attention

    found: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_attention, "attend", lambda *arguments: found.extend(arguments))
        paged_attention(**given, backend="triton")
    return found


WRONG = [
    ("tables", (1, 0), 10**6),
    ("tables", (1, 0), -1),
    ("tables", (1, 1), -(2**31)),
    ("tables", (1, 0), 2**31 - 1),
    ("lengths", 1, 1000),
    ("lengths", 1, 2**62),
    ("lengths", 1, -1),
    ("lengths", 1, -(2**62)),
    ("counts", 1, 6),
    ("counts", 1, -1),
]


@pytest.mark.parametrize(("name", "index", "value"), WRONG)
def test_a_row_that_cannot_be_used(name: str, index: Any, value: int) -> None:
    """On the CPU it is refused; the kernels alone, as on a GPU, answer with NaN, and the other row is as it was."""
    given = tensors(Case(2, 5, (4, 2), 8, 4, "float32", "at", False, None, False, False, 1))
    given["counts"] = torch.tensor([4, 5])
    right = paged_attention(**given, backend="torch")
    given[name][index] = value
    for backend in ("torch", "triton"):
        with pytest.raises(InvalidInput, match="row 1"):
            paged_attention(**given, backend=backend)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "_check_values", lambda *_: None)
        found = _launched(given, tile=16, splits=2)
    _same(found[0], right[0])
    assert found[1].isnan().all()


@pytest.mark.parametrize("at_end", [True, False])
def test_the_kernels_stay_inside(at_end: bool) -> None:
    """Every buffer lies against a page that kills whoever touches it; wrong ids and lengths are not followed."""
    from specdec_kernels import triton_attention

    def empty(*shape: Any, dtype: torch.dtype, device: Any) -> Tensor:
        return _guarded(tuple(shape[0] if isinstance(shape[0], torch.Size) else shape), dtype, at_end)

    kept = {name: getattr(torch, name) for name in ("bfloat16", "float32")}

    def work() -> None:
        triton_attention.torch = SimpleNamespace(**kept, empty=empty)  # type: ignore[assignment]
        for case in (
            Case(2, 5, (4, 2), 8, 4, "float32", "across", True, 6, True, False, 2),
            Case(1, 1, (4, 4), 80, 16, "float16", "at", False, None, False, False, 3),
            Case(3, 3, (6, 1), 5, 4, "float32", "none", True, None, False, False, 1),
        ):
            arguments = _complete(tensors(case))
            for change in (None, *WRONG):
                moved = [_moved(it, at_end) if isinstance(it, Tensor) else it for it in arguments]
                if change is not None and case.batch == 2:
                    name, index, value = change
                    moved[{"tables": 3, "lengths": 4, "counts": 5}[name]][index] = value
                triton_attention.attend(*moved, tile=16, splits=case.splits)
                if case.batch != 2:
                    break

    assert _in_child(work) == 0
