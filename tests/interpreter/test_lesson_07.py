"""Lesson 07 with kernels that run: right answers, wrong ones with their counter-example, reads, and altered kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from specdec_kernels import verify_chain
from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_07 import altered, picture, reads


@triton.jit
def stub(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    """Still to be written."""


@triton.jit
def nothing(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    row = tl.program_id(0)
    row += 1


@triton.jit
def gather(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=inside, other=0.0)
    tl.store(out_ptr + row * K + k, p, mask=inside)


@triton.jit
def gather_32(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p = tl.load(p_ptr + ((row * (K + 1) + k) * V + draft), mask=inside, other=0.0)
    tl.store(out_ptr + row * K + k, p, mask=inside)


@triton.jit
def gather_k_rows(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p = tl.load(p_ptr + (row * K + k) * V + draft, mask=inside, other=0.0)
    tl.store(out_ptr + row * K + k, p, mask=inside)


@triton.jit
def gather_no_mask(draft_ptr, p_ptr, out_ptr, K, V, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    draft = tl.load(draft_ptr + row * K + k, mask=k < K, other=0)
    p = tl.load(p_ptr + (row * (K + 1) + k) * V + draft)
    tl.store(out_ptr + row * K + k, p)


@triton.jit
def count(u_ptr, q_ptr, p_ptr, out_ptr, K, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * K + k, mask=inside, other=0.0)
    p = tl.load(p_ptr + row * K + k, mask=inside, other=0.0)
    stands = (u * q < p) & inside
    tl.store(out_ptr + row, tl.min(tl.where(stands, K, tl.minimum(k, K)), axis=0))


@triton.jit
def count_not_strict(u_ptr, q_ptr, p_ptr, out_ptr, K, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * K + k, mask=inside, other=0.0)
    p = tl.load(p_ptr + row * K + k, mask=inside, other=0.0)
    stands = (u * q <= p) & inside
    tl.store(out_ptr + row, tl.min(tl.where(stands, K, tl.minimum(k, K)), axis=0))


@triton.jit
def count_all(u_ptr, q_ptr, p_ptr, out_ptr, K, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * K + k, mask=inside, other=0.0)
    p = tl.load(p_ptr + row * K + k, mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(((u * q < p) & inside).to(tl.int64), axis=0))


@triton.jit
def count_break(u_ptr, q_ptr, p_ptr, out_ptr, K, BLOCK_K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    n = 0
    for k in range(K):
        at = row * K + k
        if tl.load(u_ptr + at) * tl.load(q_ptr + at) >= tl.load(p_ptr + at):
            break
        n += 1
    tl.store(out_ptr + row, n)


@triton.jit
def mass(p_ptr, q_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        p = tl.load(p_ptr + row * V + token, mask=inside, other=0.0)
        q = tl.load(q_ptr + row * V + token, mask=inside, other=0.0)
        total += tl.maximum(p - q, 0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def mass_first_block(p_ptr, q_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK_V)
    inside = token < V
    p = tl.load(p_ptr + row * V + token, mask=inside, other=0.0)
    q = tl.load(q_ptr + row * V + token, mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(tl.maximum(p - q, 0.0), axis=0))


@triton.jit
def mass_no_mask(p_ptr, q_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        p = tl.load(p_ptr + row * V + token)
        q = tl.load(q_ptr + row * V + token)
        total += tl.maximum(p - q, 0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def mass_signed(p_ptr, q_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK_V], dtype=tl.float32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        p = tl.load(p_ptr + row * V + token, mask=inside, other=0.0)
        q = tl.load(q_ptr + row * V + token, mask=inside, other=0.0)
        total += p - q
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def race(weight_ptr, time_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        weight = tl.load(weight_ptr + row * V + token, mask=inside, other=0.0)
        time = tl.load(time_ptr + row * V + token, mask=inside, other=1.0)
        score = tl.where(weight > 0, weight / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top > best, first, winner)
        best = tl.maximum(best, top)
    tl.store(out_ptr + row, winner)


@triton.jit
def race_late_ties(weight_ptr, time_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        inside = token < V
        weight = tl.load(weight_ptr + row * V + token, mask=inside, other=0.0)
        time = tl.load(time_ptr + row * V + token, mask=inside, other=1.0)
        score = tl.where(weight > 0, weight / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top >= best, first, winner)
        best = tl.maximum(best, top)
    tl.store(out_ptr + row, winner)


@triton.jit
def race_likeliest(weight_ptr, time_ptr, out_ptr, V, BLOCK_V: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK_V)
    weight = tl.load(weight_ptr + row * V + token, mask=token < V, other=0.0)
    tl.store(out_ptr + row, tl.argmax(weight, axis=0))


@triton.jit
def verify(
    draft_ptr, q_ptr, p_ptr, u_ptr, time_ptr, accepted_ptr, token_ptr, K, V, BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p_k = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=inside, other=0.0)
    q_k = tl.load(q_ptr + (row * K + k) * V + draft, mask=inside, other=0.0)
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    stands = (u * q_k < p_k) & inside
    n = tl.min(tl.where(stands, K, tl.minimum(k, K)), axis=0)
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        here = token < V
        p = tl.load(p_ptr + (row * (K + 1) + n) * V + token, mask=here, other=0.0)
        q = tl.load(q_ptr + (row * K + n) * V + token, mask=token < tl.where(n < K, V, 0), other=0.0)
        time = tl.load(time_ptr + (row * (K + 1) + n) * V + token, mask=here, other=1.0)
        score = tl.where(p - q > 0, (p - q) / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top > best, first, winner)
        best = tl.maximum(best, top)
    tl.store(accepted_ptr + row, n)
    tl.store(token_ptr + row, winner)


@triton.jit
def verify_from_p(
    draft_ptr, q_ptr, p_ptr, u_ptr, time_ptr, accepted_ptr, token_ptr, K, V, BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK_K)
    inside = k < K
    draft = tl.load(draft_ptr + row * K + k, mask=inside, other=0)
    p_k = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=inside, other=0.0)
    q_k = tl.load(q_ptr + (row * K + k) * V + draft, mask=inside, other=0.0)
    u = tl.load(u_ptr + row * K + k, mask=inside, other=0.0)
    stands = (u * q_k < p_k) & inside
    n = tl.min(tl.where(stands, K, tl.minimum(k, K)), axis=0)
    best = tl.full([], -1.0, tl.float32)
    winner = tl.full([], 0, tl.int32)
    for start in range(0, V, BLOCK_V):
        token = start + tl.arange(0, BLOCK_V)
        here = token < V
        p = tl.load(p_ptr + (row * (K + 1) + n) * V + token, mask=here, other=0.0)
        time = tl.load(time_ptr + (row * (K + 1) + n) * V + token, mask=here, other=1.0)
        score = tl.where(p > 0, p / time, -1.0)
        top = tl.max(score, axis=0)
        first = tl.min(tl.where(score == top, token, V), axis=0)
        winner = tl.where(top > best, first, winner)
        best = tl.maximum(best, top)
    tl.store(accepted_ptr + row, n)
    tl.store(token_ptr + row, winner)


@pytest.mark.parametrize("name", [f"07.{k}" for k in range(1, 6)])
def test_blank(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "kernel"), [("07.1", gather), ("07.2", count), ("07.3", mass), ("07.4", race), ("07.5", verify)]
)
def test_right(name: str, kernel: Any) -> None:
    outcome = judge(name, kernel)
    assert outcome.status == "right", outcome.message


@pytest.mark.parametrize(
    ("name", "kernel", "says"),
    [
        ("07.1", gather.fn, "@triton.jit"),
        ("07.1", nothing, "nothing was stored"),
        ("07.1", count, "the kernel stops: "),
        ("07.1", gather_k_rows, "program 1, K = 2, V = 3, drafts [2, 1]"),
        ("07.1", gather_no_mask, "writes behind the end"),
        ("07.1", gather_32, "2,341,029,888 for row 15408"),
        ("07.2", count_not_strict, "p = [0.25]: should be 0, and yours stores 1"),
        ("07.2", count_all, "should be 1, and yours stores 2"),
        ("07.2", count_break, "compiler for sm_90 does not take it"),
        ("07.3", mass_no_mask, "program 0, V = 3, BLOCK_V = 4"),
        ("07.3", mass_first_block, "program 0, V = 6, BLOCK_V = 4"),
        ("07.3", mass_signed, "should be 0.45, and yours stores "),
        ("07.4", race_likeliest, "should be token 2, and yours stores 1"),
        ("07.4", race_late_ties, "[0.1, 0.3, 0.1, 0.1, 0.1, 0.3]"),
        ("07.5", verify_from_p, "subtract q"),
    ],
)
def test_wrong(name: str, kernel: Any, says: str) -> None:
    outcome = judge(name, kernel)
    assert outcome.status == "wrong"
    assert says in outcome.message
    assert "\n" not in outcome.message


def test_reads_are_counted() -> None:
    p, q = torch.rand(2, 6), torch.rand(2, 6)
    out = torch.empty(2)
    of_p, of_q = reads(lambda: mass[(1,)](p, q, out, 6, BLOCK_V=4), p, q)
    assert of_p.tolist() == of_q.tolist() == [[1] * 6, [0] * 6]
    assert "p row 0 = 4, 2; p row 1 = 0, 0" in repr(picture(4, p=of_p))


def test_an_altered_kernel_is_another_and_the_real_one_comes_back() -> None:
    zero = torch.tensor([0])
    p = torch.tensor([[[0.0, 1.0], [0.5, 0.5]]])
    q = torch.tensor([[[0.0, 1.0]]])

    def accepted(backend: str) -> int:
        drafts = torch.tensor([[0]])
        return int(verify_chain(drafts, q, p, seeds=zero, positions=zero, backend=backend).accepted)

    with altered("u * q_K < p_K", "u * q_K <= p_K"):
        assert (accepted("torch"), accepted("triton")) == (0, 1)
    assert (accepted("torch"), accepted("triton")) == (0, 0)
    with pytest.raises(ValueError, match="0 times"), altered("no such text", ""):
        pass
