"""The self-contained page as text: no reference outside itself, no way out of its blocks, no heavy import."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.timeline import Timeline
from specdec_teach.trace import Trace
from specdec_widgets.page import asset, lab_page, page, timeline_page, timeline_to_html, to_html
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES


class Blocks(HTMLParser):
    """Collects the tags of a page and the text of every script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(("/" + tag, {}))

    def handle_data(self, data: str) -> None:
        if self.scripts and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def parse(text: str) -> Blocks:
    blocks = Blocks()
    blocks.feed(text)
    return blocks


@pytest.mark.parametrize("name", sorted(set(CASES) - {"long"}))
def test_trace_comes_back_from_the_page(name: str) -> None:
    blocks = parse(page(CASES[name]))
    assert [attrs.get("id") for tag, attrs in blocks.tags if tag == "script"] == ["player", "trace", None]
    assert Trace.from_dict(json.loads(blocks.scripts[1])) == CASES[name]
    assert blocks.scripts[0] == asset("player.js")


@pytest.mark.parametrize("name", sorted(TIMELINES))
def test_timeline_comes_back_from_the_page(name: str) -> None:
    blocks = parse(timeline_page(TIMELINES[name]))
    assert [attrs.get("id") for tag, attrs in blocks.tags if tag == "script"] == ["player", "timeline", None]
    assert Timeline.from_dict(json.loads(blocks.scripts[1])) == TIMELINES[name]
    assert blocks.scripts[0] == asset("timeline.js")


@pytest.mark.parametrize(
    "text",
    [
        page(CASES["mixed"]),
        page(CASES["hostile"]),
        *map(timeline_page, TIMELINES.values()),
        lab_page([0.6, 0.4], [0.2, 0.8], ["</script>", "b"]),
    ],
)
def test_page_refers_to_nothing_outside(text: str) -> None:
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    for _, attrs in parse(text).tags:
        for key in ("src", "href", "srcset", "action", "data"):
            assert (attrs.get(key) or "data:").startswith("data:")
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "url(" not in text


def test_page_has_language_title_heading_and_fits() -> None:
    text = page(CASES["mixed"])
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert text.count("<h1>") == 1
    assert "<title>" in text
    assert len(text) - len(json.dumps(CASES["mixed"].to_dict())) < 400_000
    text = timeline_page(TIMELINES["typical"])
    assert text.count("<h1>") == 1
    assert len(text) - len(json.dumps(TIMELINES["typical"].to_dict())) < 400_000


@pytest.mark.parametrize("name", ["player.js", "timeline.js", "compare.js", "lab.js", "console.js"])
def test_module_is_plain(name: str) -> None:
    code = asset(name)
    declared = re.findall(r"^(?:export )?(?:const|let|function) (\w+)", code, re.M)
    assert len(declared) == len(set(declared)), "modules that are put into one file may not share a name"
    assert not re.search(
        r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|fetch|XMLHttpRequest|Math\.random)\b", code
    )
    assert not re.search(r"^import\b", code, re.M)


def test_file_is_written_whole_or_refused(tmp_path: Path) -> None:
    path = to_html(CASES["mixed"], tmp_path / "run.html")
    assert path.read_text(encoding="utf-8") == page(CASES["mixed"])
    assert [p.name for p in tmp_path.iterdir()] == ["run.html"]
    with pytest.raises(InvalidInput, match="choose a folder"):
        to_html(CASES["mixed"], tmp_path / "missing" / "run.html")
    path = timeline_to_html(TIMELINES["typical"], tmp_path / "run.html")
    assert path.read_text(encoding="utf-8") == timeline_page(TIMELINES["typical"])


def test_page_and_still_import_neither_torch_nor_widgets() -> None:
    code = (
        "import sys, specdec_widgets;"
        "heavy = {'torch', 'transformers', 'anywidget', 'ipywidgets', 'specdec_teach.engine'};"
        "found = heavy & set(sys.modules); assert not found, found"
    )
    root = Path(__file__).parents[2]
    env = {"PYTHONPATH": ":".join(str(root / part) for part in ("", "kernels", "widgets")), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
