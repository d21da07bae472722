"""The self-contained page in a real browser, opened from a file.

Each test compares what is in the document with the numbers of the trace that was written into it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from specdec_teach.trace import Trace
from specdec_widgets.page import to_html
from specdec_widgets.steps import step_count
from tests.browser.contrast import CONTRAST
from tests.widgets.traces import CASES, thousand

ROOT = ".specdec-player"
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def open_page(page: Any, tmp_path: Path, name: str) -> Trace:
    trace = CASES[name]
    path = to_html(trace, tmp_path / "run.html")
    page.goto(path.as_uri())
    page.wait_for_selector(ROOT)
    return trace


# What the root says in every step, from the first to the last.
WALK = """() => {
  const root = document.querySelector('.specdec-player'), seen = [{...root.dataset}];
  while (seen.at(-1).stage !== 'end' && seen.length < 500) {
    root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
    seen.push({...root.dataset});
  }
  return seen;
}"""


# When the player's first item stands in the document and is painted.
DRAWN = """new MutationObserver((_, seen) => {
  if (!document.querySelector('.specdec-player .item')) return;
  seen.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.drawnAt = performance.now(); }));
}).observe(document, { childList: true, subtree: true });"""

# What a step, a jump and a frame of scrolling cost, layout included.
TIMES = """async () => {
  const root = document.querySelector('.specdec-player'), items = [], cycles = [];
  const scrub = root.querySelector('.scrub'), pane = root.querySelector('.pane');
  const frame = () => new Promise(requestAnimationFrame), median = (x) => x.sort((a, b) => a - b)[x.length >> 1];
  const spent = async (n, act) => {
    const times = [];
    for (let i = 0; i < n; i++) {
      const start = performance.now();
      act(i);
      root.offsetHeight;
      times.push(performance.now() - start);
      await frame();
      items.push(root.querySelectorAll('.items > *').length);
      cycles.push(root.dataset.cycle);
    }
    return +median(times).toFixed(1);
  };
  const press = () => root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
  const seek = (i) => {
    scrub.value = String(i * scrub.max / 60);
    scrub.dispatchEvent(new Event('input'));
  };
  const scroll = () => { pane.scrollLeft += 37; };
  const medians = { step: await spent(60, press), seek: await spent(60, seek), scroll: await spent(60, scroll) };
  return { medians, items, cycles, steps: +scrub.max + 1 };
}"""


def drawn(page: Any) -> tuple[str, str, int, int | None]:
    return said(page.eval_on_selector(ROOT, "e => ({...e.dataset})"))


def said(data: dict[str, str]) -> tuple[str, str, int, int | None]:
    draft = data["draftPointer"]
    return data["cycle"], data["stage"], int(data["targetPointer"]), int(draft) if draft else None


@pytest.mark.parametrize("name", sorted(set(CASES) - {"long"}))
def test_pointers_follow_the_trace_through_every_step(page: Any, recorded: Any, tmp_path: Path, name: str) -> None:
    trace = open_page(page, tmp_path, name)
    seen = [said(data) for data in page.evaluate(WALK)]
    assert seen[-1][1] == "end"
    for cycle in trace.cycles:
        rows = [row for row in seen if row[0] == str(cycle.index) and row[1] not in ("prefill", "end")]
        for which, kv in ((2, cycle.target_kv), (3, cycle.draft_kv)):
            values = [row[which] for row in rows]
            if kv is None:
                assert set(values) == {None}
                continue
            assert values[0] == kv.before
            assert values[-1] == kv.after
            assert max(v for v in values if v is not None) == kv.written
            at_target = next(row[which] for row in rows if row[1] == "target")
            assert at_target == kv.written
    assert recorded.errors == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in recorded.requests)


def test_buttons_keys_and_scrub_move_the_same_step(page: Any, recorded: Any, tmp_path: Path) -> None:
    trace = open_page(page, tmp_path, "mixed")
    page.click("[aria-label='Next step (→)']")
    page.click("[aria-label='Next cycle (Shift →)']")
    assert drawn(page)[:2] == ("1", "start")
    page.click("[aria-label='Previous cycle (Shift ←)']")
    assert drawn(page)[:2] == ("0", "start")
    page.focus(ROOT)
    page.keyboard.press("r")
    assert drawn(page)[:2] == ("0", "verdict")
    assert page.inner_text(".ledger h3").split() == ["d₃", "␣was", "✗", "rejected", "row", "2"]
    page.keyboard.press("1")
    assert page.inner_text(".ledger h3").startswith("d₁")
    page.keyboard.press("End")
    assert drawn(page)[1] == "end"
    page.keyboard.press("Home")
    assert drawn(page)[1] == "prefill"
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert drawn(page) == ("1", "start", trace.cycles[1].target_kv.before, 10)
    page.fill(".scrub", "3")
    assert page.eval_on_selector(ROOT, "e => e.dataset.step") == "3"
    assert recorded.errors == []


def test_play_runs_and_stops(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "plain")
    page.focus(ROOT)
    page.select_option(".speed", "4")
    page.focus(ROOT)
    page.keyboard.press("Space")
    page.wait_for_timeout(1200)
    page.keyboard.press("Space")
    held = page.eval_on_selector(ROOT, "e => e.dataset.step")
    page.wait_for_timeout(700)
    assert page.eval_on_selector(ROOT, "e => e.dataset.step") == held != "0"
    page.keyboard.press("Space")
    page.wait_for_selector(f"{ROOT}[data-stage='end']")


def test_keys_act_with_focus_only_and_never_trap_it(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "mixed")
    page.keyboard.press("ArrowRight")
    assert drawn(page)[1] == "prefill"
    page.focus(ROOT)
    for _ in range(12):
        page.keyboard.press("Tab")
    assert not page.evaluate("document.querySelector('.specdec-player').contains(document.activeElement)")
    page.focus(ROOT)
    page.keyboard.press("?")
    assert page.is_visible(".keys")
    page.keyboard.press("Escape")
    assert not page.is_visible(".keys")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")


def test_blocks_of_a_paged_cache_are_named_and_told(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "paged")
    page.focus(ROOT)
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert drawn(page)[:2] == ("1", "commit")
    names = page.locator(".border").all_inner_texts()
    assert "block 40" in names
    assert page.is_visible("p.blocks")
    assert page.inner_text("p.blocks").startswith("The table holds blocks 0, 1, 40")
    page.keyboard.press("Home")
    assert not page.is_visible("p.blocks")
    assert recorded.errors == []


def test_column_of_a_draft_stands_over_its_slots(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "mixed")
    page.focus(ROOT)
    page.keyboard.press("r")
    page.wait_for_timeout(500)
    chip = page.locator("[data-pick='2']").bounding_box()
    for slot in page.locator(".cell[title^='slot 9:']").all():
        box = slot.bounding_box()
        assert abs(box["x"] - chip["x"]) < 1
        assert abs(box["width"] - chip["width"]) < 1
    assert page.locator(".cell[title^='slot 9:']").count() == 2


def test_hostile_tokens_stay_text(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "hostile")
    page.focus(ROOT)
    seen = ""
    while page.get_attribute(ROOT, "data-stage") != "end":
        page.keyboard.press("ArrowRight")
        seen += page.inner_text(".items") + page.inner_text(".narration")
        assert page.locator("main b:not(.u)").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not HIDDEN.search(page.inner_text(ROOT)), "a control character reached the page"
    assert "</script><" in seen
    assert "⟨202E⟩evil⟨2066⟩" in seen
    assert "⟨0000⟩" in seen
    assert "“" in seen, "three byte tokens are the character that they make"
    assert "\ufffd" not in seen
    assert recorded.errors == []


@pytest.mark.parametrize("version", [2, 0, None, "1", {"a": 1}])
def test_a_trace_of_another_version_is_refused_in_words(
    page: Any, recorded: Any, tmp_path: Path, version: object
) -> None:
    path = to_html(CASES["mixed"], tmp_path / "run.html")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"schema_version":1', f'"schema_version":{json.dumps(version)}'), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(f"{ROOT}.refused")
    assert "this player reads version 1" in page.inner_text("[role=alert]")
    assert page.eval_on_selector(ROOT, CONTRAST)[0] >= 4.5
    assert recorded.errors == []


def test_the_play_button_looks_like_no_other(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "mixed")
    drawn_paths = page.eval_on_selector_all(
        ".controls .icon", "e => e.map(x => x.querySelector('path').getAttribute('d'))"
    )
    assert len(set(drawn_paths)) == len(drawn_paths)
    look = "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e.querySelector('path')).fill, e.offsetWidth]"
    play, after = page.eval_on_selector(".play", look), page.eval_on_selector(".next", look)
    assert all(a != b for a, b in zip(play, after, strict=True))


def test_the_line_of_u_times_q_says_what_the_verdict_says(page: Any, tmp_path: Path) -> None:
    """On the proposed token's bars the line stands inside p exactly where the draft was accepted."""
    trace = open_page(page, tmp_path, "mixed")
    page.focus(ROOT)
    judged = 0
    while page.get_attribute(ROOT, "data-stage") != "end":
        page.keyboard.press("ArrowRight")
        if page.get_attribute(ROOT, "data-stage") != "verdict":
            continue
        row = page.locator("tr.proposed")
        at = row.locator(".u").bounding_box()
        bars = row.locator(".bars").first.locator("i")
        end = max(box["x"] + box["width"] for box in (bars.nth(i).bounding_box() for i in range(bars.count())) if box)
        accepted = "accepted" in page.inner_text(".verdict")
        assert (at["x"] + at["width"] / 2 < end + 1) == accepted
        judged += 1
    assert judged == sum(d.u is not None for cycle in trace.cycles for d in cycle.decisions)


