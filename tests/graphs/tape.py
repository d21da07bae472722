"""A CUDA graph on the CPU: what is recorded is the operations with the tensors they had, and nothing of Python.

A replay runs those operations again on those very tensors, so a Python number that was read while recording stays what
it was, as on a GPU. While recording, whatever would wait for the device, copy from or to the host, or give a shape that
depends on values is refused. Memory made while recording belongs to the record and keeps its address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, final
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

Work = Callable[[], None]
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "equal.default", "is_nonzero", "unique", "_to_cpu", "item")
MOVES = ("set_", "resize_")
READS = ("item", "tolist", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__")


@final
class Recorder(TorchDispatchMode):
    """Runs and writes down every operation; refuses what a capture would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Work] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode."""
        name, given = str(func), kwargs or {}
        bits = name.removeprefix("aten.").split(".")[0]
        if any(word in name for word in WAITS) or bits in MOVES:
            raise RuntimeError(f"{name} while recording: it waits for the device, or moves memory")
        if bits in ("index", "index_put_") and any(t is not None and t.dtype == torch.bool for t in args[1]):
            raise RuntimeError(f"{name} by a mask while recording: its shape depends on values")
        if bits == "lift_fresh" and args[0].dim() > 0:
            raise RuntimeError("a tensor made of host data while recording: it would be copied")
        out = func(*args, **given)
        inplace = "out" in given or (bits.endswith("_") and not bits.endswith("__")) or bits.startswith("__i")
        self.entries.append(lambda: _again(func, args, given, () if inplace else out))
        return out


def _again(func: Any, args: Any, kwargs: Any, recorded: Any) -> None:
    """Run an operation again; what it made then is where it goes now."""
    fresh = func(*args, **kwargs)
    for old, new in zip(tree_leaves(recorded), tree_leaves(fresh), strict=False):
        if isinstance(old, Tensor) and (old.numel() > 0 and old.data_ptr() != new.data_ptr()):
            assert old.shape == new.shape
            old.copy_(new)


@final
class Tape:
    """A `Capture` for tests. `recorded`, `replays`, `fetched`: how often that was done; `breaks`: this record fails."""

    def __init__(self, breaks: int | None = None) -> None:
        self.recorded = self.replays = self.fetched = 0
        self._breaks = breaks
        self._host: set[int] = set()

    def record(self, work: Work) -> Work:
        self.recorded += 1
        for _ in range(2):
            work()
        if self.recorded == self._breaks:
            raise RuntimeError("operation not permitted when stream is capturing")
        recorder = Recorder()
        with self.watched(), recorder, launches(recorder):
            work()

        def replay() -> None:
            self.replays += 1
            for entry in recorder.entries:
                entry()

        return replay

    def fetch(self, report: Tensor) -> Tensor:
        self.fetched += 1
        host = report.clone()
        self._host.add(host.untyped_storage().data_ptr())
        return host

    def mark(self) -> int:
        return 0

    def seconds(self, start: int, end: int) -> float:
        return 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let no value be read on the host but from what was fetched."""
        with mock.patch.multiple(Tensor, **{name: self._guarded(name) for name in READS}):
            yield

    def _guarded(self, name: str) -> Any:
        honest = getattr(Tensor, name)

        def read(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if tensor.untyped_storage().data_ptr() not in self._host:
                raise RuntimeError(f"Tensor.{name} on a tensor of the device: the host would wait")
            return honest(tensor, *args, **kwargs)

        return read


def launches(recorder: Recorder) -> Any:
    """Write interpreted kernels down as one operation each, where Triton is imported and interprets."""
    import sys

    if "triton" not in sys.modules:
        return nullcontext()
    from triton.runtime.interpreter import GridExecutor

    honest = GridExecutor.__call__

    def launch(executor: Any, *args: Any, **kwargs: Any) -> None:
        def run() -> None:
            with _disable_current_modes():
                honest(executor, *args, **kwargs)

        run()
        recorder.entries.append(run)

    return mock.patch.object(GridExecutor, "__call__", launch)
