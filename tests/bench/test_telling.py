"""Given texts: the engine writes them whatever is drafted, and drafts stand and fall as often as in an ordinary run."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_kernels.philox import uniform
from specdec_teach.bench.given import chances
from specdec_teach.bench.replay import recorded
from specdec_teach.bench.telling import Given, law
from specdec_teach.caches import new_cache
from specdec_teach.costs import Costs
from specdec_teach.noise import GreedyNoise, StreamId
from specdec_teach.planner import Planner
from specdec_teach.policy import Policy
from specdec_teach.sequence import Sequence

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
HOW = sd.Sampling(temperature=0.8, seed=5, eos_token_id=None)
PROMPT = [3, 1, 4]
P, Q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.3, 0.5])
SEEDS = 3000


def text_of(tokens: int) -> list[int]:
    return list(sd.Engine(TARGET).generate(PROMPT, HOW, max_new_tokens=tokens, trace=False).tokens)


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
@pytest.mark.parametrize("gamma", [0, 1, 3, "auto"])
def test_every_plan_writes_the_text(cache: Any, gamma: Any) -> None:
    """With some drafts that stand and some that fall, and other numbers give other cycles."""
    planner = Planner(Costs({1: 1.0, 9: 1.3}, 0.1))
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), planner=planner, cache=cache)
    text, seen = text_of(40), set()
    p_NV = law(engine.open(PROMPT, HOW, max_new_tokens=len(text)), text)
    for seed in (1, 2):
        stream = engine.open(PROMPT, HOW, max_new_tokens=30, gamma=gamma, speculate=gamma != 0)
        stream.sequence.noise = Given(stream.sequence, [*PROMPT, *text], p_NV, seed)
        result = stream.finish()
        assert list(result.tokens) == text[:30]
        assert result.trace is not None
        assert not sd.invariants.check(result.trace)
        seen.add(tuple(cycle.accepted for cycle in result.trace.cycles))
        if gamma:
            assert 0 < result.stats.accepted < result.stats.drafted
    assert len(seen) == 1 + (gamma != 0)


def drawn(text: int, seed: int, p_V: torch.Tensor, q_V: torch.Tensor) -> tuple[int, bool]:
    """The first draft behind a prompt of one token where `text` follows, and whether it stands."""
    sequence = Sequence([0], Policy(sd.Sampling()), GreedyNoise(), new_cache("contiguous", 8), 3)
    noise = Given(sequence, [0, text, 0], p_V.expand(2, 3), seed)
    token = noise.draw(StreamId.DRAFT, 0, q_V)
    return token, noise.accepts(0, float(p_V[token]), float(q_V[token]))[0]


def test_drafts_stand_and_fall_as_often_as_they_should() -> None:
    """Given x: x and it stands with chance min(1, q/p), else one of (q − p)₊; over texts from p they follow q."""
    marginal_V, bound = torch.zeros(3), 4 * 0.5 / SEEDS**0.5
    for x in range(3):
        found = [drawn(x, seed, P, Q) for seed in range(SEEDS)]
        assert all(stands == (token == x) for token, stands in found)
        assert sum(stands for _, stands in found) / SEEDS == pytest.approx(min(1.0, float(Q[x] / P[x])), abs=bound)
        assert {token for token, stands in found if not stands} <= {2}  # where q has more than p
        marginal_V += P[x] * torch.bincount(torch.tensor([token for token, _ in found]), minlength=3) / SEEDS
    assert marginal_V.tolist() == pytest.approx(Q.tolist(), abs=bound)


def test_behind_a_draft_that_falls_others_are_drawn_as_ever() -> None:
    """And none of them stands; the next cycle begins anew."""
    sequence = Sequence([0], Policy(sd.Sampling()), GreedyNoise(), new_cache("contiguous", 8), 3)
    seed = next(seed for seed in range(99) if uniform(seed, StreamId.ACCEPT, 1) > 0.5)
    noise = Given(sequence, [0, 0, 0, 1], P.expand(3, 3), seed)
    assert noise.draw(StreamId.DRAFT, 0, Q) == 2
    assert noise.draw(StreamId.DRAFT, 1, torch.tensor([0.0, 1.0, 0.0])) == 1
    assert [noise.accepts(number, 0.5, 0.5)[0] for number in (0, 1)] == [False, False]
    assert noise.draw(StreamId.TOKEN, 0, P) == 0
    sequence.tokens.append(0)
    sequence.number = 2
    sure_V = torch.tensor([1.0, 0.0, 0.0])
    assert (noise.draw(StreamId.DRAFT, 2, sure_V), noise.accepts(2, 0.5, 1.0)[0]) == (0, True)
    assert noise.draw(StreamId.TOKEN, 3, P) == 1


def test_the_record_agrees_with_the_laws() -> None:
    """What the engine's records say of each place is what the models' own laws say, worked out without it."""
    engine, text = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR)), text_of(24)
    found = recorded(engine, PROMPT, text, HOW, 4, Random(0))
    stream = engine.open(PROMPT, HOW, max_new_tokens=24, gamma=4)
    standing_SND = chances([stream], [text], 4, 1, torch.Generator())[0]
    for at, place in enumerate(found):
        assert list(place.standing) == pytest.approx(standing_SND[0, at].tolist(), abs=1e-5)
