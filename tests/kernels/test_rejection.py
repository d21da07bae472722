"""The standard rule, row by row, against arithmetic in float64."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdec_kernels.rejection import accept_probability, accepts, overlap, residual

PROBABILITY = st.floats(0.0, 1.0)
ROWS = st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5).filter(lambda row: sum(row) > 0.1)


@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3], 0.6),
        ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5], 0.55),
    ],
)
def test_accept_path_and_reject_path_add_up_to_p(p: list[float], q: list[float], alpha: float) -> None:
    """min(p, q) + β · residual = p, to the last bit that float64 has."""
    p_V, q_V = torch.tensor(p, dtype=torch.float64), torch.tensor(q, dtype=torch.float64)
    token = torch.tensor(0)
    rest_V, mass = residual(p_V, q_V, token)
    assert overlap(p_V, q_V, token).item() == pytest.approx(alpha, abs=1e-15)
    assert mass.item() == pytest.approx(1 - alpha, abs=1e-15)
    assert (torch.minimum(p_V, q_V) + rest_V - p_V).abs().max() < 1e-16


def test_one_hot_draft() -> None:
    """A certain draft is accepted with p(y); the residual is p without y."""
    p_V, token = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64), torch.tensor(1)
    rest_V, mass = residual(p_V, None, token)
    assert overlap(p_V, None, token).item() == 0.3
    assert (rest_V / mass).tolist() == pytest.approx([0.6 / 0.7, 0.0, 0.1 / 0.7], abs=1e-15)


def test_strict_comparison() -> None:
    """p = 0 is refused even where q is 0 as well, and u·q = p is a refusal."""
    assert not accepts(1e-300, 0.0, 0.0)
    assert not accepts(0.5, 0.25, 0.5)
    assert accepts(math.nextafter(0.5, 0), 0.25, 0.5)


@given(PROBABILITY, PROBABILITY, st.floats(2.0**-52, 1 - 2.0**-52))
def test_probability_is_the_measure_of_the_predicate(p: float, q: float, u: float) -> None:
    """`accept_probability` says how much of (0, 1) `accepts` takes."""
    chance = accept_probability(p, q)
    assert 0.0 <= chance <= 1.0
    if abs(u - chance) > 1e-9 and (q == 0.0 or q > 1e-300):
        assert accepts(u, p, q) == (u < chance)


@given(ROWS, ROWS)
def test_residual_never_holds_what_p_excludes(p: list[float], q: list[float]) -> None:
    """A token with p = 0 has no residual; all of it lies where p > q."""
    p_V = torch.tensor(p, dtype=torch.float64) / sum(p)
    q_V = torch.tensor(q, dtype=torch.float64) / sum(q)
    rest_V, mass = residual(p_V, q_V, torch.tensor(0))
    assert bool((rest_V[p_V <= q_V] == 0).all())
    assert mass.item() == pytest.approx(1 - torch.minimum(p_V, q_V).sum().item(), abs=1e-12)


def test_no_epsilon_at_a_large_vocabulary() -> None:
    """151k tokens and β = 1e-3: nothing leaks to tokens that the residual excludes (an epsilon of 1e-9 leaks 13 %)."""
    width = 151_936
    p_V = torch.full((width,), 1.0 / width, dtype=torch.float64)
    q_V = p_V.clone()
    p_V[0] += 1e-3
    p_V[1000:2000] -= 1e-6
    rest_V, mass = residual(p_V, q_V, torch.tensor(5))
    law_V = rest_V / mass
    assert mass.item() == pytest.approx(1e-3, rel=1e-9)
    assert law_V[0].item() == pytest.approx(1.0, abs=1e-9)
    spoiled_V = (rest_V + 1e-9) / (rest_V + 1e-9).sum()
    assert 1 - spoiled_V[0].item() == pytest.approx(0.13, abs=0.01)
