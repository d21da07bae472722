"""The way through a draft tree that a still of a cycle draws: what it keeps of the tree, and a chain stays a chain."""

from __future__ import annotations

import pytest

from specdec_widgets.branch import branch
from specdec_widgets.still import moments, to_svg
from specdec_widgets.words import subscript
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES


def test_a_chain_comes_back_as_it_is() -> None:
    for cycle in CASES["mixed"].cycles:
        assert branch(cycle) is cycle


@pytest.mark.parametrize("name", sorted(TREES))
def test_the_path_and_what_ended_it_are_kept(name: str) -> None:
    whole = TREES[name].cycles[-1]
    assert whole.parents is not None
    drawn = branch(whole)
    kept = whole.path or ()
    assert drawn.proposed[: len(kept)] == tuple(whole.proposed[k] for k in kept)
    assert [d.position for d in drawn.decisions] == list(range(1, len(drawn.proposed) + 1))
    assert {d.status for d in drawn.decisions[: len(kept)]} <= {"accepted"}
    behind = [d.status for d in drawn.decisions[len(kept) :]]
    below = [d for k, d in enumerate(whole.decisions) if whole.parents[k] == (kept[-1] if kept else -1)]
    assert behind == (["rejected"] if any(d.status == "rejected" for d in below) else [])
    assert (drawn.emitted, drawn.target_kv, drawn.parents) == (whole.emitted, whole.target_kv, whole.parents)


@pytest.mark.parametrize("name", sorted(TREES))
def test_the_still_says_that_it_was_a_tree(name: str) -> None:
    trace = TREES[name]
    cycle = trace.cycles[-1]
    said = f"A tree of {len(cycle.proposed)} "
    assert said in to_svg(trace, cycle.index).replace("</text>", "").replace("\n", " ") or len(cycle.proposed) == 1
    count = len(branch(cycle).proposed)
    svg = to_svg(trace, cycle.index)
    assert [n for n in range(1, 60) if f">{subscript('d', n)}</text>" in svg] == list(range(1, count + 1))
    assert len(moments(trace, cycle.index, cycle.index)) == 4
    assert "A tree of" not in to_svg(CASES["mixed"], 0)
