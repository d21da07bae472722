"""Views that a cell made are freed when it runs again, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("anywidget", reason="the notebook views need the package anywidget")
pytest.importorskip("plotly", reason="the cost explorer needs the package plotly")
from ipywidgets.widgets.widget import _instances

from specdec_widgets import RENDERER, keeping
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES

FIELD = {"key": "gamma", "label": "γ", "kind": "number", "value": 4, "high": 8}
MAKERS: dict[str, Callable[[], Any]] = {
    "player": lambda: RENDERER.show(CASES["mixed"]),
    "compare": lambda: RENDERER.show_comparison(CASES["mixed"].compare(CASES["plain"])),
    "timeline": lambda: RENDERER.show_timeline(TIMELINES["typical"]),
    "lab": lambda: RENDERER.acceptance_lab([0.5, 0.5], [0.9, 0.1]),
    "live": lambda: RENDERER.live(lambda settings: iter([lambda: CASES["mixed"]]), [FIELD]),
    "hunt": lambda: RENDERER.hunt(lambda name: (CASES["mixed"], ()), ["engine_a", "engine_b"], {"invariant": "holds"}),
    "costs": lambda: RENDERER.cost_explorer({1: 0.01, 2: 0.011}, 0.002, [(1, 0.71, 1.35)]),
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Pretend that a cell runs; afterwards everything is closed."""
    monkeypatch.setattr(keeping, "_VIEWS", {})
    count = 0

    def start(cell: str, deleted: tuple[str, ...] = ()) -> None:
        nonlocal count
        count += 1
        told = {"cell": cell, "run": str(count), "deleted": deleted}
        monkeypatch.setattr(keeping, "_message", lambda: told)

    yield start
    for _, views in keeping._VIEWS.values():
        for view in views:
            view.close()


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_fifty_runs_of_a_cell_leave_what_one_leaves(run: Callable[..., None], name: str) -> None:
    run("a")
    MAKERS[name]()
    once = len(_instances)
    for _ in range(49):
        run("a")
        MAKERS[name]()
    assert len(_instances) == once


@pytest.mark.parametrize("name", ["player", "compare", "timeline"])
def test_five_hundred_steps_make_no_widget(name: str) -> None:
    view = MAKERS[name]()
    once = len(_instances)
    for step in range(500):
        view.step = step % 9
    assert len(_instances) == once
    view.close()


def test_a_cell_keeps_all_its_views_and_leaves_those_of_others_alone(run: Callable[..., None]) -> None:
    run("a")
    first, second = MAKERS["player"](), MAKERS["timeline"]()
    run("b")
    other = MAKERS["player"]()
    assert all(view.comm is not None for view in (first, second, other))
    run("a")
    third = MAKERS["player"]()
    assert first.comm is None
    assert second.comm is None
    assert other.comm is not None
    run("b", deleted=("a",))
    MAKERS["player"]()
    assert third.comm is None


def test_outside_of_a_notebook_nothing_is_closed() -> None:
    views = [MAKERS["player"]() for _ in range(3)]
    assert all(view.comm is not None for view in views)
    for view in views:
        view.close()
