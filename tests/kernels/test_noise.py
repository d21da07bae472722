"""The random numbers of verification: the scalar Philox, the ends of the intervals, the grid, the separate streams."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specdec_kernels import noise
from specdec_kernels.philox import philox4x32

SEEDS = st.integers(-(2**63), 2**63 - 1)


@given(SEEDS, st.integers(0, 3), st.integers(0, 2**62), st.integers(0, 2**20))
def test_words_are_the_scalar_ones(seed: int, stream: int, number: int, lane: int) -> None:
    """The vectorised words equal the plain-integer Philox at the documented counter and key."""
    found = noise.words(torch.tensor(seed), stream, torch.tensor(number), torch.tensor(lane))
    mask = 0xFFFFFFFF
    right = philox4x32((number & mask, number >> 32, stream, lane), (seed & mask, (seed >> 32) & mask))
    assert tuple(int(word) for word in found) == right


def test_acceptance_numbers_are_the_documented_bits() -> None:
    """Exact in float32, inside (0, 1) at the extreme words, and one word apart by position alone."""
    u = noise.acceptance_uniforms(torch.tensor([11, 12]), torch.tensor([4, 2**40]), 3)
    for row, (seed, start) in enumerate([(11, 4), (12, 2**40)]):
        for i in range(3):
            number = start + i
            word = philox4x32((number & 0xFFFFFFFF, number >> 32, noise.ACCEPT, 0), (seed, 0))[0]
            assert float(u[row, i]) == (2 * (word >> 9) + 1) * 2.0**-24


@pytest.mark.parametrize(("word", "right"), [(0, 2.0**-24), (0xFFFFFFFF, 1 - 2.0**-24)])
def test_acceptance_ends(monkeypatch: pytest.MonkeyPatch, word: int, right: float) -> None:
    monkeypatch.setattr(noise, "words", lambda *args: (torch.full((1, 1), word),) * 4)
    assert float(noise.acceptance_uniforms(torch.tensor([0]), torch.tensor([0]), 1)) == right


def test_token_v_owns_lane_and_word() -> None:
    """Four tokens share a call: token v reads word v mod 4 of lane v // 4, for widths that are no multiple of four."""
    for width in (1, 5, 8, 11):
        times = noise.race_times(torch.tensor([3]), noise.TOKEN, torch.tensor([9]), width)
        words = [philox4x32((9, 0, noise.TOKEN, v // 4), (3, 0))[v % 4] for v in range(width)]
        assert torch.equal(times[0], noise.race_time(torch.tensor(words)))


def test_times_are_exact_logarithms() -> None:
    """−log(1 − (x + ½)/2³²) to 3e-7, finite and positive at both ends, on two million words of every size."""
    rng = np.random.default_rng(0)
    words = np.concatenate(
        [
            np.arange(4096),
            2**32 - 1 - np.arange(4096),
            rng.integers(0, 2**32, 1_000_000),
            2 ** rng.uniform(0, 32, 10**6),
        ]
    ).astype(np.int64)
    times = noise.race_time(torch.from_numpy(words)).double().numpy()
    right = -np.log1p(-np.minimum((words + 0.5) / 2**32, 1 - 2.0**-24))
    assert np.isfinite(times).all()
    assert times.min() > 0
    # Above one half the grid of float32 is what limits the argument of the logarithm.
    near = right < 0.6
    assert np.abs(times / right - 1)[near].max() < 3e-7
    assert np.abs(np.expm1(-times) - np.expm1(-right))[~near].max() < 2e-7


def test_the_fine_end_is_at_small_times() -> None:
    """The first 4096 steps of the grid are all different: small chances keep their resolution."""
    times = noise.race_time(torch.arange(4096)).double()
    assert float(times[0]) == 2.0**-33
    assert (times.diff() > 0).all()
    assert torch.allclose(times, (torch.arange(4096, dtype=torch.float64) + 0.5) * 2.0**-32, rtol=1e-6, atol=0)


def test_times_are_exponential_and_streams_separate() -> None:
    """Kolmogorov–Smirnov, and no correlation between streams, numbers or neighbouring tokens."""
    seeds = torch.arange(20_000)
    rows = {}
    for stream in (noise.TOKEN, noise.COUPLED):
        for number in (0, 1, 2**32):
            times = noise.race_times(seeds, stream, torch.full_like(seeds, number), 5)
            assert stats.kstest(times.flatten().double().numpy(), "expon").pvalue > 1e-4
            rows.update({(stream, number, v): times[:, v].double().numpy() for v in range(5)})
    correlation = np.corrcoef(np.array(list(rows.values()))) - np.eye(len(rows))
    assert np.abs(correlation).max() < 0.04
