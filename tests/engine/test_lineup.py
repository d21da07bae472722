"""`sd.drafters_for`: who can draft for a pair, under which name, and that each of them is exact."""

from __future__ import annotations

import pytest

import specdec_teach as sd
from specdec_teach.caches import KINDS

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
NAMES = ("model", "model-argmax", "tree", "early-exit", "head", "head3", "medusa", "head-tree", "medusa-tree", "ngram",
         "retrieval")  # fmt: skip
RAGGED = ("Once upon a time", "Ben had a red ball. Ben had a red ball. Ben had", "The")
LOOKUP = {"ngram", "retrieval"}
OF_A_MODEL = {"model", "model-argmax", "tree"}


def test_names_stand_for_what_there_are_weights_for(pair: sd.Pair) -> None:
    assert sd.drafters_for(pair).keys() == set(NAMES)
    assert sd.drafters_for(sd.Pair(TARGET, NEAR, None)).keys() >= LOOKUP | OF_A_MODEL
    assert sd.drafters_for(sd.Pair(TARGET, None, None)).keys() == LOOKUP


def test_what_is_no_pair() -> None:
    """A model by itself, or both without their names."""
    for given, called in ((TARGET, "LlamaForCausalLM"), ((TARGET, NEAR), "tuple"), (None, "NoneType")):
        with pytest.raises(sd.InvalidInput, match=f"the pair is a {called}; give load_pair"):
            sd.drafters_for(given)  # type: ignore[arg-type]


def test_a_trace_tells_all_of_them_apart(pair: sd.Pair) -> None:
    made = sd.drafters_for(pair)
    assert len({drafter.name for drafter in made.values()}) == len(made)
    for name in ("model", "model-argmax", "ngram", "retrieval"):
        assert made[name].name == name


def test_every_call_makes_its_own() -> None:
    first, second = (sd.drafters_for(sd.Pair(TARGET, NEAR, None)) for _ in range(2))
    assert all(first[name] is not second[name] for name in first)


def test_every_drafter_leaves_the_greedy_text_alone(pair: sd.Pair) -> None:
    ids = pair.tokenizer("Once upon a time").input_ids
    plain = sd.Engine(pair.target).generate(ids, sd.Sampling.greedy(), max_new_tokens=40)
    for name, drafter in sd.drafters_for(pair).items():
        engine = sd.Engine(pair.target, drafter=drafter, gamma=3, debug=True)
        found = engine.generate(ids, sd.Sampling.greedy(), max_new_tokens=40)
        assert found.tokens == plain.tokens, name
        assert found.stats.drafted > 0, name


@pytest.fixture(scope="module")
def plain(pair: sd.Pair) -> list[tuple[int, ...]]:
    """What the target says alone, each prompt by itself."""
    engine = sd.Engine(pair.target, tokenizer=pair.tokenizer)
    return [engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=20).tokens for prompt in RAGGED]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cache", KINDS)
def test_greedy_text_in_every_cache_alone_and_in_a_ragged_batch(
    pair: sd.Pair, plain: list[tuple[int, ...]], name: str, cache: str
) -> None:
    engine = sd.Engine(
        pair.target, drafter=sd.drafters_for(pair)[name], tokenizer=pair.tokenizer, gamma=3, cache=cache, debug=True
    )
    alone = engine.generate(RAGGED[0], sd.Sampling.greedy(), max_new_tokens=20)
    assert alone.tokens == plain[0]
    together = engine.generate(list(RAGGED), sd.Sampling.greedy(), max_new_tokens=20)
    assert [one.tokens for one in together] == plain
    assert sum(one.stats.drafted for one in together) > 0


@pytest.mark.parametrize("name", ["model", "model-argmax", "tree", "ngram", "retrieval"])
def test_a_drafter_is_made_the_same_each_time(pair: sd.Pair, name: str) -> None:
    """Two calls, one text: nothing in a drafter depends on when it was made."""
    first, second = (
        sd.Engine(pair.target, drafter=sd.drafters_for(pair)[name], tokenizer=pair.tokenizer).generate(
            "Ben had a red ball. Ben had", sd.Sampling(seed=3), max_new_tokens=24
        )
        for _ in range(2)
    )
    assert first.tokens == second.tokens
    assert first.stats.drafted == second.stats.drafted > 0
