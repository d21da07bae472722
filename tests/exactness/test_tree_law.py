"""The law of the first tokens with draft trees, by enumerating every random choice of the real engine (< 1e-12)."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import CounterNoise, ForcedNoise
from specdec_teach.policy import processed
from specdec_teach.rules.rejection import Rejection

from ..checks import P3, P4, Q3, Q4, logs, product_law, same_law

SHAPES = [(2, 2), (3, 1), (2, 1, 1), (-1, -1, 0, 0, 2)]


def table(seed: int, width: int) -> torch.Tensor:
    """A Markov chain with decided rows."""
    return torch.randn(width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 1.5


def trees(p: Any, q: Any, shape: Any = None, verify: str = "rejection", cache: str = "contiguous", **how: Any) -> Any:
    """An engine over two tabular models that drafts trees."""
    drafter = sd.TreeDrafter(sd.ModelDrafter(sd.testing.TabularLM(q)), shape, **how)
    return sd.Engine(sd.testing.TabularLM(p), drafter=drafter, gamma=drafter.depth, verify=verify, cache=cache)


def chain_law(rows: torch.Tensor, sampling: sd.Sampling, count: int) -> dict[Any, float]:
    """Plain ancestral sampling from the processed rows of a chain."""
    right = processed(rows, sampling).tolist()
    return product_law(lambda prefix: right[prefix[-1]], (0,), count)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("settings", "tokens"), [({}, 1), ({"temperature": 0.7, "top_k": 2}, 3), ({"top_p": 0.8}, 2)], ids=str
)
def test_trees_of_a_fixed_shape(shape: Any, settings: dict[str, Any], tokens: int) -> None:
    """Siblings without replacement, what one leaves of p for the next, and every place where a way can end."""
    target, draft, sampling = table(1, 3), table(2, 3), sd.Sampling(**settings)
    law = sd.exact_law(trees(target, draft, shape), [0], tokens, sampling)
    same_law(law, chain_law(target, sampling, tokens))
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("width", "tokens"), [(3, 3), (4, 2)])
def test_more_tokens_of_every_shape(shape: Any, width: int, tokens: int) -> None:
    """Up to three cycles with V = 3, up to two with V = 4."""
    target, draft = table(11, width), table(12, width)
    law = sd.exact_law(trees(target, draft, shape), [0], tokens)
    same_law(law, chain_law(target, sd.Sampling(), tokens))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [(2, 1), (3,), SHAPES[-1]], ids=str)
def test_three_of_four_tokens(shape: Any) -> None:
    """Small shapes: the ways of a drawn tree of n nodes are V^n, and every cycle multiplies them."""
    target, draft = table(11, 4), table(12, 4)
    law = sd.exact_law(trees(target, draft, shape), [0], 3)
    same_law(law, chain_law(target, sd.Sampling(), 3))


@pytest.mark.parametrize("cache", ["contiguous", "masked", "paged", "selective", "recompute"])
def test_across_cycles(cache: str) -> None:
    """A second and a third cycle behind the path that was kept, in every cache."""
    target, draft = table(3, 3), table(4, 3)
    law = sd.exact_law(trees(target, draft, (2, 1), cache=cache), [0], 3)
    same_law(law, chain_law(target, sd.Sampling(), 3))


@pytest.mark.parametrize(("p", "q"), [(P3, Q3), (P4, Q4), (Q4, P4)], ids=["textbook", "four", "four, reversed"])
@pytest.mark.parametrize("shape", [(2,), (3,)], ids=str)
def test_crafted_laws(p: Any, q: Any, shape: Any) -> None:
    """Constant targets that the usual mistakes get wrong."""
    law = sd.exact_law(trees(logs(p), logs(q), shape), [0], 2)
    same_law(law, product_law(lambda prefix: p, (0,), 2))


@pytest.mark.parametrize("how", [{"shape": (2, 2), "mode": "top"}, {"budget": 5, "beam": 2, "depth": 3}], ids=str)
def test_certain_drafts(how: dict[str, Any]) -> None:
    """One-hot trees: the likeliest tokens in a fixed shape, and a shape that follows the draft's confidence."""
    target, draft, sampling = table(5, 3), table(6, 3), sd.Sampling(temperature=1.2)
    same_law(sd.exact_law(trees(target, draft, **how), [0], 3, sampling), chain_law(target, sampling, 3))


@pytest.mark.parametrize("how", [{"shape": (2, 1)}, {"budget": 4, "beam": 2, "depth": 2}], ids=str)
def test_penalties_see_each_nodes_own_way(how: dict[str, Any]) -> None:
    """Frequency and repetition penalties, which differ between siblings' children."""
    p, q = torch.tensor([0.9, 0.4, -0.3], dtype=torch.float64), torch.tensor([0.2, 0.5, 0.4], dtype=torch.float64)
    sampling = sd.Sampling(frequency_penalty=0.7, presence_penalty=0.25, repetition_penalty=1.3)

    def step(prefix: tuple[int, ...]) -> list[float]:
        row = [(z / 1.3 if z > 0 else z * 1.3) if token in prefix else z for token, z in enumerate(p.tolist())]
        new = prefix[1:]
        row = [z - 0.7 * new.count(token) - 0.25 * (token in new) for token, z in enumerate(row)]
        return torch.tensor(row, dtype=torch.float64).softmax(-1).tolist()

    same_law(sd.exact_law(trees(p, q, **how), [0], 3, sampling), product_law(step, (0,), 3))


def test_a_target_that_sees_the_whole_prefix() -> None:
    """Logits that depend on every earlier token, read from the cache: a wrong slot on the kept path changes the law."""

    def rule(salt: int) -> Any:
        def logits(prefix: tuple[int, ...]) -> torch.Tensor:
            mixed = sum(t * 7**i for i, t in enumerate(prefix)) + salt
            return torch.tensor([(mixed * k % 11) / 4 for k in (3, 5, 8)], dtype=torch.float64)

        return logits

    law = sd.exact_law(trees(rule(1), rule(2), (2, 1)), [0, 2], 3)
    same_law(law, product_law(lambda prefix: rule(1)(prefix).softmax(0).tolist(), (0, 2), 3))


def test_an_end_inside_a_tree() -> None:
    """Texts that end early have their share."""
    target = table(7, 3)
    rows = target.softmax(-1).tolist()
    law = sd.exact_law(trees(target, table(8, 3), (2, 1)), [0], 2, sd.Sampling(eos_token_id=1))
    right = {(1,): rows[0][1]} | {(a, b): rows[0][a] * rows[a][b] for a in (0, 2) for b in range(3)}
    same_law(law, right)


def test_an_empty_residual_ends_the_row() -> None:
    """Where rounding leaves nothing of p behind a draft that fell, p stays as it was and no sibling is tried."""
    p_RV, q_KV = torch.tensor([[0.4, 0.5]] * 3), torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    verdict = Rejection().judge(Proposal((0, 1), q_KV, (-1, -1)), p_RV, ForcedNoise(CounterNoise(1), 1), 0)
    assert (verdict.judged, verdict.path, verdict.degenerate, verdict.source) == ((0,), (), True, "p")
    assert torch.equal(verdict.law_V, p_RV[0])
