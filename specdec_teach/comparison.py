"""Two runs side by side: where their texts part, and the view that plays both on one clock.

Invariant: it holds the two traces as they are and computes nothing but the place where they part. It knows neither the
engine nor how a view is drawn; `show` and `to_html` ask the installed renderer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdec_kernels.errors import InvalidInput
from specdec_teach import views

if TYPE_CHECKING:
    from specdec_teach.trace import Trace

__all__ = ["Comparison", "tell_apart"]

_SETTINGS: tuple[Callable[[Trace], str], ...] = (
    lambda t: "speculative" if t.meta.speculate else "plain",
    lambda t: f"γ = {t.meta.gamma}",
    lambda t: f"{t.meta.verify} rule",
    lambda t: f"drafter {t.meta.drafter}",
    lambda t: f"T = {t.meta.sampling.get('temperature')}",
    lambda t: f"{t.meta.cache} cache",
    lambda t: {True: "lossless", False: "not lossless", None: "lossless or not unknown"}[t.meta.lossless],
    lambda t: f"seed {t.meta.seed}",
)


def tell_apart(first: Trace, second: Trace) -> tuple[str, str]:
    """Return a name for each of two runs: the first setting in which they differ, else "A" and "B"."""
    for setting in _SETTINGS:
        names = setting(first), setting(second)
        if names[0] != names[1]:
            return names
    return "A", "B"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two traces and what to call them."""

    first: Trace
    second: Trace
    names: tuple[str, str]

    def __post_init__(self) -> None:
        """Refuse names that would not tell the runs apart."""
        names = self.names
        fits = len(names) == 2 and all(isinstance(name, str) and name.strip() for name in names)
        if not fits or names[0] == names[1]:
            raise InvalidInput(
                f"cannot call the two runs {names!r}; give two different names, as in ('plain', 'γ = 4')"
            )

    @property
    def parting(self) -> int | None:
        """The first position whose committed tokens differ; None where one text is a beginning of the other."""
        pairs = zip(_committed(self.first), _committed(self.second), strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a != b), None)

    def show(self) -> object:
        """Return the view for a notebook (needs the installed widgets)."""
        return views.renderer().show_comparison(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page that plays both runs, and return its path."""
        return views.renderer().comparison_to_html(self, Path(path))


def _committed(trace: Trace) -> list[int | None]:
    ids: list[int | None] = list(trace.prompt)
    if trace.cycles:
        ids += [None] * (trace.cycles[0].committed_before - len(ids))  # cycles that were not kept
    return ids + [token for cycle in trace.cycles for token in cycle.emitted]
