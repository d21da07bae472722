"""The draw from a wide row is the draw from any row: the token at a quantile, weight 0 never."""

from __future__ import annotations

import pytest
import torch

from specdec_teach.noise import pick


def at_quantile(weights_V: torch.Tensor, u: float) -> tuple[int, int]:
    """By one running sum in float64: the tokens just below and just above the quantile, give or take rounding."""
    running_V = weights_V.double().cumsum(0)
    around = [u * float(running_V[-1]) + sign * 1e-6 * float(running_V[-1]) for sign in (-1, 1)]
    low, high = torch.searchsorted(running_V, torch.tensor(around, dtype=torch.float64), right=True).tolist()
    return int(low), min(int(high), len(weights_V) - 1)


@pytest.mark.parametrize("width", [4097, 8193, 50257])
@pytest.mark.parametrize("kind", ["dense", "sparse", "peaked", "doubles"])
def test_a_wide_row(width: int, kind: str) -> None:
    """Against one running sum, at many quantiles; only tokens with weight come out."""
    generator = torch.Generator().manual_seed(width)
    weights = torch.rand(width, generator=generator)
    if kind == "sparse":
        weights = weights * (torch.rand(width, generator=generator) < 0.002)
    elif kind == "peaked":
        weights = (8 * torch.randn(width, generator=generator)).softmax(-1)
    elif kind == "doubles":
        weights = weights.double()
    for u in (2.0**-53, 1e-9, *torch.rand(200, generator=generator).tolist(), 1.0 - 2.0**-53):
        token = pick(weights, max(u, 2.0**-53))
        low, high = at_quantile(weights, u)
        assert low <= token <= high
        assert weights[token] > 0


def test_one_token_has_all_the_weight() -> None:
    """Wherever it stands, at the borders of a part too."""
    for token in (0, 511, 512, 5000, 9999):
        weights = torch.zeros(10000)
        weights[token] = 1e-30
        assert {pick(weights, u) for u in (2.0**-53, 0.5, 1.0 - 2.0**-53)} == {token}


def test_what_is_no_number_gives_a_token_out_of_range_or_without_number() -> None:
    """A wide row with NaN in it, so that `follow` can refuse it."""
    for place in (0, 700, 9999):
        weights = torch.rand(10000)
        weights[place] = torch.nan
        token = pick(weights, 0.5)
        assert token >= 10000 or torch.isnan(weights[token])
