"""How long a text may become and how much may still be drafted: the limits of one request.

Invariant: no draft is asked for that could not be kept. It does not know models, caches or what tokens mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

__all__ = ["Limits"]


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may use. Counts are tokens; contexts are how many positions a model holds (None: no limit).

    `prompt`: prompt length. `max_new`: cap on new tokens.
    """

    prompt: int
    max_new: int
    target_context: int | None
    draft_context: int | None

    @property
    def capacity(self) -> int:
        """How many tokens the sequence can have at most, prompt included."""
        want = self.prompt + self.max_new
        return want if self.target_context is None else min(want, self.target_context)

    def finished(self, length: int) -> Literal["length", "context"] | None:
        """Return why nothing can follow a sequence of `length` tokens, or None."""
        if length >= self.prompt + self.max_new:
            return "length"
        return "context" if length >= self.capacity else None

    def gamma(self, asked: int, length: int) -> int:
        """Return the draft length for the next cycle of a sequence of `length` tokens, at most `asked`.

        One token less than what is still wanted and than what the target's context holds, since the cycle adds one
        token of its own; the draft computes all drafts but the last, so its context may be one token shorter.

        >>> Limits(prompt=28, max_new=10, target_context=32, draft_context=None).gamma(5, length=28)
        3
        """
        fits = min(asked, self.capacity - length - 1)
        if self.draft_context is not None:
            fits = min(fits, self.draft_context - length + 1) if length <= self.draft_context else 0
        return max(fits, 0)
