"""Every kind of standalone page for readers who do not see it, do not use a mouse, or want nothing to move.

axe-core looks at each state; what axe cannot know (where the focus goes, what is said, what moves) is walked here.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import pytest

from specdec_widgets.page import comparison_to_html, lab_to_html, timeline_to_html, to_html
from tests.browser.axe import violations
from tests.browser.contrast import CONTRAST, INKED
from tests.widgets.test_colours import SAYS
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

ROOT = ".specdec-player"
PAGES = {
    "player": lambda path: to_html(CASES["mixed"], path),
    "paged": lambda path: to_html(CASES["paged"], path),
    "compare": lambda path: comparison_to_html(CASES["mixed"].compare(CASES["plain"]), path),
    "lab": lambda path: lab_to_html([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], path, labels=["a", "b", "c"]),
    "tree": lambda path: to_html(TREES["typical"], path),
    "timeline": lambda path: timeline_to_html(TIMELINES["typical"], path),
}
FOCUSED = "() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
RING = """() => { const s = getComputedStyle(document.activeElement);
  return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1 || s.outlineStyle === 'auto'; }"""


def open_page(browser: Any, tmp_path: Path, kind: str, **settings: Any) -> Any:
    page = browser.new_page(reduced_motion="reduce", **settings)
    page.goto(PAGES[kind](tmp_path / "run.html").as_uri())
    page.wait_for_selector(ROOT)
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["player", "compare", "lab", "timeline", "tree"])
def test_axe_finds_nothing(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    page = open_page(browser, tmp_path, kind, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    for keys in ([], ["ArrowRight"] * 9, ["ArrowRight"] * 3, ["?"], ["p"]):
        page.focus(ROOT)
        for key in keys:
            page.keyboard.press(key)
        assert violations(page) == [], keys
    page.keyboard.press("p")
    page.set_viewport_size({"width": 320, "height": 900})
    assert violations(page) == []
    page.close()


def test_axe_would_find_something(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, "player")
    page.evaluate("document.querySelector('.next').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('.next').removeAttribute('title')")
    assert [line.split(":")[0] for line in violations(page)] == ["button-name"]
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["player", "compare"])
def test_every_text_reads_in_every_step(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    page = open_page(browser, tmp_path, kind, color_scheme=scheme)
    page.focus(ROOT)
    for large in (False, True):
        for _ in range(16):
            page.keyboard.press("ArrowRight")
            worst, where = page.eval_on_selector(ROOT, CONTRAST)
            assert worst >= 4.5, (large, where)
        page.keyboard.press("Home")
        page.keyboard.press("p")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["player", "compare", "lab", "timeline", "tree"])
def test_every_text_says_what_its_ink_says(browser: Any, tmp_path: Path, kind: str, scheme: Any) -> None:
    """Who cannot tell two inks apart loses nothing: a sign or a word says it too, in every step."""
    page, seen = open_page(browser, tmp_path, kind, color_scheme=scheme), set()
    page.focus(ROOT)
    for _ in range(1 if kind == "lab" else 30):
        seen |= {(ink, text) for ink, text in page.eval_on_selector(ROOT, INKED)}
        page.keyboard.press("ArrowRight")
    page.close()
    assert len({ink for ink, _ in seen}) >= (1 if kind == "timeline" else 3)
    for ink, text in seen:
        if not (kind == "timeline" and re.match("[●■▲◆▼✚]", text)):  # a request's sign and number
            assert re.search(SAYS[ink], text), (ink, text)


@pytest.mark.parametrize("kind", ["compare", "paged", "player", "timeline"])
def test_tab_goes_through_every_control_in_sight_and_out_again(browser: Any, tmp_path: Path, kind: str) -> None:
    page = open_page(browser, tmp_path, kind)
    page.focus(ROOT)
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        if not page.evaluate(f"document.querySelector('{ROOT}').contains(document.activeElement)"):
            break
        seen.append(page.evaluate(FOCUSED))
        assert page.evaluate(RING), f"no visible focus on {seen[-1]}"
    else:
        pytest.fail(f"the focus never leaves: {seen}")
    controls = page.eval_on_selector_all(
        f"{ROOT} :is(button, select, input)", "e => e.filter(x => x.checkVisibility() && !x.disabled).length"
    )
    assert len(seen) >= controls
    assert any(name.startswith("Play") for name in seen)
    page.close()


def test_each_step_is_said_once_as_sentences(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, "player")
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
    page = open_page(browser, tmp_path, "compare")
    page.focus(ROOT)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    live = page.locator(f"{ROOT} [aria-live='polite']")
    assert live.count() == 1
    assert live.inner_text().startswith("speculative: ")
    assert " plain: " in live.inner_text()
    page.close()


def test_large_type_hides_buttons_and_shows_where_the_mouse_points(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, "player", viewport={"width": 1280, "height": 900})
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


@pytest.mark.parametrize(("width", "least"), [(320, 14), (380, 14), (1280, 14), (1920, 17), (2560, 23), (3840, 31)])
@pytest.mark.parametrize("kind", ["player", "compare"])
def test_nothing_sticks_out_from_320_pixels_to_4k(
    browser: Any, tmp_path: Path, kind: str, width: int, least: int
) -> None:
    page = open_page(browser, tmp_path, kind, viewport={"width": width, "height": 1200})
    page.focus(ROOT)
    for large in (False, True):
        for _ in range(9):
            page.keyboard.press("ArrowRight")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), large
        size = page.eval_on_selector(ROOT, "e => parseFloat(getComputedStyle(e).fontSize)")
        assert size == pytest.approx(least * (1.6 if large else 1), abs=0.01)
        page.keyboard.press("p")
    page.close()


def test_on_paper_there_are_no_controls(browser: Any, tmp_path: Path) -> None:
    page = open_page(browser, tmp_path, "player")
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
