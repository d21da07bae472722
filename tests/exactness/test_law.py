"""The law of the first three tokens, by enumerating every random choice of the real engine in float64 (< 1e-12)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.policy import processed

from ..checks import FILTER_P, FILTER_Q, P3, P4, Q3, Q4, law_of_constant, logs, product_law, same_law, tabular

RULES = ("rejection", "block", "coupled")
FILTERS = [{}, {"temperature": 0.7}, {"top_k": 2}, {"top_p": 0.8}]


def random_table(seed: int, width: int) -> torch.Tensor:
    """A Markov chain with decided rows."""
    return torch.randn(width, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 1.5


def chain_law(table: torch.Tensor, sampling: sd.Sampling, count: int) -> dict[Any, float]:
    """Plain ancestral sampling from the processed rows of a chain."""
    rows = processed(table, sampling).tolist()
    return product_law(lambda prefix: rows[prefix[-1]], (0,), count)


@pytest.mark.parametrize(
    ("p", "q", "settings", "right", "mode"),
    [
        (P3, Q3, {}, P3, "sample"),
        (P3, Q3, {}, P3, "argmax"),
        (FILTER_P, FILTER_Q, {"top_k": 2}, (4 / 7, 3 / 7, 0, 0), "sample"),
        (P4, Q4, {}, P4, "sample"),
        (P4, Q4, {}, P4, "argmax"),
    ],
    ids=["textbook", "one-hot draft", "top-k on both sides", "four tokens", "four tokens, one-hot"],
)
def test_crafted_laws(p: Any, q: Any, settings: dict[str, Any], right: Any, mode: str) -> None:
    """The cases that the usual mistakes get wrong, three tokens deep."""
    law_of_constant(p, q, sd.Sampling(**settings), right, mode)


@pytest.mark.parametrize("mode", ["sample", "argmax"])
@pytest.mark.parametrize("settings", FILTERS, ids=str)
@pytest.mark.parametrize("gamma", [1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_chains_with_three_tokens(rule: str, gamma: int, settings: dict[str, Any], mode: str) -> None:
    """The option grid on Markov chains: histories matter, so a row that judges the wrong draft is seen."""
    target, draft = random_table(1, 3), random_table(2, 3)
    sampling = sd.Sampling(**settings)
    law = sd.exact_law(tabular(target, draft, gamma, mode, rule), [0], 3, sampling)
    same_law(law, chain_law(target, sampling, 3))
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("rule", "width", "gamma"),
    [*itertools.product(RULES, [3], [3]), *itertools.product(RULES, [4], [2]), *itertools.product(RULES[:2], [3], [4])],
)
def test_longer_drafts_and_four_tokens(rule: str, width: int, gamma: int) -> None:
    """γ = 3 and 4, and V = 4; γ = 4 under coupled noise is in the whole grid."""
    target, draft = random_table(3, width), random_table(4, width)
    law = sd.exact_law(tabular(target, draft, gamma, "sample", rule), [0], 3, sd.Sampling(temperature=1.3))
    same_law(law, chain_law(target, sd.Sampling(temperature=1.3), 3))


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["sample", "argmax"])
@pytest.mark.parametrize("settings", FILTERS, ids=str)
@pytest.mark.parametrize(("width", "gamma"), list(itertools.product([3, 4], [1, 2, 3, 4])))
@pytest.mark.parametrize("rule", RULES)
def test_whole_grid(rule: str, width: int, gamma: int, settings: dict[str, Any], mode: str) -> None:
    """Everything at once."""
    target, draft = random_table(5, width), random_table(6, width)
    sampling = sd.Sampling(**settings)
    law = sd.exact_law(tabular(target, draft, gamma, mode, rule), [0], 3, sampling)
    same_law(law, chain_law(target, sampling, 3))


def test_a_target_that_sees_the_whole_prefix() -> None:
    """Logits that depend on every earlier token, read from the cache: a stale or missing slot changes the law."""

    def rule(salt: int) -> Any:
        def logits(prefix: tuple[int, ...]) -> torch.Tensor:
            return torch.tensor(
                [((sum(t * 7**i for i, t in enumerate(prefix)) + salt) * k % 11) / 4 for k in (3, 5, 8)]
            )

        return logits

    target, draft = sd.testing.TabularLM(rule(1), vocab=3), sd.testing.TabularLM(rule(2), vocab=3)
    law = sd.exact_law(sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=2), [0, 2], 3)
    right = product_law(lambda prefix: rule(1)(prefix).double().softmax(0).tolist(), (0, 2), 3)
    same_law(law, right)


def test_a_scripted_draft_is_exact_whatever_it_says() -> None:
    """A certain draft is a one-hot q, also a poor one; with an end token the short texts have their share."""
    table = random_table(7, 3)
    engine = sd.Engine(sd.testing.TabularLM(table), drafter=sd.ScriptedDrafter([2, 0, 1, 1, 2, 0, 0]), gamma=2)
    same_law(sd.exact_law(engine, [0], 3), chain_law(table, sd.Sampling(), 3))
    rows = table.softmax(-1).tolist()
    law = sd.exact_law(engine, [0], 2, sd.Sampling(eos_token_id=1))
    right = {(1,): rows[0][1]}
    right |= {(a, b): rows[0][a] * rows[a][b] for a in (0, 2) for b in range(3)}
    same_law(law, right)


def test_padded_vocabularies() -> None:
    """A draft that is wider or narrower than the target, with ids unknown to it: the law is the target's."""
    target = random_table(8, 3)
    for width in (2, 5):
        draft = sd.testing.TabularLM(random_table(9, width))
        engine = sd.Engine(sd.testing.TabularLM(target), drafter=sd.ModelDrafter(draft), gamma=2)
        same_law(sd.exact_law(engine, [0], 3), chain_law(target, sd.Sampling(), 3))


def test_a_narrow_draft_of_a_real_model() -> None:
    """60 ids against 64: prompts and texts with ids that the draft's embedding lacks; greedy text is the plain text."""
    target, narrow = sd.testing.tiny_llama(), sd.testing.tiny_llama(seed=3, vocab=60)
    engine = sd.Engine(target, drafter=sd.ModelDrafter(narrow), gamma=3)
    assert 61 in engine.generate([61, 2], sd.Sampling(allowed=(61, 5), seed=1), max_new_tokens=12).tokens
    for sampling in (sd.Sampling.greedy(), sd.Sampling(temperature=0, allowed=(61, 62, 63))):
        fast, plain = (
            engine.generate([63, 61], sampling, max_new_tokens=20, speculate=s).tokens for s in (True, False)
        )
        assert fast == plain


def test_acceptance_is_the_overlap() -> None:
    """The chance that the first draft stands is Σ min(p, q), read from the enumeration's own cycles."""
    engine = tabular(logs(P4), logs(Q4), 1)
    result = engine.generate([0], sd.Sampling(seed=1), max_new_tokens=40)
    assert result.trace is not None
    drafted = [d for cycle in result.trace.cycles for d in cycle.decisions]
    assert all(d.alpha == pytest.approx(0.55, abs=1e-12) for d in drafted)
    rejected = next(d for d in drafted if d.status == "rejected")
    law = dict(rejected.residual_top.tokens)
    assert law == pytest.approx({0: 2 / 3, 1: 1 / 3}, abs=1e-12)
