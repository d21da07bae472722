"""Seeded runs of the whole engine against the exact law, across cycles; and the power of that test."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_teach.policy import processed

from ..checks import P4, Q4, chi_square, chi_square_of_long_runs, logs, product_law, tabular

RUNS = 4000


def test_three_tokens_across_cycles() -> None:
    """Three tokens of a four-token target, γ = 2: two or three cycles each, one seed a run."""
    right = product_law(lambda prefix: P4, (0,), 3)
    value = chi_square(tabular(logs(P4), logs(Q4), 2), right, 3, RUNS, lambda seed: sd.Sampling(seed=seed))
    assert value > 1e-3


def test_a_chain_with_filters() -> None:
    """Temperature and top-k on a Markov chain."""
    table = torch.tensor([[0.1, 0.9, 0.4, 0.2], [1.2, 0.0, 0.3, 0.8], [0.2, 0.2, 1.1, 0.6], [0.5, 0.3, 0.1, 1.4]])
    draft = table.flip(1) * 0.7

    def sampling(seed: int) -> sd.Sampling:
        return sd.Sampling(temperature=0.8, top_k=3, seed=seed)

    rows = processed(table.double(), sampling(0)).tolist()
    right = product_law(lambda prefix: rows[prefix[-1]], (0,), 2)
    assert chi_square(tabular(table, draft, 3), right, 2, RUNS, sampling) > 1e-3


def test_long_runs() -> None:
    """18,000 tokens of one constant target: draws that were used twice in a run would show here."""
    assert chi_square_of_long_runs(tabular(logs(P4), logs(Q4), 2), P4) > 1e-3


@pytest.mark.parametrize(
    ("law", "mistake"),
    [((0.425, 0.275, 0.2, 0.1), "one noise vector twice"), ((1 / 3, 11 / 30, 0.2, 0.1), "u used twice")],
)
def test_the_same_test_sees_small_mistakes(law: tuple[float, ...], mistake: str) -> None:
    """Against the law that a mistake would give, the honest engine fails: the test has the power to see it."""
    assert chi_square_of_long_runs(tabular(logs(P4), logs(Q4), 2), law) < 1e-6, mistake
