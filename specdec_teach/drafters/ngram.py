"""Drafts looked up in the text itself: what followed the last time these words stood here.

Invariant: the index holds every n-gram of the committed tokens that has a token behind it, so the end of the text never
matches itself; it grows with the text and is never taken back, since committed tokens are not. Drafts are certain
(one-hot q), so every exact rule stays exact. It keeps no key/value cache and does not know any model.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from typing import cast, final

from torch import Tensor

from specdec_kernels.errors import InvalidInput, shown, whole
from specdec_teach.drafters.base import Proposal
from specdec_teach.sequence import Sequence

__all__ = ["NgramDrafter"]

_BITS = 32


@final
class NgramDrafter:
    """Proposes what followed the longest n-gram that ends the text, `longest` to `shortest` tokens, at its last place.

    The longest match wins, whatever is later; of several places where it stands, the last one that has a token behind
    it. Where the copied passage runs into the end of the text, it goes on with the drafts themselves, so that a loop is
    drafted as a loop. Nothing is proposed where nothing matches.
    A proposal takes `longest` look-ups, whatever the length of the text, and each committed token is indexed once.
    Memory: one entry for each different n-gram of the text, about 0.1 kB; so at most
    (longest − shortest + 1) × 0.1 kB a token.
    Source: prompt lookup decoding (Saxena 2023). InvalidInput unless longest ≥ shortest ≥ 1, whole numbers.

    >>> index = _Index(3, 1)
    >>> index.follow([5, 6, 7, 8, 5, 6])
    >>> index.look_up([5, 6, 7, 8, 5, 6], 3)
    [7, 8, 5]
    """

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        most, least = whole(longest), whole(shortest)
        if most is None or least is None or not most >= least >= 1:
            raise InvalidInput(
                f"longest={shown(longest)}, shortest={shown(shortest)}; give whole numbers, longest ≥ shortest ≥ 1"
            )
        self._longest, self._shortest = most, least
        self.name = "ngram"
        self.model_name: str | None = None
        self.revision: str | None = None
        self.context: int | None = None
        self.exact = True

    def over(self, model: object, mode: object = None) -> NgramDrafter:
        """Return this drafter: it drafts for any model alike."""
        return self

    def check(self, vocab: int) -> None:
        """Any vocabulary will do: only tokens of the text are proposed."""

    def reset(self, sequence: Sequence, capacity: int) -> None:
        """See `Drafter.reset`: index the text so far."""
        sequence.draft = _Index(self._longest, self._shortest)
        self.commit(sequence)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        return [
            Proposal(tuple(cast(_Index, sequence.draft).look_up(sequence.tokens, count)))
            for sequence, count in zip(sequences, counts, strict=True)
        ]

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`: index what is new."""
        cast(_Index, sequence.draft).follow(sequence.tokens)

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache."""


@final
class _Index:
    """Where the token behind each n-gram of one text stands, the latest place only."""

    __slots__ = ("_longest", "_places", "_seen", "_shortest")

    def __init__(self, longest: int, shortest: int) -> None:
        self._longest, self._shortest = longest, shortest
        self._places: dict[int, int] = {}
        self._seen = 0

    def follow(self, tokens: Items[int]) -> None:
        """Take in every n-gram that has a token behind it now."""
        for place in range(self._seen, len(tokens)):
            for key in self._ends(tokens, place):
                self._places[key] = place
        self._seen = len(tokens)

    def look_up(self, tokens: Items[int], count: int) -> list[int]:
        """Return at most `count` tokens that followed the longest known end of `tokens`."""
        found = [self._places[key] for key in self._ends(tokens, len(tokens)) if key in self._places]
        if not found:
            return []
        drafts: list[int] = []
        for at in range(found[-1], found[-1] + count):
            drafts.append(tokens[at] if at < len(tokens) else drafts[at - len(tokens)])
        return drafts

    def _ends(self, tokens: Items[int], stop: int) -> Iterator[int]:
        """Yield the n-grams of `tokens[:stop]` that end it, shortest first, each packed into one number."""
        key = 0
        for size in range(1, min(self._longest, stop) + 1):
            key |= tokens[stop - size] + 1 << _BITS * (size - 1)
            if size >= self._shortest:
                yield key

    def fork(self) -> _Index:
        """Return an independent copy."""
        twin = _Index(self._longest, self._shortest)
        twin._places, twin._seen = dict(self._places), self._seen
        return twin
