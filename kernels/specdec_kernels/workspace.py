"""What a verification writes to, made once and used again: the outcome, the scratch, and how a row is cut for it.

Invariant: `scratch` is all zeros between calls, also behind a refused row; whatever else lies in a workspace is written
before it is read. Calls that share a workspace run one after the other. It does not know rules, nor what the words of
the scratch mean: the kernels divide them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_kernels.verdict import Verdict, refuse

__all__ = ["TILE", "Workspace", "allocate", "plan", "settle", "verify_workspace"]

TILE = 1024


@final
@dataclass(frozen=True, slots=True, eq=False)
class Workspace:
    """Buffers for B rows with K drafts of a vocabulary of V, cut into tiles.

    `accepted`, `status` int64 `[B]`, `tokens` int64 `[B, K + 1]`, `degenerate` bool `[B]`: the outcome. `scratch` int64
    `[B, 3K + 4]`. From logits, for K + 1 target rows, then K draft rows: `statistics` float32 `[B, 2K + 1, 2]`, and of
    each tile `partial` float32 `[B, 2K + 1, tiles, 2]` and `candidates` int64 `[B, K + 1, tiles]`.
    """

    width: int
    tile: int
    accepted: Tensor
    tokens: Tensor
    degenerate: Tensor
    status: Tensor
    scratch: Tensor
    statistics: Tensor
    partial: Tensor
    candidates: Tensor

    def fits(self, batch: int, length: int, width: int, device: torch.device) -> None:
        """Raise InvalidInput unless this was made for these sizes and this device."""
        mine = (self.accepted.shape[0], self.tokens.shape[1] - 1, self.width)
        if mine != (batch, length, width) or self.accepted.device != device:
            raise InvalidInput(
                f"the workspace is for B, K, V = {', '.join(map(str, mine))} on {self.accepted.device}, not for "
                f"{batch}, {length}, {width} on {device}; make another with verify_workspace"
            )

    def verdict(self) -> Verdict:
        """Return the outcome that lies here, with its statuses: the next call overwrites it."""
        return Verdict(self.accepted, self.tokens, self.degenerate, self.status)


def verify_workspace(batch: int, length: int, width: int, *, device: torch.device | str = "cpu") -> Workspace:
    """Return a workspace for calls with B rows, K drafts and V ids: such a call allocates nothing and does not wait.

    With it, `verify_chain` and `verify_chain_logits` launch their kernels and no more, so that a CUDA graph can capture
    them once a first call has compiled them; the verdict lies in the workspace, and `Verdict.check` raises what would
    have been raised. InvalidInput for sizes below 0, or V = 0.

    >>> workspace = verify_workspace(1, 1, 3)
    >>> p, zero = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]), torch.tensor([0])
    >>> from specdec_kernels import verify_chain
    >>> verdict = verify_chain(torch.tensor([[1]]), None, p, seeds=zero, positions=zero, workspace=workspace)
    >>> verdict.check()
    >>> verdict.tokens is workspace.tokens, verdict.tokens.tolist()
    (True, [[1, 2]])
    """
    if batch < 0 or length < 0 or width < 1:
        raise InvalidInput(f"a workspace needs B ≥ 0, K ≥ 0 and V ≥ 1, not {batch}, {length}, {width}")
    at = torch.empty(0, device=device).device
    return allocate(batch, length, width, at, plan(batch, width, at)[0], logits=True)


def allocate(batch: int, length: int, width: int, device: torch.device, tile: int, *, logits: bool) -> Workspace:
    """Return buffers for tiles of this size; those that only logits need are empty unless `logits`."""
    tiles = -(-width // tile) if logits else 0
    rows = 2 * length + 1 if logits else 0
    return Workspace(
        width,
        tile,
        torch.empty(batch, dtype=torch.int64, device=device),
        torch.empty(batch, length + 1, dtype=torch.int64, device=device),
        torch.empty(batch, dtype=torch.bool, device=device),
        torch.empty(batch, dtype=torch.int64, device=device),
        torch.zeros(batch, 3 * length + 4, dtype=torch.int64, device=device),
        torch.empty(batch, rows, 2, dtype=torch.float32, device=device),
        torch.empty(batch, rows, tiles, 2, dtype=torch.float32, device=device),
        torch.empty(batch, length + 1, tiles, dtype=torch.int64, device=device),
    )


def plan(batch: int, width: int, device: torch.device) -> tuple[int, int]:
    """Return the tile size and the number of splits of a row: two programs for each processor of a GPU.

    Under the interpreter, whose cost is by the operation, one split of large tiles.
    """
    if device.type != "cuda":
        return min(1 << (max(width, 4) - 1).bit_length(), 1 << 16), 1
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return TILE, max(1, min(2 * processors // max(batch, 1), -(-width // TILE)))


def settle(verdict: Verdict, status_B: Tensor, workspace: Workspace | None) -> Verdict:
    """Return the verdict, or raise what the statuses say: at once, or with a workspace when `check` asks.

    A verdict that was made elsewhere is copied into the workspace.
    """
    if workspace is None:
        refuse(status_B.tolist())
        return verdict
    pairs = [(workspace.accepted, verdict.accepted), (workspace.tokens, verdict.tokens)]
    pairs += [(workspace.degenerate, verdict.degenerate), (workspace.status, status_B)]
    for mine, found in pairs:
        if mine is not found:
            mine.copy_(found)
    return workspace.verdict()
