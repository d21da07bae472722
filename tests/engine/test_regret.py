"""What a planner loses: to the best fixed γ, to plain decoding, and where a text is hard to begin with."""

from __future__ import annotations

import random

import pytest

from specdec_teach.bench.replay import Place, replayed
from specdec_teach.costs import Costs
from specdec_teach.pacing import Fixed
from specdec_teach.planner import Planner

WIDER = {1: 1.0, 2: 1.08, 3: 1.14, 5: 1.2, 9: 1.37}
DRAFTS = {
    "a model": {1: 0.21, 2: 0.30, 4: 0.47, 8: 0.82},
    "a head": {1: 0.36, 2: 0.57, 4: 1.0, 8: 1.85},
    "four at once": {1: 0.30, 2: 0.33, 4: 0.36},
    "a look-up": {1: 0.01, 8: 0.01},
}


def costs_of(kind: str) -> Costs:
    """Measured: `kind` makes as many drafts as its table has, and each more would cost a step."""
    drafts = DRAFTS[kind]
    return Costs(WIDER, drafts[max(drafts)] / max(drafts), drafts)


def rate(costs: Costs, alphas: list[float], gamma: int | None, texts: int = 40, length: int = 96) -> float:
    """Tokens per second where a draft of token s stands with chance `alphas[s]`: at a fixed γ, or as it is planned.

    Every plan meets the same numbers; the last of `alphas` holds from there on.
    """
    chances = alphas + alphas[-1:] * (length + 8)
    text = [Place(tuple(chances[at : at + max(costs.drafts)])) for at in range(length)]
    planning = Planner(costs) if gamma is None else Fixed(gamma)
    done = [replayed(text, planning, costs, length, random.Random(seed)) for seed in range(texts)]
    return sum(made for made, _ in done) / sum(spent for _, spent in done)


def against_fixed(kind: str, alphas: list[float]) -> float:
    """How fast a planned text is beside the best fixed γ."""
    costs = costs_of(kind)
    return rate(costs, alphas, None) / max(rate(costs, alphas, gamma) for gamma in range(9))


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("alpha", [0.3, 0.5, 0.7, 0.85])
def test_within_five_percent_of_the_best_fixed_gamma(kind: str, alpha: float) -> None:
    """On short texts, of which it knows nothing before; measured costs of four kinds of drafters."""
    assert against_fixed(kind, [alpha]) > 0.95


@pytest.mark.parametrize(("kind", "least"), [("a model", 0.95), ("a head", 0.96), ("four at once", 0.91)])
def test_a_hard_beginning(kind: str, least: float) -> None:
    """Behind a prompt that begins a list nothing stands at first: it gives up, and is back soon enough."""
    assert against_fixed(kind, [0.25] * 8 + [0.5] * 8 + [0.72]) > least


@pytest.mark.parametrize("kind", DRAFTS)
@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.2])
def test_three_percent_slower_than_plain_at_most(kind: str, alpha: float) -> None:
    """On a text as short as that, with drafts that hardly ever stand; to the nearest percent."""
    assert rate(costs_of(kind), [alpha], None) > 0.969
