"""Where the words of a still stand: the box of every text, and the pairs of texts that lie over each other.

Invariant: widths are those of wide fonts (DejaVu), so what has room here has room in any usual font; it knows SVG only.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

from specdec_widgets.words import columns

__all__ = ["Box", "boxes", "crossing"]

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True, slots=True)
class Box:
    """One text: what it says and the rectangle of its letters, in pixels of the picture."""

    said: str
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether some of one lies over the other."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


def boxes(svg: str) -> list[Box]:
    """Return the box of every text that says something."""
    found = []
    for text in ElementTree.fromstring(svg).iter(SVG + "text"):
        said = "".join(text.itertext())
        x, y, size = (float(text.attrib[name]) for name in ("x", "y", "font-size"))
        wide = columns(said) * size * (0.602 if text.get("class") == "m" else 0.53)
        left = x - wide * {"middle": 0.5, "end": 1.0}.get(text.get("text-anchor", "start"), 0.0)
        if said.strip():
            found.append(Box(said, left, left + wide, y - 0.72 * size, y + 0.12 * size))
    return found


def crossing(svg: str) -> list[tuple[str, str]]:
    """Return the texts of a still that lie over each other."""
    found = boxes(svg)
    return [(a.said, b.said) for at, a in enumerate(found) for b in found[:at] if a.meets(b)]
