"""The self-contained page in a real browser, opened from a file.

Each test compares what is in the document with the numbers of the trace that was written into it.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
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


# What a step changes in the document: [nodes added and removed, attributes and texts set, nodes there] for each press.
WORK = """async ([first, presses]) => {
  const root = document.querySelector('.specdec-player'), scrub = root.querySelector('.scrub'), rows = [];
  const settle = async () => { for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame); };
  const count = {childList: true, attributes: true, characterData: true};
  scrub.value = String(first);
  scrub.dispatchEvent(new Event('input'));
  await settle();
  for (let i = 0; i < presses; i++) {
    let made = 0, set = 0;
    const add = (records) => records.forEach(({type, addedNodes, removedNodes}) => {
      if (type === 'childList') made += addedNodes.length + removedNodes.length; else set++;
    });
    const seen = new MutationObserver(add);
    seen.observe(root, {...count, subtree: true});
    root.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    await settle();
    add(seen.takeRecords());
    seen.disconnect();
    rows.push([root.dataset.stage, made, set, root.querySelectorAll('*').length]);
  }
  return rows;
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


def test_play_runs_pauses_at_once_and_ends(page: Any, tmp_path: Path) -> None:
    """What is played is never queued: the step at which a reader pauses is the last one."""
    page.clock.install()
    open_page(page, tmp_path, "plain")
    page.select_option(".speed", "4")
    page.keyboard.press("Space")
    page.clock.fast_forward(2000)  # a tab that slept: the timers that were due fire once
    page.clock.run_for(1200)
    page.keyboard.press("Space")
    held = page.eval_on_selector(ROOT, "e => +e.dataset.step")
    assert 2 <= held <= 6
    page.clock.run_for(5000)
    assert page.eval_on_selector(ROOT, "e => +e.dataset.step") == held
    page.keyboard.press("Space")
    page.clock.run_for(30_000)
    assert page.get_attribute(ROOT, "data-stage") == "end"


def test_keys_act_with_focus_only(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "mixed")
    page.keyboard.press("ArrowRight")
    assert drawn(page)[1] == "prefill"


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


def test_a_rewind_in_a_narrow_window_shows_the_pointers_and_how_far_they_go(browser: Any, tmp_path: Path) -> None:
    page = browser.new_page(viewport={"width": 320, "height": 900}, reduced_motion="reduce")
    trace = open_page(page, tmp_path, "mixed")
    page.focus(ROOT)
    shown = 0
    while page.get_attribute(ROOT, "data-stage") != "end":
        page.keyboard.press("ArrowRight")
        if page.get_attribute(ROOT, "data-stage") != "rewind":
            continue
        pane = page.locator(".pane").bounding_box()
        for label in page.locator(".pointer span, .rewound span").all():
            box = label.bounding_box()
            assert pane["x"] <= box["x"], label.inner_text()
            assert box["x"] + box["width"] <= pane["x"] + pane["width"], label.inner_text()
            shown += 1
    caches = [kv for cycle in trace.cycles for kv in (cycle.target_kv, cycle.draft_kv)]
    assert shown == len(caches) + sum(kv.written > kv.after for kv in caches)
    page.close()


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


def test_a_step_of_a_thousand_cycles_is_as_much_work_as_one_of_twenty(browser: Any, tmp_path: Path) -> None:
    """The same cycles at the end of a long run and of a short one: the document changes by as much, and is as large.

    Times are for benchmarks/player_speed.py.
    """
    long = thousand()
    short = replace(long, cycles=long.cycles[:40])
    work = []
    for trace in (short, long):
        page = browser.new_page(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
        page.goto(to_html(trace, tmp_path / "run.html").as_uri())
        page.wait_for_selector(ROOT)
        per_cycle = (step_count(long) - step_count(short)) // (len(long.cycles) - len(short.cycles))
        first = step_count(trace) - 10 * per_cycle
        work.append(page.evaluate(WORK, [first, 40]))
        page.close()
    few, many = work
    assert [row[0] for row in few] == [row[0] for row in many], "the same steps"
    assert {row[0] for row in many} >= {"draft", "target", "verdict", "last", "commit", "rewind"}
    for which, slack in ((1, 12), (2, 12), (3, 12)):
        assert max(row[which] for row in many) <= max(row[which] for row in few) + slack
    assert sum(row[1] + row[2] for row in many) <= 1.1 * sum(row[1] + row[2] for row in few)
    assert max(row[3] for row in many) < 1000


def test_the_benchmark_measures_what_a_page_does(browser: Any, tmp_path: Path) -> None:
    from benchmarks.player_speed import measure

    found = measure(browser, to_html(CASES["mixed"], tmp_path / "run.html"), rounds=1, presses=3)
    assert found["steps"] == step_count(CASES["mixed"])
    assert all(found[name]["n"] == n for name, n in (("first_paint", 1), ("step", 3), ("seek", 3), ("frame", 3)))
    assert all(0 < found[name]["median"] <= found[name]["p95"] for name in ("first_paint", "step", "seek", "frame"))


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


# A player whose store counts what it is told, as a kernel would hear it.
COUNTED = """async (drags) => {
  const text = (id) => document.getElementById(id).textContent, said = [];
  const url = URL.createObjectURL(new Blob([text("player")], { type: "text/javascript" }));
  const { mount, memory } = await import(url), main = document.querySelector("main");
  main.replaceChildren(); const store = memory({ trace: JSON.parse(text("trace")), step: 0 });
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  mount(main, { ...store, set: (key, value) => { said.push([key, value]); store.set(key, value); } });
  const scrub = main.querySelector(".scrub");
  for (let i = 1; i <= drags; i++) {
    scrub.value = String(i);
    scrub.dispatchEvent(new Event("input"));
    if (i % 10 === 0) await wait(5);
  }
  await wait(300);
  return said;
}"""


def test_a_drag_tells_the_kernel_where_it_ended_and_not_all_on_the_way(page: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, "long")
    said = page.evaluate(COUNTED, 200)
    assert said[-1] == ["step", 200]
    assert len(said) < 20
