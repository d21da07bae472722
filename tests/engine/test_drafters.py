"""Drafters as users meet them: at the edges of what they are made for, and past them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.invariants import Watch, check

TARGET = sd.testing.tiny_llama()
GREEDY = sd.Sampling.greedy()


def test_a_tree_that_is_a_chain_this_time() -> None:
    """Where one token is possible there are no siblings; the draft lets the tree go all the same, and a record says so.

    Without that word the draft's cache would be behind by more than a chain of a draft model can be.
    """
    drafter = sd.TreeDrafter(sd.ModelDrafter(TARGET), (2, 2, 1))
    engine = sd.Engine(TARGET, drafter=drafter, gamma=3, debug=True)
    engine.observers.append(Watch())
    trace = engine.generate([1, 2, 3], sd.Sampling(top_k=1, seed=1), max_new_tokens=16).trace
    assert trace is not None
    assert [(cycle.parents, cycle.accepted) for cycle in trace.cycles] == [(None, 3)] * 4
    assert check(trace) == []
    silent = replace(trace, meta=replace(trace.meta, trees=False))
    assert {one.name for one in check(silent)} == {"draft-lag"}


@pytest.mark.parametrize(
    ("given", "called"),
    [("ngram", "a str"), (TARGET, "a LlamaForCausalLM"), (sd.NgramDrafter, "the class NgramDrafter")],
)
def test_what_is_no_drafter(given: Any, called: str) -> None:
    """The mistakes that are made first: a name, the draft model itself, a class without its brackets."""
    with pytest.raises(sd.InvalidInput, match=f"^drafter= is {called}; give a drafter"):
        sd.Engine(TARGET, drafter=given)


def test_a_draft_length_past_all_reason() -> None:
    """It costs nothing: what is asked for in a cycle is what can be kept, and room is made for no more."""
    for drafter in (sd.NgramDrafter(), sd.TreeDrafter(sd.ModelDrafter(TARGET), (2, 1))):
        engine = sd.Engine(TARGET, drafter=drafter, gamma=10**12)
        plain = engine.generate([1, 2, 1, 2], GREEDY, max_new_tokens=9, speculate=False)
        assert engine.generate([1, 2, 1, 2], GREEDY, max_new_tokens=9).tokens == plain.tokens
