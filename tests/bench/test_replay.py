"""Replayed texts: what a place of a given text is worth, by enumeration, and that a plan is priced as it should."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
import torch

import specdec_teach as sd
from specdec_teach.bench.replay import Place, recorded, replayed
from specdec_teach.costs import Costs
from specdec_teach.pacing import Fixed, Patience
from specdec_teach.planner import Planner

COSTS = Costs({1: 1.0, 2: 1.1, 9: 1.8}, 0.1, {1: 0.2, 8: 0.9})
P = torch.tensor([[0.0, 1.0, 2.0], [1.5, 0.0, -1.0], [0.3, 0.2, 0.0]], dtype=torch.float64)
Q = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.5, 0.5], [-1.0, 2.0, 0.0]], dtype=torch.float64)
FREE = sd.Sampling(eos_token_id=None)
STOOD = Place((1.0,) * 8)
FELL = Place((0.0,) * 8)


def engine(mode: str = "sample") -> sd.Engine:
    target, draft = sd.testing.TabularLM(P), sd.testing.TabularLM(Q)
    return sd.Engine(target, drafter=sd.ModelDrafter(draft, mode))  # type: ignore[arg-type]


def places(text: list[int], mode: str = "sample", gamma: int = 2) -> tuple[Place, ...]:
    """The places of a text behind the prompt (0,), with room for the last drafts."""
    return recorded(engine(mode), [0], [*text, *(0,) * (gamma + 1)], FREE, gamma, Random(0))


def test_the_chance_that_a_draft_stands() -> None:
    """min(p, q)/p of the text's own token, and its q: by the tables."""
    p_VV, q_VV = P.softmax(-1), Q.softmax(-1)
    text = [2, 1, 0, 2]
    before = [0, *text]
    for at, place in enumerate(places(text)):
        assert len(place.standing) == len(place.told) == len(place.other) == 2
        for row, (chance, told, other) in enumerate(zip(place.standing, place.told, place.other, strict=True)):
            if at + row >= len(text):
                continue
            last, token = before[at + row], text[at + row]
            p, q = float(p_VV[last, token]), float(q_VV[last, token])
            assert chance == pytest.approx(min(p, q) / p, abs=1e-12)
            assert told == pytest.approx(q, abs=1e-6)
            falls = [float(q_VV[last, v]) for v in range(3) if q_VV[last, v] > p_VV[last, v]]
            assert min(abs(other - one) for one in falls) < 1e-6


def test_the_law_of_what_stands() -> None:
    """Over all texts, by their chance, as many drafts stand as Σ min(p, q) promises: the mean of a real cycle."""
    p_VV, q_VV = P.softmax(-1), Q.softmax(-1)
    overlap_VV = torch.minimum(p_VV, q_VV)
    wanted = float(overlap_VV[0].sum() + (overlap_VV[0] * overlap_VV.sum(-1)).sum())
    found = 0.0
    for first, second in product(range(3), repeat=2):
        one, two = places([first, second])[0].standing
        found += float(p_VV[0, first] * p_VV[first, second]) * (one + one * two)
    assert found == pytest.approx(wanted, abs=1e-12)


def test_a_certain_draft_stands_or_falls() -> None:
    """The favourites behind 0 are 0 (or 1, its equal), behind 1 both 1 and 2: the first differing token ends it."""
    for place, text in ((places([0, 2], "argmax")[0], (0, 2)), (places([1, 0], "argmax")[0], (1, 0))):
        stands = text[0] == int(Q[0].argmax())
        assert place.standing[0] == float(stands)
        assert place.standing[1] == float(stands and text[1] == int(Q[text[0]].argmax()))
        assert place.other == place.told


def test_told_whatever_the_drafter() -> None:
    """The engine commits the text and nothing else, and the drafts of every place begin behind it."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
    how = sd.Sampling(temperature=0.8, seed=5, eos_token_id=None)
    plain = sd.Engine(target).generate([3, 1, 4], how, max_new_tokens=20, trace=False).tokens
    drafters = (sd.ModelDrafter(near), sd.ModelDrafter(near, "argmax"), sd.NgramDrafter(), sd.ModelDrafter(target))
    for drafter in drafters:
        found = recorded(sd.Engine(target, drafter=drafter), [3, 1, 4], plain, how, 4, Random(0))
        assert len(found) == 15
        assert all(0.0 <= chance <= 1.0 for place in found for chance in place.standing)
        if drafter is drafters[-1]:
            assert all(place.standing == pytest.approx((1.0,) * 4, abs=1e-5) for place in found)


@pytest.mark.parametrize(("gamma", "drafted", "stood"), [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 2), (8, 5, 2)])
def test_a_draft_of_a_place(gamma: int, drafted: int, stood: int) -> None:
    """It stands up to the first number above its chance; there the other token's probability is told, and no other."""
    place = Place((0.9, 0.5, 0.5, 0.9, 0.9), (0.95, 0.9, 0.8, 0.7, 0.6), (0.1, 0.2, 0.3, 0.4, 0.5))
    sure = (0.95, 0.9, 0.3, 0.7, 0.6)[:drafted]
    assert place.draft(gamma, None, (0.89, 0.49, 0.5, 0.1, 0.1)) == (drafted, stood, sure)


def test_patience_ends_a_replayed_draft() -> None:
    """As it would end a real one: behind the first draft that is too unsure, which is still made."""
    patience = Patience((0.1, 0.9, 1.0), (0.5,) * 7)
    told = (0.95, 0.95, 0.2, 0.95, 0.95)
    assert Place((1.0,) * 5, told, told).draft(8, patience, (0.0,) * 5)[:2] == (3, 3)
    assert Place((1.0,) * 5).draft(8, patience, (0.0,) * 5)[:2] == (5, 5)
    other = (0.2, *told[1:])
    assert Place((0.0,) * 5, told, other).draft(8, patience, (0.0,) * 5) == (1, 0, (0.2,))


def test_prices() -> None:
    """Tokens and seconds by hand; a text ends with the cycle that fills it."""
    text = [Place((1.0, 1.0, 0.0, 0.0))] * 30
    made, spent = replayed(text, Fixed(4), COSTS, 30, Random(3))
    assert (made, spent) == (30, pytest.approx(10 * ((1.1 + 0.7 * 3 / 7) + (0.2 + 0.7 * 3 / 7))))
    assert replayed(text, Fixed(0), COSTS, 30, Random(3)) == (30, 30.0)


def test_plans_meet_the_same_numbers() -> None:
    """A draft that is alone in its cycle stands at the same positions whatever was asked for before."""
    text = [Place((0.5,))] * 400
    once, twice = (replayed(text, Fixed(gamma), COSTS, 390, Random(1)) for gamma in (1, 7))
    assert once == twice
    cycles = once[1] / (COSTS.v(2) + COSTS.d(1))
    assert (once[0] - cycles) / cycles == pytest.approx(0.5, abs=0.12)
    assert replayed(text, Fixed(1), COSTS, 390, Random(2)) != once


def test_the_planner_follows_what_it_replays() -> None:
    """All stand: it goes to the largest γ. None stands: it stops; plain decoding is then hardly quicker."""
    planner = Planner(COSTS)
    best, found = (replayed([STOOD] * 910, plan, COSTS, 900, Random(0)) for plan in (Fixed(8), planner))
    assert found[1] / found[0] < 1.01 * best[1] / best[0]
    made, spent = replayed([FELL] * 910, planner, COSTS, 900, Random(0))
    assert made <= spent < 1.03 * made
