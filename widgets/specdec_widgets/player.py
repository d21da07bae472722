"""The cycle player as a notebook widget: one message with the trace, one number for the step, and the engine on call.

Invariant: the browser draws from `trace` alone; a failing re-run changes nothing but `status`. The stored output is a
still picture and a stable line of text, so that a notebook reads well without a kernel.
It does not know the engine: `rerun` is a function from a position to a new Trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets.bundle import bundle
from specdec_widgets.page import asset
from specdec_widgets.steps import first_step, step_count
from specdec_widgets.still import image
from specdec_widgets.words import summary

__all__ = ["CyclePlayer"]

Rerun = Callable[[int | None], Trace]


class CyclePlayer(anywidget.AnyWidget):
    """Plays a Trace in a notebook.

    `rerun(j)`, when given, makes the trace again with a rejection forced at draft j (None: as drawn, 0: accept all).
    """

    _esm = asset("player.js")
    _css = asset("player.css") + asset("tree.css")

    trace = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    can_rerun = traitlets.Bool(False).tag(sync=True)
    request = traitlets.Dict().tag(sync=True)

    def __init__(self, trace: Trace, *, rerun: Rerun | None = None) -> None:
        self._record = trace
        self._rerun = rerun
        super().__init__(trace=trace.to_dict(), can_rerun=rerun is not None)
        self.observe(self._on_request, names="request")

    @property
    def record(self) -> Trace:
        """The Trace that is drawn."""
        return self._record

    def reject_at(self, position: int | None, *, cycle: int = 0) -> None:
        """Run the engine again with a rejection forced at `position` and draw the new trace from the affected cycle.

        `cycle` counts the kept cycles from 0: the one to stand on again, unless another one alone was forced. A
        failure leaves the drawn trace as it was and says why in `status`.
        """
        try:
            if self._rerun is None:
                raise InvalidInput("this player has no engine; show the trace with rerun=... to change the run")
            longest = max([self._record.meta.gamma, *(len(c.proposed) for c in self._record.cycles)])
            whole = isinstance(position, int) and not isinstance(position, bool)
            if position is not None and not (whole and 0 <= position <= longest):
                raise InvalidInput(f"cannot reject at {position!r}; give a position from 1 to {longest}, 0 or None")
            self.status = "the engine runs again…"
            record = self._rerun(position)
        except Exception as error:  # a callback's exception would vanish: the status line is where it is seen
            self.status = " ".join(f"{type(error).__name__}: {error}".split())
            return
        forced = [i for i, c in enumerate(record.cycles) if any(d.forced for d in c.decisions)]
        stay = min(cycle, max(0, len(record.cycles) - 1))
        self.play(record, cycle=forced[0] if forced and stay not in forced else stay)

    def play(self, record: Trace, *, cycle: int = 0) -> None:
        """Draw another trace in place, from one of its cycles on, counted from 0."""
        self._record = record
        with self.hold_sync():
            self.trace = record.to_dict()
            self.step = first_step(record, cycle)
            self.status = ""

    def close(self) -> None:
        """Free the widget, its layout and the engine that `rerun` holds."""
        self._rerun = None
        self.layout.close()
        super().close()

    def _on_request(self, change: Mapping[str, Any]) -> None:
        request = change["new"]
        if "reject_at" in request:
            cycle = request.get("cycle", 0)
            self.reject_at(request["reject_at"], cycle=cycle if isinstance(cycle, int) and cycle >= 0 else 0)

    @traitlets.validate("step")
    def _clamp(self, proposal: Mapping[str, Any]) -> int:
        return max(0, min(int(proposal["value"]), step_count(self._record) - 1))

    def __repr__(self) -> str:
        return summary(self._record)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: a still of one cycle and one line of text."""
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), image(self._record))
