"""How work with fixed shapes is made cheap to launch: recorded once as a CUDA graph, replayed from then on.

Invariant: a replay does what the work did when it was recorded, on the tensors it had then; their addresses are part of
the record, their contents are not. Whoever gives work keeps those tensors alive, and copes with its being run some
times more while it warms up. It does not know what the work is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol, final

import torch
from torch import Tensor

__all__ = ["Capture", "CudaGraphs", "Replayed", "Work"]

Work = Callable[[], None]
_WARM_UPS = 2


class Capture(Protocol):
    """The few things that a cycle on a device needs from it."""

    def record(self, work: Work) -> Work:
        """Run `work` until nothing in it is new, record it, and return what replays it."""

    def fetch(self, report: Tensor) -> Tensor:
        """Return `report` on the host, when all that was launched is done: the one copy of a cycle."""

    def mark(self) -> object:
        """Return a mark in the stream of work."""

    def seconds(self, start: Any, end: Any) -> float:
        """Return the time between two marks; both must lie before the last `fetch`."""


@final
class CudaGraphs:
    """CUDA graphs, each with memory of its own; marks are CUDA events, which wait for nothing."""

    __slots__ = ()

    def record(self, work: Work) -> Work:
        """See `Capture.record`; kernels compile and libraries make their buffers on a side stream first."""
        side, here = torch.cuda.Stream(), torch.cuda.current_stream()  # type: ignore[no-untyped-call]
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                work()
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        return partial(_replay, graph, work)

    def fetch(self, report: Tensor) -> Tensor:
        """See `Capture.fetch`."""
        return report.cpu()

    def mark(self) -> torch.cuda.Event:
        """See `Capture.mark`."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, start: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """See `Capture.seconds`."""
        return float(start.elapsed_time(end)) / 1e3


def _replay(graph: Any, work: Work) -> None:
    """Replay; `work` is held so that what it works on lives as long as the graph."""
    graph.replay()


@final
class Replayed:
    """No graphs: a replay runs the work again. The same cycle on any device, for tests and as a baseline."""

    __slots__ = ()

    def record(self, work: Work) -> Work:
        """See `Capture.record`; once is warm enough."""
        work()
        return work

    def fetch(self, report: Tensor) -> Tensor:
        """See `Capture.fetch`."""
        return report.cpu()

    def mark(self) -> float:
        """See `Capture.mark`; on a GPU this is when work was launched, not when it ran."""
        return perf_counter()

    def seconds(self, start: float, end: float) -> float:
        """See `Capture.seconds`."""
        return end - start
