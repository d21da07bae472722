"""Counted on the embedded pair: what trees add to chains of the same depth, and where certain drafts cost it again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.bench.task import KINDS
from specdec_teach.training.evaluate import PROMPTS

SETTINGS = {
    "greedy": [sd.Sampling(temperature=0)],
    "T = 0.8": [sd.Sampling(temperature=0.8, seed=seed) for seed in (1, 2, 3)],
}
BASES: dict[str, Callable[[sd.Pair], Any]] = {
    "model": lambda pair: sd.ModelDrafter(pair.draft),
    "head3": sd.HeadDrafter.of,
    "medusa": sd.MedusaDrafter.of,
}
DEPTH = 4

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rate(pair: sd.Pair) -> Callable[..., float]:
    """Tokens for each target forward of a chain, a tree of a fixed shape, or one by chances."""

    @functools.cache
    def count(base: str, kind: str, setting: str) -> float:
        drafter = BASES[base](pair)
        if kind != "chain":
            drafter = sd.TreeDrafter(drafter, **({"shape": (3, 2, 1, 1)} if kind == "shape" else {"budget": 16}))
        engine = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=DEPTH)
        prompts, ways = list(PROMPTS), SETTINGS[setting]
        settings = [way for way in ways for _ in prompts]
        results = engine.generate(prompts * len(ways), settings, max_new_tokens=64, trace=False)
        return sum(one.stats.emitted for one in results) / sum(one.stats.cycles for one in results)

    return count


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("base", BASES)
def test_a_tree_of_a_fixed_shape_beats_its_chain(base: str, setting: str, rate: Callable[..., float]) -> None:
    assert rate(base, "shape", setting) > rate(base, "chain", setting)


@pytest.mark.parametrize("base", BASES)
def test_a_greedy_tree_by_chances_beats_its_chain(base: str, rate: Callable[..., float]) -> None:
    """With fewer drafts than the fixed shape has."""
    assert rate(base, "chances", "greedy") > rate(base, "chain", "greedy")


def test_certain_drafts_cost_more_than_siblings_bring_where_the_head_is_good(rate: Callable[..., float]) -> None:
    """At T = 0.8 a certain draft stands with probability p alone, one that was drawn with min(1, p/q)."""
    assert rate("head3", "chances", "T = 0.8") < rate("head3", "chain", "T = 0.8") < rate("head3", "shape", "T = 0.8")


LINEUP = {"tree": "model", "head-tree": "head3", "medusa-tree": "medusa"}


@pytest.mark.parametrize("name", LINEUP)
def test_a_tree_of_the_lineup_beats_its_chain_where_drafts_are_drawn(pair: sd.Pair, name: str) -> None:
    """On copying and lists, where first guesses fall more often; `benchmarks/counts.md` has the margins."""
    prompts = [text for kind in ("copying", "list") for text in KINDS[kind] for _ in range(6)]
    settings = [sd.Sampling(temperature=0.8, seed=1 + at, eos_token_id=None) for at in range(len(prompts))]

    def rate(drafter: Any) -> float:
        engine = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=DEPTH)
        results = engine.generate(prompts, settings, max_new_tokens=80, trace=False)
        return sum(one.stats.emitted for one in results) / sum(one.stats.cycles for one in results)

    made = sd.drafters_for(pair)
    assert rate(made[name]) > 1.02 * rate(made[LINEUP[name]])
