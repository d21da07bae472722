"""Kernels in Triton's interpreter: a process of its own, because the mode is fixed when Triton is first imported."""
