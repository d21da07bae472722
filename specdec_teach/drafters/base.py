"""The protocol that every drafter keeps, and what it hands over.

Invariant: a proposal's tokens were drawn from exactly the `q` it reports; `q` None means that each token was certain
(one-hot). A drafter touches nothing but its own state in `sequence.draft`. It does not know how drafts are judged.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol, final

from torch import Tensor

from specdec_teach.sequence import Sequence

__all__ = ["Drafter", "Proposal", "features_of"]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """K drafted tokens and the distributions they were drawn from: `q_KV` `[K, V]`, or None when each was certain."""

    tokens: tuple[int, ...]
    q_KV: Tensor | None = None


def features_of(drafter: Drafter) -> tuple[int, ...]:
    """Return which of the target's hidden states a drafter reads: its attribute `features`, or none without one.

    Layers count as in `Hidden`. The states of every committed and computed position, and of no other, wait in
    `sequence.hidden` until the drafter drops them.
    """
    layers: tuple[int, ...] = tuple(getattr(drafter, "features", ()))
    return layers


class Drafter(Protocol):
    """Proposes the next tokens of sequences. One that reads the target's hidden states says so (`features_of`)."""

    @property
    def name(self) -> str:
        """How the drafter is called in a trace."""

    @property
    def model_name(self) -> str | None:
        """The draft model's name, None without a model."""

    @property
    def revision(self) -> str | None:
        """The draft model's revision, None without a model."""

    @property
    def exact(self) -> bool:
        """Whether proposals are really drawn from the q that is reported."""

    @property
    def context(self) -> int | None:
        """How many positions the drafter can hold; None when there is no limit."""

    def check(self, vocab: int) -> None:
        """Refuse a target with `vocab` token ids if this drafter cannot serve it."""

    def reset(self, sequence: Sequence, capacity: int) -> int | None:
        """Start afresh for `sequence`: compute all its tokens but the last (prefill). Return how many, or None.

        `capacity`: the longest the sequence can become.
        """

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """Return a proposal of at most `counts[i]` tokens (≥ 0) for each sequence.

        Draft i of a sequence uses draw number `sequence.number + i`. `hidden`: the target's last hidden states, where
        the engine has them.
        """

    def commit(self, sequence: Sequence) -> None:
        """Follow the committed tokens: forget what was computed past all of them but the last."""

    def pointer(self, sequence: Sequence) -> int | None:
        """Return how many tokens are computed for `sequence`, None for a drafter without a cache."""
