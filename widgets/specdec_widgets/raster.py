"""Turn a still into pixels: a PNG of one, a GIF of several.

It reads the SVG that `Canvas` writes (rectangles, straight paths, hatches, lines of text), so a PNG shows what the
still shows. Invariant: equal SVG gives equal pixels on every machine with the same Pillow and the fonts that come with
matplotlib. It does not know what is drawn, and no other SVG: an element it does not know is refused.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageFont

from specdec_kernels.errors import InvalidInput

__all__ = ["draw", "gif", "png"]

SVG = "{http://www.w3.org/2000/svg}"
FINE = 2  # pixels drawn for each one kept
LARGEST = 8.0
FALLBACKS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Hiragino Sans",
    "Yu Gothic",
    "Microsoft YaHei",
)
NUMBER = re.compile(r"-?\d*\.?\d+")

Point = tuple[float, float]


def png(svg: str, scale: float = 2.0) -> bytes:
    """Return the picture as PNG, `scale` pixels for each of its units; InvalidInput for a scale outside (0, 8]."""
    out = io.BytesIO()
    draw(svg, scale).save(out, format="PNG", optimize=True)
    return out.getvalue()


def gif(stills: Sequence[str], seconds: float, scale: float = 1.0) -> bytes:
    """Return the pictures as a GIF that plays without end, `seconds` each; smaller ones stand at the top left."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0.05 <= seconds <= 60:
        raise InvalidInput(f"cannot show each picture for {seconds!r} s; give a number from 0.05 to 60")
    drawn = [draw(svg, scale) for svg in stills]
    size = max(image.width for image in drawn), max(image.height for image in drawn)
    frames = []
    for image in drawn:
        sheet = Image.new("RGB", size, "white")
        sheet.paste(image)
        frames.append(sheet.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE))
    out = io.BytesIO()
    frames[0].save(
        out, format="GIF", save_all=True, append_images=frames[1:], duration=int(1000 * seconds), loop=0, optimize=True
    )
    return out.getvalue()


