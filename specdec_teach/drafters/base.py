"""The protocol that every drafter keeps, what it hands over, and what a drafter must answer to let a tree grow.

Invariant: a proposal's tokens were drawn from exactly the `q` it reports; `q` None means that each token was certain
(one-hot). A drafter touches nothing but its own state in `sequence.draft`. It does not know how drafts are judged.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from torch import Tensor

from specdec_teach import tree
from specdec_teach.sequence import Sequence
from specdec_teach.stash import Stash
from specdec_teach.tree import Parents

if TYPE_CHECKING:
    from specdec_teach.hf import ModelRunner

__all__ = [
    "Branching",
    "Drafter",
    "Expandable",
    "OnTarget",
    "Proposal",
    "Sprout",
    "features_of",
    "most_nodes",
    "spare_nodes",
]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """K drafted tokens and the distributions they were drawn from: `q_KV` `[K, V]`, or None when each was certain.

    `parents`: the shape of a draft tree (`specdec_teach.tree`), None for a chain. In a tree, `q_KV[k]` is what draft k
    was really drawn from when the siblings before it stood already: without them, renormalised, where no token may
    come twice. `reach`: how many tokens the drafter's cache held at most, where it has let the tree go again.
    `stash`: what the target's own layers made of a chain while it was drafted; the target goes on from there.
    `confidence`: the draft's own probability of each token, where it was asked to be patient. It informs how much is
    drafted, never what is accepted.
    """

    tokens: tuple[int, ...]
    q_KV: Tensor | None = None
    parents: Parents | None = None
    reach: int | None = None
    stash: Stash | None = None
    confidence: tuple[float, ...] = ()

    @property
    def shape(self) -> Parents:
        """The drafts' parents, also those of a chain."""
        return tree.chain(len(self.tokens)) if self.parents is None else self.parents

    @property
    def depth(self) -> int:
        """How many drafts can be accepted at most."""
        return len(self.tokens) if self.parents is None else max(tree.depths(self.parents), default=0)


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
        """Return a proposal of at most `counts[i]` tokens (≥ 0) for each sequence; in a tree that many on each way.

        Draft i of a sequence uses draw number `sequence.draw(i, depth)`. `hidden`: the target's last hidden states,
        where the engine has them.
        """

    def commit(self, sequence: Sequence) -> None:
        """Follow the committed tokens: forget what was computed past all of them but the last."""

    def pointer(self, sequence: Sequence) -> int | None:
        """Return how many tokens are computed for `sequence`, None for a drafter without a cache."""


@runtime_checkable
class OnTarget(Protocol):
    """A drafter that works with what one target computes and serves no other; the rest is as in every drafter."""

    def check_target(self, target: ModelRunner) -> None:
        """Refuse a target that is not the one this drafter was made for."""


@runtime_checkable
class Branching(Protocol):
    """A drafter whose proposals may be trees; the other members are those of every drafter."""

    def nodes(self, depth: int) -> int:
        """Return how many drafts a proposal of this depth has at most; it never shrinks while the depth grows."""


def most_nodes(drafter: object, depth: int) -> int:
    """Return how many drafts a proposal of this depth has at most: `depth`, unless the drafter grows trees."""
    return drafter.nodes(depth) if isinstance(drafter, Branching) else depth


def spare_nodes(drafter: object, depth: int) -> int:
    """Return for how many drafts more than `depth` a cache must have room, since not all of a tree can be kept."""
    return max(most_nodes(drafter, most) - most for most in range(depth + 1))


@final
@dataclass(frozen=True, slots=True)
class Sprout:
    """A tree while it grows: its `tokens` and `parents` so far, and the nodes whose next tokens are wanted.

    `grown`: the nodes that were asked for before, in that order. `frontier`: those asked for now, rising, each a child
    of a grown one (or of the pending token, −1, which is asked for first and alone).
    """

    tokens: tuple[int, ...] = ()
    parents: Parents = ()
    grown: tuple[int, ...] = ()
    frontier: tuple[int, ...] = (-1,)


class Expandable(Protocol):
    """What a tree can grow from: asked for some nodes, it says what may follow each of them, and keeps its own state.

    A proposal begins with a call for the pending token, then one for each level, and ends with `retract`. The other
    members are a drafter's (`Drafter`).
    """

    @property
    def name(self) -> str:
        """See `Drafter.name`."""

    @property
    def model_name(self) -> str | None:
        """See `Drafter.model_name`."""

    @property
    def revision(self) -> str | None:
        """See `Drafter.revision`."""

    @property
    def context(self) -> int | None:
        """See `Drafter.context`."""

    def check(self, vocab: int) -> None:
        """See `Drafter.check`."""

    def check_tree(self) -> None:
        """Refuse to be asked for trees where the drafter cannot answer for several nodes at once."""

    def reset(self, sequence: Sequence, capacity: int, spare: int = 0) -> int | None:
        """See `Drafter.reset`; `spare`: how many nodes more than `capacity` tokens have to find room."""

    def expand(
        self, sequences: Items[Sequence], sprouts: Items[Sprout], hidden: Items[Tensor] | None = None
    ) -> list[Tensor]:
        """Return for each sequence the logits `[F, V]` behind each node of its frontier, before any processing.

        A row of −inf says that nothing can be drafted there.
        """

    def retract(self, sequence: Sequence) -> int | None:
        """Forget the tree, keep what is committed; return how many tokens were held at most (None: no cache)."""

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""

    def pointer(self, sequence: Sequence) -> int | None:
        """See `Drafter.pointer`."""
