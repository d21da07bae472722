"""The still: deterministic, well-formed, inside its frame, and refused with the allowed range."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Seconds, Trace
from specdec_widgets.still import data_uri, to_svg
from specdec_widgets.words import blocks_sentence, columns
from tests.widgets.traces import CASES

STILLS = [(name, c.index) for name, trace in CASES.items() for c in trace.cycles[:4]]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("name", "cycle"), STILLS)
def test_well_formed_and_the_same_twice(name: str, cycle: int) -> None:
    text = to_svg(CASES[name], cycle)
    root = ElementTree.fromstring(text)
    assert root.tag == SVG + "svg"
    assert root.find(SVG + "title") is not None
    assert root.find(SVG + "desc") is not None
    assert text == to_svg(Trace.from_dict(CASES[name].to_dict()), cycle)
    assert "nan" not in text.lower().replace("nano", "")
    assert "inf" not in re.sub(r">[^<]*<", "><", text).lower()


@pytest.mark.parametrize(("name", "cycle"), STILLS)
def test_everything_stays_inside_the_frame(name: str, cycle: int) -> None:
    root = ElementTree.fromstring(to_svg(CASES[name], cycle))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.iter(SVG + "text"):
        size, x = float(text.attrib["font-size"]), float(text.attrib["x"])
        assert size >= 12
        wide = columns(text.text or "") * size * (0.62 if text.get("class") == "m" else 0.56)
        shift = {"middle": wide / 2, "end": wide}.get(text.get("text-anchor", ""), 0.0)
        assert -1 <= x - shift <= width + 1 - wide, text.text
        assert float(text.attrib["y"]) <= height
    for rect in list(root)[4:]:
        if rect.tag == SVG + "rect":
            assert 0 <= float(rect.attrib["x"]) <= float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width + 0.5


def test_who_chose_gamma_stands_behind_it() -> None:
    trace = CASES["mixed"]
    planned = replace(trace, meta=replace(trace.meta, gamma=8, planner="auto"))
    for cycle in trace.cycles[:3]:
        drafted = f"γ = {len(cycle.proposed)}"
        assert f"· {drafted} (auto) ·" in to_svg(planned, cycle.index)
        assert f"· {drafted} ·" in to_svg(trace, cycle.index)


def test_timings_leave_no_mark() -> None:
    trace = CASES["mixed"]
    slow = replace(trace, cycles=tuple(replace(c, seconds=Seconds(9, 9, 9, 9)) for c in trace.cycles))
    assert to_svg(slow, 0) == to_svg(trace, 0)


def test_it_shows_the_pointers_and_the_rewind() -> None:
    kv = CASES["mixed"].cycles[0].target_kv
    text = to_svg(CASES["mixed"], 0)
    assert f"{kv.before} → {kv.written} → {kv.after}" in text
    assert f"C = {kv.after}" in text
    assert f"rewind {kv.written - kv.after}" in text
    assert "rewind" not in to_svg(CASES["all_accepted"], 0)
    assert "draft KV" not in to_svg(CASES["no_draft_cache"], 0)


def test_blocks_are_drawn_where_they_begin_and_told_in_words() -> None:
    cycle = CASES["paged"].cycles[2]
    assert cycle.blocks is not None
    text = to_svg(CASES["paged"], 2)
    words = [t.text for t in ElementTree.fromstring(text).iter(SVG + "text")]
    assert cycle.blocks.freed == (42,)
    assert {"block 40", "block 41", "block 42 given back", blocks_sentence(cycle.blocks)} <= set(words)
    assert "; published: 41; given back: 42." in text


def test_a_cycle_without_blocks_is_drawn_as_ever() -> None:
    trace = CASES["paged"]
    without = replace(trace, cycles=tuple(replace(c, blocks=None) for c in trace.cycles))
    for cycle in trace.cycles:
        assert to_svg(without, cycle.index) == to_svg(CASES["mixed"], cycle.index) != to_svg(trace, cycle.index)


def test_flags_of_the_run_are_plain() -> None:
    assert ">forced · not lossless<" in to_svg(CASES["forced"], 0)
    assert ">not lossless<" in to_svg(CASES["lossy"], 0)
    assert "lossless" not in to_svg(CASES["mixed"], 0)


@pytest.mark.parametrize("verify", ["typical", "threshold"])
def test_a_rule_that_bounds_p_is_told_as_a_bound(verify: str) -> None:
    """Such a rule draws nothing, so the picture must not speak of a draw."""
    old = CASES["lossy"].cycles[1]  # one draft accepted, the next rejected
    bare = tuple(replace(d, u=None, accept_probability=None) for d in old.decisions)
    for wanted, decisions in (("too little", bare), ("enough", bare[:1])):
        cycle = replace(old, proposed=old.proposed[: len(decisions)], decisions=decisions)
        text = to_svg(replace(CASES["lossy"], meta=replace(CASES["lossy"].meta, verify=verify), cycles=(cycle,)), 1)
        assert re.search(rf">p = [\d.]+ is {wanted} for the rule<", text)
        assert "own draw" not in text


@pytest.mark.parametrize("cycle", [-1, 6, True, "0", None])
def test_a_cycle_outside_the_run_is_refused_with_the_range(cycle: int) -> None:
    with pytest.raises(InvalidInput, match="0 to 5"):
        to_svg(CASES["mixed"], cycle)


def test_a_trace_that_dropped_cycles_is_asked_by_index() -> None:
    assert "cycle 3" in to_svg(CASES["dropped"], 3)
    with pytest.raises(InvalidInput, match="2 to 3"):
        to_svg(CASES["dropped"], 0)


def test_a_run_without_cycles_says_so() -> None:
    with pytest.raises(InvalidInput, match="no cycle"):
        to_svg(CASES["empty"], 0)


def test_data_uri_holds_the_picture() -> None:
    svg = to_svg(CASES["hostile"], 0)
    head, body = data_uri(svg).split(",")
    assert head == "data:image/svg+xml;base64"
    assert base64.b64decode(body).decode("utf-8") == svg
