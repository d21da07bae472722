"""The self-contained page of a scheduler's run in a real browser, opened from a file.

Each test compares what is in the document with the numbers of the timeline that was written into it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specdec_teach.timeline import Timeline
from specdec_widgets.page import timeline_to_html
from specdec_widgets.pool import blocks_after, chosen, places, shown
from specdec_widgets.serving import sentence, sums
from specdec_widgets.tiles import words
from tests.widgets.timelines import TIMELINES

ROOT = ".specdec-timeline"
STEP = "e => e.dataset.step"


def open_page(page: Any, tmp_path: Path, name: str) -> Timeline:
    timeline = TIMELINES[name]
    page.goto(timeline_to_html(timeline, tmp_path / "run.html").as_uri())
    page.wait_for_selector(ROOT)
    return timeline


@pytest.mark.parametrize("name", ["typical", "alone", "hostile"])
def test_every_step_shows_its_records(page: Any, recorded: Any, tmp_path: Path, name: str) -> None:
    timeline = open_page(page, tmp_path, name)
    page.focus(ROOT)
    for step, moment in enumerate(timeline.steps):
        assert page.eval_on_selector(ROOT, STEP) == str(step)
        assert page.inner_text(".narration") == sentence(timeline, step)
        blocks = blocks_after(timeline, step)[: shown(timeline)]
        size = timeline.meta.block_size
        assert page.locator(".tile .word").all_inner_texts() == [words(block, size) for block in blocks]
        filled = page.eval_on_selector_all(".tile .filled", "e => e.map(x => parseFloat(x.style.width))")
        assert filled == pytest.approx([100 * block.filled / size for block in blocks], abs=0.01)
        assert page.locator(".tile.shared").count() == sum(block.shared for block in blocks)
        after = sums(timeline, step)
        assert page.inner_text(".counts").startswith(f"{after.in_use} of {timeline.meta.blocks} in use, ")
        assert page.locator(".box").count() == sum(len(past.rows) for past in timeline.steps[: step + 1])
        row = chosen(timeline, step)
        if row is not None:
            drawn = page.locator(".places td:nth-child(2)").all_inner_texts()
            assert drawn == [str(place.block) for place in places(timeline, step, row)]
        assert page.inner_text(".cycle") == f"step {moment.index}"
        page.keyboard.press("ArrowRight")
    assert page.eval_on_selector(ROOT, STEP) == str(len(timeline.steps) - 1)
    assert recorded.errors == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in recorded.requests)


def test_buttons_keys_scrub_and_clicks_move_the_same_step(page: Any, recorded: Any, tmp_path: Path) -> None:
    timeline = open_page(page, tmp_path, "typical")
    page.click("[aria-label='Next step (→)']")
    assert page.eval_on_selector(ROOT, STEP) == "1"
    page.focus(ROOT)
    page.keyboard.press("End")
    assert page.eval_on_selector(ROOT, STEP) == "14"
    page.keyboard.press("Home")
    assert page.eval_on_selector(ROOT, STEP) == "0"
    page.keyboard.press("x")
    lost = next(i for i, s in enumerate(timeline.steps) if any(row.state == "preempted" for row in s.rows))
    assert page.eval_on_selector(ROOT, STEP) == str(lost)
    page.fill(".scrub", "5")
    assert page.eval_on_selector(ROOT, STEP) == "5"
    page.locator(".scale span", has_text="3").first.click()
    assert page.eval_on_selector(ROOT, STEP) == "3"
    assert recorded.errors == []


def test_another_request_is_picked_by_key_and_by_button(page: Any, tmp_path: Path) -> None:
    timeline = open_page(page, tmp_path, "typical")
    page.fill(".scrub", "7")
    page.focus(ROOT)
    assert page.inner_text(".map h3") == "block table of ● 0 Mira"
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".map h3") == "block table of ■ 1 the fox"
    page.click("[data-request='3']")
    assert page.get_attribute("[data-request='3']", "aria-pressed") == "true"
    row = next(row for row in timeline.steps[7].rows if row.request == 3)
    assert page.locator(".places tbody tr").count() == len(row.table)
    assert page.locator(".tile.mine").count() == len(row.table)
    page.fill(".scrub", "8")
    assert "holds no block" in page.inner_text(".map")


def test_play_runs_and_stops(page: Any, tmp_path: Path) -> None:
    page.clock.install()
    open_page(page, tmp_path, "typical")
    page.select_option(".speed", "4")
    page.keyboard.press("Space")
    page.clock.run_for(1500)
    page.keyboard.press("Space")
    held = page.eval_on_selector(ROOT, "e => +e.dataset.step")
    assert 2 <= held <= 6
    page.clock.run_for(5000)
    assert page.eval_on_selector(ROOT, "e => +e.dataset.step") == held


def test_keys_act_with_focus_only(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "typical")
    page.keyboard.press("ArrowRight")
    assert page.eval_on_selector(ROOT, STEP) == "0"


def test_tables_hold_the_numbers_of_the_step(page: Any, tmp_path: Path) -> None:
    timeline = open_page(page, tmp_path, "typical")
    page.click("summary")
    page.fill(".scrub", "10")
    rows = [page.locator(f".tables .wide tbody tr:nth-child({i}) > *").all_inner_texts() for i in (1, 2, 3)]
    for cells, row in zip(rows, timeline.steps[10].rows, strict=True):
        numbers = (row.computed, row.committed, row.fed, row.adopted, row.drafted, row.accepted, row.emitted)
        assert cells[2:9] == [str(n) for n in numbers]
        assert cells[9] == " ".join(map(str, row.table))
    held = [b for b in blocks_after(timeline, 10) if not b.free or b.evicted]
    assert page.locator(".tables table:last-child tbody tr").count() == len(held)


def test_reduced_motion_moves_nothing(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(reduced_motion="reduce")
    open_page(page, tmp_path, "typical")
    assert page.eval_on_selector(".cursor", "e => getComputedStyle(e).transitionDuration") == "0s"
    assert page.eval_on_selector(".box", "e => getComputedStyle(e).animationName") == "none"
    page.close()


def test_many_requests_and_steps_keep_the_cursor_in_sight(browser: Any, recorded: Any, tmp_path: Path) -> None:
    page = browser.new_page(reduced_motion="reduce")
    recorded.watch(page)
    timeline = open_page(page, tmp_path, "crowd")
    page.focus(ROOT)
    for step in (60, 120, 199):
        page.fill(".scrub", str(step))
        page.wait_for_timeout(300)
        sheet, cursor = (page.locator(f".{name}").bounding_box() for name in ("sheet", "cursor"))
        assert sheet["x"] <= cursor["x"]
        assert cursor["x"] + cursor["width"] <= sheet["x"] + sheet["width"] + 1
        first = page.locator(f"[data-request='{timeline.steps[step].rows[0].request}']").bounding_box()
        assert sheet["y"] <= first["y"] < sheet["y"] + sheet["height"]
    assert page.locator(".cells > *").count() < 3000
    assert recorded.errors == []
    page.close()


def test_a_run_without_steps_says_so(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "nothing")
    assert "no step yet" in page.inner_text(".narration")
    page.focus(ROOT)
    for key in ("ArrowRight", "End", "x", "ArrowDown", "Space"):
        page.keyboard.press(key)
    assert recorded.errors == []


def test_names_stay_text(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "hostile")
    assert "</script><b>x" in page.get_attribute("[data-request='0']", "title")
    assert recorded.errors == []


def test_keys_stay_in_the_view(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "typical")
    page.evaluate("window.heard = []; document.addEventListener('keydown', (e) => window.heard.push(e.key))")
    speed = page.locator(f"{ROOT} select[aria-label='speed']")
    speed.focus()
    for key in ("m", "d", "x"):
        page.keyboard.press(key)
    page.focus(ROOT)
    for key in ("ArrowDown", "ArrowRight", "Home"):
        page.keyboard.press(key)
    assert page.evaluate("window.heard") == []
