"""`bench/given.py` against the engine: every way its cycles can go, enumerated in float64 (< 1e-12)."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_kernels.errors import InvalidInput
from specdec_teach.bench.given import chances, forwards, grown, laws, standing
from specdec_teach.exact import _one_cycle
from specdec_teach.policy import processed
from specdec_teach.tree import Parents, chain, spine

from ..heads import head_for, head_logits, tiny

SAMPLING = sd.Sampling(temperature=0.9)
PENALTY = sd.Sampling(temperature=0.9, frequency_penalty=0.7)  # a row depends on the drafts before it


def tables(width: int) -> tuple[Any, Any]:
    made = [1.5 * torch.randn(width, width, generator=torch.Generator().manual_seed(n)).double() for n in (3, 4)]
    return sd.testing.TabularLM(made[0]), sd.testing.TabularLM(made[1])


def enumerated(target: Any, draft: Any, shape: Parents, gamma: int, tokens: int) -> dict[tuple[int, ...], float]:
    """For each text: its probability times the mean number of forwards, over all that the engine can draw."""
    drafter = sd.TreeDrafter(sd.ModelDrafter(draft), shape)
    engine = sd.Engine(target, drafter=drafter, gamma=gamma)
    going = [(1.0, engine.stream([0], PENALTY, max_new_tokens=tokens, trace=False))]
    found: dict[tuple[int, ...], float] = defaultdict(float)
    while going:
        weight, stream = going.pop()
        if stream.finish_reason is not None:
            found[tuple(stream.sequence.new_tokens)] += weight * stream.progress.stats.cycles
            continue
        going += [(weight * chance, after) for chance, after in _one_cycle(stream)]
    return found


@pytest.mark.parametrize(
    ("shape", "gamma"), [(chain(2), 2), (spine(2), 2), (spine(2), 1), ((-1, -1, 0, 1), 2), ((-1, -1, 1), 2)], ids=str
)
def test_the_forwards_of_every_text(shape: Parents, gamma: int) -> None:
    """Texts of three tokens: chains, second siblings that end, that go on, that alone go on, and a γ that cuts."""
    target, draft = tables(3)
    right = enumerated(target, draft, shape, gamma, 3)
    for text in product(range(3), repeat=3):
        engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=gamma)
        streams = [engine.stream([0], PENALTY, max_new_tokens=3) for _ in range(2)]
        (found,) = chances(streams[:1], [text], 2, 2, torch.Generator())
        ((p_NV, _),) = laws(streams[1:], [text], 1)
        chance = float(p_NV.gather(-1, torch.tensor(text)[:, None]).prod())
        assert chance * forwards(found, shape, gamma) == pytest.approx(right[text], abs=1e-12)


def test_a_third_sibling_stands_as_often_on_average() -> None:
    """Its chance rests on a drawn one that fell; the mean of many is what the engine's enumerated cycle gives."""
    target, draft = tables(4)
    engine = sd.Engine(target, drafter=sd.TreeDrafter(sd.ModelDrafter(draft), (3,)), gamma=1)
    right = [0.0] * 4
    for chance, after in _one_cycle(engine.stream([0], SAMPLING, max_new_tokens=2)):
        new = after.sequence.new_tokens
        right[new[0]] += chance * (len(new) == 2)  # one of the siblings stood
    p_V, q_V = (processed(one(torch.tensor([[0]])).logits[0], SAMPLING) for one in (target, draft))
    thirds: list[float] = []
    for token, chance in enumerate(right):
        ids, generator = torch.full((20000,), token), torch.Generator().manual_seed(1)
        stands_3N = standing(p_V.expand(20000, -1), q_V.expand(20000, -1), ids, 3, generator) * p_V[0, token]
        error = float(stands_3N[2].std()) / 20000**0.5
        assert float(stands_3N.mean(-1).sum()) == pytest.approx(chance, abs=4 * error + 1e-12)
        thirds.append(float(stands_3N[2].mean()))
    assert max(thirds) > 0.005


def test_a_heads_laws_are_those_of_its_own_states() -> None:
    """Behind n tokens that the target has computed and d that it has not."""
    target = tiny()
    head, text = head_for(target, "head3"), [9, 4, 7, 1]
    engine = sd.Engine(target, drafter=head, gamma=3)
    streams = [engine.stream(prompt, SAMPLING, max_new_tokens=6) for prompt in ([7, 7], [5, 3, 8])]
    _, (_, q_DNV) = laws(streams, [[2, 6], text], 3)  # beside another request
    for below, at in [(0, 0), (2, 0), (0, 2), (1, 2)]:
        tokens, drafts = [5, 3, 8, *text[:at]], text[at : at + below]
        right = processed(head_logits(target, head._network, tokens, drafts)[-1:], SAMPLING)[0]
        torch.testing.assert_close(q_DNV[below, at], right, atol=1e-5, rtol=1e-4)
    assert not q_DNV[2, 2].any()


def test_a_grown_shape_asks_for_what_stands_most_often() -> None:
    """First candidates that mostly stand: a chain comes first; that seldom do: their siblings."""
    good, poor = torch.tensor([0.9, 0.05])[:, None, None], torch.tensor([0.3, 0.25])[:, None, None]
    assert grown(good.expand(2, 5, 4), 4) == chain(4)
    assert grown(poor.expand(2, 5, 4), 2) == (-1, -1)


def test_a_drafter_that_cannot_be_asked() -> None:
    target, _ = tables(3)
    stream = sd.Engine(target, drafter=sd.NgramDrafter(), gamma=2).stream([0], SAMPLING, max_new_tokens=3)
    with pytest.raises(InvalidInput, match="expand"):
        laws([stream], [[1, 2]], 2)
