"""The kernel of the coupled rule: each position's own token by one race, and the drafts that agree, in one launch.

Invariant: outcomes do not depend on the number of splits; a row's scratch (arrivals, then a candidate for each
position) is all zeros before a launch and after it. The torch reference is `specdec_kernels.reference`. It does not
know how the drafts were made.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_scan import (
    DRAFT_MARK,
    first_status,
    inspect_drafts,
    leading,
    own_scratch,
    scan_row,
    write_row,
)

__all__ = ["coupled_kernel"]


@triton.jit
def coupled_kernel(
    draft_ptr,
    p_ptr,
    seed_ptr,
    position_ptr,
    scratch_ptr,
    accepted_ptr,
    tokens_ptr,
    degenerate_ptr,
    status_ptr,
    K,
    V,
    tiles,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Race over one target row: program (row, step, split)."""
    # 1. This row's drafts; steps behind the last one have nothing to do.
    row = tl.program_id(0).to(tl.int64)
    step = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    seed = tl.load(seed_ptr + row)
    position = tl.load(position_ptr + row)
    k, draft, count, code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    status = first_status(code, k, BLOCK_K)
    works = (status == 0) & (step <= count)
    # 2. Race over this split's part of row `step`, with the noise of its position.
    first = split * tiles // splits
    last = tl.where(works, (split + 1) * tiles // splits, first)
    best, _units = scan_row(
        p_ptr + (row * (K + 1) + step) * V,
        p_ptr,
        first,
        last,
        V,
        0,
        -1,
        1.0,
        seed,
        position + step,
        1.0,
        0.0,
        1.0,
        0.0,
        1.0,
        3,
        False,
        False,
        False,
        BLOCK_V,
    )
    # 3. Merge; the last program of the row to arrive compares and writes.
    scratch_ptr = own_scratch(scratch_ptr, row, K)
    tl.atomic_max(scratch_ptr + 1 + step, best)
    arrived = tl.atomic_add(scratch_ptr, tl.full([], 1, tl.int64))
    if arrived == splits * (K + 1) - 1:
        found = tl.atomic_max(scratch_ptr + 1 + k, tl.zeros_like(draft), mask=k < K + 1)
        # Both marks carry the low bits of ids that no vocabulary holds, nobody that of the largest int.
        token = 0x7FFFFFFF - (found & 0x7FFFFFFF)
        agrees = (token == draft) & (k < count) & (found > 0) & (found < DRAFT_MARK)
        n = leading(agrees, k, count, BLOCK_K)
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
            False,
        )
        tl.store(scratch_ptr + 1 + k, tl.zeros_like(draft), mask=k < K + 1)
        tl.store(scratch_ptr, tl.full([], 0, tl.int64))
