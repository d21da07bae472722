"""No words of a still lie over each other: every kind of still, every case, and the checker on texts that do."""

from __future__ import annotations

import pytest

from specdec_widgets import blocks
from specdec_widgets.costs import Ledger, Measured, surface_of
from specdec_widgets.rounds import round_of
from specdec_widgets.still import moments, to_svg
from specdec_widgets.svg import Canvas
from specdec_widgets.trees import tree_of
from tests.widgets.boxes import crossing
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

CYCLES = [(name, c.index) for name, trace in CASES.items() for c in trace.cycles[:4]]


@pytest.mark.parametrize(
    ("x", "y", "anchor", "meets"),
    [
        (130, 20, "start", False), (60, 20, "start", True), (10, 40, "start", False), (10, 28, "start", True),
        (130, 20, "end", True), (180, 20, "middle", False), (150, 20, "middle", True),
    ],
)  # fmt: skip
def test_the_checker_sees_what_lies_over_what(x: float, y: float, anchor: str, meets: bool) -> None:
    canvas = Canvas()
    canvas.text(10, 20, "fourteen signs", size=14)  # to 114
    canvas.text(x, y, "ten sign 2", size=14, anchor=anchor)  # 75 wide
    assert crossing(canvas.close(300, 60, "", "")) == ([("ten sign 2", "fourteen signs")] if meets else [])


@pytest.mark.parametrize(("name", "cycle"), CYCLES)
def test_cycles_and_their_four_steps(name: str, cycle: int) -> None:
    for svg in moments(CASES[name], cycle, cycle):
        assert crossing(svg) == []
    for width in (320, 380, 640, 980):
        assert crossing(round_of(CASES[name], cycle, width=width).svg) == []


@pytest.mark.parametrize("name", sorted(TREES))
def test_trees(name: str) -> None:
    cycle = TREES[name].cycles[-1].index
    assert crossing(tree_of(TREES[name], cycle).svg) == []
    assert crossing(to_svg(TREES[name], cycle)) == []


@pytest.mark.parametrize("name", [name for name, timeline in TIMELINES.items() if timeline.steps])
def test_schedulers(name: str) -> None:
    count = len(TIMELINES[name].steps)
    for step in {*range(0, count, 1 + count // 50), count - 1}:  # of a long run every fifth: neighbours look alike
        assert crossing(blocks.to_svg(TIMELINES[name], step)) == []


def test_costs() -> None:
    ledger = Ledger({1: 0.0105, 2: 0.011, 5: 0.012, 9: 0.014, 13: 0.017}, 0.003)
    assert crossing(surface_of(ledger, [Measured(4, 0.7, 1.82), Measured(8, 0.69, 1.5)]).svg) == []
