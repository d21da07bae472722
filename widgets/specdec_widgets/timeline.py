"""The timeline player as a notebook widget: one message with the run, one number for the step.

Invariant: the browser draws from `timeline` alone. The stored output is a still picture and a stable line of text, so
that a notebook reads well without a kernel. It does not know the scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from specdec_teach.timeline import Timeline
from specdec_widgets.blocks import image
from specdec_widgets.bundle import bundle
from specdec_widgets.page import asset
from specdec_widgets.serving import gist

__all__ = ["TimelinePlayer"]


class TimelinePlayer(anywidget.AnyWidget):
    """Plays a Timeline in a notebook: requests × steps, and the pool of blocks after each step."""

    _esm = asset("timeline.js")
    _css = asset("player.css") + asset("timeline.css")

    timeline = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)

    def __init__(self, timeline: Timeline) -> None:
        self._record = timeline
        super().__init__(timeline=timeline.to_dict())

    @property
    def record(self) -> Timeline:
        """The Timeline that is drawn."""
        return self._record

    def close(self) -> None:
        """Free the widget and its layout."""
        self.layout.close()
        super().close()

    @traitlets.validate("step")
    def _clamp(self, proposal: Mapping[str, Any]) -> int:
        return max(0, min(int(proposal["value"]), len(self._record.steps) - 1))

    def __repr__(self) -> str:
        return gist(self._record)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: a still of one step and one line of text."""
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), image(self._record))
