"""Verify drafts straight from logits: temperature and softmax are part of the verification.

Invariant: the answer is that of `verify_chain` on the softmax of logits / temperature, up to the rounding of that
softmax; the kernels keep a few numbers a tile in place of a row of probabilities. One launch where the drafts are
one-hot or the rule is coupled, two with draft logits. It does not know filters or penalties: logits that have been
masked come as −inf.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels import arguments, reference
from specdec_kernels import backend as backends
from specdec_kernels.errors import InvalidInput
from specdec_kernels.verdict import Verdict
from specdec_kernels.workspace import Workspace, settle

__all__ = ["softmax", "verify_chain_logits"]


def verify_chain_logits(
    draft_tokens: Tensor,
    draft_logits: Tensor | None,
    target_logits: Tensor,
    *,
    temperature: float | Tensor,
    seeds: Tensor,
    positions: Tensor,
    uniforms: Tensor | None = None,
    rule: str = "rejection",
    backend: str = "auto",
    workspace: Workspace | None = None,
) -> Verdict:
    """Return the verdict of `verify_chain` on the softmax of logits / temperature, without making that softmax.

    Shapes as in `verify_chain`, with logits for probabilities: float32, float16 or bfloat16 (on torch also float64);
    −inf is a token that cannot come. `temperature`: a number above 0, or float32 `[B]`, the same for target and draft.
    At temperature 0 there is nothing to draw: give `verify_chain` one-hot rows. `workspace` as in `verify_chain`.

    Raises as `verify_chain` does, and InvalidInput for a temperature that is no positive number (a tensor is not read:
    one with other values in it gives rows that are not numbers).

    >>> p = torch.tensor([[[6.0, 3.0, 1.0], [2.0, 2.0, 6.0]]]).log()
    >>> number = torch.tensor([0])
    >>> verify_chain_logits(torch.tensor([[0]]), None, p, temperature=0.01, seeds=number, positions=number).tokens
    tensor([[0, 2]])
    """
    arguments.rule_name(rule, uniforms)
    given = temperature if isinstance(temperature, Tensor) else None
    chosen = backends.choose(backend, draft_tokens, draft_logits, target_logits, seeds, positions, uniforms, given)
    wide = () if chosen == "triton" else (torch.float64,)
    dtypes = (torch.float32, torch.float16, torch.bfloat16, *wide)
    batch, length, width = arguments.shapes(draft_tokens, draft_logits, target_logits, dtypes)
    arguments.vectors(batch, length, seeds, positions, uniforms)
    _check_temperature(temperature, batch)
    if workspace is not None:
        workspace.fits(batch, length, width, target_logits.device)
        arguments.dense(draft_tokens=draft_tokens, draft_logits=draft_logits, target_logits=target_logits)
        arguments.dense(seeds=seeds, positions=positions, uniforms=uniforms, temperature=given)
    if rule == "coupled":
        draft_logits = None
    if chosen == "triton":
        from specdec_kernels.triton_launch import verify

        numbers = (seeds, positions, uniforms)
        verdict, status_B = verify(
            draft_tokens, draft_logits, target_logits, *numbers, rule, temperature, workspace=workspace
        )
    else:
        temperature_B = torch.as_tensor(temperature, dtype=torch.float32, device=target_logits.device).expand(batch)
        q_BKV = None if draft_logits is None else softmax(draft_logits, temperature_B)
        p_BRV = softmax(target_logits, temperature_B)
        verdict, status_B = reference.verify(draft_tokens, q_BKV, p_BRV, seeds, positions, uniforms, rule)
    return settle(verdict, status_B, workspace)


def softmax(logits_BKV: Tensor, temperature_B: Tensor) -> Tensor:
    """Softmax of logits / temperature along the last axis, in float32 (float64 stays).

    `temperature_B`: float32 `[B]`. A row of −inf alone, or with +inf, becomes NaN.

    >>> softmax(torch.tensor([[[0.0, float("-inf")]]]), torch.tensor([0.5]))
    tensor([[[1., 0.]]])
    """
    x_BKV = logits_BKV if logits_BKV.dtype == torch.float64 else logits_BKV.to(torch.float32)
    x_BKV = x_BKV * (1.0 / temperature_B.to(x_BKV.dtype))[:, None, None]
    weights_BKV = (x_BKV - x_BKV.amax(-1, keepdim=True)).exp()
    return weights_BKV / weights_BKV.sum(-1, keepdim=True)


def _check_temperature(temperature: float | Tensor, batch: int) -> None:
    if isinstance(temperature, Tensor):
        if temperature.dtype != torch.float32 or temperature.shape != (batch,):
            raise InvalidInput(f"a tensor of temperatures must be float32 [B] = [{batch}]")
    elif not 0.0 < temperature < float("inf"):
        raise InvalidInput(f"temperature must be a number above 0, not {temperature!r}; for 0 give one-hot rows")
