"""Lesson 00 in a real JupyterLab: `specdec-teach lab` serves it, every cell runs, and the player plays the real run.

The learner's folder, the settings and the kernels' files live in a temporary folder. Nothing here knows the lesson's
numbers: pointers are compared with one another, as a viewer would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from specdec_widgets.serving import sentence
from tests.browser.contrast import CONTRAST
from tests.browser.lab import RUN_ALL, Server, notebook, opened
from tests.widgets.timelines import TIMELINES

LESSON = "00_start_here.ipynb"
PLAYER = ".jp-OutputArea .specdec-player"
TIMELINE = ".jp-OutputArea .specdec-timeline"
# The terms of definition lists that run into what stands beside them.
OVERLAPS = """root => [...root.querySelectorAll("dt")].filter(term => {
  const range = document.createRange();
  range.selectNodeContents(term);
  const text = range.getBoundingClientRect(), value = term.nextElementSibling.getBoundingClientRect();
  return text.right > value.left && text.bottom > value.top && text.top < value.bottom;
}).map(term => term.textContent)"""


def test_lesson_00_plays_in_jupyterlab(lab: Server, page: Any, recorded: Any, tmp_path: Path) -> None:
    opened(lab, page, LESSON)

    cells = page.evaluate(RUN_ALL)
    assert cells
    for cell in cells:
        assert cell["execution_count"], cell["source"]
        assert not [output for output in cell["outputs"] if output["output_type"] == "error"], cell["outputs"]

    player = page.locator(PLAYER).first
    player.scroll_into_view_if_needed()
    by_button = walk(player, lambda: player.locator("[aria-label^='Next step']").click())
    player.press("Home")
    selected = page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    by_keys = walk(player, lambda: player.press("ArrowRight"))
    assert by_button == by_keys
    assert page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex") == selected

    player.press("?")
    overlaps = player.evaluate(OVERLAPS)
    player.press("Escape")
    assert overlaps == [], "JupyterLab's own style for lists reaches into the player"

    rewound = by_keys[-1][0]
    pointers = {stage: target for cycle, stage, target in by_keys if cycle == rewound}
    assert pointers["target"] > pointers["start"], "the target's forward moves its pointer on"
    assert pointers["start"] < pointers["rewind"] < pointers["target"], "the rewind moves it back, not to the start"

    page.set_viewport_size({"width": 1280, "height": 1300})  # the whole player, for the pictures
    for theme, name in (("JupyterLab Light", "light"), ("JupyterLab Dark", "dark")):
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
        page.wait_for_selector(f"{PLAYER}[data-theme='{name}']")
        page.wait_for_timeout(500)  # colours fade over
        page.screenshot(path=tmp_path / f"{name}.png")
        worst, where = player.evaluate(CONTRAST)
        assert worst >= 4.5, f"{theme}: contrast {worst:.2f} at {where}"

    hosts = {urlsplit(url).hostname for url in recorded.requests if not url.startswith(("data:", "blob:"))}
    assert hosts <= {"127.0.0.1", "localhost"}
    assert recorded.errors == []


def test_timeline_plays_in_jupyterlab(lab: Server, page: Any, recorded: Any, tmp_path: Path) -> None:
    """A scheduler's run in a notebook: its keys move it and not the cells, every text reads in both themes."""
    TIMELINES["typical"].save(lab.folder / "run.json")
    notebook(lab, "timeline.ipynb", "import specdec_teach as sd\nsd.Timeline.load('run.json').show()")
    opened(lab, page, "timeline.ipynb")
    (done,) = page.evaluate(RUN_ALL)
    assert done["outputs"][0]["data"]["text/plain"].startswith("TimelinePlayer: 4 requests, 15 steps")
    assert "text/html" in done["outputs"][0]["data"]

    view = page.locator(TIMELINE).first
    view.scroll_into_view_if_needed()
    selected = page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex")
    for _ in range(8):
        view.press("ArrowRight")
    view.press("ArrowDown")
    assert view.get_attribute("data-step") == "8"
    assert page.evaluate("() => jupyterapp.shell.currentWidget.content.activeCellIndex") == selected
    assert view.locator(".narration").inner_text() == sentence(TIMELINES["typical"], 8)
    view.locator("summary").click()
    view.press("?")
    overlaps = view.evaluate(OVERLAPS)
    view.press("Escape")
    assert overlaps == [], "JupyterLab's own style for lists reaches into the view"
    page.set_viewport_size({"width": 1280, "height": 1500})
    for theme, name in (("JupyterLab Light", "light"), ("JupyterLab Dark", "dark")):
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_selector(f"{TIMELINE}[data-theme='{name}']")
        page.wait_for_timeout(500)  # colours fade over
        page.screenshot(path=tmp_path / f"{name}.png")
        worst, where = view.evaluate(CONTRAST)
        assert worst >= 4.5, f"{theme}: contrast {worst:.2f} at {where}"
    assert recorded.errors == []


def walk(player: Any, step: Any) -> list[tuple[str, str, int]]:
    """Step until a rewind that moved the target's pointer; return (cycle, stage, pointer) for every step."""
    seen = [drawn(player)]
    for _ in range(400):
        step()
        seen.append(drawn(player))
        if seen[-1][1] == "rewind" and seen[-1][2] < seen[-2][2]:
            return seen
        assert seen[-1][1] != "end", "this run never rewinds: the lesson's first player should show one that does"
    pytest.fail(f"no rewind in {len(seen)} steps")


def drawn(player: Any) -> tuple[str, str, int]:
    """Return what the player's root says it shows."""
    data = player.evaluate("root => ({...root.dataset})")
    return data["cycle"], data["stage"], int(data["targetPointer"])
