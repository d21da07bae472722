"""A draft that the target excludes: it costs nothing where it was certain, and it must stay where it was drawn."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach import rounds
from specdec_teach.drafters.base import Proposal
from specdec_teach.noise import StreamId
from specdec_teach.policy import Policy
from specdec_teach.sequence import Sequence
from specdec_teach.testing import TabularLM
from specdec_teach.tree import Parents

P, Q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]
ILLEGAL = 2


class Strict:
    """The policy of a language without token 2: every row excludes it, and drafts of it are named as illegal."""

    def __init__(self, sampling: sd.Sampling, history: Any) -> None:
        self.inner = Policy(sampling, history)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def scores(self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int] = (), parents: Any = None) -> Tensor:
        barred = torch.arange(logits_RV.shape[-1]) == ILLEGAL
        return logits_RV.masked_fill(barred, -torch.inf)

    def legal(self, prefix: Items[int], drafts: Items[int], parents: Parents | None = None) -> tuple[int, ...]:
        shape = range(-1, len(drafts) - 1) if parents is None else parents
        found: list[int] = []
        for node, (token, parent) in enumerate(zip(drafts, shape, strict=True)):
            if token != ILLEGAL and parent in (-1, *found):
                found.append(node)
        return tuple(found)


class Loose:
    """A drafter that knows nothing of the language: chains of two, or two siblings, drawn from Q."""

    name, model_name, revision, context, exact = "loose", None, None, None, True

    def __init__(self, siblings: bool) -> None:
        self.siblings = siblings

    def check(self, vocab: int) -> None: ...
    def reset(self, sequence: Sequence, capacity: int) -> None: ...
    def commit(self, sequence: Sequence) -> None: ...
    def pointer(self, sequence: Sequence) -> None: ...
    def nodes(self, depth: int) -> int:
        return 2

    def propose(self, sequences: Items[Sequence], counts: Items[int], hidden: Any = None) -> list[Proposal]:
        return [self._one(sequence) for sequence in sequences]

    def _one(self, sequence: Sequence) -> Proposal:
        q_V = torch.tensor(Q, dtype=torch.float64)
        rows, tokens = [], []
        for row in range(2):
            rows.append(q_V)
            tokens.append(sequence.noise.draw(StreamId.DRAFT, sequence.number + row, q_V))
            if self.siblings:
                q_V = q_V.clone()
                q_V[tokens[-1]] = 0.0
                q_V = q_V / q_V.sum()
        return Proposal(tuple(tokens), torch.stack(rows), (-1, -1) if self.siblings else None)


def law(siblings: bool) -> dict[tuple[int, ...], float]:
    model = TabularLM(torch.tensor(P, dtype=torch.float64).log())
    engine = sd.Engine(model, drafter=Loose(siblings), gamma=2)
    strict = engine.variant(parts=replace(engine.parts, policy=Strict))
    return sd.exact_law(strict, [0], 2)


def distance(found: dict[tuple[int, ...], float]) -> float:
    left = [0.0 if token == ILLEGAL else p for token, p in enumerate(P)]
    p = [one / sum(left) for one in left]
    return max(abs(found.get((a, b), 0.0) - p[a] * p[b]) for a in range(4) for b in range(4))


@pytest.mark.parametrize("siblings", [False, True])
def test_a_drawn_draft_that_is_illegal_stays_and_falls(siblings: bool) -> None:
    """The law is the target's over the language; what hangs below the illegal draft is left out."""
    assert distance(law(siblings)) < 1e-12


def test_cutting_it_would_bias_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token in its place then comes from p, where it should come from what q left of p."""

    def cut(proposal: Proposal, legal: Items[int]) -> Proposal:
        assert proposal.q_KV is not None
        return Proposal(proposal.tokens[: len(legal)], proposal.q_KV[: len(legal)])

    monkeypatch.setattr(rounds, "_pruned", cut)
    assert distance(law(False)) > 0.01


def test_every_draft_that_stays_keeps_its_own_row() -> None:
    """An illegal draft that was drawn stays, its child goes, and its sibling's child is still judged by its own q."""
    q_KV = torch.eye(6)[[2, 5, 1, 3]]
    proposal = Proposal((2, 5, 1, 3), q_KV, (-1, -1, 0, 1), confidence=(0.1, 0.2, 0.3, 0.4))
    pruned = rounds._pruned(proposal, (1, 3))
    assert (pruned.tokens, pruned.parents, pruned.confidence) == ((2, 5, 3), (-1, -1, 1), (0.1, 0.2, 0.4))
    assert pruned.q_KV is not None
    assert torch.equal(pruned.q_KV, q_KV[[0, 1, 3]])
