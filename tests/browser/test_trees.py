"""Draft trees in the player, in a real browser: the same step, the same numbers, every width, both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specdec_teach.trace import Trace
from specdec_widgets.page import to_html
from specdec_widgets.trees import mask, sentence
from specdec_widgets.words import num
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

ROOT = ".specdec-player"


def open_page(page: Any, tmp_path: Path, trace: Trace) -> None:
    page.goto(to_html(trace, tmp_path / "run.html").as_uri())
    page.wait_for_selector(ROOT)
    page.focus(ROOT)


@pytest.mark.parametrize("name", ["typical", "all", "none", "second", "hostile"])
def test_the_tree_follows_the_player(page: Any, recorded: Any, tmp_path: Path, name: str) -> None:
    trace = TREES[name]
    cycle = trace.cycles[-1]
    open_page(page, tmp_path, trace)
    stages: dict[str, int] = {}
    for _ in range(200):
        stage = page.get_attribute(ROOT, "data-stage")
        if page.get_attribute(ROOT, "data-cycle") == str(cycle.index) and stage not in ("prefill", "end"):
            stages[stage] = page.locator(".draft-tree .spot").count()
        if stage == "end":
            break
        page.keyboard.press("ArrowRight")
    count = len(cycle.proposed)
    assert stages["start"] == 1
    assert stages["draft"] == stages["target"] == count + 1
    assert stages["last"] == count + 2
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".draft-tree > .quiet") == sentence(trace, cycle)
    assert f"γ = {cycle.gamma} " in page.inner_text(f"{ROOT} header"), "γ is a depth here, not the number of nodes"
    for status in ("accepted", "rejected", "unused"):
        assert page.locator(f".spot .chip.{status}").count() == sum(d.status == status for d in cycle.decisions)
    assert page.locator(".grid .seen").count() == sum(map(sum, mask(cycle.parents or ())))
    page.click(".draft-tree summary")
    for row, d in zip(page.locator(".draft-tree tbody tr").all(), cycle.decisions, strict=True):
        cells = row.locator("th, td").all_inner_texts()
        assert cells[0] == str(d.position)
        assert cells[3] == num(d.q)
    assert recorded.errors == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in recorded.requests)


def test_a_run_without_trees_shows_none(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, CASES["mixed"])
    for _ in range(20):
        page.keyboard.press("ArrowRight")
        assert not page.is_visible(".draft-tree")
    assert recorded.errors == []


def test_a_wide_tree_scrolls_to_what_is_judged(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 320, "height": 900})
    open_page(page, tmp_path, TREES["typical"])
    page.keyboard.press("Home")
    seen, pane = 0, page.locator(".tree-pane")
    while page.get_attribute(ROOT, "data-stage") != "end":
        page.keyboard.press("ArrowRight")
        if not page.is_visible(".spot .selected"):
            continue
        spot, sight = page.locator(".spot .selected").bounding_box(), pane.bounding_box()
        assert sight["x"] <= spot["x"]
        assert spot["x"] + spot["width"] <= sight["x"] + sight["width"]
        assert sight["y"] <= spot["y"] < spot["y"] + spot["height"] <= sight["y"] + sight["height"] + 1
        seen += 1
    assert seen > 2
    assert pane.evaluate("e => e.scrollWidth > e.clientWidth"), "it is wider than its window"
    page.close()
