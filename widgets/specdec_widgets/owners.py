"""How a request looks wherever it owns something: a glyph, a colour and a pattern, beside its number.

Invariant: the look follows from the request's number alone, and two neighbours differ in all three. It mirrors the
classes own0 … own4 of static/timeline.css.
"""

from __future__ import annotations

from dataclasses import dataclass

from specdec_widgets.svg import COLORS

__all__ = ["Look", "look", "patterns"]

STYLES = (
    ("blue", "blue-ink"),
    ("sky", "sky-ink"),
    ("purple", "purple-ink"),
    ("yellow", "yellow-ink"),
    ("quiet", "quiet"),
)
GLYPHS = "●■▲◆▼✚"
# What lies over the colour: plain, stripes of an angle, dots, stripes of two more angles.
MARKS = (
    (8, 0, ""), (5, 45, '<rect width="1.6" height="8" {}/>'), (5, 0, '<circle cx="2.5" cy="2.5" r="1.3" {}/>'),
    (6, -45, '<rect width="1.6" height="8" {}/>'), (5, -90, '<rect width="1.7" height="8" {}/>'),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """The look of one request: its glyph, the names of its colour and of the ink that reads on white, its pattern."""

    glyph: str
    color: str
    ink: str
    fill: str


def look(request: int) -> Look:
    """Return the look of a request.

    >>> look(0).glyph, look(1).glyph, look(5) == look(0)
    ('●', '■', False)
    """
    at = request % len(STYLES)
    return Look(GLYPHS[request % len(GLYPHS)], *STYLES[at], f"/own{at}")


def patterns() -> str:
    """Return the patterns as SVG definitions."""
    out = []
    for at, ((color, ink), (size, turn, shape)) in enumerate(zip(STYLES, MARKS, strict=True)):
        over = COLORS[ink] if color == "yellow" else COLORS["white"]
        out.append(
            f'<pattern id="specdec-own{at}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate({turn})"><rect width="8" height="8" fill="{COLORS[color]}"/>'
            + shape.format(f'fill="{over}" fill-opacity=".6"')
            + "</pattern>"
        )
    return "".join(out)
