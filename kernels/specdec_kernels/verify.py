"""Verify drafted tokens against the target's probabilities, many rows at once: the public entry.

Invariant: a call either returns a verdict for every row or raises before anything of the caller's is changed (with a
workspace, `Verdict.check` raises later); both backends use the same random numbers and give the same answer. It does
not know models, caches or where a text ends.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_kernels import arguments, reference
from specdec_kernels import backend as backends
from specdec_kernels.verdict import Verdict
from specdec_kernels.workspace import Workspace, settle

__all__ = ["verify_chain"]


def verify_chain(
    draft_tokens: Tensor,
    draft_probs: Tensor | None,
    target_probs: Tensor,
    *,
    seeds: Tensor,
    positions: Tensor,
    uniforms: Tensor | None = None,
    rule: str = "rejection",
    backend: str = "auto",
    workspace: Workspace | None = None,
) -> Verdict:
    """Return how many drafts of each row stand, and the tokens that are emitted.

    Shapes: `draft_tokens` int64 `[B, K]`, −1 at the end of shorter rows; `draft_probs` `[B, K, V]`, or None when each
    draft was certain (one-hot q; not read under "coupled"); `target_probs` `[B, K + 1, V]`; float32, on torch also
    float64. `seeds` int64 `[B]`; `positions` int64 `[B]`: the row's first unused draw number, or under "coupled" the
    absolute position of its first draft. `uniforms` float32 `[B, K]` replaces the numbers that judge the drafts.
    The probabilities need not add up to 1; the numbers used are described in `specdec_kernels.noise`.
    With a `workspace` (`verify_workspace`) the verdict is written there, and nothing is allocated nor copied to the
    host: what is wrong with a row is raised by `Verdict.check`. The tensors must then be contiguous.

    Raises InvalidInput for arguments that do not fit, ids outside the vocabulary and unknown names; EngineFailure,
    naming row and step, for a needed row with NaN or infinity or without any mass.
    Sources: "rejection" Leviathan et al. 2023, algorithm 1; "block" Sun et al. 2024, algorithm 2; "coupled": the draft
    stands iff it is the target's own Gumbel-max choice under noise shared by position.

    >>> p = torch.tensor([[[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]])
    >>> q = torch.tensor([[[0.2, 0.5, 0.3]]])
    >>> number = torch.tensor([0])
    >>> u = torch.tensor([[0.7]])
    >>> verdict = verify_chain(torch.tensor([[1]]), q, p, seeds=number, positions=number, uniforms=u)
    >>> verdict.accepted.tolist(), verdict.tokens.tolist()  # 0.7 · 0.5 is not below 0.3; only token 0 is in [p − q]₊
    ([0], [[0, -1]])
    """
    # 1. Everything that can be refused without reading a value.
    arguments.rule_name(rule, uniforms)
    chosen = backends.choose(backend, draft_tokens, draft_probs, target_probs, seeds, positions, uniforms)
    dtypes = (torch.float32,) if chosen == "triton" else (torch.float32, torch.float64)
    batch, length, width = arguments.shapes(draft_tokens, draft_probs, target_probs, dtypes)
    arguments.vectors(batch, length, seeds, positions, uniforms)
    if workspace is not None:
        workspace.fits(batch, length, width, target_probs.device)
        arguments.dense(draft_tokens=draft_tokens, draft_probs=draft_probs, target_probs=target_probs)
        arguments.dense(seeds=seeds, positions=positions, uniforms=uniforms)
    if rule == "coupled":
        draft_probs = None
    # 2. Judge every row; a row that cannot be judged says so in its status.
    if chosen == "triton":
        from specdec_kernels.triton_launch import verify

        verdict, status_B = verify(
            draft_tokens, draft_probs, target_probs, seeds, positions, uniforms, rule, workspace=workspace
        )
    else:
        verdict, status_B = reference.verify(draft_tokens, draft_probs, target_probs, seeds, positions, uniforms, rule)
    # 3. The one copy to the host, unless it waits for `check`.
    return settle(verdict, status_B, workspace)
