"""The kernels that append K and V, move slots together and move lengths, all in place.

Invariant: one launch, no allocation, no copy to the host; a slot outside the cache is not touched. The torch references
stand in `specdec_kernels.cache`, which checks the arguments. It does not know what the lengths stand for.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["append", "append_kernel", "compact", "compact_kernel", "move", "move_kernel"]


@triton.jit
def append_kernel(
    cache_k_ptr,
    cache_v_ptr,
    new_k_ptr,
    new_v_ptr,
    lengths_ptr,
    cache_k_b,
    cache_k_h,
    cache_k_t,
    cache_k_d,
    cache_v_b,
    cache_v_h,
    cache_v_t,
    cache_v_d,
    new_k_b,
    new_k_h,
    new_k_n,
    new_k_d,
    new_v_b,
    new_v_h,
    new_v_n,
    new_v_d,
    T,
    N,
    D,
    BLOCK: tl.constexpr,
):
    """Copy N entries of one head behind its row's length: program (row, head, part). Strides are in elements."""
    # 1. Which elements of [N, D] this program copies, and where they go.
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    offset = tl.program_id(2).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = offset // D
    d = offset % D
    slot = tl.load(lengths_ptr + row) + n
    fits = (n < N) & (slot >= 0) & (slot < T)
    # 2. K, then V.
    k = tl.load(new_k_ptr + row * new_k_b + head * new_k_h + n * new_k_n + d * new_k_d, mask=fits)
    tl.store(cache_k_ptr + row * cache_k_b + head * cache_k_h + slot * cache_k_t + d * cache_k_d, k, mask=fits)
    v = tl.load(new_v_ptr + row * new_v_b + head * new_v_h + n * new_v_n + d * new_v_d, mask=fits)
    tl.store(cache_v_ptr + row * cache_v_b + head * cache_v_h + slot * cache_v_t + d * cache_v_d, v, mask=fits)


@triton.jit
def compact_kernel(
    cache_k_ptr,
    cache_v_ptr,
    sources_ptr,
    targets_ptr,
    cache_k_b,
    cache_k_h,
    cache_k_t,
    cache_k_d,
    cache_v_b,
    cache_v_h,
    cache_v_t,
    cache_v_d,
    T,
    N,
    D,
    BLOCK: tl.constexpr,
):
    """Copy N slots of one head to others, one after the other: program (row, head, part of D). Strides in elements."""
    # 1. Which elements of a slot this program copies: the same ones of every slot, so nobody waits for anybody.
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    d = tl.program_id(2).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    k_ptr = cache_k_ptr + row * cache_k_b + head * cache_k_h + d * cache_k_d
    v_ptr = cache_v_ptr + row * cache_v_b + head * cache_v_h + d * cache_v_d
    for n in range(N):
        # 2. Where from and where to; a slot outside the cache is not touched.
        source = tl.load(sources_ptr + row * N + n)
        target = tl.load(targets_ptr + row * N + n)
        fits = (source >= 0) & (source < T) & (target >= 0) & (target < T)
        inside = (d < D) & fits
        # 3. K, then V.
        k = tl.load(k_ptr + source * cache_k_t, mask=inside)
        tl.store(k_ptr + target * cache_k_t, k, mask=inside)
        v = tl.load(v_ptr + source * cache_v_t, mask=inside)
        tl.store(v_ptr + target * cache_v_t, v, mask=inside)


@triton.jit
def move_kernel(lengths_ptr, drafted_ptr, accepted_ptr, B, capacity, ROLLBACK: tl.constexpr, BLOCK: tl.constexpr):
    """Move B lengths by accepted + 1, or back by drafted − accepted, and keep them in [0, capacity]."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < B
    length = tl.load(lengths_ptr + row, mask=inside, other=0)
    step = tl.load(accepted_ptr + row, mask=inside, other=0) + 1
    if ROLLBACK:
        step = step - 1 - tl.load(drafted_ptr + row, mask=inside, other=0)
    moved = tl.maximum(tl.minimum(length + step, capacity), 0)
    tl.store(lengths_ptr + row, moved, mask=inside)


def append(cache_k: Tensor, cache_v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor) -> None:
    """Launch `append_kernel`; arguments as in `specdec_kernels.cache.append_kv`."""
    batch, heads, slots, size = cache_k.shape
    count = new_k.shape[2]
    if batch * heads * count * size == 0:
        return
    block = min(1024, triton.next_power_of_2(count * size))
    strides = (*cache_k.stride(), *cache_v.stride(), *new_k.stride(), *new_v.stride())
    append_kernel[(batch, heads, triton.cdiv(count * size, block))](
        cache_k, cache_v, new_k, new_v, lengths.contiguous(), *strides, slots, count, size, BLOCK=block
    )


def compact(cache_k: Tensor, cache_v: Tensor, sources: Tensor, targets: Tensor) -> None:
    """Launch `compact_kernel`; arguments as in `specdec_kernels.cache.compact_kv`."""
    batch, heads, slots, size = cache_k.shape
    count = sources.shape[1]
    if batch * heads * count * size == 0:
        return
    block = min(1024, triton.next_power_of_2(size))
    strides = (*cache_k.stride(), *cache_v.stride())
    compact_kernel[(batch, heads, triton.cdiv(size, block))](
        cache_k, cache_v, sources.contiguous(), targets.contiguous(), *strides, slots, count, size, BLOCK=block
    )


def move(lengths: Tensor, drafted: Tensor, accepted: Tensor, capacity: int, *, rollback: bool) -> None:
    """Launch `move_kernel`; arguments as in `specdec_kernels.cache.advance_lengths` and `rollback_lengths`."""
    if len(lengths):
        block = min(1024, triton.next_power_of_2(len(lengths)))
        move_kernel[(triton.cdiv(len(lengths), block),)](
            lengths, drafted, accepted, len(lengths), capacity, ROLLBACK=rollback, BLOCK=block
        )
