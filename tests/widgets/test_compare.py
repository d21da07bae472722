"""Two runs side by side: where they part, what they are called, and what the notebook keeps."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.comparison import tell_apart
from specdec_teach.trace import Trace
from specdec_widgets import RENDERER
from specdec_widgets.abreast import stills
from specdec_widgets.page import asset, comparison_page, comparison_to_html
from tests.widgets.test_document import parse
from tests.widgets.traces import CASES, build

HONEST = build(["aar-", "aaaa", "r---"])


def swap(trace: Trace, cycle: int, at: int, token: int) -> Trace:
    """The same run with another token emitted."""
    emitted = list(trace.cycles[cycle].emitted)
    emitted[at] = token
    cycles = list(trace.cycles)
    cycles[cycle] = replace(cycles[cycle], emitted=tuple(emitted))
    return replace(trace, cycles=tuple(cycles))


def test_the_first_token_that_differs_is_found() -> None:
    assert HONEST.compare(HONEST, ("a", "b")).parting is None
    start = HONEST.cycles[1].committed_before
    assert HONEST.compare(swap(HONEST, 1, 2, 0)).parting == start + 2
    shorter = replace(HONEST, cycles=HONEST.cycles[:1])
    assert HONEST.compare(shorter).parting is None
    other = replace(HONEST, prompt=(21, *HONEST.prompt[1:]))
    assert HONEST.compare(other).parting == 0


def test_runs_are_called_by_what_differs() -> None:
    meta = HONEST.meta
    plain = replace(HONEST, meta=replace(meta, speculate=False, gamma=0))
    assert tell_apart(HONEST, plain) == ("speculative", "plain")
    assert tell_apart(HONEST, replace(HONEST, meta=replace(meta, gamma=2))) == ("γ = 4", "γ = 2")
    assert tell_apart(HONEST, replace(HONEST, meta=replace(meta, verify="typical"))) == (
        "rejection rule",
        "typical rule",
    )
    assert tell_apart(HONEST, replace(HONEST, meta=replace(meta, seed=8))) == ("seed 7", "seed 8")
    assert tell_apart(HONEST, HONEST) == ("A", "B")


@pytest.mark.parametrize("names", [("a", "a"), ("a",), ("", "b"), ("a", 3)])
def test_names_that_tell_nothing_are_refused(names: tuple[str, str]) -> None:
    with pytest.raises(InvalidInput, match="two different names"):
        HONEST.compare(HONEST, names)


def test_both_traces_come_back_from_the_page(tmp_path: object) -> None:
    pair = CASES["hostile"].compare(CASES["mixed"], ("</script><b>", "plain & simple"))
    blocks = parse(comparison_page(pair))
    assert [attrs.get("id") for tag, attrs in blocks.tags if tag == "script"] == ["player", "pair", None]
    held = json.loads(blocks.scripts[1])
    assert held["names"] == list(pair.names)
    assert [Trace.from_dict(run) for run in held["runs"]] == [pair.first, pair.second]
    assert blocks.scripts[0] == asset("compare.js")
    assert sum(tag == "img" for tag, _ in blocks.tags) == 2
    with pytest.raises(InvalidInput, match="choose a folder"):
        comparison_to_html(pair, "/missing/folder/run.html")


def test_the_notebook_keeps_two_stills_and_a_stable_line() -> None:
    pytest.importorskip("anywidget", reason="the notebook view needs the package anywidget")
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    view = RENDERER.show_comparison(HONEST.compare(swap(HONEST, 0, 0, 3), ("honest", "broken")))
    bundle = view._repr_mimebundle_()  # type: ignore[attr-defined]
    assert bundle[0]["text/html"].count("<img") == 2
    told = re.sub(r"<img alt=.*?>", " picture ", bundle[0]["text/html"])
    assert re.sub(r"<[^>]+>", "", told).split() == ["honest", "picture", "broken", "picture"]
    assert bundle[0]["text/plain"].startswith("ComparePlayer: honest: 3 cycles, ")
    assert bundle[0]["text/plain"].endswith("parting at 8")
    view.step = -4  # type: ignore[attr-defined]
    assert view.step == 0  # type: ignore[attr-defined]
    view.close()  # type: ignore[attr-defined]
    assert len(_instances) == before


@pytest.mark.parametrize("cycle", [0, 1, 2])
def test_both_stills_show_the_first_cycle_that_differs(cycle: int) -> None:
    told = stills(HONEST.compare(swap(HONEST, cycle, 0, 3), ("a", "b")))
    assert re.findall(r"\. Cycle (\d+):", told) == [str(cycle)] * 2


def test_runs_that_do_not_differ_are_shown_where_they_tell_most() -> None:
    shorter = replace(HONEST, cycles=HONEST.cycles[:2])
    assert re.findall(r"\. Cycle (\d+):", stills(HONEST.compare(shorter, ("a", "b")))) == ["0", "0"]
    assert stills(CASES["empty"].compare(CASES["empty"], ("a", "<b>"))) == ""
    assert "<b>&lt;b&gt;</b>" in stills(HONEST.compare(shorter, ("a", "<b>")))
