"""Two runs as two stills, each under its name, of the first cycle in which they differ.

Invariant: the same runs and names give the same text. It does not know how a still is drawn.
"""

from __future__ import annotations

from html import escape

from specdec_teach.comparison import Comparison
from specdec_teach.trace import Cycle
from specdec_widgets.still import image
from specdec_widgets.words import mark

__all__ = ["stills"]


def stills(pair: Comparison) -> str:
    """Return the name of each run and an <img> below it; "" for a run without cycles."""
    index = _differ(pair)
    shown = []
    for name, trace in zip(pair.names, (pair.first, pair.second), strict=True):
        held = index is not None and any(cycle.index == index for cycle in trace.cycles)
        picture = image(trace, index if held else None)
        shown.append(f"<p><b>{escape(mark(name))}</b></p>{picture}" if picture else "")
    return "".join(shown)


def _differ(pair: Comparison) -> int | None:
    """The index of the first cycle that both runs hold and that is not the same in both."""
    second = {cycle.index: cycle for cycle in pair.second.cycles}
    both = (cycle for cycle in pair.first.cycles if cycle.index in second)
    return next((cycle.index for cycle in both if _told(cycle) != _told(second[cycle.index])), None)


def _told(cycle: Cycle) -> tuple[object, ...]:
    return cycle.proposed, cycle.emitted, cycle.target_kv, cycle.draft_kv