def test_large_type_for_a_projector(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "mixed")
    page.focus(ROOT)
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    before = page.eval_on_selector(ROOT, size)
    page.keyboard.press("p")
    assert page.eval_on_selector(ROOT, size) >= 1.5 * before
    page.keyboard.press("p")
    assert page.eval_on_selector(ROOT, size) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colour_scheme_follows_the_reader_and_the_button(browser: Any, tmp_path: Path, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme)
    open_page(page, tmp_path, "mixed")
    assert page.eval_on_selector(ROOT, "e => e.dataset.theme") == scheme
    page.click(".top button")
    page.wait_for_selector(f"{ROOT}:not([data-theme='{scheme}'])")
    page.close()


def test_reduced_motion_moves_nothing(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(reduced_motion="reduce")
    open_page(page, tmp_path, "mixed")
    assert page.eval_on_selector(".pointer", "e => getComputedStyle(e).transitionDuration") == "0s"
    assert page.eval_on_selector(".chip", "e => getComputedStyle(e).animationName") == "none"
    page.close()


@pytest.mark.parametrize("width", [380, 760, 1280, 1920])
def test_nothing_sticks_out_and_no_type_is_small(browser: Any, tmp_path: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    open_page(page, tmp_path, "mixed")
    page.focus(ROOT)
    page.keyboard.press("r")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    smallest = page.evaluate(
        """() => Math.min(...[...document.querySelectorAll('.specdec-player *')]
             .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) && !e.closest('.blank'))
             .map(e => parseFloat(getComputedStyle(e).fontSize)))"""
    )
    assert smallest >= 12
    page.close()


def test_a_thousand_cycles_cost_what_a_few_cost(page: Any, tmp_path: Path) -> None:
    """Only what is in sight is in the document, wherever the run stands; the times are printed, not judged."""
    path = to_html(thousand(), tmp_path / "run.html")
    page.add_init_script(DRAWN)
    page.goto(path.as_uri())
    page.wait_for_function("window.drawnAt")
    page.focus(ROOT)
    said = page.evaluate(TIMES)
    drawn_at = page.evaluate("drawnAt")
    print(f"{path.stat().st_size / 1e6:.0f} MB, drawn after {drawn_at:.0f} ms; medians in ms: {said['medians']}")
    assert said["steps"] == step_count(thousand())
    assert max(said["items"]) < 500
    assert len(set(said["cycles"])) > 50


def test_keys_from_a_dropdown_stay_in_the_player(page: Any, recorded: Any, tmp_path: Path) -> None:
    """A host that listens above the player hears none of its keys, nor after a choice in a dropdown."""
    open_page(page, tmp_path, "mixed")
    page.evaluate("window.heard = []; document.addEventListener('keydown', (e) => window.heard.push(e.key))")
    speed = page.locator(f"{ROOT} select[aria-label='speed']")
    speed.focus()
    for key in ("r", "x", "m", "?", "ArrowDown"):
        page.keyboard.press(key)
    speed.select_option("2")
    page.keyboard.press("r")
    assert page.evaluate("window.heard") == []
    assert recorded.errors == []
