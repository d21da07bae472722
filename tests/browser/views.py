"""Every view as a page of its own, for the tests that look at all of them.

Invariant: what a page shows comes from the records of tests/widgets. Live mode, the bug hunt and the form of the cost
explorer have no page in the package, since they ask a kernel: here they stand with the store that a kernel would send.
It does not know what is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec_teach.invariants import Violation
from specdec_widgets.console import Console
from specdec_widgets.costs import Ledger
from specdec_widgets.explorer import CostExplorer
from specdec_widgets.hunt import BugHunt
from specdec_widgets.live import LivePlayer
from specdec_widgets.page import asset, comparison_to_html, lab_to_html, page, timeline_to_html, to_html, write
from tests.widgets.test_console import FIELDS, engine
from tests.widgets.test_costs import TARGET
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

__all__ = ["FORMS", "PAGES", "ROOT", "VIEWS", "open_view", "root_of"]

ROOT = ".specdec-player"
DRAWN = {"counts": [310, 160, 45], "stood": 309, "path": [[20, 0.12], [160, 0.06], [515, 0.02]], "running": False}
FORM = """
const form = URL.createObjectURL(new Blob([text("form")], { type: "text/javascript" }));
import(form).then(({ mount, memory }) => {
  const main = document.querySelector("main"), host = document.createElement("div");
  mount(main.insertBefore(host, main.firstChild), memory(JSON.parse(text("state"))));
});
"""
MESSAGE = "cycle 3 starts with a draft cache of 41 slots, and the text holds 43 tokens: " + "K and V are missing; " * 4


def with_form(console: Console, content: str) -> str:
    """Return a page with a console above what it shows; what the form asks for is heard by nobody."""
    state = {key: value for key, value in console.get_state().items() if not key.startswith("_")}
    data = json.dumps(state, default=str).replace("<", "\\u003c")
    parts = f'<script type="text/plain" id="form">{asset("console.js")}</script>'
    parts += f'<script type="application/json" id="state">{data}</script>'
    style = asset("frame.css") + asset("console.css")
    content = content.replace("</style>", style + "</style>").replace("<script>", parts + "<script>", 1)
    return content.replace("</script>\n</body>", FORM + "</script>\n</body>")


def live(path: Path) -> Path:
    view = LivePlayer(engine, FIELDS)
    view.console.status = "InvalidInput: γ cannot be '99'; give a number from 0 to 16"
    content = with_form(view.console, page(CASES["mixed"]))
    view.close()
    return write(content, path)


def hunt(path: Path) -> Path:
    found = [Violation("draft-lag", 3, MESSAGE), Violation("rollback", None, MESSAGE)]
    said = {"draft-lag": "the draft cache follows the text", "rollback": "stale slots are unreachable", "u-once": "u"}
    view = BugHunt(lambda name: (CASES["mixed"], found), ["engine_a", "engine_b"], said)
    content = with_form(view.console, page(CASES["mixed"]))
    view.close()
    return write(content, path)


def costs(path: Path) -> Path:
    view = CostExplorer(Ledger(TARGET, 0.0016))
    content = with_form(view.console, page(CASES["plain"]))
    view.close()
    return write(content, path)


def lab(path: Path, labels: list[str]) -> Path:
    """The lab with draws, as a kernel would keep them in the store."""
    content = lab_to_html([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], path, labels=labels).read_text(encoding="utf-8")
    return write(content.replace("can_rerun: false", "can_rerun: true, drawn: " + json.dumps(DRAWN)), path)


VIEWS: dict[str, Callable[[Path], Path]] = {
    "player": lambda path: to_html(CASES["mixed"], path),
    "paged": lambda path: to_html(CASES["paged"], path),
    "compare": lambda path: comparison_to_html(CASES["mixed"].compare(CASES["plain"]), path),
    "tree": lambda path: to_html(TREES["typical"], path),
    "timeline": lambda path: timeline_to_html(TIMELINES["typical"], path),
    "lab": lambda path: lab(path, ["a", "b", "c"]),
    "live": live,
    "hunt": hunt,
    "costs": costs,
}
"""One of each view."""

FORMS = ("live", "hunt", "costs")
"""The views that are a form above another view."""

PAGES = VIEWS | {
    "player, hostile": lambda path: to_html(CASES["hostile"], path),
    "tree, wide": lambda path: to_html(TREES["wide"], path),
    "tree, hostile": lambda path: to_html(TREES["hostile"], path),
    "timeline, crowd": lambda path: timeline_to_html(TIMELINES["crowd"], path),
    "timeline, hostile": lambda path: timeline_to_html(TIMELINES["hostile"], path),
    "lab, hostile": lambda path: lab(path, ["</script><b>x", "\u202eevil\u2066", "long" * 2500]),
}
"""The views, and records that are hard to draw."""


def root_of(kind: str) -> str:
    """Return a selector of the view: a form, where there is one; what stands below it is a view of its own."""
    return f"{ROOT}.specdec-console" if kind in FORMS else ROOT


def open_view(browser: Any, tmp_path: Path, kind: str, **settings: Any) -> Any:
    """Open a fresh page with a view; nothing moves, and what is folded is open."""
    fresh = browser.new_page(reduced_motion="reduce", **settings)
    fresh.goto(PAGES[kind](tmp_path / "run.html").as_uri())
    fresh.wait_for_selector(root_of(kind))
    fresh.eval_on_selector_all(f"{ROOT} details", "e => e.forEach(node => { node.open = true; })")
    return fresh
