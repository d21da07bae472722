"""Live mode and the labs in a real JupyterLab: buttons act while an engine runs, and every text reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.browser.audit import by_keys, fits
from tests.browser.contrast import CONTRAST
from tests.browser.lab import RUN_ALL, Server, notebook, opened

SETUP = "import specdec_teach as sd\npair = sd.load_pair()"
CELLS = {
    "live": f"{SETUP}\nview = sd.labs.live(pair, max_new_tokens=24)\nview",
    "hunt": f"{SETUP}\nengine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)\n"
    "view = sd.labs.hunt(engine, 'Once upon a time')\nview",
    "acceptance": "import specdec_teach as sd\nview = sd.labs.acceptance()\nview",
    "costs": "import specdec_teach as sd\nfrom specdec_teach.probe import Costs\n"
    "known = Costs({1: .0105, 2: .011, 3: .0113, 5: .012, 9: .014, 13: .017}, .0016)\n"
    "view = sd.labs.explorer(known, [(1, .71, 1.35), (4, .70, 1.82), (8, .69, 1.5)])\nview",
}


def open_notebook(lab: Server, page: Any, name: str) -> dict[str, Any]:
    """Write a notebook of one cell, open it, run it; return the cell's output."""
    notebook(lab, f"{name}.ipynb", CELLS[name])
    page.set_viewport_size({"width": 1280, "height": 1500})
    opened(lab, page, f"{name}.ipynb")
    (done,) = page.evaluate(RUN_ALL)
    (output,) = done["outputs"]
    assert output["output_type"] == "execute_result", output
    data: dict[str, Any] = output["data"]
    return data


def both_themes(page: Any, root: str, tmp_path: Path) -> None:
    for theme, name in (("JupyterLab Light", "light"), ("JupyterLab Dark", "dark")):
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
        page.wait_for_selector(f"{root}[data-theme='{name}']")
        page.wait_for_timeout(500)  # colours fade over
        page.screenshot(path=tmp_path / f"{name}.png")
        worst, where = page.locator(root).first.evaluate(CONTRAST)
        assert worst >= 4.5, f"{theme}: contrast {worst:.2f} at {where}"


def narrow(page: Any, *roots: str) -> None:
    """In a window that leaves a cell little more than 320 pixels nothing is cut or lies outside of its cell."""
    page.set_viewport_size({"width": 460, "height": 1500})
    page.wait_for_function("() => document.querySelector('.jp-OutputArea-output').clientWidth < 400")
    page.wait_for_timeout(300)  # views follow their size in the next frames
    for root in roots:
        assert fits(page, root) == []
    wide = "e => e.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.className)"
    assert page.eval_on_selector_all(".jp-OutputArea-output", wide) == []


def says(page: Any, root: str, text: str) -> None:
    page.wait_for_function(
        "([root, text]) => document.querySelector(root + ' .status').textContent.startsWith(text)", arg=[root, text]
    )


def test_live_mode_runs_stops_and_tells_errors(lab: Server, page: Any, recorded: Any, tmp_path: Path) -> None:
    data = open_notebook(lab, page, "live")
    assert data["text/plain"].startswith("LivePlayer: ")
    root, player = ".jp-OutputArea .specdec-console", page.locator(".jp-OutputArea .specdec-player[data-step]").first
    page.wait_for_selector(root)
    says(page, root, "done: ")
    form = page.locator(root).first

    form.locator(".gamma input").fill("2")
    form.locator(".tokens input").fill("12")
    form.locator(".tokens input").press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.specdec-player[data-step] .facts').textContent.includes('γ = 2')"
    )
    says(page, root, "done: ")

    form.locator(".drafter select").select_option("none")
    form.locator(".tokens input").fill("400")
    form.locator("button.run").click()
    page.wait_for_selector(f"{root}[data-running='true']")
    form.locator("button.halt").click()
    says(page, root, "stopped: ")
    stopped = int(form.locator(".status").inner_text().split()[1])
    assert 0 < stopped < 300, "Stop is heard while the engine runs"
    player.press("End")
    player.press("ArrowLeft")
    assert player.get_attribute("data-cycle") == str(stopped - 1)

    form.locator(".gamma input").fill("99")
    form.locator("button.run").click()
    says(page, root, "InvalidInput: γ cannot be '99'")
    assert player.get_attribute("data-cycle") == str(stopped - 1), "an error leaves the run as it was"
    form.locator(".gamma input").fill("4")
    form.locator(".prompt textarea").fill("")
    form.locator("button.run").click()
    says(page, root, "InvalidInput: the prompt is empty")
    form.locator(".prompt textarea").fill("The fox")
    form.locator(".reject select").select_option("1")
    form.locator(".drafter select").select_option("model")
    form.locator(".tokens input").fill("12")
    form.locator("button.run").click()
    says(page, root, "done: ")
    assert player.locator(".badge").first.inner_text() == "forced: reject at 1"
    both_themes(page, root, tmp_path)
    narrow(page, root, ".specdec-player[data-step]")
    assert by_keys(page, root) == by_keys(page, ".specdec-player[data-step]") == []
    assert recorded.errors == []


