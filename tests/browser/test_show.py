"""What the instructor's guide tells a teacher to show, done in a browser: the words that it names are there.

The keys of the pages without a kernel are pressed in `test_keys`. Invariant: nothing here knows a number of a run
that the run itself does not give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import specdec_teach as sd
from tests.browser.lab import RUN_ALL, Server, notebook, opened

PLAYER = ".specdec-player[data-step]"
PROMPT, STORY, GREEDY = "Mira had a red lantern and", sd.Sampling(temperature=0.8, seed=8), sd.Sampling.greedy()
FACTS = """text => document.querySelector(".jp-OutputArea .specdec-player[data-step] .facts")
  .textContent.startsWith(text)"""
SETUP = f"""import specdec_teach as sd
pair = sd.load_pair()
engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
prompt, story = {PROMPT!r}, sd.Sampling(temperature=0.8, seed=8)
"""


@pytest.fixture(scope="module")
def engine() -> sd.Engine:
    pair = sd.load_pair()
    return sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)


def played(page: Any, path: Path) -> Any:
    """Open the page of a run or of two, with the focus in it."""
    page.goto(path.as_uri())
    page.wait_for_selector(".specdec-player[tabindex]")
    page.focus(".specdec-player")
    return page.locator(".specdec-player").first


def run_cell(lab: Server, page: Any, name: str, code: str) -> None:
    """Write a notebook of one cell, open it and run it."""
    notebook(lab, f"{name}.ipynb", code)
    page.set_viewport_size({"width": 1280, "height": 1400})
    opened(lab, page, f"{name}.ipynb")
    (done,) = page.evaluate(RUN_ALL)
    assert [output["output_type"] for output in done["outputs"]] == ["execute_result"], done["outputs"]


def test_00_a_cycle_step_by_step_and_a_rejection_where_one_is_asked_for(
    lab: Server, page: Any, recorded: Any, engine: sd.Engine
) -> None:
    run_cell(lab, page, "show_00", SETUP + "sd.play(engine, prompt, story, max_new_tokens=60)")
    player = page.locator(f".jp-OutputArea {PLAYER}").first
    player.click(position={"x": 300, "y": 12})
    page.keyboard.press("Home")
    while player.locator(".chip.proposed").count() < 4:
        page.keyboard.press("ArrowRight")
    assert player.locator(".row").count() == 0, "no row yet"
    page.keyboard.press("ArrowRight")
    assert player.locator(".row").count() == 5, "all rows at once"
    page.keyboard.press("r")
    assert player.get_attribute("data-stage") == "verdict"
    assert player.locator(".chip.rejected").count() == 1
    while player.get_attribute("data-stage") != "commit":
        page.keyboard.press("ArrowRight")
    assert player.locator(".pointer span").all_inner_texts() == [
        f"C = {player.get_attribute(f'data-{which}-pointer')}" for which in ("target", "draft")
    ]

    choice = player.locator(".live select")
    texts = {label.strip(): value for label, value in choice.locator("option").evaluate_all(
        "e => e.map(o => [o.textContent, o.value])"
    )}  # fmt: skip
    for label, position in (("3", 3), ("1", 1), ("accept all", 0)):
        choice.select_option(texts[label])
        forced = engine.generate(PROMPT, STORY, max_new_tokens=60, reject_at=position).trace
        assert forced is not None
        page.wait_for_function(FACTS, arg=f"cycles 0–{len(forced.cycles) - 1}")
        page.keyboard.press("Home")
        while player.get_attribute("data-stage") != "last":
            page.keyboard.press("ArrowRight")
        assert player.locator(".chip.accepted").count() == forced.cycles[0].accepted
        assert player.locator(".chip.rejected").count() == (1 if position else 0)
    assert recorded.errors == []


def test_01_loads_are_counted_by_cycles(page: Any, recorded: Any, engine: sd.Engine, tmp_path: Path) -> None:
    trace = engine.generate(PROMPT, GREEDY, max_new_tokens=60).trace
    assert trace is not None
    player = played(page, trace.to_html(tmp_path / "run.html"))
    for load in range(17):
        page.keyboard.press("Shift+ArrowRight")
        assert player.locator(".narration").inner_text().startswith(f"Cycle {load} starts")
    page.keyboard.press("Shift+ArrowRight")
    assert "after 17 cycles and 60 tokens" in player.locator(".narration").inner_text()
    assert recorded.errors == []


def test_09_siblings_are_tried_in_order(page: Any, recorded: Any, engine: sd.Engine, tmp_path: Path) -> None:
    drafter = sd.TreeDrafter(engine.drafter, (2, 2))
    grown = sd.Engine(engine.target_runner.model, drafter=drafter, tokenizer=engine.tokenizer, gamma=2)
    trace = grown.generate(PROMPT, sd.Sampling(temperature=0.8, seed=2), max_new_tokens=40).trace
    assert trace is not None
    player = played(page, trace.to_html(tmp_path / "run.html"))
    while player.get_attribute("data-stage") != "verdict":
        page.keyboard.press("ArrowRight")
    seen = []
    while player.get_attribute("data-stage") == "verdict":
        seen.append(player.locator(".narration").inner_text())
        page.keyboard.press("ArrowRight")
    assert [("Rejected" in said, "Accepted" in said) for said in seen] == [(True, False), (False, True), (False, True)]
    assert [said.split(" = ")[0].split()[-1] for said in seen] == ["d₁", "d₂", "d₅"]
    assert recorded.errors == []


def test_10_c_is_raised_until_the_race_is_lost(lab: Server, page: Any, recorded: Any) -> None:
    costs = (
        "from specdec_teach.costs import Costs\ncosts = Costs({1: .01, 2: .011, 3: .0113, 5: .012, 9: .014}, .001)\n"
    )
    view = "sd.labs.explorer(costs, [(1, .79, 1.4), (4, .79, 1.9), (8, .79, 1.8)])"
    run_cell(lab, page, "show_10", f"import specdec_teach as sd\n{costs}{view}")
    form = page.locator(".jp-OutputArea .specdec-console").first
    status = "document.querySelector('.jp-OutputArea .specdec-console .status').textContent"
    form.locator(".status").filter(has_text="best: γ = ").wait_for()
    for c, lost in (("0.3", False), ("0.9", True)):
        form.locator(".c input").fill(c)
        form.locator(".c input").press("Enter")
        page.wait_for_function(f"lost => {status}.includes('plain decoding is not beaten') === lost", arg=lost)
    assert recorded.errors == []


def test_10_some_cycles_of_the_last_player_lost(page: Any, recorded: Any, engine: sd.Engine, tmp_path: Path) -> None:
    trace = engine.generate(PROMPT, STORY, max_new_tokens=60).trace
    assert trace is not None
    lost = [cycle.index for cycle in trace.cycles if len(cycle.emitted) < 1 + 0.1 * len(cycle.proposed)]
    assert (len(lost), len(trace.cycles)) == (2, 16), "as the guide says"
    player = played(page, trace.to_html(tmp_path / "run.html"))
    while player.get_attribute("data-cycle") != str(lost[0]):
        page.keyboard.press("Shift+ArrowRight")
    while player.get_attribute("data-stage") != "commit":
        page.keyboard.press("ArrowRight")
    assert "the text grows by 1" in player.locator(".narration").inner_text()
    assert recorded.errors == []


def test_12_slots_that_nobody_was_offered(page: Any, recorded: Any, engine: sd.Engine, tmp_path: Path) -> None:
    two = (engine, sd.faults.inject(engine, "engine_q"))
    runs = [one.generate(PROMPT, STORY, max_new_tokens=48).trace for one in two]
    assert runs[0] is not None
    assert runs[1] is not None
    played(page, runs[0].compare(runs[1], ("left", "right")).to_html(tmp_path / "two.html"))
    stands = "e => e.map(node => ({...node.dataset}))"
    while page.eval_on_selector_all(".run", stands)[1]["stage"] != "target":
        page.keyboard.press("ArrowRight")
    for shown, side, trace in zip(
        page.locator(".run").all(), page.eval_on_selector_all(".run", stands), runs, strict=True
    ):
        assert trace is not None
        cycle = trace.cycles[0]
        assert shown.locator(".chip.proposed").count() == len(cycle.proposed)
        assert cycle.draft_kv is not None
        assert int(side["draftPointer"]) - cycle.draft_kv.before == 4
    assert runs[1] is not None
    assert len(runs[1].cycles[0].proposed) == 1, "so three of its four slots belong to nobody's draft"
    assert recorded.errors == []
