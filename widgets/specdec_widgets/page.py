"""Write a Trace as one HTML page that plays by itself, from a file, with no server and no network.

The player's module travels as text and is imported through a Blob URL, because a page opened from a file may not load
a module by path. Invariant: the page's own policy forbids every request, and no text of the trace can end its block.
It does not know what the player draws.
"""

from __future__ import annotations

import json
import os
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets.still import image
from specdec_widgets.words import describe

__all__ = ["asset", "page", "to_html"]

POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:"

PAGE_CSS = """
:root { color-scheme: light dark; --page: #f6f7f8; --page-ink: #1d2126; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { --page: #0e1013; --page-ink: #e8eaed; } }
:root[data-theme="dark"] { --page: #0e1013; --page-ink: #e8eaed; color-scheme: dark; }
:root[data-theme="light"] { color-scheme: light; }
body { margin: 0; padding: clamp(0.5rem, 2vw, 1.5rem); background: var(--page); color: var(--page-ink);
  font: 15px/1.45 system-ui, "Segoe UI", Roboto, sans-serif; }
main, .top { max-width: 1500px; margin: 0 auto; }
.top { display: flex; align-items: baseline; gap: 1rem; margin-bottom: 0.7rem; }
h1 { font-size: 1.15rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
.top button { margin-left: auto; flex: none; font: inherit; color: inherit; background: none;
  border: 1px solid currentColor; border-radius: 5px; padding: 0.15em 0.8em; cursor: pointer; }
@media (min-width: 1700px) { main, .top { max-width: 1800px; }
  .specdec-player:not([data-projector]) { font-size: 17px; } }
noscript img { max-width: 100%; }
"""

BOOT = """
const text = (id) => document.getElementById(id).textContent;
const url = URL.createObjectURL(new Blob([text("player")], { type: "text/javascript" }));
import(url).then(({ mount, memory }) => {
  URL.revokeObjectURL(url);
  const store = memory({ trace: JSON.parse(text("trace")), step: 0, status: "", can_rerun: false });
  mount(document.querySelector("main"), store);
  const page = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  document.querySelector(".top button").addEventListener("click", () => {
    page.dataset.theme = (page.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  });
});
"""


@cache
def asset(name: str) -> str:
    """Return a file of `static/` as text."""
    return files("specdec_widgets").joinpath("static", name).read_text(encoding="utf-8")


def page(trace: Trace) -> str:
    """Return the whole page as text."""
    data = json.dumps(trace.to_dict(), ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    title = escape(describe(trace))
    player = asset("player.js").replace("</script", "<\\/script")
    still = image(trace)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{PAGE_CSS}{asset("player.css")}</style>
</head>
<body>
<div class="top"><h1>{title}</h1><button type="button">light / dark</button></div>
<main></main>
<noscript><p>This page plays the run with JavaScript; here is one of its cycles as a picture.</p>{still}</noscript>
<script type="text/plain" id="player">{player}</script>
<script type="application/json" id="trace">{data}</script>
<script>{BOOT}</script>
</body>
</html>
"""


def to_html(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write the page to `path`, whole or not at all, and return the path; InvalidInput when it cannot be written."""
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(page(trace), encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {error.strerror}; choose a folder that exists and is yours"
        ) from None
    return target
