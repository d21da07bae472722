"""What every verifying kernel does with a row: read probabilities, race over its tokens, merge, write the outcome.

A candidate is one int64: bit 62 says that the token is in the residual (a token of the bare target row comes second),
bits 61…31 are the score's float32 bits, bits 30…0 hold 2³¹ − 1 − id. The largest wins: residual before row, high score
before low, low id before high; 0 is nobody, and two values above all of them mark rows that are not numbers.
Invariant: taking the largest is associative and exact, so the winner depends on neither tiles, splits nor order. It
does not know which row is scanned. These are helpers; none is launched.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

from specdec_kernels.triton_noise import race_times

__all__ = [
    "DRAFT_MARK",
    "TARGET_MARK",
    "first_status",
    "inspect_drafts",
    "inverse_of",
    "leading",
    "own_scratch",
    "pack",
    "probability",
    "scan_row",
    "write_row",
]

TARGET_MARK = tl.constexpr(9223372036854775807)
DRAFT_MARK = tl.constexpr(9223372036854775806)


@triton.jit
def own_scratch(scratch_ptr, row, K):
    """Return where the 3K + 4 words of a row's scratch begin."""
    return scratch_ptr + row * (3 * K + 4)


@triton.jit
def inverse_of(temperature, row, PER_ROW: tl.constexpr):
    """Return 1 / temperature; a number for all rows, or a pointer to one for each."""
    if PER_ROW:
        temperature = tl.load(temperature + row)
    return tl.div_rn(1.0, temperature)


@triton.jit
def pack(score, in_rest, token):
    """Return the candidates of tokens with a score: the residual's before the row's own."""
    bits = score.to(tl.int32, bitcast=True).to(tl.int64)
    return (in_rest.to(tl.int64) << 62) | (bits << 31) | (0x7FFFFFFF - token).to(tl.int64)


@triton.jit
def probability(x, inverse_temperature, top, total, LOGITS: tl.constexpr):
    """Return x as it is, or the softmax of a logit x from its row's largest value and sum."""
    x = x.to(tl.float32)
    if LOGITS:
        x = tl.div_rn(tl.exp(x * inverse_temperature - top), total)
    return x


@triton.jit
def inspect_drafts(draft_ptr, row, K, V, BLOCK_K: tl.constexpr):
    """Return step numbers, drafts (−1 behind the row), their count, and codes for ids or padding that are wrong."""
    k = tl.arange(0, BLOCK_K)
    draft = tl.load(draft_ptr + row * K + k, mask=k < K, other=-1)
    count = tl.min(tl.where(draft == -1, k, K), axis=0)
    code = tl.where((k >= count) & (draft != -1), 2, 0)
    code = tl.where((draft < -1) | (draft >= V), 1, code)
    return k, draft, count, code


@triton.jit
def first_status(code, k, BLOCK_K: tl.constexpr):
    """Return code | step << 8 of the first step with a code, else 0."""
    step = tl.min(tl.where(code > 0, k, BLOCK_K), axis=0)
    found = tl.max(tl.where(k == step, code, 0), axis=0)
    return tl.where(found > 0, found | (step << 8), 0)


@triton.jit
def leading(holds, k, count, BLOCK_K: tl.constexpr):
    """Return how many of the first `count` steps hold without a gap."""
    n = tl.min(tl.where(holds, BLOCK_K, tl.where(k < count, k, count)), axis=0)
    return tl.minimum(n, count)


@triton.jit
def scan_row(
    p_ptr,
    q_ptr,
    first,
    last,
    V,
    q_width,
    drop,
    scale,
    seed,
    number,
    inverse_temperature,
    p_top,
    p_total,
    q_top,
    q_total,
    STREAM: tl.constexpr,
    HAS_Q: tl.constexpr,
    LOGITS: tl.constexpr,
    MASS: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    """Return the best candidate among tiles first … last − 1 of one row, for the weights [scale·p − q]₊ or p.

    With MASS also the sum of the former, in units of 2⁻⁵².
    `q_width` is V, or 0 where there is no q; `drop` is the drafted id under a one-hot q, or −1.
    """
    fill: tl.constexpr = float("-inf") if LOGITS else 0.0
    best = tl.zeros([BLOCK_V], dtype=tl.int64)
    units = tl.zeros([BLOCK_V], dtype=tl.int64)
    for tile in range(first, last):
        # 1. A tile of p; behind V the weight is 0.
        token = tile * BLOCK_V + tl.arange(0, BLOCK_V)
        inside = token < V
        p = probability(tl.load(p_ptr + token, mask=inside, other=fill), inverse_temperature, p_top, p_total, LOGITS)
        # 2. What of it the accepted law leaves.
        if HAS_Q:
            in_q = token < q_width
            q = tl.load(q_ptr + token, mask=in_q, other=fill)
            q = probability(q, inverse_temperature, q_top, q_total, LOGITS)
            rest = scale * p - q
        else:
            rest = tl.where(token == drop, 0.0, scale * p)
        in_rest = rest > 0
        weight = tl.where(in_rest, rest, p)
        # 3. Race: the score is 1 / arrival.
        score = tl.div_rn(weight, race_times(seed, number, STREAM, tile, BLOCK_V))
        candidate = tl.where((weight > 0) & inside, pack(score, in_rest, token), 0)
        # 4. The mass, as integers in units of 2⁻⁵²: their sum is exact in any order.
        if MASS:
            rest = tl.where(inside & in_rest & (rest < float("inf")), rest, 0.0)
            units += (rest * 4503599627370496.0).to(tl.int64)
        # 5. Rows that are not numbers outrank everything.
        if HAS_Q:
            candidate = tl.where((tl.abs(q) < float("inf")) | (token >= q_width), candidate, DRAFT_MARK)
        candidate = tl.where((tl.abs(p) < float("inf")) | (token >= V), candidate, TARGET_MARK)
        best = tl.maximum(best, candidate)
    return tl.max(best, axis=0), tl.sum(units, axis=0)


@triton.jit
def write_row(
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
    RESIDUAL: tl.constexpr,
):
    """Write a row's outcome from its best candidate: accepted drafts, the token that follows, −1, or a refusal."""
    bad = tl.where(best == 0, 6, 0)
    bad = tl.where(best == DRAFT_MARK, 5, bad)
    bad = tl.where(best == TARGET_MARK, 4, bad)
    status = tl.where((status == 0) & (bad > 0), bad | (n << 8), status)
    fine = status == 0
    token = 0x7FFFFFFF - (best & 0x7FFFFFFF)
    n = tl.where(fine, n, -1)
    emitted = tl.where(k < n, draft, tl.where(k == n, token, -1))
    tl.store(tokens_ptr + row * (K + 1) + k, emitted, mask=k < K + 1)
    tl.store(accepted_ptr + row, n.to(tl.int64))
    tl.store(status_ptr + row, status.to(tl.int64))
    empty = tl.where(fine & (n < count) & (best < (1 << 62)), 1, 0) if RESIDUAL else 0
    tl.store(degenerate_ptr + row, empty)
