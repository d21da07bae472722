"""Free the views of a notebook cell when the cell runs again: otherwise each run leaves its widgets in the kernel.

Invariant: a view lives as long as the last run of the cell that made it, and a deleted cell's views go with the next
run of any cell; where no cell is known (a script, a plain prompt) nothing is closed. It does not know what a view
shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

__all__ = ["keep"]


class _Closable(Protocol):
    def close(self) -> None:
        """Free what the view holds."""


V = TypeVar("V", bound=_Closable)
_VIEWS: dict[str, tuple[str, list[_Closable]]] = {}  # cell → the run of it that is known, and its views


def keep(view: V) -> V:
    """Return `view`, once the views that earlier runs of this cell made are closed."""
    message = _message()
    cell, run = str(message.get("cell", "")), str(message.get("run", ""))
    if not cell:
        return view
    for gone in message.get("deleted", ()):
        _close(_VIEWS.pop(str(gone), ("", []))[1])
    known, views = _VIEWS.get(cell, (run, []))
    if known != run:
        _close(views)
        views = []
    _VIEWS[cell] = (run, [*views, view])
    return view


def _close(views: list[_Closable]) -> None:
    for view in views:
        view.close()


def _message() -> Mapping[str, Any]:
    """Return the cell that runs, the number of its run, and the cells that are gone; nothing outside of a notebook."""
    try:
        from IPython.core.getipython import get_ipython
    except ModuleNotFoundError:
        return {}
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return {}
    parent = kernel.get_parent()
    told = parent.get("metadata", {})
    return {
        "cell": told.get("cellId", ""),
        "run": parent.get("header", {}).get("msg_id", ""),
        "deleted": told.get("deletedCells", ()),
    }
