"""The kernels of the rejection and block rules: one scans the row that the verdict needs, one weighs rows before it.

Under rejection, one launch of `chain_kernel`; under block, `mass_kernel` first. Each program works out its row's
verdict again from K numbers, which costs less than to wait for another launch.
Invariant: outcomes do not depend on the number of splits; the scratch is all zeros before a launch and after it. The
torch reference is `specdec_kernels.reference`. It does not know where the tensors come from.

Scratch, int64 `[B, 2K + 2]`: the best candidate, the arrivals, S₀ … S_{K−1} in units of 2⁻⁵², and a mark for rows of
these that are not numbers. Statistics, float32 `[B, 2K + 1, 2]`: largest logit / temperature and the sum behind it,
for K + 1 target rows, then K draft rows.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_noise import uniform
from specdec_kernels.triton_scan import first_status, inspect_drafts, probability, scan_row, write_row

__all__ = ["chain_kernel", "mass_kernel"]


@triton.jit
def _of_drafts(
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
def _prefix_weights(p, q, k, count):
    """Return w₁ … as a vector: element k is the weight of the prefix of k + 1 drafts."""
    weight = tl.full([], 1.0, tl.float32)
    weights = tl.full(p.shape, 1.0, dtype=tl.float32)
    for i in range(count):
        p_i = tl.sum(tl.where(k == i, p, 0.0), axis=0)
        q_i = tl.sum(tl.where(k == i, q, 0.0), axis=0)
        product = weight * p_i
        whole = product >= q_i
        ratio = tl.where(whole, 1.0, tl.div_rn(product, tl.where(whole, 1.0, q_i)))
        weight = tl.where(product <= 0.0, 0.0, ratio)
        weights = tl.where(k == i, weight, weights)
    return weights


@triton.jit
def mass_kernel(
    draft_ptr,
    q_ptr,
    p_ptr,
    statistics_ptr,
    temperature_ptr,
    scratch_ptr,
    K,
    V,
    tiles,
    HAS_Q: tl.constexpr,
    LOGITS: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Add up Sᵢ = Σ[wᵢ·p − q]₊ of one row and one i in 1 … K − 1: program (row, i − 1, split)."""
    # 1. The weight of the prefix of i drafts.
    row = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) + 1
    split = tl.program_id(2)
    inverse_temperature = 1.0
    if LOGITS:
        inverse_temperature = tl.div_rn(1.0, tl.load(temperature_ptr + row))
    k, draft, count, _code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    p_K, q_K, _code = _of_drafts(
        p_ptr, q_ptr, statistics_ptr, inverse_temperature, row, k, draft, count, K, V, HAS_Q, LOGITS
    )
    weights = _prefix_weights(p_K, q_K, k, count)
    scale = tl.sum(tl.where(k == i - 1, weights, 0.0), axis=0)
    drop = tl.sum(tl.where(k == i, draft, 0), axis=0)
    p_top, p_total = 0.0, 1.0
    q_top, q_total = 0.0, 1.0
    if LOGITS:
        at = statistics_ptr + (row * (2 * K + 1) + i) * 2
        p_top = tl.load(at, mask=i < count, other=0.0)
        p_total = tl.load(at + 1, mask=i < count, other=1.0)
        if HAS_Q:
            q_top = tl.load(at + (K + 1) * 2, mask=i < count, other=0.0)
            q_total = tl.load(at + (K + 1) * 2 + 1, mask=i < count, other=1.0)
    # 2. This split's tiles; a row behind the last draft has none.
    fill: tl.constexpr = float("-inf") if LOGITS else 0.0
    splits = tl.num_programs(2)
    first = split * tiles // splits
    last = tl.where(i < count, (split + 1) * tiles // splits, first)
    units = tl.zeros([BLOCK_V], dtype=tl.int64)
    worst = tl.zeros([BLOCK_V], dtype=tl.int32)
    for tile in range(first, last):
        token = tile * BLOCK_V + tl.arange(0, BLOCK_V)
        inside = token < V
        p = tl.load(p_ptr + (row * (K + 1) + i) * V + token, mask=inside, other=fill)
        p = probability(p, inverse_temperature, p_top, p_total, LOGITS)
        if HAS_Q:
            q = tl.load(q_ptr + (row * K + i) * V + token, mask=inside, other=fill)
            q = probability(q, inverse_temperature, q_top, q_total, LOGITS)
            rest = scale * p - q
            worst = tl.maximum(worst, tl.where(inside & ~(tl.abs(q) < float("inf")), 1, 0))
        else:
            rest = tl.where(token == drop, 0.0, scale * p)
        worst = tl.maximum(worst, tl.where(inside & ~(tl.abs(p) < float("inf")), 2, 0))
        # 3. As integers: their sum is exact in any order.
        rest = tl.where(inside & (rest > 0) & (rest < float("inf")), rest, 0.0)
        units += (rest * 4503599627370496.0).to(tl.int64)
    slot = scratch_ptr + row * (2 * K + 2) + 2 + i
    tl.atomic_add(slot, tl.sum(units, axis=0))
    tl.atomic_max(slot + K, tl.max(worst, axis=0).to(tl.int64))


@triton.jit
def chain_kernel(
    draft_ptr,
    q_ptr,
    p_ptr,
    statistics_ptr,
    temperature_ptr,
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
    BLOCK_RULE: tl.constexpr,
    HAS_Q: tl.constexpr,
    LOGITS: tl.constexpr,
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
        inverse_temperature = tl.div_rn(1.0, tl.load(temperature_ptr + row))
    k, draft, count, code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    p_K, q_K, number_code = _of_drafts(
        p_ptr, q_ptr, statistics_ptr, inverse_temperature, row, k, draft, count, K, V, HAS_Q, LOGITS
    )
    # 2. The numbers that judge them.
    if GIVEN_U:
        u = tl.load(uniform_ptr + row * K + k, mask=k < count, other=0.5)
        code = tl.where((code == 0) & ~((u > 0.0) & (u < 1.0)), 3, code)
    else:
        u = uniform(seed, position + k, 1)
    status = first_status(code, k, BLOCK_K)
    # 3. How many stand, and the factor of p in the residual behind them.
    scratch_ptr += row * (2 * K + 2)
    scale = 1.0
    if BLOCK_RULE:
        weights = _prefix_weights(p_K, q_K, k, count)
        before_last = k + 1 < count
        units = tl.load(scratch_ptr + 3 + k, mask=before_last, other=0)
        marks = tl.load(scratch_ptr + 3 + K + k, mask=before_last, other=0)
        mass = tl.where(before_last, units.to(tl.float32) * (1.0 / 4503599627370496.0), weights)
        total = tl.where(before_last, mass + (1.0 - weights), 1.0)
        n = tl.max(tl.where((u * total < mass) & (k < count), k + 1, 0), axis=0)
        scale = tl.where((n == 0) | (n == count), 1.0, tl.sum(tl.where(k == n - 1, weights, 0.0), axis=0))
        mark_step = tl.min(tl.where(marks > 0, k + 1, BLOCK_K), axis=0)
        mark = tl.max(tl.where(k + 1 == mark_step, marks, 0), axis=0)
        late = first_status(number_code, k, BLOCK_K)
        late = tl.where((late == 0) & (mark > 0), tl.where(mark == 2, 4, 5) | (mark_step << 8), late)
    else:
        stands = (u * q_K < p_K) & (k < count) & (number_code == 0)
        n = tl.min(tl.where(stands, BLOCK_K, tl.where(k < count, k, count)), axis=0)
        n = tl.minimum(n, count)
        failed = tl.max(tl.where(k == n, number_code, 0), axis=0)
        late = tl.where(failed > 0, failed | (n << 8), 0)
    status = tl.where(status == 0, late, status)
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
    best = scan_row(
        p_ptr + (row * (K + 1) + n) * V,
        q_ptr + (row * K + n) * V,
        first,
        last,
        V,
        q_width,
        drop,
        scale,
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
        BLOCK_V,
    )
    # 5. Merge; the last program of the row to arrive writes, and leaves the scratch as it was.
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
        if BLOCK_RULE:
            tl.store(scratch_ptr + 2 + k, tl.zeros_like(draft), mask=k < K)
            tl.store(scratch_ptr + 2 + K + k, tl.zeros_like(draft), mask=k < K)
