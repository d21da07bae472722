"""The counter-based numbers: known answers, an independent implementation, and the open interval."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdec_kernels import philox
from specdec_kernels.philox import philox4x32, uniform

WORDS = st.integers(0, 2**32 - 1)


def test_known_answers() -> None:
    """The published test vectors of Philox 4×32-10."""
    ones = 0xFFFFFFFF
    assert philox4x32((ones,) * 4, (ones,) * 2) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox4x32(pi, (0xA4093822, 0x299F31D0)) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@given(st.tuples(WORDS, WORDS, WORDS, WORDS), st.tuples(WORDS, WORDS))
def test_words_stay_words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> None:
    """Every output is a 32-bit word, and the counter is not lost (the map is a bijection for one key)."""
    out = philox4x32(counter, key)
    assert all(0 <= word < 2**32 for word in out)
    assert philox4x32(((counter[0] + 1) % 2**32, *counter[1:]), key) != out


@given(st.integers(0, 2**64 - 1), st.integers(0, 2), st.integers(0, 2**40))
def test_open_interval(seed: int, stream: int, number: int) -> None:
    """0 and 1 never come."""
    assert 0.0 < uniform(seed, stream, number) < 1.0


def test_ends_of_the_interval(monkeypatch: object) -> None:
    """Even the extreme words give a number strictly inside, also after a multiplication by a total."""
    for word, low, high in ((0, 0.0, 1e-15), (0xFFFFFFFF, 1 - 1e-15, 1.0)):
        original = philox.philox4x32
        try:
            philox.philox4x32 = lambda counter, key, w=word: (w,) * 4  # type: ignore[assignment]
            u = uniform(0, 0, 0)
        finally:
            philox.philox4x32 = original
        assert low < u < high
        for total in (0.9999999, 1.0, 1.5, 1.9999999999999998, 3.7):
            assert 0.0 < u * total < total


def test_uniform_and_separate() -> None:
    """Uniform by Kolmogorov–Smirnov, and streams do not go together."""
    draws = np.array([[uniform(11, stream, number) for number in range(4000)] for stream in range(3)])
    for row in draws:
        assert stats.kstest(row, "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 0.06
