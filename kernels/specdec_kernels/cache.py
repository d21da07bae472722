"""K and V at the end of each row's cache, and the lengths that say where that is, all on the device.

A length is the write pointer C: slots below it hold the K and V of computed tokens. A cycle that starts at C writes
slots C … C + K (the pending token and K drafts); with n drafts accepted the pointer ends at C + n + 1.
Invariant: caches and lengths change in place, nothing is copied to the host and the kernels allocate nothing, so a
cycle can be captured in a CUDA graph. A slot at or past the capacity is not written, a length stays in [0, capacity]:
the caller shrinks K before that matters. It does not know tokens, paging or attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels import backend as backends
from specdec_kernels.errors import InvalidInput

__all__ = ["advance_lengths", "append_kv", "compact_kv", "rollback_lengths"]


def append_kv(
    cache_k: Tensor, cache_v: Tensor, new_k: Tensor, new_v: Tensor, lengths: Tensor, *, backend: str = "auto"
) -> None:
    """Write new K and V behind each row's length, in place; the lengths stay as they are.

    Shapes: caches `[B, H, T, D]`, new `[B, H, N, D]`, any strides; `lengths` int64 `[B]` on the same device. New entry
    j of row b goes to slot `lengths[b] + j`; one that falls outside [0, T) is dropped. InvalidInput for shapes or
    dtypes that do not fit.

    >>> k, v = torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1)
    >>> append_kv(k, v, torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), torch.tensor([1]))
    >>> k.flatten().tolist()
    [0.0, 1.0, 0.0]
    """
    batch, heads, slots, size = _four(cache_k)
    count = _four(new_k)[2]
    for name, tensor, shape in (
        ("cache_v", cache_v, (batch, heads, slots, size)),
        ("new_k", new_k, (batch, heads, count, size)),
        ("new_v", new_v, (batch, heads, count, size)),
    ):
        if tensor.shape != shape or tensor.dtype != cache_k.dtype:
            raise InvalidInput(f"{name} must be {cache_k.dtype} {list(shape)}, not {tensor.dtype} {list(tensor.shape)}")
    _check_lengths(lengths, batch)
    if backends.choose(backend, cache_k, cache_v, new_k, new_v, lengths) == "triton":
        from specdec_kernels.triton_cache import append

        append(cache_k, cache_v, new_k, new_v, lengths)
        return
    if count == 0:
        return
    source_BT = torch.arange(slots, device=lengths.device) - lengths[:, None]
    inside = ((source_BT >= 0) & (source_BT < count))[:, None, :, None]
    index = source_BT.clamp(0, count - 1)[:, None, :, None].expand(batch, heads, slots, size)
    for cache, new in ((cache_k, new_k), (cache_v, new_v)):
        cache.copy_(torch.where(inside, new.gather(2, index), cache))


def compact_kv(cache_k: Tensor, cache_v: Tensor, sources: Tensor, targets: Tensor, *, backend: str = "auto") -> None:
    """Copy slots of K and V to other slots, in place, one after the other: so the kept path of a draft tree closes up.

    Shapes: caches `[B, H, T, D]`, any strides; `sources`, `targets` int64 `[B, N]` on the same device. Entry j of row b
    goes from slot `sources[b, j]` to slot `targets[b, j]`; −1, or any slot outside [0, T), in either leaves it out. In
    a paged cache B is 1 and the slots of all requests stand behind each other. InvalidInput for shapes or dtypes that
    do not fit.

    >>> k = torch.arange(5.0).view(1, 1, 5, 1)
    >>> compact_kv(k, k.clone(), torch.tensor([[2, 4]]), torch.tensor([[1, 2]]))
    >>> k.flatten().tolist()
    [0.0, 2.0, 4.0, 3.0, 4.0]
    """
    batch, _, slots, _ = _four(cache_k)
    if cache_v.shape != cache_k.shape or cache_v.dtype != cache_k.dtype:
        raise InvalidInput(
            f"cache_v must be {cache_k.dtype} {list(cache_k.shape)}, not {cache_v.dtype} {list(cache_v.shape)}"
        )
    for name, tensor in (("sources", sources), ("targets", targets)):
        if tensor.dtype != torch.int64 or tensor.shape != sources.shape or tensor.shape[:1] != (batch,):
            raise InvalidInput(f"{name} must be int64 [B, N] = [{batch}, N], not {tensor.dtype} {list(tensor.shape)}")
    if sources.ndim != 2:
        raise InvalidInput(f"sources must be int64 [B, N] = [{batch}, N], not {list(sources.shape)}")
    if backends.choose(backend, cache_k, cache_v, sources, targets) == "triton":
        from specdec_kernels.triton_cache import compact

        compact(cache_k, cache_v, sources, targets)
        return
    rows_B = torch.arange(batch, device=sources.device)
    for source_B, target_B in zip(sources.T, targets.T, strict=True):
        inside_B = (source_B >= 0) & (source_B < slots) & (target_B >= 0) & (target_B < slots)
        rows, source, target = rows_B[inside_B], source_B[inside_B], target_B[inside_B]
        for cache in (cache_k, cache_v):
            cache[rows, :, target] = cache[rows, :, source]


def advance_lengths(lengths: Tensor, accepted: Tensor, *, capacity: int, backend: str = "auto") -> None:
    """Move each pointer from the start of a cycle to its end, in place: length += accepted + 1, at most `capacity`.

    `lengths`, `accepted`: int64 `[B]`. A row with accepted −1 (refused, or not running) stays where it is.

    >>> lengths = torch.tensor([4, 4])
    >>> advance_lengths(lengths, torch.tensor([2, -1]), capacity=16)
    >>> lengths
    tensor([7, 4])
    """
    _check_lengths(lengths, len(accepted))
    _check_lengths(accepted, len(lengths))
    _move(lengths, accepted, accepted, capacity, "advance", backend)


def rollback_lengths(
    lengths: Tensor, drafted: Tensor, accepted: Tensor, *, capacity: int, backend: str = "auto"
) -> None:
    """Take back the slots of drafts that did not stand, in place: length −= drafted − accepted, at least 0.

    `lengths`, `drafted`, `accepted`: int64 `[B]`, the lengths being those after the target's forward (C + drafted + 1).
    A row with accepted −1 gives back its pending token too.

    >>> lengths = torch.tensor([9])
    >>> rollback_lengths(lengths, torch.tensor([4]), torch.tensor([2]), capacity=16)
    >>> lengths
    tensor([7])
    """
    for tensor in (lengths, drafted, accepted):
        _check_lengths(tensor, len(lengths))
    _move(lengths, drafted, accepted, capacity, "rollback", backend)


def _move(lengths: Tensor, drafted: Tensor, accepted: Tensor, capacity: int, what: str, backend: str) -> None:
    if capacity < 0:
        raise InvalidInput(f"capacity must not be negative: {capacity}")
    if not (lengths.is_contiguous() and drafted.is_contiguous() and accepted.is_contiguous()):
        raise InvalidInput("lengths and counts must be contiguous: they are changed where they lie")
    if backends.choose(backend, lengths, drafted, accepted) == "triton":
        from specdec_kernels.triton_cache import move

        move(lengths, drafted, accepted, capacity, rollback=what == "rollback")
        return
    step = accepted - drafted if what == "rollback" else accepted + 1
    lengths.copy_((lengths + step).clamp(0, capacity))


def _check_lengths(tensor: Tensor, batch: int) -> None:
    if tensor.dtype != torch.int64 or tensor.shape != (batch,):
        raise InvalidInput(f"lengths and counts must be int64 [B] = [{batch}], not {tensor.dtype} {list(tensor.shape)}")


def _four(tensor: Tensor) -> tuple[int, int, int, int]:
    if tensor.ndim != 4:
        raise InvalidInput(f"K and V must be [B, H, T, D], not {list(tensor.shape)}")
    batch, heads, slots, size = tensor.shape
    return batch, heads, slots, size
