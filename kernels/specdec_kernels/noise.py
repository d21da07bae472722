"""The random numbers of verification as torch tensors: Philox 4×32-10 by counter, the same words as in the kernels.

The law, for a row with a 64-bit seed. The key is (seed low, seed high); the counter is (number low, number high,
stream, lane), each a 32-bit word; x is one of the four words that come out.

- Stream 1, acceptance: draft i is judged with number `position + i`, lane 0, word 0, u = (2·⌊x / 2⁹⌋ + 1)·2⁻²⁴. These
  are 2²³ values, each exact in float32, all inside (0, 1).
- Stream 2, correction or bonus after n accepted drafts: number `position + n`. Token v owns lane ⌊v / 4⌋, word v mod 4.
- Stream 3, coupled verification: as stream 2, with the absolute position of the token as the number.

A draw from weights w is a race: token v arrives at time E_v / w_v, the first one wins, the lowest id on equal times.
E_v = −log(1 − U_v) with U_v = (x + ½)·2⁻³². The winner's time is small, so the fine end of the grid (steps of 2⁻³²)
lies at small times; a token of chance c ≥ 2⁻³⁰ is drawn with chance c to a part in 100, one far below 2⁻³³ never. Two
tokens meet at the winning time with a chance of about V·2⁻³². −log E_v is a Gumbel variable: the race and Gumbel-max
are one rule.

Invariant: every value is built from single float32 operations in a fixed order, without a library logarithm, so that a
kernel that does not fuse them gets the same bits. Nothing here knows what a number is used for. Sources: Salmon et al.,
SC 2011 (Philox); Gumbel 1954 and Maddison et al. 2014 (Gumbel-max).
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

__all__ = ["ACCEPT", "COUPLED", "TOKEN", "acceptance_uniforms", "race_time", "race_times", "words"]

ACCEPT: Final = 1
TOKEN: Final = 2
COUPLED: Final = 3

_MASK = 0xFFFFFFFF
# log(1 + f) = f − f²/2 + f³·(c₀ + c₁f + …) on [√½ − 1, √2 − 1]: a minimax fit of relative error below 1e-8.
LOG_COEFFICIENTS: Final = (
    0.3333333134651184,
    -0.250008225440979,
    0.20001226663589478,
    -0.16623353958129883,
    0.14201775193214417,
    -0.13160231709480286,
    0.12761473655700684,
    -0.0763423889875412,
)
_SQRT_HALF_BITS = 0x3F3504F3


def words(seeds: Tensor, stream: int, numbers: Tensor, lanes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the four Philox words, as int64, for tensors of seeds, numbers and lanes that broadcast together.

    >>> [f"{word.item():08x}" for word in words(*map(torch.tensor, (0, 0, 0, 0)))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    zero = (seeds ^ seeds) + (numbers ^ numbers) + (lanes ^ lanes)
    c0, c1, c2, c3 = zero + (numbers & _MASK), zero + ((numbers >> 32) & _MASK), zero + stream, zero + (lanes & _MASK)
    k0, k1 = seeds & _MASK, (seeds >> 32) & _MASK
    for _ in range(10):
        # The products keep their 64 bits, as two's complement; the mask undoes the sign.
        product_0, product_1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((product_1 >> 32) & _MASK) ^ c1 ^ k0,
            product_1 & _MASK,
            ((product_0 >> 32) & _MASK) ^ c3 ^ k1,
            product_0 & _MASK,
        )
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3


def acceptance_uniforms(seeds: Tensor, positions: Tensor, count: int) -> Tensor:
    """Return the numbers that judge `count` drafts of each row: float32 `[B, count]` in (0, 1).

    `seeds`, `positions`: int64 `[B]`.

    >>> acceptance_uniforms(torch.tensor([7]), torch.tensor([5]), 2)[0, 1] == acceptance_uniforms(
    ...     torch.tensor([7]), torch.tensor([6]), 1)[0, 0]
    tensor(True)
    """
    numbers_BK = positions[:, None] + torch.arange(count, device=positions.device)
    word_BK = words(seeds[:, None], ACCEPT, numbers_BK, torch.zeros_like(numbers_BK))[0]
    return ((word_BK >> 9) * 2 + 1).to(torch.float32) * 2.0**-24


def race_times(seeds: Tensor, stream: int, numbers: Tensor, width: int) -> Tensor:
    """Return E_v, exponential with mean 1, for the first `width` tokens of each row: float32 `[B, width]`.

    `seeds`, `numbers`: int64 `[B]`; `stream`: `TOKEN` or `COUPLED`. A sampled drafter that shares the noise of coupled
    verification divides its weights by these and takes the largest.

    >>> race_times(torch.tensor([7]), COUPLED, torch.tensor([0]), 3).shape
    torch.Size([1, 3])
    """
    lanes = torch.arange((width + 3) // 4, device=seeds.device)
    four = words(seeds[:, None], stream, numbers[:, None], lanes[None])
    return race_time(torch.stack(four, -1).flatten(-2)[:, :width])


def race_time(word: Tensor) -> Tensor:
    """Return −log(1 − (x + ½)·2⁻³²) in float32 for words x (int64, 32 bits); shape kept, relative error 2e-7.

    >>> [f"{e:.3e}" for e in race_time(torch.tensor([0, 1 << 31, 0xFFFFFFFF])).tolist()]
    ['1.164e-10', '6.931e-01', '1.664e+01']
    """
    u = ((word.to(torch.float32) + 0.5) * 2.0**-32).clamp_max(1.0 - 2.0**-24)
    # 1 − u = m·2ᵉ with m in [√½, √2); at e = 0, m − 1 is −u itself, which keeps every bit of a small u.
    rest = 1.0 - u
    bits = rest.view(torch.int32)
    exponent = (bits - _SQRT_HALF_BITS) >> 23
    f = torch.where(exponent == 0, -u, (bits - (exponent << 23)).view(torch.float32) - 1.0)
    series = torch.full_like(f, LOG_COEFFICIENTS[-1])
    for coefficient in LOG_COEFFICIENTS[-2::-1]:
        series = series * f + coefficient
    square = f * f
    log_m = f - (square * 0.5 - square * f * series)
    return (-exponent).to(torch.float32) * torch.tensor(math.log(2.0), dtype=torch.float32) - log_m
