"""Whole cycles on a GPU: fixed shapes, everything that changes in tensors on the device, one copy to the host."""

from __future__ import annotations

from specdec_teach.graphs.capture import Capture, CudaGraphs, Replayed
from specdec_teach.graphs.cycle import Graphs

__all__ = ["Capture", "CudaGraphs", "Graphs", "Replayed"]
