"""What the verifying functions accept: shapes, dtypes and names, checked on the host without reading a value.

Invariant: everything that passes can be launched; a tensor that is not contiguous is copied here, and only here. It
does not know values: ids and numbers are judged on the device, where they lie.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput, unknown_name

__all__ = ["RULES", "contiguous", "dense", "rule_name", "shapes", "vectors"]

RULES = ("rejection", "block", "coupled")
_MOST_DRAFTS = 1023
_WIDEST = 2**31 - 2**17


def rule_name(rule: str, uniforms: Tensor | None) -> None:
    """Refuse an unknown rule, and uniforms for a rule that has none.

    >>> rule_name("blok", None)
    Traceback (most recent call last):
    specdec_kernels.errors.InvalidInput: unknown rule 'blok'; ... Did you mean 'block'?
    """
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    if rule == "coupled" and uniforms is not None:
        raise InvalidInput('rule="coupled" compares tokens and uses no uniforms; leave them out')


def shapes(
    draft_tokens: Tensor, draft: Tensor | None, target: Tensor, dtypes: tuple[torch.dtype, ...]
) -> tuple[int, int, int]:
    """Return B, K and V of `[B, K]` ids, `[B, K, V]` (or None) and `[B, K + 1, V]`, or raise InvalidInput.

    >>> shapes(torch.zeros(2, 3, dtype=torch.int64), None, torch.zeros(2, 4, 5), (torch.float32,))
    (2, 3, 5)
    """
    if draft_tokens.ndim != 2 or draft_tokens.dtype != torch.int64:
        raise InvalidInput(f"the drafted ids must be int64 [B, K], not {_of(draft_tokens)}")
    batch, length = draft_tokens.shape
    if target.ndim != 3 or target.shape[:2] != (batch, length + 1) or target.shape[2] == 0:
        raise InvalidInput(
            f"the target must be [B, K + 1, V] = [{batch}, {length + 1}, V], a row more than drafts, not {_of(target)}"
        )
    width = target.shape[2]
    if draft is not None and draft.shape != (batch, length, width):
        raise InvalidInput(f"the draft must be [B, K, V] = [{batch}, {length}, {width}], not {_of(draft)}")
    if target.dtype not in dtypes or (draft is not None and draft.dtype != target.dtype):
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise InvalidInput(
            f"target and draft must have one dtype of {allowed}, not {_of(target)}"
            + ("" if draft is None else f" and {_of(draft)}")
        )
    if length > _MOST_DRAFTS or width > _WIDEST:
        raise InvalidInput(f"at most {_MOST_DRAFTS} drafts of {_WIDEST} ids fit, not {length} of {width}")
    return batch, length, width


def vectors(batch: int, length: int, seeds: Tensor, positions: Tensor, uniforms: Tensor | None) -> None:
    """Refuse seeds or positions that are not int64 `[B]`, and uniforms that are not float32 `[B, K]`.

    >>> vectors(2, 3, torch.zeros(2, dtype=torch.int64), torch.zeros(2), None)
    Traceback (most recent call last):
    specdec_kernels.errors.InvalidInput: positions must be int64 [B] = [2], not float32 [2]
    """
    for name, tensor in (("seeds", seeds), ("positions", positions)):
        if tensor.dtype != torch.int64 or tensor.shape != (batch,):
            raise InvalidInput(f"{name} must be int64 [B] = [{batch}], not {_of(tensor)}")
    if uniforms is not None and (uniforms.dtype != torch.float32 or uniforms.shape != (batch, length)):
        raise InvalidInput(f"uniforms must be float32 [B, K] = [{batch}, {length}], not {_of(uniforms)}")


def contiguous(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the tensors as the kernels read them: row after row, copied where a view is strided.

    >>> contiguous(torch.zeros(2, 3).T, None)[0].is_contiguous()
    True
    """
    return tuple(None if tensor is None else tensor.contiguous() for tensor in tensors)


def dense(**tensors: Tensor | None) -> None:
    """Refuse a strided tensor by its name, where nothing may be copied.

    >>> dense(seeds=torch.zeros(4)[::2])
    Traceback (most recent call last):
    specdec_kernels.errors.InvalidInput: seeds is strided, and with a workspace nothing is copied; give it contiguous
    """
    for name, tensor in tensors.items():
        if tensor is not None and not tensor.is_contiguous():
            raise InvalidInput(f"{name} is strided, and with a workspace nothing is copied; give it contiguous")


def _of(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
