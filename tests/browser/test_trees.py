"""Draft trees in the player, in a real browser: the same step, the same numbers, every width, both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specdec_teach.trace import Trace
from specdec_widgets.page import to_html
from specdec_widgets.trees import mask, sentence
from specdec_widgets.words import num
from tests.browser.axe import violations
from tests.browser.contrast import CONTRAST
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_reads_in_both_themes(browser: Any, tmp_path: Path, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme, reduced_motion="reduce")
    open_page(page, tmp_path, TREES["typical"])
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.click(".draft-tree summary")
    worst, where = page.eval_on_selector(".draft-tree", CONTRAST)
    assert worst >= 4.5, where
    page.close()


@pytest.mark.parametrize("width", [320, 760, 1280, 1920])
@pytest.mark.parametrize("name", ["wide", "hostile"])
def test_nothing_sticks_out(browser: Any, recorded: Any, tmp_path: Path, width: int, name: str) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    recorded.watch(page)
    open_page(page, tmp_path, TREES[name])
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.click(".draft-tree summary")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    smallest = page.evaluate("""() => Math.min(...[...document.querySelectorAll('.draft-tree :not(.blank)')]
      .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && e.checkVisibility())
      .map(e => parseFloat(getComputedStyle(e).fontSize)))""")
    assert smallest >= 12
    assert recorded.errors == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, tmp_path: Path, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme, reduced_motion="reduce")
    open_page(page, tmp_path, TREES["typical"])
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    page.click(".draft-tree summary")
    assert violations(page) == []
    page.close()