def draw(svg: str, scale: float = 2.0) -> Image.Image:
    """Return the picture on white, `scale` pixels for each of its units."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale <= LARGEST:
        raise InvalidInput(f"cannot draw at scale {scale!r}; give a number above 0 and at most {LARGEST:g}")
    root = ElementTree.fromstring(svg)
    wide, high = (round(float(root.attrib[key]) * scale) for key in ("width", "height"))
    page = _Page(Image.new("RGB", (wide * FINE, high * FINE), "white"), scale * FINE, _hatches(root))
    for node in root:
        kind = node.tag.removeprefix(SVG)
        if kind == "rect":
            page.shape([_corners(node)], node, closed=True)
        elif kind == "path":
            for points, closed in _runs(node.attrib["d"]):
                page.shape([points], node, closed=closed)
        elif kind == "text":
            page.text(node)
        elif kind not in ("title", "desc", "style", "defs"):
            raise InvalidInput(f"cannot turn <{kind}> into pixels; draw the still with Canvas")
    return page.image.resize((wide, high), Image.Resampling.BOX)


class _Page:
    """An image that shapes and texts are drawn on, in the SVG's units."""

    def __init__(self, image: Image.Image, unit: float, hatches: dict[str, list[_Stripes]]) -> None:
        self.image, self.unit, self.hatches = image, unit, hatches
        self.pen = ImageDraw.Draw(image)

    def shape(self, outlines: list[list[Point]], node: ElementTree.Element, *, closed: bool) -> None:
        """Fill and stroke outlines, each a list of points."""
        fill, stroke = node.get("fill", "none"), node.get("stroke", "none")
        for points in outlines:
            scaled = [(x * self.unit, y * self.unit) for x, y in points]
            if fill.startswith("url(#"):
                for stripes in self.hatches[fill[5:-1]]:
                    self._hatch(scaled, stripes)
            elif fill != "none" and len(scaled) > 2:
                self.pen.polygon(scaled, fill=fill)
            if stroke == "none":
                continue
            width = max(1, round(float(node.get("stroke-width", "1")) * self.unit))
            dashes = [float(n) * self.unit for n in node.get("stroke-dasharray", "").split()]
            line = [*scaled, scaled[0]] if closed else scaled
            for piece in _dashed(line, dashes) if dashes else [line]:
                self.pen.line(piece, fill=stroke, width=width, joint="curve")

    def _hatch(self, outline: list[Point], stripes: _Stripes) -> None:
        xs, ys = [x for x, _ in outline], [y for _, y in outline]
        left, top = math.floor(min(xs)), math.floor(min(ys))
        size = max(1, math.ceil(max(xs)) - left), max(1, math.ceil(max(ys)) - top)
        shape, lines = Image.new("L", size), Image.new("L", size)
        ImageDraw.Draw(shape).polygon([(x - left, y - top) for x, y in outline], fill=255)
        pen, (cos, sin) = ImageDraw.Draw(lines), (math.cos(stripes.angle), math.sin(stripes.angle))
        step, wide, reach = stripes.step * self.unit, stripes.width * self.unit, size[0] + size[1]
        if stripes.radius:
            r, first = stripes.radius * self.unit, step / 2
            for x in range(round((left - first) / step) - 1, round((left + size[0]) / step) + 1):
                for y in range(round((top - first) / step) - 1, round((top + size[1]) / step) + 1):
                    at = x * step + first - left, y * step + first - top
                    pen.ellipse([at[0] - r, at[1] - r, at[0] + r, at[1] + r], fill=stripes.opacity)
        across = [x * cos + y * sin for x in (left, left + size[0]) for y in (top, top + size[1])]
        along = -left * sin + top * cos
        for k in range(math.floor(min(across) / step) - 1, math.ceil(max(across) / step) + 1) if wide else ():
            corners = [(k * step + u, along + v) for u, v in ((0, -reach), (wide, -reach), (wide, reach), (0, reach))]
            pen.polygon([(u * cos - v * sin - left, u * sin + v * cos - top) for u, v in corners], fill=stripes.opacity)
        self.image.paste(ImageColor.getrgb(stripes.color), (left, top), ImageChops.multiply(shape, lines))

    def text(self, node: ElementTree.Element) -> None:
        """Write one line, each run of characters in the first font that has them."""
        size = float(node.attrib["font-size"]) * self.unit
        bold, mono = node.get("font-weight") == "600", node.get("class") == "m"
        runs = list(_by_font("".join(node.itertext()), mono, bold))
        fonts = [ImageFont.truetype(path, size) for path, _ in runs]
        lengths = [font.getlength(text) for font, (_, text) in zip(fonts, runs, strict=True)]
        x, y = (float(node.attrib[key]) * self.unit for key in ("x", "y"))
        start = x = x - {"middle": sum(lengths) / 2, "end": sum(lengths)}.get(node.get("text-anchor", ""), 0.0)
        for font, (_, text), length in zip(fonts, runs, lengths, strict=True):
            self.pen.text((x, y), text, font=font, fill=node.attrib["fill"], anchor="ls")
            x += length
        if node.get("text-decoration") == "line-through":
            middle = y - size * 0.3
            self.pen.line([(start, middle), (x, middle)], fill=node.attrib["fill"], width=max(1, round(size / 14)))


class _Stripes:
    """What a hatch repeats: stripes at an angle, or dots (no angle), in a colour whose opacity goes up to 255."""

    def __init__(self, pattern: ElementTree.Element, shape: ElementTree.Element) -> None:
        turned = re.search(r"rotate\(([-\d.]+)\)", pattern.get("patternTransform", ""))
        self.angle = math.radians(float(turned[1])) if turned else 0.0
        self.step = float(pattern.attrib["width"])
        self.radius = float(shape.get("r", "0"))
        self.width = float(shape.get("width", "0"))
        self.color = shape.attrib["fill"]
        self.opacity = round(255 * float(shape.get("fill-opacity", "1")))


