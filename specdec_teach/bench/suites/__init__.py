"""What can be measured: each suite is a module with one function, `run`, which is loaded when it is named."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from specdec_teach.bench.records import Report
from specdec_teach.bench.setting import Options, Say

__all__ = ["find"]


def find(name: str) -> Callable[[Options, Say], Report]:
    """Return the suite of that name."""
    module = importlib.import_module(f"specdec_teach.bench.suites.{name}")
    return cast(Callable[[Options, Say], Report], module.run)
