"""The identity picture and the four-step picture: their areas against the numbers, inside the frame, refusals."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets import identity
from specdec_widgets.picture import Picture
from specdec_widgets.rounds import round_of
from specdec_widgets.stacks import identity_of
from specdec_widgets.svg import COLORS, DARK
from specdec_widgets.words import columns, num
from tests.widgets.boxes import crossing
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

SVG = "{http://www.w3.org/2000/svg}"
CYCLES = [(name, c.index) for name, trace in CASES.items() for c in trace.cycles[:3]]
DECISIONS = [
    (name, c.index, d.position)
    for name, trace in CASES.items() for c in trace.cycles[:3] for d in c.decisions if d.p is not None
]  # fmt: skip
LAWS = [
    ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3]), ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]), ([0.5, 0.5], [0.5, 0.5]),
    ([1.0, 0.0], [0.0, 1.0]), ([0.2] * 5, [0.0, 0.0, 0.0, 0.0, 1.0]),
]  # fmt: skip


def bars(picture: Picture) -> dict[str, list[tuple[float, float]]]:
    """The bars by fill, as (bottom, height); nothing else in the picture is 34 wide."""
    found: dict[str, list[tuple[float, float]]] = {}
    for rect in ElementTree.fromstring(picture.svg).iter(SVG + "rect"):
        if rect.get("width") == "34.0":
            y, height = float(rect.attrib["y"]), float(rect.attrib["height"])
            found.setdefault(rect.attrib["fill"], []).append((y + height, height))
    return found


@pytest.mark.parametrize(("p", "q"), LAWS)
def test_accepted_and_corrected_stack_up_to_p(p: list[float], q: list[float]) -> None:
    seen, scale = bars(identity(p, q)), 190 / max(*p, *q)
    green, blue, grey = (seen.get(COLORS[name], []) for name in ("green", "blue", "fill"))
    ghost = seen.get("url(#specdec-red)", [])
    assert [h for _, h in grey] == [round(scale * value) for value in p if value]
    assert sum(h for _, h in green) + sum(h for _, h in blue) == sum(h for _, h in grey)
    assert sum(h for _, h in green) == pytest.approx(scale * sum(map(min, p, q)), abs=len(p))
    assert sum(h for _, h in ghost) == pytest.approx(sum(h for _, h in blue), abs=len(p))
    base = max(bottom for bottom, _ in grey)
    assert all(bottom == base for bottom, _ in (*green, *grey))


def test_table_holds_the_numbers_of_any_two_laws() -> None:
    rng = random.Random(5)
    for _ in range(60):
        n = rng.randint(2, 8)
        a, b = ([rng.random() ** 3 for _ in range(n)] for _ in range(2))
        p, q = [x / sum(a) for x in a], [x / sum(b) for x in b]
        lines = identity(p, q).table.splitlines()[1:-1]
        for line, x, y in zip(lines, p, q, strict=True):
            assert line.split()[1:] == [num(min(x, y)), num(max(x - y, 0.0)), num(min(x, y) + max(x - y, 0.0)), num(y)]
        assert identity(p, q).table.splitlines()[-1].split()[3] == "1.00"


@pytest.mark.parametrize(("name", "cycle", "position"), DECISIONS)
def test_a_decision_adds_up_with_its_rest(name: str, cycle: int, position: int) -> None:
    trace = CASES[name]
    picture = identity_of(trace, cycle, position)
    total = picture.table.splitlines()[-1].split()
    (found,) = [c for c in trace.cycles if c.index == cycle]
    alpha = found.decisions[position - 1].alpha
    assert alpha is not None
    assert total[1:] == [num(alpha), num(1 - alpha), "1.00", "1.00"]
    assert picture == trace.identity(cycle, position)
    frame(picture)


@pytest.mark.parametrize(("name", "cycle"), CYCLES)
@pytest.mark.parametrize("width", [320, 640, 980])
def test_four_steps_show_every_draft_and_what_was_committed(name: str, cycle: int, width: float) -> None:
    trace = CASES[name]
    (found,) = [c for c in trace.cycles if c.index == cycle]
    picture = round_of(trace, cycle, width=width)
    frame(picture)
    lines = picture.table.splitlines()
    assert len(lines) == len(found.decisions) + 2
    for line, d in zip(lines[1:-1], found.decisions, strict=True):
        said = "discarded" if d.status == "unused" else d.status
        assert line.split()[-4:] == [num(d.q), num(d.p), num(d.u), said]
    words = [t.text or "" for t in ElementTree.fromstring(picture.svg).iter(SVG + "text")]
    assert {"proposed", "verified", "judged", "committed"} <= set(words)
    rejected = sum(d.status == "rejected" for d in found.decisions)
    assert [words.count(glyph) for glyph in "✗★↺"] == [
        rejected, found.last_kind == "bonus", found.last_kind == "correction",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["typical", "all", "chain"])
def test_the_gamma_of_a_tree_is_its_depth_and_that_of_a_plan_names_the_planner(name: str) -> None:
    trace = TREES[name]
    deep = replace(trace.cycles[-1], gamma=7)  # none of these has seven nodes
    planned = replace(trace, cycles=(*trace.cycles[:-1], deep), meta=replace(trace.meta, planner="auto"))
    for run, said in ((replace(planned, meta=trace.meta), "γ = 7 · "), (planned, "γ = 7 (auto) · ")):
        texts = [t.text or "" for t in ElementTree.fromstring(round_of(run, deep.index).svg).iter(SVG + "text")]
        assert [text for text in texts if text.startswith("γ")] == [said + "rejection rule"]


def frame(picture: Picture) -> None:
    """Nothing leaves the frame, nothing is small, and it is XML."""
    root = ElementTree.fromstring(picture.svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.find(SVG + "title") is not None
    assert root.find(SVG + "desc") is not None
    assert not re.search(r"nan|inf\b", re.sub(r">[^<]*<", "><", picture.svg).lower())
    for text in root.iter(SVG + "text"):
        size, x = float(text.attrib["font-size"]), float(text.attrib["x"])
        assert size >= 12
        wide = columns(text.text or "") * size * (0.62 if text.get("class") == "m" else 0.56)
        shift = {"middle": wide / 2, "end": wide}.get(text.get("text-anchor", ""), 0.0)
        assert -6 <= x - shift <= width + 6 - wide, text.text
        assert float(text.attrib["y"]) <= height
    for rect in root.iter(SVG + "rect"):
        if rect.get("x"):
            assert 0 <= float(rect.attrib["x"]) <= float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width + 0.5
            assert float(rect.attrib["y"]) >= 0


def test_dark_is_the_same_picture_in_other_colours() -> None:
    for light, dark in (
        (identity(*LAWS[0]), identity(*LAWS[0], dark=True)),
        (round_of(CASES["mixed"]), round_of(CASES["mixed"], dark=True)),
    ):
        plain = [re.sub("#[0-9a-f]{6}", "", p.svg) for p in (light, dark)]
        assert plain[0] == plain[1]
        assert light.svg != dark.svg
        assert DARK["white"] in dark.svg
    assert DARK.keys() == COLORS.keys()


def test_a_picture_is_as_wide_as_it_was_drawn_and_never_wider_than_its_page() -> None:
    for picture in (identity(*LAWS[0]), round_of(CASES["mixed"])):
        root = ElementTree.fromstring(picture.svg)
        assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]
        assert root.attrib["style"] == "max-width:100%;height:auto"
        assert ' style="max-width:100%;height:auto" src="data:' in picture.image


def test_the_same_twice_and_what_a_notebook_keeps() -> None:
    trace = CASES["mixed"]
    again = Trace.from_dict(trace.to_dict())
    assert identity_of(trace, 0, 3) == identity_of(again, 0, 3)
    assert round_of(trace, 0) == round_of(again, 0)
    bundle = round_of(trace, 0)._repr_mimebundle_()
    assert bundle["text/html"].startswith('<img alt="One round in four steps: ')
    assert "0x" not in bundle["text/plain"]


@pytest.mark.parametrize(
    ("p", "q", "said"),
    [
        ([0.5, 0.5], [0.5, 0.25, 0.25], "2 entries"), ([0.5, 0.4], [0.5, 0.5], "p ="), ([0.5, 0.5], [1.5, -0.5], "q ="),
        ([1.0], [1.0], "p ="), ([float("nan"), 1.0], [0.5, 0.5], "p ="),
    ],
)  # fmt: skip
def test_what_is_no_law_is_refused(p: list[float], q: list[float], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        identity(p, q)


def test_refusals_name_what_is_there() -> None:
    with pytest.raises(InvalidInput, match="0 to 5"):
        identity_of(CASES["mixed"], 9, 1)
    with pytest.raises(InvalidInput, match="1 to 4"):
        identity_of(CASES["mixed"], 0, 5)
    with pytest.raises(InvalidInput, match="nothing was proposed"):
        identity_of(CASES["plain"], 0, 1)
    with pytest.raises(InvalidInput, match="unknown"):
        identity_of(CASES["vllm_chat"], 1, 1)
    with pytest.raises(InvalidInput, match="300"):
        identity([0.5, 0.5], [0.5, 0.5], width=10)
    with pytest.raises(InvalidInput, match="2 to 3"):
        round_of(CASES["dropped"], 0)
    with pytest.raises(InvalidInput, match="labels"):
        identity([0.5, 0.5], [0.5, 0.5], labels=["a"])


@pytest.mark.parametrize("width", [300, 380, 620, 980])
def test_no_words_lie_over_each_other(width: float) -> None:
    """Also where a token has next to no mass, whose numbers are the longest."""
    rng = random.Random(3)
    for power, count in ((1, 12), (3, 12), (40, 8)):
        a, b = ([rng.random() ** power for _ in range(count)] for _ in range(2))
        p, q = [x / sum(a) for x in a], [x / sum(b) for x in b]
        assert crossing(identity(p, q, labels=[f"token{i}" for i in range(count)], width=width).svg) == []
    few = ([1.0] + [1e-10] * 4, [1.0] + [3e-11] * 4)
    assert crossing(identity(*few, width=width).svg) == []
    for name, cycle, position in DECISIONS:
        assert crossing(identity_of(CASES[name], cycle, position, width=width).svg) == []
