"""Two runs on one page in a real browser: one clock, both boards, the place where they part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specdec_teach.comparison import Comparison
from specdec_widgets.page import comparison_to_html
from tests.widgets.traces import CASES, build

ROOT = ".specdec-compare"
SIDES = "e => e.map(x => ({...x.dataset}))"


def open_page(page: Any, tmp_path: Path, pair: Comparison) -> None:
    page.goto(comparison_to_html(pair, tmp_path / "run.html").as_uri())
    page.wait_for_selector(ROOT)
    page.focus(ROOT)


def sides(page: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = page.eval_on_selector_all(f"{ROOT} .run", SIDES)
    return found


def test_both_runs_stand_where_their_traces_say_at_every_forward(page: Any, recorded: Any, tmp_path: Path) -> None:
    pair = CASES["mixed"].compare(CASES["plain"])
    open_page(page, tmp_path, pair)
    steps = int(page.get_attribute(".scrub", "max"))
    ends = []
    for _ in range(steps):
        page.keyboard.press("ArrowRight")
        now = sides(page)
        for side, trace in zip(now, (pair.first, pair.second), strict=True):
            if side["stage"] in ("prefill", "end"):
                continue
            cycle = trace.cycles[int(side["cycle"])]
            assert int(side["committed"]) in (cycle.committed_before, cycle.committed_after)
            assert cycle.target_kv.before <= int(side["targetPointer"]) <= cycle.target_kv.written
            if side["stage"] == "rewind":
                ends.append((trace.meta.gamma, cycle.index))
                assert int(side["targetPointer"]) == cycle.target_kv.after
    assert [side["stage"] for side in sides(page)] == ["end", "end"]
    assert {(4, c.index) for c in pair.first.cycles} <= set(ends)
    assert recorded.errors == []
    assert all(url.startswith(("file:", "blob:", "data:")) for url in recorded.requests)


def test_d_goes_where_the_texts_part_and_marks_it(page: Any, tmp_path: Path) -> None:
    pair = CASES["mixed"].compare(build(["ar", "aa", "r-", "aa", "ar"], gamma=2))
    open_page(page, tmp_path, pair)
    page.keyboard.press("d")
    assert all(int(side["committed"]) > (pair.parting or 0) for side in sides(page))
    assert page.locator(".ruler.apart").all_inner_texts() == [str(pair.parting)] * 2
    assert f"part at position {pair.parting}" in page.inner_text(".agree")
    page.keyboard.press("ArrowLeft")
    assert any(int(side["committed"]) <= (pair.parting or 0) for side in sides(page))
    widths = "e => Object.fromEntries([...e.querySelectorAll('.ruler')].map(n => [n.textContent, n.style.width]))"
    one, two = (page.locator(".run").nth(i).evaluate(widths) for i in (0, 1))
    assert len(one.keys() & two.keys()) > 8
    assert all(one[at] == two[at] for at in one.keys() & two.keys()), "a position is as wide in both"


def test_the_clock_of_seconds_lets_each_run_take_its_time(page: Any, tmp_path: Path) -> None:
    pair = CASES["mixed"].compare(CASES["plain"])
    open_page(page, tmp_path, pair)
    page.keyboard.press("c")
    assert page.input_value("[aria-label='clock']") == "seconds"
    page.keyboard.press("End")
    total = sum(
        c.seconds.draft + c.seconds.target + c.seconds.verify + c.seconds.other for c in pair.first.cycles if c.seconds
    )
    assert page.inner_text(".cycle") == f"{total * 1000:.1f} ms"
    page.select_option("[aria-label='clock']", "forwards")
    assert page.inner_text(".cycle") == "end"


def test_names_and_tokens_stay_text(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, CASES["hostile"].compare(CASES["mixed"], ("</script><b>x", "\u202eplain")))
    page.keyboard.press("End")
    assert page.locator("main b:not(.u)").count() == 0
    assert page.locator(".run .name").first.inner_text() == "</script><b>x"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert recorded.errors == []


def test_equal_runs_and_empty_ones_say_so(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, CASES["mixed"].compare(CASES["mixed"], ("once", "again")))
    assert page.inner_text(".agree").startswith("Both runs commit the same ")
    assert page.is_disabled("button.apart")
    open_page(page, tmp_path, CASES["mixed"].compare(CASES["empty"]))
    for key in ("d", "c", "End", "Shift+ArrowLeft", "Space"):
        page.keyboard.press(key)
    assert recorded.errors == []


# A second view of the same model beside the first one of a page.
TWICE = """async () => {
  const text = (id) => document.getElementById(id).textContent;
  const url = URL.createObjectURL(new Blob([text("player")], { type: "text/javascript" }));
  const { mount, memory } = await import(url), main = document.querySelector("main");
  main.replaceChildren();
  const store = memory({ pair: JSON.parse(text("pair")), step: 0, clock: "forwards" });
  for (let i = 0; i < 2; i++) mount(main.appendChild(document.createElement("div")), store);
}"""


def test_two_views_of_one_model_share_step_and_clock(page: Any, recorded: Any, tmp_path: Path) -> None:
    open_page(page, tmp_path, CASES["mixed"].compare(CASES["plain"]))
    page.evaluate(TWICE)
    one, two = page.locator(ROOT).nth(0), page.locator(ROOT).nth(1)
    for key in ("ArrowRight", "c", "ArrowRight", "ArrowRight", "ArrowRight"):
        one.press(key)
    page.wait_for_timeout(200)
    assert two.locator("[aria-label='clock']").input_value() == "seconds"
    assert two.get_attribute("data-step") == one.get_attribute("data-step") != "0"
    assert two.locator(".cycle").inner_text() == one.locator(".cycle").inner_text()
    two.press("c")
    page.wait_for_timeout(200)
    assert one.locator("[aria-label='clock']").input_value() == "forwards"
    assert one.locator(".cycle").inner_text() == two.locator(".cycle").inner_text()
    assert recorded.errors == []
