"""Write a Trace or a Timeline as one HTML page that plays by itself, from a file, with no server and no network.

A player's module travels as text and is imported through a Blob URL, because a page opened from a file may not load
a module by path. Invariant: the page's own policy forbids every request, and no text of a run can end its block.
It does not know what the players draw.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from specdec_kernels.errors import InvalidInput
from specdec_teach.comparison import Comparison
from specdec_teach.timeline import Timeline
from specdec_teach.trace import Trace
from specdec_widgets import blocks
from specdec_widgets.abreast import stills
from specdec_widgets.serving import heading
from specdec_widgets.stacks import identity
from specdec_widgets.still import image
from specdec_widgets.words import describe, mark

__all__ = [
    "asset", "comparison_page", "comparison_to_html", "lab_page", "lab_to_html", "page", "payload", "timeline_page",
    "timeline_to_html", "to_html", "write",
]  # fmt: skip

POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data:"

PAGE_CSS = """
:root { color-scheme: light dark; --page: #f6f7f8; --page-ink: #1d2126; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { --page: #0e1013; --page-ink: #e8eaed; } }
:root[data-theme="dark"] { --page: #0e1013; --page-ink: #e8eaed; color-scheme: dark; }
:root[data-theme="light"] { color-scheme: light; }
body { margin: 0; padding: clamp(0.5rem, 2vw, 1.5rem); background: var(--page); color: var(--page-ink);
  font: 0.94rem/1.45 system-ui, "Segoe UI", Roboto, sans-serif; }
main, .top { max-width: 1500px; margin: 0 auto; }
.top { display: flex; align-items: baseline; gap: 1rem; margin-bottom: 0.7rem; }
h1 { font-size: 1.15rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
.top button { margin-left: auto; flex: none; font: inherit; color: inherit; background: none;
  border: 1px solid currentColor; border-radius: 5px; padding: 0.15em 0.8em; cursor: pointer; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (min-width: 1700px) { :root { font-size: 18px; --specdec-type: 17px; } main, .top { max-width: 1800px; } }
@media (min-width: 2500px) { :root { font-size: 24px; --specdec-type: 23px; } main, .top { max-width: 2700px; } }
@media (min-width: 3400px) { :root { font-size: 32px; --specdec-type: 31px; } main, .top { max-width: 3700px; } }
@media print { .top button { display: none; } }
noscript img { max-width: 100%; }
"""

STYLES = {"lab": ("frame.css", "lab.css"), "timeline": ("timeline.css",)}
"""The style sheets of a module beside the player's."""

HEADINGS = {"lab": "two laws and what the rules make of them", "pair": "both runs, step by step"}
"""What the view of a page is, for a reader who walks from heading to heading."""

IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)

BOOT = """
const text = (id) => document.getElementById(id).textContent;
const url = URL.createObjectURL(new Blob([text("player")], { type: "text/javascript" }));
import(url).then(({ mount, memory }) => {
  URL.revokeObjectURL(url);
  const run = JSON.parse(text("DATA"));
  const start = { DATA: run, step: 0, clock: "forwards", status: "", can_rerun: false };
  mount(document.querySelector("main"), memory(start));
  const page = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  document.querySelector(".top button").addEventListener("click", () => {
    page.dataset.theme = (page.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
  });
});
"""


@cache
def asset(name: str) -> str:
    """Return a file of `static/` as text; a module takes in, once each, the modules that it imports.

    >>> "import {" in asset("player.js")
    False
    """
    taken: set[str] = set()

    def whole(name: str) -> str:
        if name in taken:
            return ""
        taken.add(name)
        text = files("specdec_widgets").joinpath("static", name).read_text(encoding="utf-8")
        return IMPORT.sub(lambda found: re.sub(r"^export (?!\{)", "", whole(found[1]), flags=re.MULTILINE), text)

    return whole(name)


def page(trace: Trace) -> str:
    """Return the whole page of a Trace as text."""
    return _document(describe(trace), "trace", trace.to_dict(), "player", image(trace), "one of its cycles")


def timeline_page(timeline: Timeline) -> str:
    """Return the whole page of a Timeline as text."""
    return _document(
        heading(timeline), "timeline", timeline.to_dict(), "timeline", blocks.image(timeline), "one of its steps"
    )


def payload(pair: Comparison) -> dict[str, object]:
    """Return what the view of two runs draws from."""
    return {"names": list(pair.names), "runs": [pair.first.to_dict(), pair.second.to_dict()]}


def comparison_page(pair: Comparison) -> str:
    """Return the whole page of two runs as text."""
    title = "Two runs on one clock: " + " and ".join(mark(name) for name in pair.names)
    return _document(title, "pair", payload(pair), "compare", stills(pair), "a cycle of each")


def lab_page(p: Sequence[float], q: Sequence[float], labels: Sequence[str] | None = None) -> str:
    """Return the acceptance lab of two laws as a page; it draws nothing, since a page has no engine."""
    names = [str(i) for i in range(len(p))] if labels is None else list(labels)
    still, lab = identity(p, q, labels=names), {"p": list(p), "q": list(q), "labels": names, "rule": "rejection"}
    return _document("Acceptance lab: p, q and seven rules", "lab", lab, "lab", still.image, "what two laws make")


def lab_to_html(
    p: Sequence[float], q: Sequence[float], path: str | os.PathLike[str], *, labels: Sequence[str] | None = None
) -> Path:
    """Write the acceptance lab to `path` as `to_html` does."""
    return write(lab_page(p, q, labels), Path(path))


def _document(title: str, kind: str, run: dict[str, object], module: str, still: str, what: str) -> str:
    data = json.dumps(run, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    script = asset(f"{module}.js").replace("</script", "<\\/script")
    style = "".join(asset(name) for name in ("player.css", *STYLES.get(module, ("tree.css",))))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{PAGE_CSS}{style}</style>
</head>
<body>
<header class="top"><h1>{escape(title)}</h1><button type="button">light / dark</button></header>
<main><h2 class="unseen">{escape(HEADINGS.get(kind, "the run, step by step"))}</h2></main>
<noscript><p>This page moves with JavaScript; here is {what} as a picture.</p>{still}</noscript>
<script type="text/plain" id="player">{script}</script>
<script type="application/json" id="{kind}">{data}</script>
<script>{BOOT.replace("DATA", kind)}</script>
</body>
</html>
"""


def to_html(trace: Trace, path: str | os.PathLike[str]) -> Path:
    """Write the page to `path`, whole or not at all, and return the path; InvalidInput when it cannot be written."""
    return write(page(trace), Path(path))


def timeline_to_html(timeline: Timeline, path: str | os.PathLike[str]) -> Path:
    """Write the page of a Timeline as `to_html` does."""
    return write(timeline_page(timeline), Path(path))


def comparison_to_html(pair: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the page of two runs as `to_html` does."""
    return write(comparison_page(pair), Path(path))


def write(content: str | bytes, target: Path) -> Path:
    """Write a file whole or not at all and return its path; InvalidInput when it cannot be written."""
    part = target.with_name(target.name + ".part")
    try:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {error.strerror}; choose a folder that exists and is yours"
        ) from None
    return target
