"""The kernel of the rejection rule: from K numbers, the one row that the verdict needs; then a race over that row.

Each program works out its row's verdict again, which costs less than to wait for another launch.
Invariant: outcomes do not depend on the number of splits; a row's scratch (the best candidate, arrivals) is all zeros
before a launch and after it. The torch reference is `specdec_kernels.reference`. It does not know where the tensors
come from. Statistics are those of `specdec_kernels.triton_softmax`.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_noise import uniform
from specdec_kernels.triton_scan import (
    first_status,
    inspect_drafts,
    inverse_of,
    leading,
    own_scratch,
    probability,
    scan_row,
    write_row,
)

__all__ = ["chain_kernel", "of_drafts"]


@triton.jit
def of_drafts(
    p_ptr,
    q_ptr,
    statistics_ptr,
    inverse_temperature,
    row,
    k,
    draft,
    count,
    K,
    V,
    HAS_Q: tl.constexpr,
    LOGITS: tl.constexpr,
):
    """Return p and q of the drafts, and a code where one is no number."""
    usable = (k < count) & (draft >= 0) & (draft < V)
    p_top, p_total = 0.0, 1.0
    q_top, q_total = 0.0, 1.0
    if LOGITS:
        at = statistics_ptr + (row * (2 * K + 1) + k) * 2
        p_top = tl.load(at, mask=usable, other=0.0)
        p_total = tl.load(at + 1, mask=usable, other=1.0)
        if HAS_Q:
            q_top = tl.load(at + (K + 1) * 2, mask=usable, other=0.0)
            q_total = tl.load(at + (K + 1) * 2 + 1, mask=usable, other=1.0)
    p = tl.load(p_ptr + (row * (K + 1) + k) * V + draft, mask=usable, other=0.0)
    p = probability(p, inverse_temperature, p_top, p_total, LOGITS)
    if HAS_Q:
        q = tl.load(q_ptr + (row * K + k) * V + draft, mask=usable, other=0.0)
        q = probability(q, inverse_temperature, q_top, q_total, LOGITS)
    else:
        q = tl.full(p.shape, 1.0, dtype=tl.float32)
    code = tl.where(usable & ~(tl.abs(q) < float("inf")), 5, 0)
    code = tl.where(usable & ~(tl.abs(p) < float("inf")), 4, code)
    return p, q, code


@triton.jit
def chain_kernel(
    draft_ptr,
    q_ptr,
    p_ptr,
    statistics_ptr,
    temperature,
    seed_ptr,
    position_ptr,
    uniform_ptr,
    scratch_ptr,
    accepted_ptr,
    tokens_ptr,
    degenerate_ptr,
    status_ptr,
    K,
    V,
    tiles,
    HAS_Q: tl.constexpr,
    LOGITS: tl.constexpr,
    PER_ROW: tl.constexpr,
    GIVEN_U: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Judge one row and draw the token that follows: program (row, split)."""
    # 1. This row's drafts, with p and q of each.
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    splits = tl.num_programs(1)
    seed = tl.load(seed_ptr + row)
    position = tl.load(position_ptr + row)
    inverse_temperature = 1.0
    if LOGITS:
        inverse_temperature = inverse_of(temperature, row, PER_ROW)
    k, draft, count, code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    p_K, q_K, number_code = of_drafts(
        p_ptr, q_ptr, statistics_ptr, inverse_temperature, row, k, draft, count, K, V, HAS_Q, LOGITS
    )
    # 2. The numbers that judge them.
    if GIVEN_U:
        u = tl.load(uniform_ptr + row * K + k, mask=k < count, other=0.5)
        code = tl.where((code == 0) & ~((u > 0.0) & (u < 1.0)), 3, code)
    else:
        u = uniform(seed, position + k, 1)
    status = first_status(code, k, BLOCK_K)
    # 3. How many stand.
    stands = (u * q_K < p_K) & (k < count) & (number_code == 0)
    n = leading(stands, k, count, BLOCK_K)
    failed = tl.max(tl.where(k == n, number_code, 0), axis=0)
    status = tl.where((status == 0) & (failed > 0), failed | (n << 8), status)
    # 4. Race over this split's part of row n.
    corrects = n < count
    drop = tl.where(corrects, tl.sum(tl.where(k == n, draft, 0), axis=0), -1)
    q_width = tl.where(corrects, V, 0)
    p_top, p_total = 0.0, 1.0
    q_top, q_total = 0.0, 1.0
    if LOGITS:
        at = statistics_ptr + (row * (2 * K + 1) + n) * 2
        p_top = tl.load(at)
        p_total = tl.load(at + 1)
        if HAS_Q:
            q_top = tl.load(at + (K + 1) * 2, mask=corrects, other=0.0)
            q_total = tl.load(at + (K + 1) * 2 + 1, mask=corrects, other=1.0)
    first = split * tiles // splits
    last = tl.where(status == 0, (split + 1) * tiles // splits, first)
    best, _units = scan_row(
        p_ptr + (row * (K + 1) + n) * V,
        q_ptr + (row * K + n) * V,
        first,
        last,
        V,
        q_width,
        drop,
        1.0,
        seed,
        position + n,
        inverse_temperature,
        p_top,
        p_total,
        q_top,
        q_total,
        2,
        HAS_Q,
        LOGITS,
        False,
        BLOCK_V,
    )
    # 5. Merge; the last program of the row to arrive writes, and leaves the scratch as it was.
    scratch_ptr = own_scratch(scratch_ptr, row, K)
    tl.atomic_max(scratch_ptr, best)
    arrived = tl.atomic_add(scratch_ptr + 1, tl.full([], 1, tl.int64))
    if arrived == splits - 1:
        best = tl.atomic_max(scratch_ptr, tl.full([], 0, tl.int64))
        write_row(
            row,
            k,
            draft,
            n,
            count,
            best,
            status,
            K,
            accepted_ptr,
            tokens_ptr,
            degenerate_ptr,
            status_ptr,
            True,
        )
        tl.store(scratch_ptr, tl.full([], 0, tl.int64))
        tl.store(scratch_ptr + 1, tl.full([], 0, tl.int64))
