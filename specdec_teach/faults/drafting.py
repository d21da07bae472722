"""Drafters with one mistake in them: everything is the honest drafter's but what stands in one function.

Invariant: a broken drafter reports itself under the honest one's name, and it runs. It does not know rules or caches
of the target.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Drafter, Proposal
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.noise import StreamId
from specdec_teach.policy import Policy
from specdec_teach.rules import Block
from specdec_teach.sequence import Sequence
from specdec_teach.tree import Parents

__all__ = ["cut_too_far", "favourites_with_soft_q", "hole", "keyed_by_position", "raw_q", "second_thoughts"]

Proposing = Callable[[Drafter, Items[Sequence], Items[int]], list[Proposal]]
Committing = Callable[[Drafter, Sequence], None]


@final
@dataclass(frozen=True, slots=True)
class _Around:
    """`inner`, but for how it proposes and how it follows the committed tokens."""

    inner: ModelDrafter
    proposing: Proposing
    committing: Committing

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        return self.proposing(self.inner, sequences, counts)

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""
        self.committing(self.inner, sequence)

    def over(self, model: object) -> _Around:
        """Return the same mistake over another draft model."""
        return _Around(self.inner.over(model), self.proposing, self.committing)


def _propose(inner: Drafter, sequences: Items[Sequence], counts: Items[int]) -> list[Proposal]:
    return inner.propose(sequences, counts)


def _commit(inner: Drafter, sequence: Sequence) -> None:
    inner.commit(sequence)


def _with(engine: Engine, proposing: Proposing = _propose, committing: Committing = _commit, **more: object) -> Engine:
    """Return `engine` with a drafter around its own."""
    drafter = engine.drafter
    if not isinstance(drafter, ModelDrafter):
        name = "none" if drafter is None else drafter.name
        raise InvalidInput(f"this engine breaks a draft model and the drafter is {name}; give sd.ModelDrafter(...)")
    sampled = drafter if drafter.mode == "sample" or proposing is _propose else drafter.over(drafter.model, "sample")
    return engine.variant(drafter=_Around(sampled, proposing, committing), **more)


def favourites_with_soft_q(engine: Engine) -> Engine:
    """Draft the likeliest token, report the softmax that it was not drawn from."""
    return _with(engine, proposing=_favourites)


def raw_q(engine: Engine) -> Engine:
    """Draw from the filtered q, report the softmax before temperature and filters."""
    return _with(engine, proposing=_unfiltered)


def hole(engine: Engine) -> Engine:
    """Count the last draft as computed after an all-accept, though it was only sampled."""
    return _with(engine, committing=_with_a_hole)


def cut_too_far(engine: Engine) -> Engine:
    """Rewind the draft's cache by two tokens too many."""
    return _with(engine, committing=_cut)


def keyed_by_position(engine: Engine) -> Engine:
    """Number the draws by position, so that numbers spent on rejected drafts come again; under block verification."""
    return _with(engine, committing=_renumber, rule=Block())


def second_thoughts(engine: Engine) -> Engine:
    """Take drafts back that turned out unlikely, and all behind them."""
    return _with(engine, proposing=_taken_back)


@final
class _Favourite:
    """A source that leaves nothing to chance."""

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        return int(weights_V.argmax())

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        return p > 0.0, None


def _favourites(inner: Drafter, sequences: Items[Sequence], counts: Items[int]) -> list[Proposal]:
    kept = [sequence.noise for sequence in sequences]
    for sequence in sequences:
        sequence.noise = _Favourite()
    try:
        return inner.propose(sequences, counts)
    finally:
        for sequence, noise in zip(sequences, kept, strict=True):
            sequence.noise = noise


@final
class _Listening:
    """A policy that remembers the scores it gave."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.heard: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def scores(
        self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int], parents: Parents | None = None
    ) -> Tensor:
        self.heard.append(self.inner.scores(logits_RV, prefix, drafts, parents))
        return self.heard[-1]


def _unfiltered(inner: Drafter, sequences: Items[Sequence], counts: Items[int]) -> list[Proposal]:
    kept = [sequence.policy for sequence in sequences]
    listening = [_Listening(policy) for policy in kept]
    for sequence, policy in zip(sequences, listening, strict=True):
        sequence.policy = cast(Policy, policy)
    try:
        proposals = inner.propose(sequences, counts)
    finally:
        for sequence, honest in zip(sequences, kept, strict=True):
            sequence.policy = honest
    return [
        proposal
        if proposal.q_KV is None
        else Proposal(proposal.tokens, torch.cat(policy.heard[: len(proposal.tokens)]).softmax(-1))
        for proposal, policy in zip(proposals, listening, strict=True)
    ]


def _with_a_hole(inner: Drafter, sequence: Sequence) -> None:
    inner.commit(sequence)
    cache = cast(Cache, sequence.draft)
    begun = len(sequence.tokens) > sequence.prompt_length
    if begun and cache.pointer == len(sequence.tokens) - 2 and cache.pointer < cache.capacity:
        cache.advance(1)


def _cut(inner: Drafter, sequence: Sequence) -> None:
    cache = cast(Cache, sequence.draft)
    if cache.pointer > len(sequence.tokens) - 1:
        cache.rollback(max(0, len(sequence.tokens) - 3))


def _renumber(inner: Drafter, sequence: Sequence) -> None:
    inner.commit(sequence)
    sequence.number = len(sequence.tokens)


def _taken_back(inner: Drafter, sequences: Items[Sequence], counts: Items[int]) -> list[Proposal]:
    return [_confident_part(proposal) for proposal in inner.propose(sequences, counts)]


def _confident_part(proposal: Proposal) -> Proposal:
    if proposal.q_KV is None:
        return proposal
    chances = [float(q_V[token]) for q_V, token in zip(proposal.q_KV, proposal.tokens, strict=True)]
    kept = next((row for row, chance in enumerate(chances) if chance < 0.4), len(chances))
    return Proposal(proposal.tokens[:kept], proposal.q_KV[:kept] if kept else None)
