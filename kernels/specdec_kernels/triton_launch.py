"""Launch the verifying kernels: which ones, with what tiles and how many splits.

Probabilities take one launch; logits one without q and under coupled, else two. Invariant: the verdict does not depend
on the plan (splits and tiles), but for the last bits of a softmax; with a workspace nothing is allocated here. It does
not check arguments: `specdec_kernels.verify` and `specdec_kernels.logits` have done that.
"""

from __future__ import annotations

from typing import Any

import triton
from torch import Tensor, bfloat16

from specdec_kernels import arguments, backend
from specdec_kernels.triton_block import block_kernel
from specdec_kernels.triton_chain import chain_kernel
from specdec_kernels.triton_coupled import coupled_kernel
from specdec_kernels.triton_logits import logits_kernel
from specdec_kernels.triton_softmax import statistics_kernel
from specdec_kernels.verdict import Verdict
from specdec_kernels.workspace import TILE, Workspace, allocate, plan

__all__ = ["OPTIONS", "TILE", "verify"]

# Multiplications and additions stay apart, so that the noise has the reference's bits.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": False}


def verify(
    drafts: Tensor,
    q: Tensor | None,
    p: Tensor,
    seeds: Tensor,
    positions: Tensor,
    uniforms: Tensor | None,
    rule: str,
    temperature: float | Tensor | None = None,
    *,
    tile: int | None = None,
    splits: int | None = None,
    workspace: Workspace | None = None,
) -> tuple[Verdict, Tensor]:
    """Return the verdict and the statuses int64 `[B]`, as `specdec_kernels.reference.verify` does.

    With a `temperature`, a number or float32 `[B]`, `q` and `p` are logits; under "coupled" q is not read. `tile` (a
    power of two) and `splits` replace the plan; a workspace brings its own tile.
    """
    per_row = isinstance(temperature, Tensor)
    drafts, q, p, seeds, positions, uniforms = arguments.contiguous(drafts, q, p, seeds, positions, uniforms)  # type: ignore[assignment]
    if isinstance(temperature, Tensor):
        temperature = temperature.contiguous()
    if p.dtype == bfloat16 and backend.interprets():
        # The interpreter computes with the bits of bfloat16 as if they were integers.
        q, p = None if q is None else q.float(), p.float()
    # 1. The plan, and where the outcome goes.
    batch, length = drafts.shape
    width, device = p.shape[2], p.device
    planned = plan(batch, width, device)
    if workspace is None:
        workspace = allocate(batch, length, width, device, tile or planned[0], logits=temperature is not None)
    it = workspace
    verdict = Verdict(it.accepted, it.tokens, it.degenerate)
    if batch == 0:
        return verdict, it.status
    tiles = -(-width // it.tile)
    splits = min(splits or planned[1], tiles)
    # 2. What every kernel takes.
    sizes: dict[str, Any] = {"BLOCK_K": triton.next_power_of_2(length + 1), "BLOCK_V": it.tile, **OPTIONS}
    judged: dict[str, Any] = sizes | {"GIVEN_U": uniforms is not None}
    numbers = (seeds, positions)
    u = p if uniforms is None else uniforms
    outcome = (it.accepted, it.tokens, it.degenerate, it.status, length, width, tiles)
    scan = (batch, length + 1, splits)
    # 3. From logits: one launch without q, else the sums first.
    if temperature is not None:
        softmax = {"PER_ROW": per_row, "BLOCK_TILES": triton.next_power_of_2(tiles)}
        tiled = (it.scratch, it.statistics, it.partial)
        if q is None or rule == "coupled":
            rules = {"COUPLED": rule == "coupled", "BLOCK_RULE": rule == "block"}
            logits_kernel[scan](
                drafts, p, temperature, *numbers, u, *tiled, it.candidates, *outcome, **rules, **softmax, **judged
            )
            return verdict, it.status
        statistics_kernel[(batch, 2 * length + 1, splits)](
            drafts, q, p, temperature, *tiled, length, width, tiles, **softmax, **sizes
        )
    # 4. The verdict.
    if rule == "coupled":
        coupled_kernel[scan](drafts, p, *numbers, it.scratch, *outcome, **sizes)
        return verdict, it.status
    inputs = (drafts, p if q is None else q, p, it.statistics, 1.0 if temperature is None else temperature)
    form = {"HAS_Q": q is not None, "LOGITS": temperature is not None, "PER_ROW": per_row}
    kernel, grid = (block_kernel, scan) if rule == "block" else (chain_kernel, (batch, splits))
    kernel[grid](*inputs, *numbers, u, it.scratch, *outcome, **form, **judged)
    return verdict, it.status
