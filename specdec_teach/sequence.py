"""The state of one request: its committed tokens, both models' caches, and the next unused draw number.

Invariant: between cycles each cache holds at most all committed tokens but the last, so "feed tokens[pointer:]" is the
one rule for prefill, catch-up and resuming after an interrupt. Two sequences share nothing that changes.
It does not know how a cycle goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from specdec_teach.caches.base import Cache
from specdec_teach.hidden import Hidden
from specdec_teach.noise import Noise
from specdec_teach.pacing import Patience
from specdec_teach.policy import Policy
from specdec_teach.sampling import Sampling

if TYPE_CHECKING:
    from specdec_teach.hf import ModelRunner

__all__ = ["DraftState", "Sequence"]


class DraftState(Protocol):
    """What a drafter keeps for one sequence."""

    def fork(self) -> DraftState:
        """Return an independent copy."""


@final
class Sequence:
    """One request in flight.

    `tokens`: committed token ids, prompt included. `number`: the first draw number not used yet. `vocab`: how many ids
    the target knows. `row`: its place in a batch. `policy`: how logits become probabilities, of target and draft alike.
    `draft`: whatever the drafter keeps for this sequence; only the drafter looks inside. `hidden`: the target's hidden
    states that the drafter has not read yet, None for a drafter that reads none. `by_position`: draw numbers are
    absolute positions (`Rule.by_position`). `runner`: who computes the target's side. `patience`: when a drafter that
    knows its own confidence ends the cycle's draft early, None to draft all that is asked for.
    """

    __slots__ = (
        "by_position", "cache", "draft", "hidden", "noise", "number", "patience", "policy", "prompt_length", "row",
        "runner", "tokens", "vocab",
    )  # fmt: skip

    def __init__(
        self,
        prompt: list[int],
        policy: Policy,
        noise: Noise,
        cache: Cache,
        vocab: int,
        row: int = 0,
        by_position: bool = False,
        runner: ModelRunner | None = None,
    ) -> None:
        self.tokens = list(prompt)
        self.prompt_length = len(prompt)
        self.policy = policy
        self.noise = noise
        self.cache = cache
        self.vocab = vocab
        self.row = row
        self.by_position = by_position
        self.runner = runner
        self.number = 0
        self.draft: DraftState | None = None
        self.hidden: Hidden | None = None
        self.patience: Patience | None = None

    @property
    def sampling(self) -> Sampling:
        """The request's settings."""
        return self.policy.sampling

    def draw(self, node: int, depth: int) -> int:
        """Return the draw number of draft `node` (from 0) at `depth` (from 1) of the cycle that begins at `number`.

        In a chain both ways of counting are one.
        """
        return self.number + (depth - 1 if self.by_position else node)

    @property
    def new_tokens(self) -> list[int]:
        """The tokens committed since the prompt."""
        return self.tokens[self.prompt_length :]

    @property
    def lacking(self) -> list[int]:
        """The committed tokens that the target has not computed, but for the last: that one opens the next cycle."""
        return self.tokens[self.cache.pointer : -1]

    def trim(self) -> None:
        """Forget the hidden states of whatever the target's cache was rolled back behind."""
        if self.hidden is not None:
            self.hidden.cut(self.cache.pointer)

    def fork(self, noise: Noise) -> Sequence:
        """Return an independent copy that takes its chances from `noise`."""
        twin = Sequence(
            self.tokens, self.policy, noise, self.cache.fork(), self.vocab, self.row, self.by_position, self.runner
        )
        twin.prompt_length, twin.number = self.prompt_length, self.number
        twin.draft = None if self.draft is None else self.draft.fork()
        twin.hidden = None if self.hidden is None else self.hidden.fork()
        return twin
