"""Stills as pixels: the colours stand where the SVG says, the same bytes twice, and a GIF of the stages."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from specdec_kernels.errors import InvalidInput
from specdec_widgets import blocks, raster
from specdec_widgets.still import moments, to_svg
from specdec_widgets.svg import COLORS, Canvas
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES

SVG = "{http://www.w3.org/2000/svg}"


def solid(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.parametrize("name", ["mixed", "plain", "hostile", "paged", "eos_cut", "greedy", "dropped"])
def test_a_png_has_the_size_and_the_solid_boxes_of_its_still(name: str) -> None:
    svg = to_svg(CASES[name], CASES[name].cycles[0].index)
    root = ElementTree.fromstring(svg)
    image = Image.open(io.BytesIO(raster.png(svg, 1)))
    assert image.size == (int(root.attrib["width"]), int(root.attrib["height"]))
    boxes = [node for node in root.findall(SVG + "rect") if re.fullmatch("#[0-9a-f]{6}", node.attrib["fill"])]
    seen = 0
    for node in boxes[1:]:  # the first one is the sheet
        x, y, w, h = (float(node.attrib[key]) for key in ("x", "y", "width", "height"))
        if w < 6 or node.get("rx") or node.attrib["fill"] in ("#ffffff", "#1d2126"):
            continue  # texts and lines lie over the others
        at = image.getpixel((round(x + 3), round(y + h / 2)))
        assert at == solid(node.attrib["fill"]), node.attrib
        seen += 1
    assert seen >= 3


def test_hatches_and_dashes_leave_gaps() -> None:
    canvas = Canvas()
    canvas.box(0, 0, 100, 40, "/red", stroke="none")
    canvas.path("M0 60H100", stroke="ink", wide=2, dash="10 10")
    image = raster.draw(canvas.close(100, 80, "", ""), 1)
    row = {image.getpixel((x, 20)) for x in range(100)}
    assert (255, 255, 255) in row
    assert solid("#d55e00") in row
    dashed = [image.getpixel((x, 60)) == solid("#1d2126") for x in (5, 15, 25, 35)]
    assert dashed == [True, False, True, False]


def test_text_is_written_where_it_stands_and_struck() -> None:
    def dark(struck: bool, anchor: str) -> tuple[int, int, int, int]:
        canvas = Canvas()
        canvas.text(100, 30, "✓ ␣Ab", size=20, anchor=anchor, struck=struck)
        box = raster.draw(canvas.close(200, 60, "", ""), 1).convert("L").point(lambda v: 255 * (v < 128)).getbbox()
        assert box is not None
        return box

    assert 98 <= dark(False, "start")[0] <= 104
    assert 96 <= dark(False, "end")[2] <= 101
    left, _, right, _ = dark(False, "middle")
    assert abs((left + right) / 2 - 100) < 4
    assert dark(True, "start")[2] >= dark(False, "start")[2]


def test_the_same_pixels_twice_and_a_scheduler_too() -> None:
    svg = to_svg(CASES["mixed"], 0)
    assert raster.png(svg) == raster.png(svg)
    picture = raster.draw(blocks.to_svg(TIMELINES["typical"], 8), 0.5)
    assert len(set(picture.get_flattened_data())) > 20


def test_a_timeline_writes_the_png_of_its_still(tmp_path: Path) -> None:
    timeline = TIMELINES["typical"]
    path = timeline.to_png(tmp_path / "steps.png", 8, scale=1)
    assert path.read_bytes() == raster.png(timeline.to_svg(8), 1)
    assert timeline.to_png(path).read_bytes() == raster.png(timeline.to_svg(), 2)
    with pytest.raises(InvalidInput, match="choose a folder"):
        timeline.to_png(tmp_path / "missing" / "steps.png")


def test_what_the_canvas_does_not_write_is_refused() -> None:
    with pytest.raises(InvalidInput, match="<circle>"):
        raster.draw('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle cx="1" cy="1" r="1"/></svg>')
    with pytest.raises(InvalidInput, match="straight lines"):
        raster.draw('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0C1 1 2 2 3 3"/></svg>')
    for scale in (0, -1, 9, True, "2"):
        with pytest.raises(InvalidInput, match="at most 8"):
            raster.draw(to_svg(CASES["mixed"], 0), scale)


def test_a_gif_shows_every_stage_of_its_cycles(tmp_path: Path) -> None:
    trace = CASES["mixed"]
    path = trace.to_gif(tmp_path / "run.gif", 1, 2, seconds=0.5)
    with Image.open(path) as film:
        assert film.n_frames == 8  # type: ignore[attr-defined]
        assert film.info["duration"] == 500
        assert film.info["loop"] == 0
        film.seek(3)
        pixels = set(film.convert("RGB").get_flattened_data())
    for name in ("green", "blue", "purple", "stale"):
        nearest = min(max(abs(a - b) for a, b in zip(pixel, solid(COLORS[name]), strict=True)) for pixel in pixels)
        assert nearest <= 8, f"{name} became another colour"
    assert path.stat().st_size < 900_000
    plain = moments(CASES["plain"], 0, 2)
    assert len(plain) == 9, "plain decoding has no drafts to show"


def test_stages_show_what_is_known_and_end_as_the_still() -> None:
    trace = CASES["mixed"]
    drafts, target, verdicts, rewound = moments(trace, 0, 0)
    assert "✗" not in drafts + target
    assert "row 0" not in drafts
    assert "row 0" in target
    assert "C = 7" in drafts, "the target's pointer has not moved"
    assert "C = 12" in target
    assert "✗" in verdicts
    assert "rewind 2" not in verdicts
    assert "rewind 2" in rewound
    assert len({ElementTree.fromstring(s).attrib["height"] for s in (drafts, target, verdicts, rewound)}) == 1


@pytest.mark.parametrize(
    ("first", "last", "message"), [(9, 9, "0 to 5"), (2, 1, "from 2 to 51"), (0, 50, "0 to 49"), (0, True, "0 to 49")]
)
def test_a_span_outside_the_run_is_refused(first: int, last: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        moments(CASES["mixed"], first, last)


def test_times_that_are_no_times_are_refused(tmp_path: Path) -> None:
    for seconds in (0, -1, 61, True):
        with pytest.raises(InvalidInput, match=r"from 0\.05 to 60"):
            CASES["mixed"].to_gif(tmp_path / "run.gif", seconds=seconds)
    with pytest.raises(InvalidInput, match="choose a folder"):
        CASES["mixed"].to_png(tmp_path / "missing" / "run.png")
    assert not list(tmp_path.iterdir())
