"""Launch the verifying kernels: outputs, scratch, tile sizes and the number of splits.

Invariant: the verdict does not depend on the plan (splits and tiles), but for the last bits of a softmax. It does not
check arguments: `specdec_kernels.verify` and `specdec_kernels.logits` have done that.
"""

from __future__ import annotations

import torch
import triton
from torch import Tensor

from specdec_kernels import arguments, backend
from specdec_kernels.triton_chain import chain_kernel, mass_kernel
from specdec_kernels.triton_coupled import coupled_kernel
from specdec_kernels.triton_softmax import statistics_kernel
from specdec_kernels.verdict import Verdict

__all__ = ["OPTIONS", "TILE", "plan", "verify"]

TILE = 1024
# Multiplications and additions stay apart, so that the noise has the reference's bits.
OPTIONS = {"num_warps": 8, "enable_fp_fusion": False}


def plan(batch: int, width: int, device: torch.device) -> tuple[int, int]:
    """Return the tile size and the number of splits of a row: two programs for each processor of a GPU.

    Under the interpreter, whose cost is by the operation, one split of large tiles.
    """
    if device.type != "cuda":
        return min(triton.next_power_of_2(max(width, 4)), 1 << 16), 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return TILE, max(1, min(2 * processors // max(batch, 1), triton.cdiv(width, TILE)))


def verify(
    drafts: Tensor,
    q: Tensor | None,
    p: Tensor,
    seeds: Tensor,
    positions: Tensor,
    uniforms: Tensor | None,
    rule: str,
    temperature: Tensor | None = None,
    *,
    tile: int | None = None,
    splits: int | None = None,
) -> tuple[Verdict, Tensor]:
    """Return the verdict and the statuses int64 `[B]`, as `specdec_kernels.reference.verify` does.

    With `temperature` float32 `[B]`, `q` and `p` are logits. `tile` (a power of two) and `splits` replace the plan.
    """
    drafts, q, p, seeds, positions, uniforms, temperature = arguments.contiguous(  # type: ignore[assignment]
        drafts, q, p, seeds, positions, uniforms, temperature
    )
    if p.dtype == torch.bfloat16 and backend.interprets():
        # The interpreter computes with the bits of bfloat16 as if they were integers.
        q, p = None if q is None else q.float(), p.float()
    batch, length = drafts.shape
    width, device = p.shape[2], p.device
    planned = plan(batch, width, device)
    tile = tile or planned[0]
    tiles = triton.cdiv(width, tile)
    splits = min(splits or planned[1], tiles)
    accepted = torch.empty(batch, dtype=torch.int64, device=device)
    tokens = torch.empty(batch, length + 1, dtype=torch.int64, device=device)
    degenerate = torch.empty(batch, dtype=torch.bool, device=device)
    status = torch.empty(batch, dtype=torch.int64, device=device)
    verdict = Verdict(accepted, tokens, degenerate)
    if batch == 0:
        return verdict, status
    scratch = torch.zeros(batch, 2 * length + 2, dtype=torch.int64, device=device)
    sizes = {"BLOCK_K": triton.next_power_of_2(length + 1), "BLOCK_V": tile}
    logits = temperature is not None
    statistics = p
    if temperature is not None:
        statistics = _statistics(drafts, q, p, temperature, tiles, splits, sizes)
    else:
        temperature = p
    outputs = (accepted, tokens, degenerate, status, length, width, tiles)
    if rule == "coupled":
        coupled_kernel[(batch, length + 1, splits)](
            drafts, p, statistics, temperature, seeds, positions, scratch, *outputs, LOGITS=logits, **sizes, **OPTIONS
        )
        return verdict, status
    inputs = (drafts, p if q is None else q, p, statistics, temperature)
    form = {"HAS_Q": q is not None, "LOGITS": logits}
    if rule == "block" and length > 1:
        mass_kernel[(batch, length - 1, splits)](*inputs, scratch, length, width, tiles, **form, **sizes, **OPTIONS)
    chain_kernel[(batch, splits)](
        *inputs,
        seeds,
        positions,
        p if uniforms is None else uniforms,
        scratch,
        *outputs,
        BLOCK_RULE=rule == "block",
        GIVEN_U=uniforms is not None,
        **form,
        **sizes,
        **OPTIONS,
    )
    return verdict, status


def _statistics(
    drafts: Tensor, q: Tensor | None, p: Tensor, temperature: Tensor, tiles: int, splits: int, sizes: dict[str, int]
) -> Tensor:
    """Largest logit / temperature and the sum behind it, float32 `[B, 2K + 1, 2]`."""
    batch, length = drafts.shape
    rows = 2 * length + 1
    statistics = torch.empty(batch, rows, 2, dtype=torch.float32, device=p.device)
    partial = torch.empty(batch, rows, tiles, 2, dtype=torch.float32, device=p.device)
    arrivals = torch.zeros(batch, rows, dtype=torch.int64, device=p.device)
    used = length + 1 if q is None else rows
    statistics_kernel[(batch, used, splits)](
        drafts,
        p if q is None else q,
        p,
        temperature,
        partial,
        arrivals,
        statistics,
        length,
        p.shape[2],
        tiles,
        BLOCK_TILES=triton.next_power_of_2(tiles),
        **sizes,
        **OPTIONS,
    )
    return statistics
