"""Two runs on one clock as a notebook widget: one message with both traces, one number for the step.

Invariant: the browser draws from `pair` alone; the stored output is two stills and a stable line of text.
It does not know why the runs differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from specdec_teach.comparison import Comparison
from specdec_widgets.abreast import stills
from specdec_widgets.bundle import bundle
from specdec_widgets.page import asset, payload
from specdec_widgets.words import mark, summary

__all__ = ["ComparePlayer"]


class ComparePlayer(anywidget.AnyWidget):
    """Plays two Traces in a notebook, a board for each under one set of controls."""

    _esm = asset("compare.js")
    _css = asset("player.css")

    pair = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    clock = traitlets.Enum(["forwards", "seconds"], "forwards").tag(sync=True)

    def __init__(self, pair: Comparison) -> None:
        self._record = pair
        super().__init__(pair=payload(pair))

    @property
    def record(self) -> Comparison:
        """The two runs that are drawn."""
        return self._record

    def close(self) -> None:
        """Free the widget and its layout."""
        self.layout.close()
        super().close()

    @traitlets.validate("step")
    def _clamp(self, proposal: Mapping[str, Any]) -> int:
        return max(0, int(proposal["value"]))

    def __repr__(self) -> str:
        runs = zip(self._record.names, (self._record.first, self._record.second), strict=True)
        told = "; ".join(f"{mark(name)}: {summary(trace).removeprefix('CyclePlayer: ')}" for name, trace in runs)
        where = self._record.parting
        return f"ComparePlayer: {told}; " + ("one text begins the other" if where is None else f"parting at {where}")

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: a still of each run and one line of text."""
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), stills(self._record))
