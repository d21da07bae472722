"""One launch from logits to a verdict, where no draft has a distribution: every rule with one-hot drafts, and coupled.

A race needs no normaliser, and the residual of a one-hot draft is its row without one token. So each row is read once:
its largest value, the sum without the draft, and the winner without the draft (of the whole row behind the last draft
and under coupled), whichever row the verdict then needs.
Invariant: a row behind the last draft is not read; tiles are merged in their order, so that outcomes depend on the
tile's size in the last bits alone, and on the number of splits not at all; a row's scratch (arrivals, K + 1 arrivals by
step, K + 1 candidates) is all zeros before a launch and after it. The torch reference is
`specdec_kernels.reference` behind `specdec_kernels.logits.softmax`. It does not know how the drafts were made.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_block import prefix_weights, standing
from specdec_kernels.triton_noise import race_times, uniform
from specdec_kernels.triton_scan import (
    DRAFT_MARK,
    TARGET_MARK,
    first_status,
    inspect_drafts,
    inverse_of,
    leading,
    own_scratch,
    pack,
    write_row,
)

__all__ = ["logits_kernel"]


@triton.jit
def _logit(x_ptr, token, V, inverse_temperature):
    """Return logits / temperature of some ids, −inf for ids that do not exist."""
    inside = (token >= 0) & (token < V)
    x = tl.load(x_ptr + token, mask=inside, other=float("-inf")).to(tl.float32) * inverse_temperature
    return tl.where(inside, x, float("-inf"))


@triton.jit
def _merge(
    x_ptr,
    partial_ptr,
    candidate_ptr,
    drop,
    V,
    tiles,
    inverse_temperature,
    BLOCK_TILES: tl.constexpr,
):
    """Return p of the draft, the sum of p without it, and the best candidate, from all tiles of one row."""
    each = tl.arange(0, BLOCK_TILES)
    mine = each < tiles
    tops = tl.load(partial_ptr + each * 2, mask=mine, other=float("-inf"), cache_modifier=".cg")
    sums = tl.load(partial_ptr + each * 2 + 1, mask=mine, other=0.0, cache_modifier=".cg")
    found = tl.load(candidate_ptr + each, mask=mine, other=0, cache_modifier=".cg")
    # 1. The softmax's two numbers; a row without one is marked.
    top = tl.max(tops, axis=0)
    fine = tl.abs(top) < float("inf")
    top = tl.where(fine, top, 0.0)
    shrink = tl.exp(tops - top)
    rest = tl.sum(sums * shrink, axis=0)
    mass = tl.exp(_logit(x_ptr, drop, V, inverse_temperature) - top)
    fine = fine & (mass + rest < float("inf"))
    total = tl.where(fine, mass + rest, 1.0)
    # 2. Scores on one scale; what vanishes there is no candidate.
    score = ((found >> 31) & 0x7FFFFFFF).to(tl.int32).to(tl.float32, bitcast=True) * shrink
    again = pack(score, (found >> 62) & 1, (0x7FFFFFFF - (found & 0x7FFFFFFF)).to(tl.int32))
    best = tl.max(tl.where(score > 0, again, 0), axis=0)
    best = tl.where(fine, best, TARGET_MARK)
    return tl.where(fine, tl.div_rn(mass, total), float("nan")), tl.div_rn(rest, total), best


@triton.jit
def logits_kernel(
    draft_ptr,
    p_ptr,
    temperature,
    seed_ptr,
    position_ptr,
    uniform_ptr,
    scratch_ptr,
    statistics_ptr,
    partial_ptr,
    candidate_ptr,
    accepted_ptr,
    tokens_ptr,
    degenerate_ptr,
    status_ptr,
    K,
    V,
    tiles,
    COUPLED: tl.constexpr,
    BLOCK_RULE: tl.constexpr,
    PER_ROW: tl.constexpr,
    GIVEN_U: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_TILES: tl.constexpr,
):
    """Scan one target row: program (row, step, split)."""
    # 1. This row's drafts; steps behind the last one have nothing to do.
    row = tl.program_id(0).to(tl.int64)
    step = tl.program_id(1)
    split = tl.program_id(2)
    splits = tl.num_programs(2)
    seed = tl.load(seed_ptr + row)
    position = tl.load(position_ptr + row)
    inverse_temperature = inverse_of(temperature, row, PER_ROW)
    k, draft, count, code = inspect_drafts(draft_ptr, row, K, V, BLOCK_K)
    if GIVEN_U:
        u = tl.load(uniform_ptr + row * K + k, mask=k < count, other=0.5)
        code = tl.where((code == 0) & ~((u > 0.0) & (u < 1.0)), 3, code)
    status = first_status(code, k, BLOCK_K)
    works = (status == 0) & (step <= count)
    drop = tl.full([], -1, tl.int64)
    if not COUPLED:
        drop = tl.where(step < count, tl.sum(tl.where(k == step, draft, 0), axis=0), -1)
    # 2. The tiles of this split, each on the scale of its own largest value.
    STREAM: tl.constexpr = 3 if COUPLED else 2
    flat = row * (K + 1) + step
    x_ptr = p_ptr + flat * V
    partial_ptr += (row * (2 * K + 1) + step) * tiles * 2
    candidate_ptr += flat * tiles
    first = split * tiles // splits
    last = tl.where(works, (split + 1) * tiles // splits, first)
    for tile in range(first, last):
        token = tile * BLOCK_V + tl.arange(0, BLOCK_V)
        x = _logit(x_ptr, token, V, inverse_temperature)
        top = tl.max(x, axis=0)
        weight = tl.exp(x - tl.where(tl.abs(top) < float("inf"), top, 0.0))
        in_rest = token != drop
        score = tl.div_rn(weight, race_times(seed, position + step, STREAM, tile, BLOCK_V))
        candidate = tl.where(weight > 0, pack(score, in_rest, token), 0)
        tl.store(partial_ptr + tile * 2, top)
        tl.store(partial_ptr + tile * 2 + 1, tl.sum(tl.where(in_rest, weight, 0.0), axis=0))
        tl.store(candidate_ptr + tile, tl.max(candidate, axis=0))
    # 3. The last program of the step to arrive merges its tiles.
    scratch_ptr = own_scratch(scratch_ptr, row, K)
    statistics_ptr += row * (2 * K + 1) * 2
    tl.debug_barrier()
    arrived = tl.atomic_add(scratch_ptr + 1 + step, tl.full([], 1, tl.int64))
    if arrived == splits - 1:
        p, rest, best = _merge(
            x_ptr, partial_ptr, candidate_ptr, drop, V, tl.where(works, tiles, 0), inverse_temperature, BLOCK_TILES
        )
        tl.store(statistics_ptr + step * 2, p)
        tl.store(statistics_ptr + step * 2 + 1, rest)
        tl.store(scratch_ptr + K + 2 + step, best)
        tl.store(scratch_ptr + 1 + step, tl.full([], 0, tl.int64))
        # 4. The last step of the row to arrive judges, and leaves the scratch as it was.
        tl.debug_barrier()
        merged = tl.atomic_add(scratch_ptr, tl.full([], 1, tl.int64))
        if merged == K:
            of_step = k < K + 1
            found = tl.load(scratch_ptr + K + 2 + k, mask=of_step, other=0, cache_modifier=".cg")
            if COUPLED:
                token = 0x7FFFFFFF - (found & 0x7FFFFFFF)
                n = leading((token == draft) & (k < count) & (found > 0) & (found < DRAFT_MARK), k, count, BLOCK_K)
            else:
                p_K = tl.load(statistics_ptr + k * 2, mask=k < count, other=0.0, cache_modifier=".cg")
                if not GIVEN_U:
                    u = uniform(seed, position + k, 1)
                if BLOCK_RULE:
                    late = first_status(tl.where((k < count) & (found == TARGET_MARK), 4, 0), k, BLOCK_K)
                    status = tl.where(status == 0, late, status)
                    weights = prefix_weights(p_K, p_K, k, count, False)
                    behind = tl.load(statistics_ptr + k * 2 + 3, mask=k + 1 < count, other=0.0, cache_modifier=".cg")
                    n = standing(u, weights, weights * behind, k, count)
                else:
                    n = leading((u < p_K) & (k < count), k, count, BLOCK_K)
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
                not COUPLED,
            )
            tl.store(scratch_ptr, tl.full([], 0, tl.int64))
            tl.store(scratch_ptr + K + 2 + k, tl.zeros_like(draft), mask=of_step)
