"""The random numbers of verification inside a kernel: the law of `specdec_kernels.noise`, word for word.

Invariant: the same words and, where multiplications and additions are not fused, the same float32 bits as the torch
functions of the same names. It does not know what a number is used for. These are helpers; none is launched.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators, allow-incomplete-defs, allow-untyped-calls

import triton
import triton.language as tl

__all__ = ["philox_words", "race_time", "race_times", "uniform"]


@triton.jit
def philox_words(seed, number, STREAM: tl.constexpr, lane):
    """Return the four words at (number, stream, lane) under a 64-bit seed; number and lane broadcast together."""
    number = number.to(tl.int64)
    low = (number & 0xFFFFFFFF).to(tl.uint32)
    high = ((number >> 32) & 0xFFFFFFFF).to(tl.uint32)
    lane = lane.to(tl.uint32)
    zero = (lane ^ lane) + (low ^ low)
    return tl.philox(seed, low + zero, high + zero, zero + STREAM, lane + zero)


@triton.jit
def uniform(seed, number, STREAM: tl.constexpr):
    """Return the acceptance number in (0, 1) for a vector of draw numbers."""
    word, _1, _2, _3 = philox_words(seed, number, STREAM, tl.zeros_like(number))
    return ((word >> 9) * 2 + 1).to(tl.float32) * (1.0 / 16777216.0)


@triton.jit
def race_time(word):
    """Return −log(1 − (x + ½)·2⁻³²) for a tensor of words; see `specdec_kernels.noise.race_time`."""
    # 1. U, its largest value held below 1.
    u = tl.minimum((word.to(tl.float32) + 0.5) * (1.0 / 4294967296.0), 1.0 - 1.0 / 16777216.0)
    # 2. 1 − U = m·2ᵉ with m in [√½, √2), by the bits.
    bits = (1.0 - u).to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23
    m = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    f = tl.where(exponent == 0, -u, m - 1.0)
    # 3. log m by its series.
    series = f * -0.0763423889875412 + 0.12761473655700684
    series = series * f + -0.13160231709480286
    series = series * f + 0.14201775193214417
    series = series * f + -0.16623353958129883
    series = series * f + 0.20001226663589478
    series = series * f + -0.250008225440979
    series = series * f + 0.3333333134651184
    square = f * f
    log_m = f - (square * 0.5 - square * f * series)
    return (-exponent).to(tl.float32) * 0.6931471805599453 - log_m


@triton.jit
def race_times(seed, number, STREAM: tl.constexpr, tile, BLOCK_V: tl.constexpr):
    """Return the arrival times of the BLOCK_V tokens of one tile; four neighbours share one Philox call."""
    lane = tile * (BLOCK_V // 4) + tl.arange(0, BLOCK_V // 4)
    w0, w1, w2, w3 = philox_words(seed, number, STREAM, lane)
    # join puts its second argument last: [lane, 2, 2] in the order w0, w1, w2, w3.
    four = tl.join(tl.join(w0, w2), tl.join(w1, w3))
    return race_time(tl.reshape(four, [BLOCK_V]))
