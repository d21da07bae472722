"""What a colour means can be told apart by everybody: by its Lab difference, or by glyph and outline.

Eyes without one kind of cone are simulated in linear RGB (Machado, Oliveira, Fernandes 2009, severity 1); differences
are CIE76 in CIE Lab (D65), of which 2.3 is the least that one sees side by side.
"""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from specdec_widgets import rounds, still
from specdec_widgets.owners import GLYPHS, MARKS, STYLES, look
from specdec_widgets.svg import COLORS, DARK
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES

APART = 10.0
SAYS = {
    "green": r"✓|^accept|^u .* < ", "red": r"✗|^reject|^u .* ≥ |not lossless|lossless or not|forced|evicted|^[x!]$",
    "blue": r"↺|correction|rewind", "purple": r"★|bonus|^next", "amber": r"^proposed$",
}  # fmt: skip
"""What a text in each ink says in signs or words: who sees no colour reads what it means, and no two say the same."""
Matrix = tuple[tuple[float, float, float], ...]
EYES: dict[str, Matrix] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900),
    ),
}  # fmt: skip
TO_XYZ: Matrix = (
    (0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041),
)  # fmt: skip
WHITE = (0.95047, 1.0, 1.08883)


def times(matrix: Matrix, vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(color: str, eye: str) -> list[float]:
    """CIE Lab of a colour as an eye sees it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    seen = [min(1.0, max(0.0, v)) for v in times(EYES[eye], linear)]
    x, y, z = (
        t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116
        for t in (a / b for a, b in zip(times(TO_XYZ, seen), WHITE, strict=True))
    )
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


def difference(one: str, other: str, eye: str) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(lab(one, eye), lab(other, eye), strict=True)) ** 0.5)


def test_the_simulation_has_its_known_ends() -> None:
    for eye in EYES:
        assert lab("#ffffff", eye) == pytest.approx([100, 0, 0], abs=0.1)
        assert lab("#000000", eye) == pytest.approx([0, 0, 0], abs=1e-9)
        assert difference("#0072b2", "#e69f00", eye) > 50
    assert lab("#ff0000", "usual") == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    # The classic confusion: a red and a green of one brightness.
    red, green = "#c05028", "#7c7c28"
    assert difference(red, green, "deuteranopia") < 0.5 * difference(red, green, "usual")


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("colors", [COLORS, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("looks", [rounds.LOOK, {"proposed": still.PROPOSAL, **still.LOOK}], ids=["rounds", "still"])
def test_roles_of_a_token_stay_apart(
    eye: str, colors: dict[str, str], looks: dict[str, tuple[str, str, str, str, str]]
) -> None:
    drawn = {name: look for name, look in looks.items() if look[2] != "none"}
    for (a, one), (b, other) in combinations(drawn.items(), 2):
        assert one[0] != other[0], f"{a} and {b} have one glyph: their colours would tell alone"
        if one[2] == other[2]:
            continue  # two ways to be left out: a glyph tells which
        far = difference(colors[one[2]], colors[other[2]], eye) >= APART
        assert far or one[3] != other[3], f"{a} and {b} look alike to {eye}, and their outlines are of one kind"


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("colors", [COLORS, DARK], ids=["light", "dark"])
def test_areas_stay_apart(eye: str, colors: dict[str, str]) -> None:
    """Accepted, corrected, rejected, drafted, bonus, and the sheet: areas that lie side by side."""
    for a, b in combinations(("green", "blue", "red", "amber", "purple", "white"), 2):
        assert difference(colors[a], colors[b], eye) >= APART, (a, b)
    for a, b in combinations(("stale", "valid", "white"), 2):
        assert difference(colors[a], colors[b], eye) >= APART, (a, b)


def test_every_text_says_what_its_ink_says() -> None:
    """Some inks are one to some eyes (red and amber, purple and quiet): no text leaves its meaning to the ink."""
    names, seen = {COLORS[f"{name}-ink"]: name for name in SAYS}, set()
    for trace in (*CASES.values(), *TREES.values()):
        for cycle in trace.cycles[:4]:
            for svg in (still.to_svg(trace, cycle.index), rounds.round_of(trace, cycle.index).svg):
                for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
                    if text.get("fill") in names and text.text:
                        seen.add((names[text.attrib["fill"]], text.text))
    assert {ink for ink, _ in seen} == SAYS.keys() - {"amber"}  # a proposed draft's text is plain
    for ink, text in seen:
        assert [name for name, says in SAYS.items() if re.search(says, text)] == [ink], text


def test_requests_have_glyph_and_pattern_too() -> None:
    assert len(set(MARKS)) == len(MARKS) == len(STYLES)
    looks = [(look(i).glyph, look(i).fill) for i in range(len(GLYPHS) * len(STYLES))]
    assert len(set(looks)) == len(looks)
    for a, b in combinations(range(len(STYLES)), 2):
        assert look(a).glyph != look(b).glyph
        assert look(a).fill != look(b).fill
