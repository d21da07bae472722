"""Write SVG elements as text: shapes, hatches and labels that stay inside the width they are given.

Invariant: equal calls give equal text: coordinates have one decimal, ids are fixed, nothing depends on time or place.
It does not know what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from specdec_widgets.words import clip, columns

__all__ = ["CHAR", "COLORS", "SHRINKS", "Canvas", "wrap"]

SHRINKS = 'style="max-width:100%;height:auto"'
"""As wide as it was drawn where there is room, else as wide as the page."""

CHAR = 0.62
"""Width of a monospace character, in font sizes; generous, because the font of the reader is not known."""

COLORS = {
    "ink": "#1d2126", "quiet": "#565c64", "line": "#d3d7dc", "fill": "#e9ecef", "valid": "#b9c1ca", "stale": "#8a9099",
    "amber": "#e69f00", "green": "#009e73", "red": "#d55e00", "blue": "#0072b2", "purple": "#cc79a7",
    "green-ink": "#00634a", "red-ink": "#9c3f00", "blue-ink": "#005a8e", "purple-ink": "#8a3566",
    "green-tint": "#dbf2ec", "red-tint": "#fae7dc", "blue-tint": "#dbebf5", "purple-tint": "#f8edf3",
    "amber-ink": "#744b00", "on-green": "#1d2126", "on-blue": "#ffffff",
    "white": "#ffffff", "sky": "#56b4e9", "yellow": "#f0e442", "yellow-ink": "#6b6200", "sky-ink": "#14618f",
}  # fmt: skip

DARK = {
    **COLORS, "ink": "#e8eaed", "quiet": "#a7adb5", "line": "#3c4249", "fill": "#2b3036", "valid": "#5d6670",
    "stale": "#878e97", "blue": "#3d9be0", "green-ink": "#4fd6ac", "red-ink": "#ff9a5c", "blue-ink": "#7cc3f5",
    "purple-ink": "#eaa9cd", "amber-ink": "#f3bd55", "green-tint": "#11332e", "red-tint": "#3b2616",
    "blue-tint": "#1d3243", "purple-tint": "#3a2b38", "white": "#15181c", "sky-ink": "#8fd0f7", "yellow-ink": "#f0e442",
    "on-blue": "#1d2126",
}  # fmt: skip
"""The same names on a dark ground."""

SANS = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
HATCHES = (("amber", 135, 7, 2.0), ("red", 135, 5, 2.0), ("stale", 45, 6, 1.0))


class Canvas:
    """Collects SVG elements and closes them into one picture."""

    def __init__(self, *, dark: bool = False) -> None:
        self._parts: list[str] = []
        self._colors = DARK if dark else COLORS

    def _paint(self, name: str) -> str:
        """A colour by name; `/name` is its hatch, "none" is nothing."""
        return f"url(#specdec-{name[1:]})" if name.startswith("/") else self._colors.get(name, name)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        fill: str,
        *,
        stroke: str = "none",
        r: float = 0,
        dash: str = "",
        wide: float = 1.3,
    ) -> None:
        """A rectangle; nothing when it would be thinner than a twentieth of a pixel."""
        if w < 0.05:
            return
        edge = f' stroke="{self._paint(stroke)}" stroke-width="{wide}"' if stroke != "none" else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        round_ = f' rx="{r:g}"' if r else ""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}"{round_} '
            f'fill="{self._paint(fill)}"{edge}{dashes}/>'
        )

    def path(self, d: str, *, stroke: str = "none", fill: str = "none", wide: float = 1.3, dash: str = "") -> None:
        """A path in SVG's own language."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<path d="{d}" fill="{self._paint(fill)}" stroke="{self._paint(stroke)}" stroke-width="{wide}" '
            f'stroke-linecap="round" stroke-linejoin="round"{dashes}/>'
        )

    def arrow(
        self, x1: float, y1: float, x2: float, y2: float, *, stroke: str, wide: float = 1.3, dash: str = ""
    ) -> None:
        """A line with an open tip at its end."""
        length = max(1e-9, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        tips = [(x2 - 6 * ux + s * 3.2 * uy, y2 - 6 * uy - s * 3.2 * ux) for s in (1, -1)]
        self.path(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", stroke=stroke, wide=wide, dash=dash)
        self.path(
            f"M{tips[0][0]:.1f} {tips[0][1]:.1f}L{x2:.1f} {y2:.1f}L{tips[1][0]:.1f} {tips[1][1]:.1f}",
            stroke=stroke,
            wide=wide,
        )

    def text(
        self, x: float, y: float, text: str, *, size: float = 13, fill: str = "ink", anchor: str = "start",
        mono: bool = False, bold: bool = False, struck: bool = False, width: float | None = None,
    ) -> None:  # fmt: skip
        """A line of text, cut to `width` when one is given."""
        if width is not None:
            text = clip(text, max(1, int(width / (CHAR * size))))
        extra = "".join(
            part
            for part, wanted in (
                (' class="m"', mono),
                (f' text-anchor="{anchor}"', anchor != "start"),
                (' font-weight="600"', bold),
                (' text-decoration="line-through"', struck),
            )
            if wanted
        )
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{self._paint(fill)}"'
        self._parts.append(f"<text {place}{extra}>{escape(text)}</text>")

    def close(self, width: float, height: float, title: str, desc: str, defs: str = "") -> str:
        """Return the finished picture; `defs` holds patterns of its own."""
        inks = self._colors
        patterns = "".join(
            f'<pattern id="specdec-{name}" width="{step}" height="{step}" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate({angle - 90})"><rect width="{wide:g}" height="{step}" fill="{inks[name]}"'
            f"{'' if name == 'red' else ' fill-opacity=' + quoteattr('.45')}/></pattern>"
            for name, angle, step, wide in HATCHES
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" {SHRINKS} font-family="{SANS}">'
            f"<title>{escape(title)}</title><desc>{escape(desc)}</desc>"
            f"<style>.m{{font-family:{MONO};white-space:pre}}text{{font-variant-numeric:tabular-nums}}</style>"
            f"<defs>{patterns}{defs}</defs>" + "\n".join(self._parts) + "</svg>\n"
        )


def wrap(text: str, n: int) -> Sequence[str]:
    """Break text into lines of at most n columns; a longer word is cut.

    >>> wrap("one two three", 8)
    ['one two', 'three']
    """
    lines = [""]
    for word in text.split():
        word = clip(word, n)
        longer = f"{lines[-1]} {word}".strip()
        if columns(longer) <= n:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
