"""Lessons in a real JupyterLab, by its menu "Restart Kernel and Run All Cells": all run, nothing raises or leaves."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from lessons.build import NOTEBOOKS
from tests.browser.lab import SECONDS, Server, opened

IN_MAKE_TEST = ("00", "05", "12")
LESSONS = sorted(path.name for path in NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
EACH = [pytest.param(name, marks=() if name[:2] in IN_MAKE_TEST else pytest.mark.slow, id=name[:2]) for name in LESSONS]
MENU = ".jp-MenuBar-item, .lm-MenuBar-item"
ACCEPT = ".jp-Dialog .jp-mod-accept"
VIEW = "application/vnd.jupyter.widget-view+json"
LOST = r"Canceled future for (?:debug|create_subshell)_request message before replies were done"
IDLE = "() => jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'"
CODE = """() => jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells
  .filter(cell => cell.cell_type === "code")"""
# Stored outputs have counts too: only what ran in this kernel, to its end, may count.
CLEAR = """async () => {
  await jupyterapp.restored;
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  await jupyterapp.commands.execute("notebook:clear-all-cell-outputs");
}"""
# How many cells have run, as soon as there are more than before; null until then. A cell that failed ends the wait.
MORE = """(before) => {
  const cells = jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells
    .filter(cell => cell.cell_type === "code" && cell.source.trim());
  const failed = cells.some(cell => cell.outputs.some(output => output.output_type === "error"));
  const ran = cells.filter(cell => cell.execution_count).length;
  return failed || ran === cells.length ? { ended: true, ran } : ran > before ? { ended: false, ran } : null;
}"""


def finished(page: Any) -> list[Any]:
    """Wait until the kernel has run all cells, or one has failed, and return them; each cell has SECONDS."""
    now = {"ended": False, "ran": 0}
    while not now["ended"]:
        now = page.wait_for_function(MORE, arg=now["ran"], timeout=SECONDS * 1000).json_value()
    cells: list[Any] = page.evaluate(CODE)
    return cells


@pytest.mark.parametrize("name", EACH)
def test_restart_and_run_all(name: str, lab: Server, page: Any, recorded: Any) -> None:
    opened(lab, page, name)
    page.evaluate(CLEAR)
    assert not any(cell["execution_count"] for cell in page.evaluate(CODE)), "nothing of the store is left"
    page.wait_for_function(IDLE)
    page.locator(MENU).get_by_text("Kernel", exact=True).click()
    page.locator(".lm-Menu-item").get_by_text("Restart Kernel and Run All Cells").click(timeout=20_000)
    page.locator(ACCEPT).click()

    cells = finished(page)
    written = [output for cell in cells for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert [output for output in written if output["output_type"] == "error" or output.get("name") == "stderr"] == []

    code = "\n".join(cell["source"] for cell in cells)
    text = "".join("".join(output.get("text", "")) for output in written)
    for asked in re.findall(r'^check\("(\d\d\.\d+)"', code, re.MULTILINE):
        assert f"· {asked}  not attempted yet" in text
    for asked in re.findall(r'^predict\("(\d\d\.\w+)"', code, re.MULTILINE):
        assert f"· {asked}  no prediction yet" in text

    models = {output["data"][VIEW]["model_id"] for output in written if VIEW in output.get("data", {})}
    stored = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    stills = sum(
        "specdec" in "".join(o.get("data", {}).get("text/html", ""))
        for c in stored["cells"]
        for o in c.get("outputs", [])
    )
    if models:
        page.wait_for_function("document.querySelector('.jp-OutputArea [class*=specdec-]')")
    assert models or not stills, "the still stands for a player that is not here"

    hosts = {urlsplit(url).hostname for url in recorded.requests if not url.startswith(("data:", "blob:"))}
    assert hosts <= {"127.0.0.1", "localhost"}
    ours = [error for error in recorded.errors if not re.search(LOST, error)]
    assert ours == [], "JupyterLab tells which of its own requests a restart cut off; nobody else has anything to tell"
