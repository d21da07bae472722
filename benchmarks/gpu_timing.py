"""How work is timed on a GPU: with a cold cache, by medians, and as a graph where Python's launches should not count.

Invariant: every time is in microseconds, of one pass. It does not know what is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["bytes_per_us", "captured", "median_us"]


def bytes_per_us(flush: Tensor, rounds: int, device: str) -> float:
    """Return the bytes that a plain copy reads and writes in a microsecond."""
    other = torch.empty_like(flush)
    return 2 * flush.nbytes / median_us(lambda: other.copy_(flush), flush, rounds, device)


def median_us(work: Callable[[], object], flush: Tensor, rounds: int, device: str) -> float:
    """Return the median time of `work` in microseconds, each time with a cold cache."""
    spent = []
    warm = 3 if device == "cuda" else 0
    for turn in range(rounds + warm):
        flush.zero_()
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            passed = 1e3 * begin.elapsed_time(end)
        else:
            start = time.perf_counter()
            work()
            passed = 1e6 * (time.perf_counter() - start)
        if turn >= warm:
            spent.append(passed)
    return statistics.median(spent)


def captured(work: Callable[[], object], device: str) -> Callable[[], object]:
    """Return a replay of `work` as a CUDA graph, without the launches from Python; on a CPU, `work` itself."""
    if device != "cuda":
        return work
    work()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
