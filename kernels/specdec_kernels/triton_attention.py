"""The kernels of a verify step's attention over a paged cache, split over the positions and merged.

`attention_kernel` gives each split of a row's positions its own softmax (largest score, sum behind it, weighted V);
`merge_kernel` brings them to one scale and divides. The N queries of all query heads that share a kv head are the rows
of one matrix product, so that K and V are read once for all of them.
Invariant: only slots are read that a query of the row sees; the result depends on the number of splits in its rounding
only. Nothing is copied to the host: a row that cannot be used (a block id outside the store, a length that the table
cannot hold, a count outside [0, N]) answers with NaN, and none of its wrong addresses is followed. The torch reference
is `specdec_kernels.attention.attend`. It does not know models, and it gives no gradient.

Letters: B rows, H kv heads, R = Hq / H · N queries of a kv head, T positions, D head size, M blocks of a table.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specdec_kernels import arguments, backend

__all__ = ["OPTIONS", "attend", "attention_kernel", "merge_kernel", "plan", "splits_for"]

# Said aloud, because Triton versions differ in what they do unasked.
OPTIONS = {"num_warps": 8, "num_stages": 3, "enable_fp_fusion": True}
MOST_SPLITS = 64


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    tables_ptr,
    lengths_ptr,
    counts_ptr,
    tree_ptr,
    depths_ptr,
    partial_ptr,
    statistics_ptr,
    k_slot,
    k_head,
    v_slot,
    v_head,
    H,
    N,
    R,
    M,
    blocks,
    window,
    scale,
    D: tl.constexpr,
    TREE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE_Q: tl.constexpr,
    TILE_T: tl.constexpr,
    TILE_D: tl.constexpr,
):
    """Attend from one tile of queries to one split of the positions: program (row, kv head and tile, split).

    Strides are in elements. Writes Σ exp(score − top) · V to `partial` [B, H, R, splits, D], and top and Σ exp(score −
    top) to `statistics` [B, H, R, splits, 2].
    """
    # 1. Which queries these are: query r of the kv head is query i of the row, under one of its query heads.
    row = tl.program_id(0).to(tl.int64)
    tiles_q = tl.cdiv(R, TILE_Q)
    head = (tl.program_id(1) // tiles_q).to(tl.int64)
    r = (tl.program_id(1) % tiles_q) * TILE_Q + tl.arange(0, TILE_Q)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    i = r % N
    # 2. The row's pointer C and how many of its queries are real; is there a table for that much?
    length = tl.load(lengths_ptr + row)
    count = tl.load(counts_ptr + row)
    held = tl.full([], M, tl.int64) * BLOCK_SIZE
    wrong = (count < 0) | (count > N) | (length < 0) | (length > held) | (length + count > held)
    wrong = wrong & (count != 0)
    runs = (count != 0) & ~wrong
    C = tl.where(runs, length, 0).to(tl.int32)
    count = tl.where(runs, count, 0).to(tl.int32)
    asks = (r < R) & (i < count)
    depth = i
    if TREE:
        depth = tl.load(depths_ptr + row * N + i, mask=asks, other=0).to(tl.int32)
    # 3. The positions that some query of the row sees: from the window of the first to the last new token.
    first = tl.maximum(C - window + 1, 0)
    end = C + count
    first_tile = first // TILE_T
    tiles = tl.where(runs, tl.cdiv(end, TILE_T) - first_tile, 0)
    # 4. The queries, padded with zeros to whole tiles.
    d = tl.arange(0, TILE_D)
    flat = (row * H + head) * R + r
    q = tl.load(q_ptr + flat[:, None] * D + d[None, :], mask=asks[:, None] & (d < D)[None, :], other=0.0)
    top = tl.full([TILE_Q], float("-inf"), dtype=tl.float32)
    total = tl.zeros([TILE_Q], dtype=tl.float32)
    weighted = tl.zeros([TILE_Q, TILE_D], dtype=tl.float32)
    for tile in range(first_tile + split * tiles // splits, first_tile + (split + 1) * tiles // splits):
        # 5. The slots of these positions, through the table; a block id outside the store is not followed.
        t = tile * TILE_T + tl.arange(0, TILE_T)
        needed = (t >= first) & (t < end)
        block = tl.load(tables_ptr + row * M + t // BLOCK_SIZE, mask=needed, other=0).to(tl.int64)
        known = needed & (block >= 0) & (block < blocks)
        slot = block * BLOCK_SIZE + t % BLOCK_SIZE
        inside = known[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + slot[:, None] * k_slot + head * k_head + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + slot[:, None] * v_slot + head * v_head + d[None, :], mask=inside, other=0.0)
        # 6. Who sees what: computed tokens within the window, new ones by order or by the tree.
        j = t - C
        within = t[None, :] > (C + depth - window)[:, None]
        if TREE:
            new = asks[:, None] & (needed & (j >= 0))[None, :]
            edge = tl.load(tree_ptr + (row * N + i)[:, None] * N + j[None, :], mask=new, other=0)
            sees = ((j < 0)[None, :] & within) | (edge != 0)
        else:
            sees = (j[None, :] <= i[:, None]) & within
        sees = sees & asks[:, None] & needed[None, :]
        # 7. Scores, and the softmax so far brought to the new largest one.
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(sees, score, float("-inf"))
        score = tl.where(sees & ~known[None, :], float("nan"), score)
        new_top = tl.maximum(top, tl.max(score, axis=1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        weight = tl.exp(score - base[:, None])
        keep = tl.exp(top - base)
        total = total * keep + tl.sum(weight, axis=1)
        weighted = weighted * keep[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        top = new_top
    # 8. This split's part; a row that cannot be used says so.
    total = tl.where(wrong, float("nan"), total)
    at = flat * splits + split
    tl.store(partial_ptr + at[:, None] * D + d[None, :], weighted, mask=(r < R)[:, None] & (d < D)[None, :])
    tl.store(statistics_ptr + at * 2, top, mask=r < R)
    tl.store(statistics_ptr + at * 2 + 1, total, mask=r < R)


@triton.jit
def merge_kernel(
    partial_ptr, statistics_ptr, output_ptr, splits, D: tl.constexpr, TILE_S: tl.constexpr, TILE_D: tl.constexpr
):
    """Merge the splits of one query under one head: program (query). A query that sees nothing gets zeros."""
    # 1. Each split's largest score and sum.
    flat = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, TILE_S)
    d = tl.arange(0, TILE_D)
    at = flat * splits + s
    top = tl.load(statistics_ptr + at * 2, mask=s < splits, other=float("-inf"))
    total = tl.load(statistics_ptr + at * 2 + 1, mask=s < splits, other=0.0)
    inside = (s < splits)[:, None] & (d < D)[None, :]
    weighted = tl.load(partial_ptr + at[:, None] * D + d[None, :], mask=inside, other=0.0)
    # 2. On one scale they add up.
    whole_top = tl.max(top, axis=0)
    factor = tl.exp(top - tl.where(whole_top == float("-inf"), 0.0, whole_top))
    whole = tl.sum(factor * total, axis=0)
    output = tl.sum(factor[:, None] * weighted, axis=0) / tl.where(whole == 0.0, 1.0, whole)
    tl.store(output_ptr + flat * D + d, output.to(output_ptr.dtype.element_ty), mask=d < D)


def plan(rows: int, size: int, itemsize: int) -> tuple[int, int, int]:
    """Return the queries, positions and width of a tile: powers of two, at least 16 as `tl.dot` wants them.

    As large as the registers and the shared memory of every compiled target hold without a spill.

    >>> plan(rows=20, size=128, itemsize=2), plan(rows=3, size=8, itemsize=4)
    ((32, 32, 128), (16, 64, 16))
    """
    width = max(16, triton.next_power_of_2(size))
    queries = min(64 if itemsize == 2 else 32, max(16, triton.next_power_of_2(rows)))
    return queries, min(64, max(16, 8192 // (itemsize * width))), width


def splits_for(programs: int, tiles: int, device: torch.device) -> int:
    """Return the number of splits: about four programs for each processor of a GPU, four tiles or more for each.

    `programs` would run without a split, each over at most `tiles`. The lengths are not read, so a table much longer
    than its rows leaves splits idle. Under the interpreter, whose cost is by the operation, one split.
    """
    if device.type != "cuda":
        return 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(4 * processors // max(programs, 1), tiles // 4, MOST_SPLITS))


def attend(
    q: Tensor,
    k_store: Tensor,
    v_store: Tensor,
    tables: Tensor,
    lengths: Tensor,
    counts: Tensor,
    tree: Tensor | None,
    depths: Tensor | None,
    window: int,
    block_size: int,
    scale: float,
    *,
    tile: int | None = None,
    splits: int | None = None,
) -> Tensor:
    """Launch both kernels; arguments as in `specdec_kernels.attention.attend`.

    `tile` (a power of two, at least 16) and `splits` replace the plan.
    """
    q, tables, lengths, counts, tree, depths = arguments.contiguous(  # type: ignore[assignment]
        q, tables, lengths, counts, tree, depths
    )
    batch, heads, queries, size = q.shape
    kv_heads, columns, dtype = k_store.shape[1], tables.shape[1], q.dtype
    if dtype == torch.bfloat16 and backend.interprets():
        # The interpreter computes with the bits of bfloat16 as if they were integers.
        q, k_store, v_store = q.float(), k_store.float(), v_store.float()
    rows = heads // kv_heads * queries
    output = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if output.numel() == 0:
        return output.to(dtype)
    tile_q, planned, tile_d = plan(rows, size, q.element_size())
    tile = tile or planned
    tiles_q = triton.cdiv(rows, tile_q)
    splits = splits or splits_for(batch * kv_heads * tiles_q, triton.cdiv(columns * block_size, tile), q.device)
    flat = batch * heads * queries
    partial = torch.empty(flat, splits, size, dtype=torch.float32, device=q.device)
    statistics = torch.empty(flat, splits, 2, dtype=torch.float32, device=q.device)
    attention_kernel[(batch, kv_heads * tiles_q, splits)](
        q,
        k_store,
        v_store,
        tables,
        lengths,
        counts,
        counts if tree is None else tree,
        counts if depths is None else depths,
        partial,
        statistics,
        k_store.stride(0),
        k_store.stride(1),
        v_store.stride(0),
        v_store.stride(1),
        kv_heads,
        queries,
        rows,
        columns,
        k_store.shape[0] // block_size,
        window,
        scale,
        D=size,
        TREE=tree is not None,
        BLOCK_SIZE=block_size,
        TILE_Q=tile_q,
        TILE_T=tile,
        TILE_D=tile_d,
        **OPTIONS,
    )
    merge_kernel[(flat,)](
        partial, statistics, output, splits, D=size, TILE_S=triton.next_power_of_2(splits), TILE_D=tile_d, **OPTIONS
    )
    return output.to(dtype)
