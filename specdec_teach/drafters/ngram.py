"""Drafts looked up in the text itself: what followed the last time these words stood here.

Invariant: the index holds every n-gram of the committed tokens that has a token behind it, so the end of the text never
matches itself; it grows with the text and is never taken back, since committed tokens are not. Drafts are certain
(one-hot q), so every exact rule stays exact. It keeps no key/value cache and does not know any model.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import cast, final

from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.base import Proposal
from specdec_teach.sequence import Sequence

__all__ = ["NgramDrafter"]


@final
class NgramDrafter:
    """Proposes what followed the longest n-gram that ends the text, `longest` to `shortest` tokens, at its last place.

    Where the copied passage runs into the end of the text, it goes on with the drafts themselves, so that a loop is
    drafted as a loop. Proposes nothing where nothing matches.
    Source: prompt lookup decoding (Saxena 2023). InvalidInput unless longest ≥ shortest ≥ 1.

    >>> index = _Index(3, 1)
    >>> index.follow([5, 6, 7, 8, 5, 6])
    >>> index.look_up([5, 6, 7, 8, 5, 6], 3)
    [7, 8, 5]
    """

    def __init__(self, longest: int = 3, shortest: int = 1) -> None:
        if not longest >= shortest >= 1:
            raise InvalidInput(
                f"longest={longest!r}, shortest={shortest!r}; give whole numbers, longest ≥ shortest ≥ 1"
            )
        self._longest, self._shortest = longest, shortest
        self.name = "ngram"
        self.model_name: str | None = None
        self.revision: str | None = None
        self.context: int | None = None
        self.exact = True

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

    __slots__ = ("_places", "_seen")

    def __init__(self, longest: int, shortest: int) -> None:
        self._places: dict[int, dict[tuple[int, ...], int]] = {n: {} for n in range(longest, shortest - 1, -1)}
        self._seen = 0

    def follow(self, tokens: Items[int]) -> None:
        """Take in every n-gram that has a token behind it now."""
        for place in range(self._seen, len(tokens)):
            for size, places in self._places.items():
                if place >= size:
                    places[tuple(tokens[place - size : place])] = place
        self._seen = len(tokens)

    def look_up(self, tokens: Items[int], count: int) -> list[int]:
        """Return at most `count` tokens that followed the longest known end of `tokens`."""
        for size, places in self._places.items():
            place = places.get(tuple(tokens[-size:])) if len(tokens) >= size else None
            if place is not None:
                drafts: list[int] = []
                for at in range(place, place + count):
                    drafts.append(tokens[at] if at < len(tokens) else drafts[at - len(tokens)])
                return drafts
        return []

    def fork(self) -> _Index:
        """Return an independent copy."""
        twin = _Index(0, 1)
        twin._places = {size: dict(places) for size, places in self._places.items()}
        twin._seen = self._seen
        return twin
