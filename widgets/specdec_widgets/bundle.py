"""What a cell's output holds: the live view for a front end that can show one, and a still and a line for the others.

Invariant: the line and the still do not depend on a kernel, so a stored notebook reads well without one. It does not
know what a view shows.
"""

from __future__ import annotations

from typing import Any

__all__ = ["bundle"]


def bundle(live: Any, text: str, still: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `live`, what anywidget made for a cell, with its text/plain replaced and the still as text/html, if any.

    >>> bundle(({"text/plain": "Widget()", "application/x": 1}, {"m": 2}), "four tokens", "<img>")
    ({'text/plain': 'four tokens', 'application/x': 1, 'text/html': '<img>'}, {'m': 2})
    >>> bundle(None, "four tokens")
    ({'text/plain': 'four tokens'}, {})
    """
    data, metadata = live if isinstance(live, tuple) else (live or {}, {})
    return {**data, "text/plain": text, **({"text/html": still} if still else {})}, metadata
