"""The bug hunt: choose a broken engine by its neutral name, play its run, see which invariants fail, and where.

Invariant: neither the widget nor its stored output holds more than names, runs and broken invariants: what is wrong
with an engine is not in here to be read. It knows no engine: `run` is a function from a name to a run and its
violations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from specdec_kernels.errors import InvalidInput
from specdec_teach.trace import Trace
from specdec_widgets.console import Console, ConsolePlayer, Field, told
from specdec_widgets.words import clip, listed, mark, plural

__all__ = ["Broken", "BugHunt", "Examine", "findings"]


class Broken(Protocol):
    """A broken invariant, as `specdec_teach.invariants.check` returns it."""

    @property
    def name(self) -> str:
        """Which invariant."""

    @property
    def cycle(self) -> int | None:
        """The cycle that shows it; None: the run as a whole."""

    @property
    def message(self) -> str:
        """What is wrong, with numbers."""


Examine = Callable[[str], tuple[Trace, Sequence[Broken]]]
SHOWN = 8


class BugHunt(ConsolePlayer):
    """Plays broken engines. `names`: what to choose from; `invariants`: what each one says, by name."""

    def __init__(self, run: Examine, names: Sequence[str], invariants: Mapping[str, str]) -> None:
        if not names:
            raise InvalidInput("there is no engine to choose from; give at least one name")
        self._run, self._invariants = run, dict(invariants)
        console = Console("Bug hunt", [Field("engine", "engine", "choice", names[0], tuple(names))], auto=True)
        trace, found = run(names[0])
        super().__init__(console, trace, self._on_request)
        self._report(names[0], found)

    def examine(self, name: str) -> None:
        """Run the engine of this name, play it, and check its invariants; a failure is told in the status."""
        try:
            (field,) = self.console._fields
            trace, found = self._run(str(field.accept(name)))
        except Exception as error:  # a callback's exception would vanish: the status line is where it is seen
            self.console.running, self.console.status = False, told(error)
            return
        self.player.play(trace)
        self._report(name, found)

    def show_cycle(self, cycle: int) -> None:
        """Let the player stand at the cycle with this index."""
        at = next((i for i, c in enumerate(self.record.cycles) if c.index == cycle), None)
        if at is not None:
            self.player.play(self.record, cycle=at)

    def _report(self, name: str, found: Sequence[Broken]) -> None:
        self.console.values = {"engine": name}
        self.console.findings = findings(found, self._invariants)
        broken = len({v.name for v in found})
        said = f"{plural(broken, 'invariant')} of {len(self._invariants)} broken" if found else "no invariant is broken"
        self.console.running, self.console.status = False, f"{name}: {plural(len(self.record.cycles), 'cycle')}, {said}"

    def _on_request(self, request: Mapping[str, Any]) -> None:
        if request.get("do") == "run":
            self.examine(str(self.console.values.get("engine")))
        elif request.get("do") == "cycle" and isinstance(request.get("cycle"), int):
            self.show_cycle(request["cycle"])

    def __repr__(self) -> str:
        return f"BugHunt: {self.console.status}"

    def close(self) -> None:
        """Free the widgets, and the engines that `run` holds."""
        if self.comm is not None:
            self._run = _gone
        super().close()


def _gone(name: str) -> tuple[Trace, Sequence[Broken]]:
    raise InvalidInput("this bug hunt was closed; make another one")


def findings(found: Sequence[Broken], invariants: Mapping[str, str]) -> dict[str, Any]:
    """Return the table of a run: each invariant, what it says, in which cycles it fails, and the first message."""
    rows = []
    for name, said in invariants.items():
        mine = [v for v in found if v.name == name]
        cycles = list(dict.fromkeys(v.cycle for v in mine if v.cycle is not None))
        where = f"cycle{'s' if len(cycles) > 1 else ''} {listed(cycles[:SHOWN])}" if cycles else "the run as a whole"
        more = f" and {len(cycles) - SHOWN} more" if len(cycles) > SHOWN else ""
        rows.append({
            "name": name, "said": said, "broken": bool(mine), "where": where + more if mine else "",
            "first": cycles[0] if cycles else None, "message": clip(mark(mine[0].message), 400) if mine else "",
        })  # fmt: skip
    silent = "" if found else (
        "No invariant of a single run is broken. That proves little: the law of the texts, other prompts and other "
        "settings need tests of their own."
    )  # fmt: skip
    return {"rows": sorted(rows, key=lambda row: not row["broken"]), "note": silent}
