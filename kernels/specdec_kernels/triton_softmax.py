"""The first of two kernels where drafts have logits: largest value and sum of every row that a verification can need.

Invariant: a row behind the last draft is not read; the tiles' partial results are merged in the order of the tiles, so
that the numbers depend on the tile's size but not on the number of splits; a row's scratch (an arrival counter for each
index) is all zeros before a launch and after it. The torch reference is `specdec_kernels.logits.softmax`. It does not
know what the rows are used for.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_scan import inspect_drafts, inverse_of, own_scratch

__all__ = ["statistics_kernel"]


@triton.jit
def statistics_kernel(
    draft_ptr,
    q_ptr,
    p_ptr,
    temperature,
    scratch_ptr,
    statistics_ptr,
    partial_ptr,
    K,
    V,
    tiles,
    PER_ROW: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_TILES: tl.constexpr,
):
    """Write top = max(x) and total = Σ exp(x − top), x = logit / temperature, of one row: program (row, index, split).

    Index 0 … K are the target's rows, K + 1 … 2K the draft's. A row without a softmax (−inf only, +inf or NaN in it)
    gets (0, NaN), so that every probability of it is NaN.
    """
    # 1. Which row this is, and whether anybody needs it.
    row = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    _k, _draft, count, _code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    of_target = index <= K
    needed = (of_target & (index <= count)) | ((index > K) & (index - K - 1 < count))
    inverse_temperature = inverse_of(temperature, row, PER_ROW)
    flat = row * (2 * K + 1) + index
    p_offset = (row * (K + 1) + index) * V
    q_offset = (row * K + index - K - 1) * V
    # 2. The tiles of this split, each on its own.
    first = split * tiles // splits
    last = tl.where(needed, (split + 1) * tiles // splits, first)
    p_width = tl.where(of_target, V, 0)
    q_width = tl.where(of_target, 0, V)
    for tile in range(first, last):
        token = tile * BLOCK_V + tl.arange(0, BLOCK_V)
        x = tl.load(p_ptr + p_offset + token, mask=token < p_width, other=float("-inf")).to(tl.float32)
        y = tl.load(q_ptr + q_offset + token, mask=token < q_width, other=float("-inf")).to(tl.float32)
        x = tl.where(of_target, x, y) * inverse_temperature
        x = tl.where(token < V, x, float("-inf"))
        top = tl.max(x, axis=0)
        total = tl.sum(tl.exp(x - tl.where(tl.abs(top) < float("inf"), top, 0.0)), axis=0)
        at = partial_ptr + (flat * tiles + tile) * 2
        tl.store(at, top)
        tl.store(at + 1, total)
    # 3. The last to arrive merges all tiles.
    arrivals_ptr = own_scratch(scratch_ptr, row, K) + index
    tl.debug_barrier()
    arrived = tl.atomic_add(arrivals_ptr, tl.full([], 1, tl.int64))
    if arrived == splits - 1:
        each = tl.arange(0, BLOCK_TILES)
        mine = each < tl.where(needed, tiles, 0)
        from_ptr = partial_ptr + (flat * tiles + each) * 2
        tops = tl.load(from_ptr, mask=mine, other=float("-inf"), cache_modifier=".cg")
        totals = tl.load(from_ptr + 1, mask=mine, other=0.0, cache_modifier=".cg")
        whole_top = tl.max(tops, axis=0)
        fine = tl.abs(whole_top) < float("inf")
        whole_top = tl.where(fine, whole_top, 0.0)
        whole = tl.where(fine, tl.sum(totals * tl.exp(tops - whole_top), axis=0), float("nan"))
        tl.store(statistics_ptr + flat * 2, whole_top)
        tl.store(statistics_ptr + flat * 2 + 1, whole)
        tl.store(arrivals_ptr, tl.full([], 0, tl.int64))
