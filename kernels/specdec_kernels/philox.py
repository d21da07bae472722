"""Random numbers by counter: Philox 4×32 with ten rounds, in plain integers.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Invariant: the number at (seed, stream, number) is the same on every machine and depends on nothing else; there is no
state to save, to share or to forget. It does not know what a number is used for.
"""

from __future__ import annotations

__all__ = ["philox4x32", "uniform"]

_MASK = 0xFFFFFFFF
_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return four 32-bit words for a counter of four 32-bit words and a key of two.

    >>> [f"{word:08x}" for word in philox4x32((0, 0, 0, 0), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        product_0, product_1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (
            (product_1 >> 32) ^ c1 ^ k0,
            product_1 & _MASK,
            (product_0 >> 32) ^ c3 ^ k1,
            product_0 & _MASK,
        )
        k0, k1 = (k0 + _WEYL_0) & _MASK, (k1 + _WEYL_1) & _MASK
    return c0, c1, c2, c3


def uniform(seed: int, stream: int, number: int) -> float:
    """Return draw `number` of `stream` under a 64-bit `seed`: a float in the open interval (0, 1), 51 random bits.

    Both ends are impossible, also after a multiplication by a float64 total: the largest value is 1 − 2⁻⁵².

    >>> uniform(7, 0, 0) == uniform(7, 0, 0) != uniform(7, 1, 0)
    True
    """
    words = philox4x32(
        (number & _MASK, (number >> 32) & _MASK, stream & _MASK, 0), (seed & _MASK, (seed >> 32) & _MASK)
    )
    bits = ((words[0] << 32) | words[1]) >> 13
    return (2 * bits + 1) * 2.0**-52
