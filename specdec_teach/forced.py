"""Make a chosen pattern happen: every draft before position j stands, the one at j is rejected.

The real drafter proposes; where the target would refuse a draft before j, the target's favourite takes its place, and
at j stands a token that the drafter finds possible and the target likes least. Acceptance numbers are injected as well
(`ForcedNoise`), so a forced run is a demonstration and not a sample: its trace says `forced` and not lossless.
Invariant: caches and tokens are left as they were found, the draft's cache as after an ordinary proposal.
It does not know how a cycle goes on.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_teach.drafters.base import Drafter, Proposal
from specdec_teach.hf import ModelRunner
from specdec_teach.policy import fit_width, processed
from specdec_teach.sequence import Sequence

__all__ = ["force"]

_CANDIDATES = 32


def force(
    drafter: Drafter, target: ModelRunner, sequence: Sequence, gamma: int, reject_at: int
) -> tuple[Proposal, tuple[bool, ...]]:
    """Return `gamma` drafts that the target rejects at `reject_at` (from 1; 0: nowhere), and which were swapped in."""
    committed, number = list(sequence.tokens), sequence.number
    tokens: list[int] = []
    q_rows: list[Tensor | None] = []
    swapped: list[bool] = []
    try:
        while len(tokens) < gamma:
            sequence.tokens, sequence.number = committed + tokens, number + len(tokens)
            drafter.commit(sequence)
            part = drafter.propose([sequence], [gamma - len(tokens)])[0]
            for row in range(max(1, len(part.tokens))):
                q_V = None if part.q_KV is None or row >= len(part.tokens) else part.q_KV[row]
                wish = part.tokens[row] if row < len(part.tokens) else None
                choice, kept = _choose(target, sequence, committed + tokens, wish, q_V, len(tokens) + 1, reject_at)
                tokens.append(choice)
                swapped.append(not kept)
                q_rows.append(q_V if kept else None)
                if not kept:
                    break
    finally:
        sequence.tokens, sequence.number = committed, number
    return Proposal(tuple(tokens), _stack(tokens, q_rows, sequence.vocab)), tuple(swapped)


def _choose(
    target: ModelRunner,
    sequence: Sequence,
    prefix: list[int],
    wish: int | None,
    q_V: Tensor | None,
    at: int,
    reject_at: int,
) -> tuple[int, bool]:
    """Return the draft for position `at`, and whether it is `wish` under its own q; if not, it is a certain draft."""
    if wish is not None and at > reject_at > 0:
        return wish, True
    start = sequence.cache.pointer
    try:
        logits_1V = fit_width(target.forward(sequence.cache, prefix[start:], keep=1), sequence.vocab)
    finally:
        sequence.cache.rollback(start)
    scores_1V = sequence.policy.scores(logits_1V, prefix, ())
    p_V = processed(scores_1V, sequence.sampling)[0]
    if at != reject_at:
        stands = wish is not None and bool(p_V[wish] > 0)
        return (wish, True) if wish is not None and stands else (int(p_V.argmax()), False)
    runner_up = int(scores_1V[0].topk(2).indices[1])
    if q_V is None:
        return (wish, True) if wish is not None and p_V[wish] == 0 else (runner_up, False)
    likely_C = q_V.topk(min(_CANDIDATES, q_V.shape[-1])).indices
    least = int(likely_C[p_V[likely_C].argmin()])
    if p_V[least] >= 1.0:
        return runner_up, False
    return least, least == wish and bool(p_V[least] < q_V[least])


def _stack(tokens: list[int], q_rows: list[Tensor | None], vocab: int) -> Tensor | None:
    known = next((q_V for q_V in q_rows if q_V is not None), None)
    if known is None:
        return None
    rows = []
    for token, q_V in zip(tokens, q_rows, strict=True):
        rows.append(
            known.new_zeros(vocab).index_fill_(0, torch.tensor([token], device=known.device), 1.0)
            if q_V is None
            else q_V
        )
    return torch.stack(rows)
