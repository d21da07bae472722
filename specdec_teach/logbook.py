"""Write down what a scheduler does in a step, by comparing every request before and after it.

Invariant: a row tells what really happened to the request's counts and blocks; nothing is estimated, and every token
that is emitted stands in one row. A step that was interrupted is closed when the next one begins, and a request that
was cancelled between two steps ends in the next. It does not know why the scheduler did it.
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


def _before(request: Request) -> _Before:
    """Return a request as it stands now."""
    return _Before(request, request.stream.progress.stats, request.stream.progress.text, request.cache.pointer)


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
        self._left: list[_Before] = []
        self._gammas: dict[int, int] = {}
        self._preempted: set[int] = set()
        self._adopted: dict[int, int] = {}
        self._published: frozenset[int] = frozenset()
        self._pool: BlockPool | None = None

    def expect(self, prompt: int, name: str) -> None:
        """Take note of a request that has arrived."""
        self._prompts.append(prompt)
        self._names.append(name)

    @property
    def running(self) -> bool:
        """Whether a step has begun that was not closed."""
        return self._pool is not None

    def leaves(self, request: Request) -> None:
        """Take note that a request ends; one that no step has begun with is shown in the next."""
        if all(before.request is not request for before in self._before):
            self._left.append(_before(request))

    def open(self, requests: Items[Request], pool: BlockPool) -> None:
        """Begin a step."""
        self._before, self._left = [*self._left, *map(_before, requests)], []
        self._before.sort(key=lambda before: before.request.number)
        self._preempted, self._adopted, self._gammas = set(), {}, {}
        self._pool, self._published = pool, pool.published

    def preempted(self, request: Request) -> None:
        """Take note that a request loses its blocks."""
        self._preempted.add(request.number)

    def adopted(self, request: Request, tokens: int) -> None:
        """Take note that a request has taken over `tokens` tokens from published blocks."""
        self._adopted[request.number] = tokens

    def planned(self, request: Request, gamma: int) -> None:
        """Take note of how many drafts a request may ask for."""
        self._gammas[request.number] = gamma

    def close(self, seconds: float) -> None:
        """End the step and keep its record."""
        pool = self._pool
        assert pool is not None
        published = pool.published
        idle = sorted(block for block in published if pool.holders[block] == 0)
        rows = tuple(self._row(before) for before in self._before)
        evicted = tuple(sorted(self._published - published))
        self._steps.append(Step(self.step, rows, tuple(sorted(published)), tuple(idle), evicted, seconds))
        self.step += 1
        self._before, self._pool = [], None

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
            gamma=self._gammas.get(request.number, 0) if ran else 0,
            drafted=stats.drafted - before.stats.drafted,
            accepted=stats.accepted - before.stats.accepted,
            emitted=stats.emitted - before.stats.emitted,
            table=request.cache.table,
            text=stream.progress.text[len(before.text) :],
            ends=None if not request.over else stream.finish_reason or request.state,
        )

    def timeline(self) -> Timeline:
        """Return the steps so far, and one more for requests that were cancelled since, if there are any."""
        steps = tuple(self._steps)
        if self._left and self._steps.maxlen != 0:
            last = steps[-1] if steps else Step(-1, (), (), (), (), 0.0)
            rows = tuple(self._row(before) for before in self._left)
            steps = (*steps, Step(self.step, rows, last.published, last.idle, (), 0.0))[
                -(self._steps.maxlen or len(steps) + 1) :
            ]
        return Timeline(self._meta, tuple(self._prompts), tuple(self._names), steps)
