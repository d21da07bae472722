"""What a page says to those who do not see it, and where else a page stands: on paper, in a cell, on a slide.

What every view must do, by keys and at every width, is in test_views.py.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

from specdec_widgets.page import to_html
from tests.browser.contrast import INKED
from tests.browser.views import ROOT, open_view
from tests.widgets.test_colours import SAYS
from tests.widgets.traces import CASES


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["player", "compare", "lab", "timeline", "tree"])
def test_every_text_says_what_its_ink_says(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    """Who cannot tell two inks apart loses nothing: a sign or a word says it too, in every step."""
    page, seen = open_view(browser, tmp_path, kind, color_scheme=scheme), set()
    page.focus(ROOT)
    for _ in range(1 if kind == "lab" else 30):
        seen |= {(ink, text) for ink, text in page.eval_on_selector(ROOT, INKED)}
        page.keyboard.press("ArrowRight")
    page.close()
    assert len({ink for ink, _ in seen}) >= (1 if kind == "timeline" else 3)
    for ink, text in seen:
        if not (kind == "timeline" and re.match("[●■▲◆▼✚]", text)):  # a request's sign and number
            assert re.search(SAYS[ink], text), (ink, text)


def test_each_step_is_said_once_as_sentences(browser: Any, tmp_path: Path) -> None:
    page = open_view(browser, tmp_path, "player")
    page.focus(ROOT)
    said = []
    for _ in range(13):
        page.keyboard.press("ArrowRight")
        live = page.locator(f"{ROOT} [aria-live='polite']")
        assert live.count() == 1
        said.append(live.inner_text())
        assert said[-1][0].isupper()
        assert said[-1].endswith(".")
    assert len(set(said)) == len(said)
    assert page.get_attribute(".pane", "aria-label") == said[-1]
    page.close()


def test_two_runs_are_said_by_their_names(browser: Any, tmp_path: Path) -> None:
    page = open_view(browser, tmp_path, "compare")
    page.focus(ROOT)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    live = page.locator(f"{ROOT} [aria-live='polite']")
    assert live.count() == 1
    assert live.inner_text().startswith("speculative: ")
    assert " plain: " in live.inner_text()
    page.close()


def test_large_type_hides_buttons_and_shows_where_the_mouse_points(browser: Any, tmp_path: Path) -> None:
    page = open_view(browser, tmp_path, "player", viewport={"width": 1280, "height": 900})
    page.focus(ROOT)
    page.keyboard.press("p")
    assert not page.is_visible(".controls")
    page.mouse.move(400, 300)
    ring = page.locator(".laser").bounding_box()
    assert abs(ring["x"] + ring["width"] / 2 - 400) < 2
    assert abs(ring["y"] + ring["height"] / 2 - 300) < 2
    page.keyboard.press("ArrowRight")
    assert page.get_attribute(ROOT, "data-step") == "1"
    page.keyboard.press("p")
    assert page.is_visible(".controls")
    assert not page.is_visible(".laser")
    page.close()


def test_on_paper_there_are_no_controls(browser: Any, tmp_path: Path) -> None:
    page = open_view(browser, tmp_path, "player")
    page.emulate_media(media="print")
    assert not page.is_visible(".controls")
    assert page.is_visible(".narration")
    page.close()


def test_a_page_plays_inside_of_a_cells_output(browser: Any, recorded: Any, tmp_path: Path) -> None:
    """The way of docs/notebooks-elsewhere.md for places without a widget manager."""
    text = to_html(CASES["mixed"], tmp_path / "run.html").read_text(encoding="utf-8")
    page = browser.new_page()
    recorded.watch(page)
    page.set_content(f'<iframe srcdoc="{escape(text)}" width="100%" height="900" title="the run"></iframe>')
    frame = page.frame_locator("iframe")
    frame.locator(ROOT).press("r")
    assert frame.locator(ROOT).get_attribute("data-stage") == "verdict"
    assert recorded.errors == []
    page.close()


def test_a_page_plays_in_the_frame_of_a_slide(browser: Any, recorded: Any, tmp_path: Path) -> None:
    to_html(CASES["mixed"], tmp_path / "run.html")
    slide = tmp_path / "slide.html"
    slide.write_text('<!doctype html><title>slide</title><iframe src="run.html" width="900" height="700"></iframe>')
    page = browser.new_page()
    recorded.watch(page)
    page.goto(slide.as_uri())
    frame = page.frame_locator("iframe")
    frame.locator(ROOT).focus()
    page.keyboard.press("ArrowRight")
    assert frame.locator(ROOT).get_attribute("data-step") == "1"
    assert recorded.errors == []
    page.close()