def test_the_bug_hunt_plays_an_engine_and_jumps_to_what_fails(
    lab: Server,
    page: Any,
    recorded: Any,
    tmp_path: Path,
) -> None:
    data = open_notebook(lab, page, "hunt")
    assert data["text/plain"].startswith("BugHunt: engine_a: ")
    root, player = ".jp-OutputArea .specdec-console", page.locator(".jp-OutputArea .specdec-player[data-step]").first
    form = page.locator(root).first
    form.locator("select").select_option("engine_c")
    says(page, root, "engine_c: ")
    assert form.locator("tr.broken th b").all_inner_texts() == ["draft-lag"]
    jump = form.locator("tr.broken button.jump")
    cycle = jump.inner_text().split()[1].rstrip(",")
    player.press("End")
    jump.click()
    page.wait_for_selector(f".specdec-player[data-step][data-cycle='{cycle}']")
    both_themes(page, root, tmp_path)
    narrow(page, root, ".specdec-player[data-step]")
    text = page.evaluate("() => document.documentElement.innerHTML").lower()
    assert "the hole" not in text
    assert recorded.errors == []


def test_the_acceptance_lab_draws_and_stops(lab: Server, page: Any, recorded: Any, tmp_path: Path) -> None:
    data = open_notebook(lab, page, "acceptance")
    assert data["text/plain"].startswith("AcceptanceLab: ")
    root = ".jp-OutputArea .specdec-lab"
    view = page.locator(root).first
    view.get_by_role("button", name="draw 100").click()
    page.wait_for_function("() => document.querySelector('.specdec-lab .count').textContent.startsWith('100 draws')")
    view.get_by_role("button", name="draw 2,000").click()
    view.get_by_role("button", name="stop").click()
    page.wait_for_function("() => document.querySelector('.specdec-lab .engine .controls button').disabled === false")
    drawn = int(view.locator(".count").inner_text().split()[0])
    assert 100 <= drawn < 2100, "Stop is heard while the engine draws"
    view.locator("[role=slider]").first.press("ArrowUp")
    page.wait_for_function("() => document.querySelector('.specdec-lab .count').textContent.startsWith('No draw')")
    view.press("d")
    page.wait_for_function("() => document.querySelector('.specdec-lab .count').textContent.startsWith('100 draws')")
    view.locator("[role=slider]").first.press("ArrowDown")
    view.locator("select.rule").select_option("coupled")
    page.wait_for_function("() => document.querySelector('.specdec-lab .count').textContent.startsWith('No draw')")
    view.get_by_role("button", name="draw 100").click()
    page.wait_for_function("() => document.querySelector('.specdec-lab .count').textContent.startsWith('100 draws')")
    assert view.locator(".count").inner_text().endswith("the rule accepts .58.")
    assert view.locator("tr.coupled .off").inner_text() == "✓ 0"
    both_themes(page, root, tmp_path)
    narrow(page, root)
    assert recorded.errors == []


def test_the_cost_explorer_redraws_as_costs_change(lab: Server, page: Any, recorded: Any, tmp_path: Path) -> None:
    data = open_notebook(lab, page, "costs")
    assert data["text/plain"].startswith("CostExplorer: ")
    assert "<img alt=" in data["text/html"]
    root = ".jp-OutputArea .specdec-console"
    page.wait_for_selector(".jp-OutputArea .js-plotly-plot .heatmaplayer image")
    form = page.locator(root).first
    before = form.locator(".status").inner_text()
    assert before.startswith("E = ")
    form.locator(".c input").fill("0.1")
    form.locator(".rows select").select_option("free: v = 1")
    form.locator(".alpha input").fill("0.7")
    form.locator(".gamma input").fill("4")
    form.locator(".gamma input").press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.specdec-console .status').textContent.includes('1.98 × plain; best: γ = 4')"
    )
    assert page.locator(".jp-OutputArea .js-plotly-plot").count() == 1
    assert page.locator(".jp-OutputArea .js-plotly-plot .modebar-btn").count() == 0, "only a mouse could press it"
    both_themes(page, root, tmp_path)
    narrow(page, root)
    narrow(page, root)
    assert recorded.errors == []
