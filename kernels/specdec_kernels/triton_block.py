"""The kernel of the block rule: every row's mass and its race in one pass, and the longest prefix that may stand.

Which row the token comes from is known when the masses are; a race over each row on the way costs less than to read one
of them again behind another launch.
Invariant: outcomes do not depend on the number of splits, since masses are sums of integers; a row's scratch (arrivals,
K + 1 candidates, K + 1 masses in units of 2⁻⁵²) is all zeros before a launch and after it. The torch reference is
`specdec_kernels.block`. It does not know where the tensors come from.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_chain import of_drafts
from specdec_kernels.triton_noise import uniform
from specdec_kernels.triton_scan import (
    DRAFT_MARK,
    TARGET_MARK,
    first_status,
    inspect_drafts,
    inverse_of,
    own_scratch,
    scan_row,
    write_row,
)

__all__ = ["block_kernel", "prefix_weights", "standing"]


@triton.jit
def prefix_weights(p, q, k, count, HAS_Q: tl.constexpr):
    """Return w₁ … as a vector: element k is the weight of the prefix of k + 1 drafts; q is 1 without HAS_Q."""
    weight = tl.full([], 1.0, tl.float32)
    weights = tl.full(p.shape, 1.0, dtype=tl.float32)
    for i in range(count):
        p_i = tl.sum(tl.where(k == i, p, 0.0), axis=0)
        q_i = 1.0
        if HAS_Q:
            q_i = tl.sum(tl.where(k == i, q, 0.0), axis=0)
        product = weight * p_i
        whole = product >= q_i
        ratio = tl.where(whole, 1.0, tl.div_rn(product, tl.where(whole, 1.0, q_i)))
        weight = tl.where(product <= 0.0, 0.0, ratio)
        weights = tl.where(k == i, weight, weights)
    return weights


@triton.jit
def standing(u, weights, masses, k, count):
    """Return the longest prefix that may stand; element k of `masses` is what the prefix of k + 1 drafts leaves."""
    before_last = k + 1 < count
    mass = tl.where(before_last, masses, weights)
    total = tl.where(before_last, mass + (1.0 - weights), 1.0)
    return tl.max(tl.where((u * total < mass) & (k < count), k + 1, 0), axis=0)


@triton.jit
def block_kernel(
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
    """Weigh one row and race over it: program (row, step, split); step i comes behind the prefix of i drafts."""
    # 1. This row's drafts, with p and q of each, and the numbers that judge them.
    row = tl.program_id(0).to(tl.int64)
    step = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    seed = tl.load(seed_ptr + row)
    position = tl.load(position_ptr + row)
    inverse_temperature = 1.0
    if LOGITS:
        inverse_temperature = inverse_of(temperature, row, PER_ROW)
    k, draft, count, code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    p_K, q_K, number_code = of_drafts(
        p_ptr, q_ptr, statistics_ptr, inverse_temperature, row, k, draft, count, K, V, HAS_Q, LOGITS
    )
    if GIVEN_U:
        u = tl.load(uniform_ptr + row * K + k, mask=k < count, other=0.5)
        code = tl.where((code == 0) & ~((u > 0.0) & (u < 1.0)), 3, code)
    else:
        u = uniform(seed, position + k, 1)
    status = first_status(code, k, BLOCK_K)
    late = first_status(number_code, k, BLOCK_K)
    status = tl.where(status == 0, late, status)
    # 2. The factor of p behind this prefix: 1 before the first draft and behind the last.
    weights = prefix_weights(p_K, q_K, k, count, HAS_Q)
    inner = (step > 0) & (step < count)
    scale = tl.where(inner, tl.sum(tl.where(k == step - 1, weights, 0.0), axis=0), 1.0)
    corrects = step < count
    drop = tl.where(corrects, tl.sum(tl.where(k == step, draft, 0), axis=0), -1)
    works = (status == 0) & (step <= count)
    p_top, p_total = 0.0, 1.0
    q_top, q_total = 0.0, 1.0
    if LOGITS:
        at = statistics_ptr + (row * (2 * K + 1) + step) * 2
        p_top = tl.load(at, mask=works, other=0.0)
        p_total = tl.load(at + 1, mask=works, other=1.0)
        if HAS_Q:
            q_top = tl.load(at + (K + 1) * 2, mask=corrects & works, other=0.0)
            q_total = tl.load(at + (K + 1) * 2 + 1, mask=corrects & works, other=1.0)
    # 3. This split's part of the row: its best candidate and its mass.
    first = split * tiles // splits
    last = tl.where(works, (split + 1) * tiles // splits, first)
    best, units = scan_row(
        p_ptr + (row * (K + 1) + step) * V,
        q_ptr + (row * K + step) * V,
        first,
        last,
        V,
        tl.where(corrects, V, 0),
        drop,
        scale,
        seed,
        position + step,
        inverse_temperature,
        p_top,
        p_total,
        q_top,
        q_total,
        2,
        HAS_Q,
        LOGITS,
        True,
        BLOCK_V,
    )
    # 4. Merge; the last program of the row to arrive knows every mass.
    scratch_ptr = own_scratch(scratch_ptr, row, K)
    tl.atomic_max(scratch_ptr + 1 + step, best)
    tl.atomic_add(scratch_ptr + K + 2 + step, units)
    arrived = tl.atomic_add(scratch_ptr, tl.full([], 1, tl.int64))
    if arrived == splits * (K + 1) - 1:
        of_step = k < K + 1
        found = tl.load(scratch_ptr + 1 + k, mask=of_step, other=0, cache_modifier=".cg")
        behind = tl.load(scratch_ptr + K + 3 + k, mask=k < K, other=0, cache_modifier=".cg")
        masses = behind.to(tl.float32) * (1.0 / 4503599627370496.0)
        n = standing(u, weights, masses, k, count)
        # 5. A row between the drafts that is not numbers, wherever the verdict falls.
        bad = tl.where(found == TARGET_MARK, 4, tl.where(found == DRAFT_MARK, 5, 0))
        late = first_status(tl.where((k > 0) & (k < count), bad, 0), k, BLOCK_K)
        status = tl.where(status == 0, late, status)
        best = tl.sum(tl.where(k == n, found, 0), axis=0)
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
        tl.store(scratch_ptr + 1 + k, tl.zeros_like(draft), mask=of_step)
        tl.store(scratch_ptr + K + 2 + k, tl.zeros_like(draft), mask=of_step)
