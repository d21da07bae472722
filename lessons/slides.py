"""Which cells of a lesson are slides in a live class: roles for Jupyter's slide show, derived from the text.

A heading begins a slide. What reveals an answer (`predict`, `check`, and the outputs behind a prediction) waits for the
next key. Hints, and what is for reading at home, are skipped. Invariant: a role depends on cell sources alone, so a
lesson needs no slide marks of its own. It does not know how slides are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["HOME", "roles"]

HOME = "## Honest limits"
"""The section with which the part to be read at home begins."""

_HEADING = re.compile(r"^#{1,3} ", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ASKS = re.compile(r"^(?:predict|check)\(", re.MULTILINE)


def roles(cells: Iterable[tuple[str, str]]) -> list[str | None]:
    """Return slide, fragment, skip or None (goes on) for each cell, given as (type, source).

    >>> roles([("markdown", "# A"), ("code", "a = 1"), ("code", 'predict("a.p1", 1, f)'), ("code", "print(a)")])
    ['slide', None, 'fragment', 'fragment']
    >>> roles([("markdown", "<details>a hint</details>"), ("markdown", "so"), ("markdown", "## Honest limits")])
    ['skip', None, 'skip']
    """
    found: list[str | None] = []
    predicted = False
    for kind, source in cells:
        if kind == "code":
            asks = bool(_ASKS.search(source))
            found.append("fragment" if asks or predicted else None)
            predicted = predicted or re.search(r"^predict\(", source, re.MULTILINE) is not None
            continue
        predicted = False
        text = _FENCED.sub("", source)
        if HOME in text.splitlines():
            found.append("skip")
        elif _HEADING.search(text):
            found.append("slide")
        else:
            found.append("skip" if text.startswith("<details>") else None)
    return found
