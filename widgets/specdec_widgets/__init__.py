"""Views of a Trace and of a Timeline: players for notebooks, self-contained pages, stills.

`RENDERER` is what the entry point `specdec_teach.views` names. Invariant: importing this package loads no torch, no
transformers, no engine and no widget library; the last one is loaded by `show` alone.
It does not know how a run was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdec_widgets import blocks, page, still
from specdec_widgets.costs import Ledger, Measured
from specdec_widgets.keeping import keep
from specdec_widgets.rounds import round_of
from specdec_widgets.stacks import identity, identity_of
from specdec_widgets.trees import tree_of

if TYPE_CHECKING:
    from specdec_teach.comparison import Comparison
    from specdec_teach.timeline import Timeline
    from specdec_teach.trace import Trace
    from specdec_widgets.hunt import Examine
    from specdec_widgets.live import Run
    from specdec_widgets.picture import Picture

__all__ = ["RENDERER", "Views", "identity"]


class Views:
    """The renderer that draws a Trace, and a Timeline, in three forms each."""

    def show(self, trace: Trace, *, rerun: Callable[[int | None], Trace] | None = None) -> object:
        """Return a notebook widget that plays `trace`; `rerun(j)` makes the trace with a rejection forced at j."""
        from specdec_widgets.player import CyclePlayer

        return keep(CyclePlayer(trace, rerun=rerun))

    def to_html(self, trace: Trace, path: Path) -> Path:
        """Write a self-contained page and return its path."""
        return page.to_html(trace, path)

    def to_svg(self, trace: Trace, cycle: int) -> str:
        """Return one cycle as SVG text; `cycle` is its index in the run."""
        return still.to_svg(trace, cycle)

    def identity(self, trace: Trace, cycle: int, position: int, *, dark: bool = False, width: float = 980) -> Picture:
        """Return the picture of accepted + corrected = p for one decision."""
        return identity_of(trace, cycle, position, dark=dark, width=width)

    def four_steps(self, trace: Trace, cycle: int, *, dark: bool = False, width: float = 980) -> Picture:
        """Return one cycle in four steps: proposed, verified, judged, committed."""
        return round_of(trace, cycle, dark=dark, width=width)

    def tree(self, trace: Trace, cycle: int, *, dark: bool = False) -> Picture:
        """Return the draft tree of one cycle, judged."""
        return tree_of(trace, cycle, dark=dark)

    def to_png(self, trace: Trace, path: Path, cycle: int, scale: float) -> Path:
        """Write the still of one cycle as a PNG and return its path."""
        from specdec_widgets import raster

        return page.write(raster.png(still.to_svg(trace, cycle), scale), path)

    def to_gif(self, trace: Trace, path: Path, first: int, last: int, seconds: float) -> Path:
        """Write the cycles from `first` to `last` as an animated GIF and return its path."""
        from specdec_widgets import raster

        return page.write(raster.gif(still.moments(trace, first, last), seconds), path)

    def show_comparison(self, pair: Comparison) -> object:
        """Return a notebook widget that plays two runs on one clock."""
        from specdec_widgets.compare import ComparePlayer

        return keep(ComparePlayer(pair))

    def comparison_to_html(self, pair: Comparison, path: Path) -> Path:
        """Write a self-contained page of two runs and return its path."""
        return page.comparison_to_html(pair, path)

    def acceptance_lab(
        self,
        p: Sequence[float],
        q: Sequence[float],
        *,
        labels: Sequence[str] | None = None,
        draws: Callable[[Sequence[float], Sequence[float], int, int, str], Sequence[tuple[int, bool]]] | None = None,
    ) -> object:
        """Return the acceptance lab for a notebook; `draws(p, q, first, count, rule)` asks an engine."""
        from specdec_widgets.acceptance import AcceptanceLab

        return keep(AcceptanceLab(p, q, labels=labels, draws=draws))

    def live(self, run: Run, fields: Sequence[Mapping[str, Any]]) -> object:
        """Return live mode for a notebook; a field is what `specdec_widgets.console.Field` takes, as a mapping."""
        from specdec_widgets.console import Field
        from specdec_widgets.live import LivePlayer

        return keep(LivePlayer(run, [Field(**field) for field in fields]))

    def hunt(self, run: Examine, names: Sequence[str], invariants: Mapping[str, str]) -> object:
        """Return the bug hunt for a notebook; `run(name)` gives an engine's run and what it breaks."""
        from specdec_widgets.hunt import BugHunt

        return keep(BugHunt(run, names, invariants))

    def cost_explorer(
        self,
        target: Mapping[int, float],
        draft: float,
        points: Sequence[tuple[int, float, float]] = (),
        *,
        dark: bool = False,
    ) -> object:
        """Return the cost explorer for a notebook, from measured seconds and runs given as (γ, α, speed-up)."""
        from specdec_widgets.explorer import CostExplorer

        return keep(CostExplorer(Ledger(target, draft), [Measured(*point) for point in points], dark=dark))

    def show_timeline(self, timeline: Timeline) -> object:
        """Return a notebook widget that plays a scheduler's run: requests × steps, and the pool of blocks."""
        from specdec_widgets.timeline import TimelinePlayer

        return keep(TimelinePlayer(timeline))

    def timeline_to_html(self, timeline: Timeline, path: Path) -> Path:
        """Write a self-contained page and return its path."""
        return page.timeline_to_html(timeline, path)

    def timeline_to_svg(self, timeline: Timeline, step: int) -> str:
        """Return requests and blocks after one step as SVG text."""
        return blocks.to_svg(timeline, step)

    def timeline_to_png(self, timeline: Timeline, path: Path, step: int, scale: float) -> Path:
        """Write requests and blocks after one step as a PNG and return its path."""
        from specdec_widgets import raster

        return page.write(raster.png(blocks.to_svg(timeline, step), scale), path)


RENDERER = Views()