def _hatches(root: ElementTree.Element) -> dict[str, list[_Stripes]]:
    return {node.attrib["id"]: [_Stripes(node, shape) for shape in node] for node in root.iter(SVG + "pattern")}


def _corners(node: ElementTree.Element) -> list[Point]:
    x, y, w, h = (float(node.attrib[key]) for key in ("x", "y", "width", "height"))
    r = min(float(node.get("rx", "0")), w / 2, h / 2)
    if not r:
        return [(x, y), (x + w, y), (x + w, y + h), (x, y + h)]
    out = []
    for cx, cy, start in (
        (x + w - r, y + r, -90),
        (x + w - r, y + h - r, 0),
        (x + r, y + h - r, 90),
        (x + r, y + r, 180),
    ):
        for part in range(7):
            a = math.radians(start + 15 * part)
            out.append((cx + r * math.cos(a), cy + r * math.sin(a)))
    return out


def _runs(d: str) -> Iterator[tuple[list[Point], bool]]:
    """Yield every run of a path as its points and whether it closes; straight lines only."""
    points: list[Point] = []
    for letter, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", d):
        numbers = [float(n) for n in NUMBER.findall(rest)]
        x, y = points[-1] if points else (0.0, 0.0)
        if letter == "M":
            if len(points) > 1:
                yield points, False
            points = [(numbers[0], numbers[1])]
        elif letter in "Zz":
            yield points, True
            points = []
        elif letter in "Hh":
            points.append((numbers[0] + (x if letter == "h" else 0), y))
        elif letter in "Vv":
            points.append((x, numbers[0] + (y if letter == "v" else 0)))
        elif letter in "Ll":
            points.append((numbers[0] + (x if letter == "l" else 0), numbers[1] + (y if letter == "l" else 0)))
        else:
            raise InvalidInput(f"cannot turn the path command {letter!r} into pixels; use straight lines")
    if len(points) > 1:
        yield points, False


def _dashed(line: list[Point], dashes: list[float]) -> Iterator[list[Point]]:
    left, k, piece = dashes[0], 0, [line[0]]
    for (x1, y1), (x2, y2) in pairwise(line):
        length, done = math.hypot(x2 - x1, y2 - y1), 0.0
        while length - done > left:
            done += left
            at = (x1 + (x2 - x1) * done / length, y1 + (y2 - y1) * done / length)
            if k % 2 == 0:
                yield [*piece, at]
            piece, k = [at], k + 1
            left = dashes[k % len(dashes)]
        left -= length - done
        piece.append((x2, y2))
    if k % 2 == 0 and len(piece) > 1:
        yield piece


@cache
def _fonts(mono: bool, bold: bool) -> tuple[tuple[str, frozenset[int]], ...]:
    """The fonts to try, each with the characters that it has: those of matplotlib, and what else this machine has."""
    from matplotlib import font_manager, get_data_path
    from matplotlib.ft2font import FT2Font

    folder, weight = Path(get_data_path()) / "fonts" / "ttf", "-Bold" if bold else ""
    names = ["DejaVuSansMono", "DejaVuSans"] if mono else ["DejaVuSans", "DejaVuSansMono"]
    paths = [str(folder / f"{name}{weight}.ttf") for name in names] + [str(folder / "DejaVuSans.ttf")]
    there: Any = {entry.name: entry.fname for entry in font_manager.fontManager.ttflist}
    paths += [there[name] for name in FALLBACKS if name in there]
    return tuple((path, frozenset(FT2Font(path).get_charmap())) for path in paths)


def _by_font(text: str, mono: bool, bold: bool) -> Iterator[tuple[str, str]]:
    fonts = _fonts(mono, bold)
    path, run = fonts[0][0], ""
    for char in text:
        found = next((name for name, chars in fonts if ord(char) in chars), fonts[0][0])
        if found != path and run:
            yield path, run
            run = ""
        path = found
        run += char
    if run:
        yield path, run
