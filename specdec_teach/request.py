"""One request of a scheduler: what its owner may see of it while others share the machine.

Invariant: `result` always tells what has been committed so far; a request that is over holds no block.
It does not know who else is served.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, cast, final

from specdec_kernels.errors import SpecDecError
from specdec_teach.caches import PagedCache
from specdec_teach.result import Result
from specdec_teach.stream import Stream
from specdec_teach.trace import Trace

if TYPE_CHECKING:
    from specdec_teach.scheduler import Scheduler

__all__ = ["Request"]


@final
class Request:
    """Made by `Scheduler.submit`. `number`: its place in the order of arrival.

    `admitted`: it has a place, and may hold blocks. `state`: "live" until it is "finished", "cancelled" or "failed";
    `error` says why it failed.
    """

    def __init__(self, scheduler: Scheduler, stream: Stream, number: int, name: str) -> None:
        self.number, self.name, self.stream = number, name, stream
        self.admitted = self.cancelled = False
        self.state: Literal["live", "finished", "cancelled", "failed"] = "live"
        self._scheduler = scheduler

    def __repr__(self) -> str:
        """Name it and say how far it is."""
        return f"<Request {self.number} {self.name!r}: {self.state}, {self.stream.progress.stats.emitted} tokens>"

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.state != "live"

    @property
    def result(self) -> Result:
        """What has been committed so far; `finish_reason` is None while it goes on, or when it was cancelled."""
        return self.stream.result()

    @property
    def trace(self) -> Trace:
        """The record of its cycles so far."""
        return self.stream.trace()

    @property
    def error(self) -> SpecDecError | None:
        """What it failed with."""
        return self.stream.error

    @property
    def cache(self) -> PagedCache:
        """The target's cache of this request."""
        return cast(PagedCache, self.stream.sequence.cache)

    def pieces(self) -> Iterator[str]:
        """Yield the text as it comes, running the scheduler's steps (for everybody) until this request is over."""
        shown = 0
        while True:
            text = self.stream.progress.text
            if len(text) > shown:
                yield text[shown:]
                shown = len(text)
            elif self.over or not self._scheduler.step():
                return

    def end(self) -> None:
        """Give everything back and say how it ended; called by the scheduler."""
        self.stream.preempt()
        if self.stream.finish_reason is not None:
            self.state = "finished"
        else:
            self.state = "cancelled" if self.cancelled else "failed"
