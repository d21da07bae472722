"""The processed distribution against transformers' own warpers and against arithmetic."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

import specdec_teach as sd
from specdec_teach.policy import fit_width, processed

GRID = [(t, k, p, m) for t in (0.7, 1.0, 1.6) for k in (0, 1, 7) for p in (0.2, 0.9, 1.0) for m in (0.0, 0.1)]


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), GRID)
def test_equals_the_warpers_of_transformers(temperature: float, top_k: int, top_p: float, min_p: float) -> None:
    """Same order, same survivors, same probabilities (1e-12 in float64)."""
    generator = torch.Generator().manual_seed(3)
    logits_RV = torch.randn(6, 50, generator=generator, dtype=torch.float64) * 3
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    if min_p:
        warpers.append(MinPLogitsWarper(min_p))
    right_RV = warpers(torch.zeros(6, 1, dtype=torch.long), logits_RV.clone()).softmax(-1)
    found_RV = processed(logits_RV, sd.Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p))
    assert (found_RV - right_RV).abs().max() < 1e-12
    assert bool(((found_RV > 0) == (right_RV > 0)).all())


@pytest.mark.parametrize("temperature", [0.0, 1e-45, 1e-38, 1e-6, 2e-5, 1e-3])
def test_tiny_temperatures_stay_finite(temperature: float) -> None:
    """float32 logits and temperatures down to the smallest: finite rows that sum to 1, the top token on top."""
    p_RV = processed(torch.tensor([[3.0, 9.0, -40.0, 8.0]]), sd.Sampling(temperature=temperature))
    assert torch.isfinite(p_RV).all()
    assert p_RV.sum().item() == pytest.approx(1.0)
    assert p_RV[0, 1].item() == pytest.approx(1.0, abs=1e-6)


def test_greedy_ties_go_to_the_lowest_id() -> None:
    """A tie has one winner, the same in every implementation."""
    assert processed(torch.tensor([[1.0, 5.0, 5.0, 5.0]]), sd.Sampling.greedy()).tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize("sampling", [sd.Sampling(), sd.Sampling.greedy(), sd.Sampling(top_k=2, top_p=0.5, min_p=0.1)])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_what_is_not_a_number_is_never_silent(sampling: sd.Sampling, bad: float) -> None:
    """A row with NaN or +inf comes out as NaN at its largest; a clean row beside it is untouched."""
    p_RV = processed(torch.tensor([[0.0, bad, 1.0], [0.0, 2.0, 1.0]]), sampling)
    assert torch.isnan(p_RV[0].amax())
    assert torch.isfinite(p_RV[1]).all()


def test_a_row_of_minus_infinity_is_not_a_distribution() -> None:
    """Everything masked: NaN, which the verifier refuses."""
    assert torch.isnan(processed(torch.full((1, 3), -torch.inf), sd.Sampling())).all()


def test_width_is_cut_or_padded() -> None:
    """A padded vocabulary row can never be drawn."""
    wide = fit_width(torch.ones(2, 5), 3)
    assert wide.shape == (2, 3)
    assert processed(fit_width(torch.ones(1, 2), 4), sd.Sampling()).tolist() == [[0.5, 0.5, 0.0, 0.0]]
