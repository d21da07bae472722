"""A player's life in a real JupyterLab: run again and again, shown twice, its kernel gone, its notebook reopened."""

from __future__ import annotations

import re
from typing import Any

from tests.browser.lab import RUN_ALL, Server, notebook, opened
from tests.widgets.traces import CASES

PLAYER = ".jp-OutputArea .specdec-player"
SHOW = "import specdec_teach as sd\ntrace = sd.Trace.load('cycles.json')\ntrace.show()"
COUNT = "from ipywidgets.widgets.widget import _instances\nprint(len(_instances))"

# Run one cell so many times, each to its end: a widget that is gone before it is drawn is told of in the console.
AGAIN = """async ([index, times]) => {
  const panel = jupyterapp.shell.currentWidget;
  const outputs = () => panel.content.model.sharedModel.toJSON().cells[index].outputs;
  const drawn = () => panel.content.widgets[index].node.querySelector(".specdec-player");
  for (let i = 0; i < times; i++) {
    const before = drawn();
    panel.content.activeCellIndex = index;
    await jupyterapp.commands.execute("notebook:run-cell");
    const shows = outputs().some(({data}) => data?.["application/vnd.jupyter.widget-view+json"]);
    while (shows && (!drawn() || drawn() === before)) await new Promise(requestAnimationFrame);
  }
  return outputs();
}"""


def test_a_cell_run_fifty_times_leaves_as_many_widgets_as_once(lab: Server, page: Any, recorded: Any) -> None:
    CASES["mixed"].save(lab.folder / "cycles.json")
    notebook(lab, "again.ipynb", SHOW, COUNT)
    opened(lab, page, "again.ipynb")
    first = page.evaluate(RUN_ALL)[1]["outputs"][0]["text"]
    page.wait_for_selector(PLAYER)
    page.evaluate(AGAIN, [0, 50])
    assert page.evaluate(AGAIN, [1, 1])[0]["text"] == first
    page.wait_for_function(f"document.querySelectorAll('{PLAYER}').length === 1")
    assert recorded.errors == []


def test_two_views_of_one_player_step_together(lab: Server, page: Any, recorded: Any) -> None:
    CASES["mixed"].save(lab.folder / "cycles.json")
    notebook(lab, "twice.ipynb", SHOW.replace("trace.show()", "player = trace.show()\nplayer"), "player", "player.step")
    opened(lab, page, "twice.ipynb")
    page.evaluate(RUN_ALL)
    page.wait_for_function(f"document.querySelectorAll('{PLAYER}').length === 2")
    one, two = page.locator(PLAYER).nth(0), page.locator(PLAYER).nth(1)
    for _ in range(3):
        one.press("ArrowRight")
    page.wait_for_function(f"document.querySelectorAll('{PLAYER}[data-step=\"3\"]').length === 2")
    two.press("End")
    last = two.get_attribute("data-step")
    page.wait_for_function(f"document.querySelectorAll('{PLAYER}[data-step=\"{last}\"]').length === 2")
    assert one.locator(".narration").inner_text() == two.locator(".narration").inner_text()
    assert page.evaluate(AGAIN, [2, 1])[0]["data"]["text/plain"] == last, "the kernel knows the step"
    assert recorded.errors == []


def test_a_player_outlives_its_kernel_and_a_still_outlives_the_page(lab: Server, page: Any, recorded: Any) -> None:
    CASES["mixed"].save(lab.folder / "cycles.json")
    notebook(lab, "restart.ipynb", SHOW)
    opened(lab, page, "restart.ipynb")
    page.evaluate(RUN_ALL)
    player = page.locator(PLAYER).first
    player.press("ArrowRight")
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    for _ in range(5):
        player.press("ArrowRight")
    assert player.get_attribute("data-step") == "6", "what stands in the page plays without a kernel"
    page.evaluate(AGAIN, [0, 1])
    page.wait_for_selector(f"{PLAYER}[data-step='0']")
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    opened(lab, page, "restart.ipynb")
    page.wait_for_selector(f"{PLAYER}, .jp-OutputArea img[alt^='CyclePlayer: 6 cycles']")
    ours = [error for error in recorded.errors if not re.search("WebSocket|404|debugger state", error)]
    assert ours == [], "JupyterLab tells of the lost kernel; nobody else has anything to tell"
