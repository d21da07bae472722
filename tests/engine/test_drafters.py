"""Drafters as users meet them: at the edges of what they are made for, and past them."""

from __future__ import annotations

from dataclasses import replace

import specdec_teach as sd
from specdec_teach.invariants import Watch, check

TARGET = sd.testing.tiny_llama()


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
