"""A form above a cycle player: what is asked for, whether it runs, what was found. Both views of a live engine use it.

Invariant: the form holds plain values; whoever owns it gives functions. Closing the pair frees both widgets and their
layouts. It knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import anywidget
import ipywidgets
import traitlets

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets.bundle import bundle
from specdec_widgets.page import asset
from specdec_widgets.player import CyclePlayer
from specdec_widgets.still import image

__all__ = ["Console", "ConsolePlayer", "Field", "told"]


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of the form. `kind`: "text", "choice" of `options`, or "number" from `low` to `high` by `step`."""

    key: str
    label: str
    kind: Literal["text", "choice", "number"]
    value: str | float | int
    options: tuple[str, ...] = ()
    low: float = 0
    high: float = 0
    step: float = 1

    def accept(self, value: object) -> str | float | int:
        """Return the value if it fits; InvalidInput otherwise."""
        if self.kind == "choice" and value in self.options:
            return str(value)
        if self.kind == "text" and isinstance(value, str) and len(value) <= 20_000:
            return value
        if self.kind == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
            whole = self.step % 1 == 0
            if self.low <= value <= self.high and not (whole and value % 1):
                return int(value) if whole else value
        allowed = {
            "choice": "one of " + ", ".join(self.options), "text": "a text of at most 20,000 characters",
            "number": f"a number from {self.low:g} to {self.high:g}",
        }[self.kind]  # fmt: skip
        raise InvalidInput(f"{self.label} cannot be {str(value)[:60]!r}; give {allowed}")


def told(error: BaseException) -> str:
    """Return an error as one line for a status."""
    return " ".join(f"{type(error).__name__}: {error}".split())


class Console(anywidget.AnyWidget):
    """The form: fields, Run and Stop, a line of status, and a table of what was found.

    `auto`: a changed field runs at once, and there is nothing to stop.
    """

    _esm = asset("console.js")
    _css = asset("player.css") + asset("frame.css") + asset("console.css")

    title = traitlets.Unicode("").tag(sync=True)
    auto = traitlets.Bool(False).tag(sync=True)
    fields: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    running = traitlets.Bool(False).tag(sync=True)
    status = traitlets.Unicode("").tag(sync=True)
    findings = traitlets.Dict().tag(sync=True)
    request = traitlets.Dict().tag(sync=True)

    def __init__(self, title: str, fields: Sequence[Field], *, auto: bool = False) -> None:
        self._fields = tuple(fields)
        plain = [asdict(field) for field in fields]
        super().__init__(title=title, auto=auto, fields=plain, values={f.key: f.value for f in fields})

    def settings(self) -> dict[str, Any]:
        """Return the values of the form, as their fields accept them; InvalidInput names one that does not fit."""
        return {field.key: field.accept(self.values.get(field.key)) for field in self._fields}

    def close(self) -> None:
        """Free the widget and its layout."""
        if self.comm is not None:
            self.layout.close()
        super().close()


class ConsolePlayer(ipywidgets.VBox):  # type: ignore[misc]
    """A console above the player that shows its runs."""

    def __init__(self, console: Console, trace: Trace, on_request: Callable[[Mapping[str, Any]], None]) -> None:
        self.console, self.player = console, CyclePlayer(trace)
        super().__init__([console, self.player])
        self._hear = lambda change: on_request(change["new"])
        console.observe(self._hear, names="request")

    @property
    def record(self) -> Trace:
        """The Trace that is drawn."""
        return self.player.record

    def close(self) -> None:
        """Free both widgets and all layouts."""
        if self.comm is not None:
            self.console.unobserve(self._hear, names="request")
            self.console.close()
            self.player.close()
            self.layout.close()
        super().close()

    def __repr__(self) -> str:
        return repr(self.player).replace("CyclePlayer", type(self).__name__, 1)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: a still of one cycle and one line of text."""
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), image(self.record))
