"""Live mode: a form that runs a real engine again, a cycle at a time, and the player that shows what it did.

Invariant: one cycle runs between two looks at the buttons, so Stop acts within one; the player is redrawn a few times
a second at most, and always at the end. An error changes the status and nothing else. It knows no engine: `run` is a
function from settings to an iterator that yields, after every cycle, a function that writes the trace so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets.console import Console, ConsolePlayer, Field, told
from specdec_widgets.pacing import Pacer
from specdec_widgets.words import plural

__all__ = ["LivePlayer", "Run"]

Run = Callable[[Mapping[str, Any]], Iterator[Callable[[], Trace]]]
REDRAW = 0.4
"""Seconds between two redraws while an engine runs."""


class LivePlayer(ConsolePlayer):
    """Plays runs of an engine that its form asks for; the first one, with the given values, is run at once."""

    def __init__(self, run: Run, fields: Sequence[Field]) -> None:
        console = Console("Live engine", fields)
        self._run, self._pacer = run, Pacer()
        self._write: Callable[[], Trace] | None = None
        self._drawn, self._shown, self._stopped = 0.0, 0, False
        writers = list(run(console.settings()))
        if not writers:
            raise InvalidInput("the engine ran no cycle with these settings; ask for at least one token")
        self._cycles = len(writers)
        super().__init__(console, writers[-1](), self._on_request)
        console.status = f"done: {plural(self._cycles, 'cycle')}"

    def start(self) -> None:
        """Run the engine with the values of the form; what ran before is stopped."""
        try:
            settings = self.console.settings()
        except InvalidInput as error:
            self.console.status = told(error)
            return
        self._pacer.stop()
        self._write, self._cycles, self._shown, self._drawn = None, 0, 0, monotonic()
        self.console.running, self.console.status = True, "the engine runs…"
        self._stopped = False
        self._pacer.start(self._items(settings), self._cycle, self._done)

    def stop(self) -> None:
        """Stop behind the cycle that runs; what there is stays and is shown."""
        self._stopped = self._pacer.running
        self._pacer.stop()

    def _items(self, settings: Mapping[str, Any]) -> Iterator[Callable[[], Trace]]:
        yield from self._run(settings)

    def _cycle(self, write: Callable[[], Trace]) -> None:
        self._write, self._cycles = write, self._cycles + 1
        if monotonic() - self._drawn >= REDRAW:
            self._draw()
            self.console.status = f"{plural(self._cycles, 'cycle')} so far"

    def _draw(self) -> None:
        if self._write is not None and self._shown < self._cycles:
            record = self._write()
            self.player.play(record, cycle=max(0, self._shown - record.dropped))
            self._shown, self._drawn = self._cycles, monotonic()

    def _done(self, error: BaseException | None) -> None:
        if error is None and self._shown:
            self._draw()
        elif error is None and self._write is not None:
            self.player.play(self._write())
        self.console.running = False
        if error is not None:
            self.console.status = told(error)
        else:
            word = "stopped" if self._stopped else "done"
            self.console.status = f"{word}: {plural(self._cycles, 'cycle')}"

    def _on_request(self, request: Mapping[str, Any]) -> None:
        what = request.get("do")
        if what == "run":
            self.start()
        elif what == "stop":
            self.stop()

    def close(self) -> None:
        """Free the widgets, and the engine that `run` holds."""
        self._stopped = True
        if self.comm is not None:
            self._pacer.stop()
        super().close()
