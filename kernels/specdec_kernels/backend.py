"""The one place that chooses between torch and Triton, and the only one that tries to import Triton.

Invariant: the choice depends on the wish, the device and what is installed, never on the values. "auto" never picks
the interpreter. It does not know what the functions compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from specdec_kernels.errors import InvalidInput, unknown_name

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["BACKENDS", "choose", "has_triton", "interprets"]

BACKENDS = ("auto", "torch", "triton")

_HOW = (
    "start a new process with TRITON_INTERPRET=1 set before anything imports triton (its interpreter needs no GPU), "
    'or use backend="torch"'
)


def choose(backend: str, *tensors: Tensor | None) -> Literal["torch", "triton"]:
    """Return the backend that will run for these tensors.

    "auto" is Triton for CUDA tensors where Triton imports, else torch. InvalidInput for an unknown name, for tensors on
    different devices, and for "triton" where it cannot run.

    >>> import torch
    >>> choose("auto", torch.zeros(1))
    'torch'
    """
    if backend not in BACKENDS:
        raise unknown_name("backend", backend, BACKENDS)
    devices = {tensor.device for tensor in tensors if tensor is not None}
    if len(devices) > 1:
        raise InvalidInput(f"tensors lie on {', '.join(sorted(map(str, devices)))}; move them to one device")
    on_cuda = all(device.type == "cuda" for device in devices)
    if backend == "torch" or (backend == "auto" and not (on_cuda and has_triton())):
        return "torch"
    if not has_triton():
        raise InvalidInput('backend="triton" needs the package triton, which is not installed; use backend="torch"')
    if not on_cuda and not interprets():
        raise InvalidInput(f'backend="triton" got tensors on {devices.pop()}, which it cannot reach: {_HOW}')
    return "triton"


def has_triton() -> bool:
    """Return whether Triton can be imported."""
    try:
        import triton
    except ImportError:
        return False
    return hasattr(triton, "jit")


def interprets() -> bool:
    """Return whether kernels run in Triton's interpreter: the mode was fixed when Triton was first imported.

    Triton's own helpers and this package's kernels must agree; one without the other cannot run.
    """
    from triton import language
    from triton.runtime.interpreter import InterpretedFunction

    from specdec_kernels import triton_noise

    return all(isinstance(it, InterpretedFunction) for it in (language.philox, triton_noise.race_time))
