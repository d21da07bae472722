"""The invariants of a run: what must hold of every record, checked on the Trace alone or live while the run goes on.

`check` looks through a finished trace; `Watch` is an observer that stops an engine at the first broken one. Both feed
the same claims, cycle by cycle. No single test of an engine finds every mistake, and none of these needs a second run:
they find wrong counts, pointers, draws and verdicts, and leave the laws of the texts to the exactness tests.
Invariant: a run of an honest engine breaks none, whatever its models, rule and settings; what a trace does not tell
(a watch without `expect`, cycles that were not kept) is not judged. It needs no torch and knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from specdec_kernels.errors import EngineFailure
from specdec_teach import claims, events, odds
from specdec_teach.claims import Run
from specdec_teach.trace import Cycle, FinishReason, Meta, Trace

__all__ = ["Violation", "Watch", "check", "descriptions", "names"]


@final
@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: its `name`, the `cycle` that shows it (None: the run as a whole), and what is wrong."""

    name: str
    cycle: int | None
    message: str


@final
@dataclass(frozen=True, slots=True)
class _Invariant:
    name: str
    of_cycle: Callable[[Run, Cycle], Iterator[str]]
    at_end: Callable[[Run, FinishReason | None], Iterator[str]] | None = None


_ALL = (
    _Invariant("counters", claims.counters),
    _Invariant("gamma", claims.gamma),
    _Invariant("vocabulary", claims.vocabulary),
    _Invariant("flags", claims.flags),
    _Invariant("acceptance", odds.acceptance),
    _Invariant("residual", odds.residual),
    _Invariant("emitted", claims.emitted, claims.emitted_at_end),
    _Invariant("nothing-after-stop", claims.nothing_after, claims.nothing_after_at_end),
    _Invariant("computed-behind-committed", claims.computed),
    _Invariant("draft-lag", claims.draft_lag),
    _Invariant("drawn-from-q", odds.drawn_from_q),
    _Invariant("rows", odds.rows),
    _Invariant("draw-numbers", claims.draw_numbers),
    _Invariant("blocks", claims.blocks),
    _Invariant("published-committed", claims.published),
)


def names() -> tuple[str, ...]:
    """Return the names of all invariants, in the order in which they are checked.

    >>> names()[:4]
    ('counters', 'gamma', 'vocabulary', 'flags')
    """
    return tuple(invariant.name for invariant in _ALL)


def descriptions() -> dict[str, str]:
    """Return what each invariant says, in one sentence, by name.

    >>> descriptions()["draw-numbers"]
    'Every random number is used once; greedy runs use none.'
    """
    return {invariant.name: (invariant.of_cycle.__doc__ or "").strip() for invariant in _ALL}


def check(trace: Trace) -> list[Violation]:
    """Return every broken invariant of a trace, in the order of its cycles; an empty list is a clean run.

    Where only the last cycles were kept (`trace.dropped`), what needs the missing ones is not judged.
    """
    run = Run(trace.meta, len(trace.prompt), trace.dropped)
    found = list(_start(trace))
    for cycle in trace.cycles:
        found += _cycle(run, cycle)
        run.add(cycle, odds.surprise(run, cycle))
    return found + list(_end(run, trace.finish_reason))


def _start(trace: Trace) -> Iterator[Violation]:
    """Check what was there before the first cycle."""
    width, prefill, loose = trace.meta.vocab, trace.prefill, trace.meta.cache in claims.LOOSE
    wrong = next((token for token in trace.prompt if width is not None and not 0 <= token < width), None)
    if wrong is not None and width is not None:
        yield Violation("vocabulary", None, f"the prompt holds token {wrong}; the target's ids are 0 to {width - 1}")
    if prefill is not None and not loose and prefill.target + prefill.adopted != len(trace.prompt) - 1:
        yield Violation(
            "computed-behind-committed",
            None,
            f"the prefill computed {prefill.target} tokens and took over {prefill.adopted}; a prompt of "
            f"{len(trace.prompt)} needs {len(trace.prompt) - 1}, since the last one is pending",
        )


def _cycle(run: Run, cycle: Cycle) -> Iterator[Violation]:
    for invariant in _ALL:
        for message in invariant.of_cycle(run, cycle):
            yield Violation(invariant.name, cycle.index, message)


def _end(run: Run, reason: FinishReason | None) -> Iterator[Violation]:
    for invariant in _ALL:
        for message in invariant.at_end(run, reason) if invariant.at_end is not None else ():
            yield Violation(invariant.name, None, message)


@final
class Watch:
    """An observer that checks each cycle as it is finished and raises EngineFailure at the first broken invariant.

    It follows one request at a time in each row of a batch (`event.row`). What events do not
    tell, `expect` can: without it, claims about the rule, the settings, the prompt and the kind of cache are left out.
    A cycle whose closing events come again after an interrupt is looked at once.
    """

    __slots__ = ("_closed", "_rows")

    def __init__(self) -> None:
        self._rows: dict[int, Run] = {}
        self._closed: set[int] = set()

    def expect(self, meta: Meta, prompt: int, row: int = 0) -> None:
        """Say how the request that comes next in `row` is made; `prompt` counts its tokens."""
        self._rows[row] = Run(meta, prompt)
        self._closed.discard(row)

    def on_event(self, event: events.Event) -> None:
        """See `Observer`; EngineFailure names the invariant, the cycle and the numbers."""
        row = event.row
        if isinstance(event, events.Prefilled) and (row in self._closed or self._run(row).previous is not None):
            self._rows[row] = Run()
            self._closed.discard(row)
        elif isinstance(event, events.CycleFinished):
            self._finished_cycle(row, event.cycle)
        elif isinstance(event, events.Finished) and row not in self._closed:
            _refuse(_end(self._run(row), event.reason))
            self._closed.add(row)

    def _run(self, row: int) -> Run:
        return self._rows.setdefault(row, Run())

    def _finished_cycle(self, row: int, cycle: Cycle) -> None:
        run = self._run(row)
        if cycle == run.previous:
            return
        if row in self._closed:
            message = f"cycle {cycle.index} comes after the text has ended"
            _refuse(iter([Violation("nothing-after-stop", cycle.index, message)]))
        _refuse(_cycle(run, cycle))
        run.add(cycle, odds.surprise(run, cycle))


def _refuse(found: Iterator[Violation]) -> None:
    """Raise for the first violation, if there is one."""
    first = next(found, None)
    if first is not None:
        where = "at the end" if first.cycle is None else f"in cycle {first.cycle}"
        raise EngineFailure(f"the invariant {first.name} is broken {where}: {first.message}")
