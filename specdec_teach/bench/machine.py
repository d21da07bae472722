"""Describe the machine that a benchmark runs on, and lend it a number of threads.

Invariant: what is described is what is used: the cores that this process may run on, the threads that torch was given.
It does not know what is measured.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch

from specdec_teach.bench.records import Machine

__all__ = ["describe", "threads"]


def describe() -> Machine:
    """Return what this process runs on."""
    return Machine(
        processor=_processor(),
        system=f"{platform.system()} {platform.machine()}",
        cores=_cores(),
        threads=torch.get_num_threads(),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        python=platform.python_version(),
        torch=torch.__version__,
        transformers=version("transformers"),
    )


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Give torch `count` threads for a while; None leaves it as it is."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _processor() -> str:
    """Return the model's name where the system tells it, else what kind of processor it is."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text(encoding="utf-8", errors="replace").splitlines() if told.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
