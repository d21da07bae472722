"""Write down what a scheduler does in a step, by comparing every request before and after it.

Invariant: a row tells what really happened to the request's counts and blocks; nothing is estimated. A step that was
interrupted leaves no record. It does not know why the scheduler did it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import final

from specdec_teach.caches import BlockPool
from specdec_teach.request import Request
from specdec_teach.result import Stats
from specdec_teach.timeline import Row, State, Step, Timeline, TimelineMeta

__all__ = ["Logbook"]


@final
@dataclass(frozen=True, slots=True)
class _Before:
    """A request as a step found it."""

    request: Request
    stats: Stats
    text: str
    pointer: int


@final
class Logbook:
    """Keeps the last `keep` steps (None: all). `step` is the number of the step that is being run."""

    def __init__(self, meta: TimelineMeta, keep: int | None) -> None:
        self.step = 0
        self._meta = meta
        self._prompts: list[int] = []
        self._names: list[str] = []
        self._steps: deque[Step] = deque(maxlen=keep)
        self._before: list[_Before] = []
        self._preempted: set[int] = set()
        self._adopted: dict[int, int] = {}
        self._published: frozenset[int] = frozenset()
        self._pool: BlockPool | None = None

    def expect(self, prompt: int, name: str) -> None:
        """Take note of a request that has arrived."""
        self._prompts.append(prompt)
        self._names.append(name)

    def open(self, requests: Items[Request], pool: BlockPool) -> None:
        """Begin a step."""
        self._before = [_Before(r, r.stream.progress.stats, r.stream.progress.text, r.cache.pointer) for r in requests]
        self._preempted, self._adopted, self._pool, self._published = set(), {}, pool, pool.published

    def preempted(self, request: Request) -> None:
        """Take note that a request loses its blocks."""
        self._preempted.add(request.number)

    def adopted(self, request: Request, tokens: int) -> None:
        """Take note that a request has taken over `tokens` tokens from published blocks."""
        self._adopted[request.number] = tokens

    def close(self, seconds: float) -> None:
        """End the step and keep its record."""
        assert self._pool is not None
        published = self._pool.published
        idle = sorted(block for block in published if self._pool.holders[block] == 0)
        rows = tuple(self._row(before) for before in self._before)
        evicted = tuple(sorted(self._published - published))
        self._steps.append(Step(self.step, rows, tuple(sorted(published)), tuple(idle), evicted, seconds))
        self.step += 1

    def _row(self, before: _Before) -> Row:
        request, stream = before.request, before.request.stream
        stats, pointer = stream.progress.stats, request.cache.pointer
        ran = stats.cycles > before.stats.cycles
        adopted = self._adopted.get(request.number, 0)
        fed = 0 if ran else max(0, pointer - max(adopted, before.pointer))
        state: State = "waiting"
        if request.over:
            state = request.state  # type: ignore[assignment]
        elif request.number in self._preempted:
            state = "preempted"
        elif ran or fed:
            state = "cycle" if ran else "prefill"
        return Row(
            request=request.number,
            state="cycle" if ran else state,
            computed=pointer,
            committed=len(stream.sequence.tokens),
            fed=fed,
            adopted=adopted,
            cycle=stats.cycles - 1 if ran else None,
            gamma=stream.fits or 0 if ran else 0,
            drafted=stats.drafted - before.stats.drafted,
            accepted=stats.accepted - before.stats.accepted,
            emitted=stats.emitted - before.stats.emitted,
            table=request.cache.table,
            text=stream.progress.text[len(before.text) :],
            ends=None if not request.over else stream.finish_reason or request.state,
        )

    def timeline(self) -> Timeline:
        """Return the steps so far."""
        return Timeline(self._meta, tuple(self._prompts), tuple(self._names), tuple(self._steps))
