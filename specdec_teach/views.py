"""Find the renderer that draws a Trace, through the entry-point group `specdec_teach.views`.

Invariant: the engine package never imports a widget; whoever installs a renderer registers it here.
It does not know what a view looks like.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from specdec_kernels.errors import EngineFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from collections.abc import Sequence as Items
    from typing import Any

    from specdec_teach.comparison import Comparison
    from specdec_teach.invariants import Violation
    from specdec_teach.timeline import Timeline
    from specdec_teach.trace import Trace

__all__ = ["GROUP", "Renderer", "renderer"]

GROUP = "specdec_teach.views"


class Renderer(Protocol):
    """What a package of views offers."""

    def show(self, trace: Trace, *, rerun: Callable[[int | None], Trace] | None = None) -> object:
        """Return a notebook object that plays `trace`; `rerun(j)` makes the trace with a rejection forced at j."""

    def to_html(self, trace: Trace, path: Path) -> Path:
        """Write a self-contained page and return its path."""

    def to_svg(self, trace: Trace, cycle: int) -> str:
        """Return one cycle as SVG text."""

    def identity(self, trace: Trace, cycle: int, position: int, *, dark: bool = False, width: float = 980) -> object:
        """Return a picture of accepted + corrected = p for one decision."""

    def four_steps(self, trace: Trace, cycle: int, *, dark: bool = False, width: float = 980) -> object:
        """Return a picture of one cycle in four steps."""

    def tree(self, trace: Trace, cycle: int, *, dark: bool = False) -> object:
        """Return a picture of the draft tree of one cycle."""

    def to_png(self, trace: Trace, path: Path, cycle: int, scale: float) -> Path:
        """Write one cycle as a PNG and return its path."""

    def to_gif(self, trace: Trace, path: Path, first: int, last: int, seconds: float) -> Path:
        """Write the cycles from `first` to `last` as an animated GIF and return its path."""

    def show_comparison(self, pair: Comparison) -> object:
        """Return a notebook object that plays two runs on one clock."""

    def comparison_to_html(self, pair: Comparison, path: Path) -> Path:
        """Write a self-contained page of two runs and return its path."""

    def acceptance_lab(
        self,
        p: Items[float],
        q: Items[float],
        *,
        labels: Items[str] | None = None,
        draws: Callable[[Items[float], Items[float], int, int, str], Items[tuple[int, bool]]] | None = None,
    ) -> object:
        """Return a notebook object to move two laws; `draws(p, q, first, count, rule)` asks an engine.

        It returns (first token, whether the draft stood) of runs first, first + 1, …
        """

    def live(
        self,
        run: Callable[[Mapping[str, Any]], Iterator[Callable[[], Trace]]],
        fields: Items[Mapping[str, Any]],
    ) -> object:
        """Return a notebook object with a form; `run(values)` yields, cycle by cycle, what writes the trace so far."""

    def hunt(
        self,
        run: Callable[[str], tuple[Trace, Items[Violation]]],
        names: Items[str],
        invariants: Mapping[str, str],
    ) -> object:
        """Return a notebook object to choose an engine by name; `run(name)` gives its run and what it breaks."""

    def cost_explorer(
        self,
        target: Mapping[int, float],
        draft: float,
        points: Items[tuple[int, float, float]] = (),
        *,
        dark: bool = False,
    ) -> object:
        """Return a notebook object that predicts speed-ups from measured seconds; runs as (γ, α, speed-up)."""

    def show_timeline(self, timeline: Timeline) -> object:
        """Return a notebook object that plays a scheduler's run."""

    def timeline_to_html(self, timeline: Timeline, path: Path) -> Path:
        """Write a self-contained page of a scheduler's run and return its path."""

    def timeline_to_svg(self, timeline: Timeline, step: int) -> str:
        """Return requests and blocks after one step as SVG text."""

    def timeline_to_png(self, timeline: Timeline, path: Path, step: int, scale: float) -> Path:
        """Write requests and blocks after one step as a PNG and return its path."""


@cache
def renderer() -> Renderer:
    """Return the installed renderer; EngineFailure when there is none."""
    for entry in entry_points(group=GROUP, name="default"):
        return cast(Renderer, entry.load())
    raise EngineFailure("no renderer is installed for traces; install the project with `pip install .` and try again")
