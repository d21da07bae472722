"""A sequence as a draft with another tokenizer reads it: its own ids, and where each token of the target ends in them.

A token that both know is one id in either; any other is as many ids as the draft needs to write it. Counts that leave
this module are the target's tokens, so pointers in a trace mean the same whoever drafts.
Invariant: the cache holds a beginning of `ids`; following other tokens keeps what they have in common and no more.
It does not know models, or what is drafted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence as Items
from typing import final

from torch import Tensor

from specdec_teach.bridge import Bridge
from specdec_teach.caches import Cache

__all__ = ["Mirror"]


@final
class Mirror:
    """What a `ModelDrafter` between two tokenizers keeps for a sequence: a cache over the draft's own ids."""

    __slots__ = ("_bridge", "_ends", "_tokens", "cache", "ids")

    def __init__(self, cache: Cache, bridge: Bridge, tokens: Items[int] = ()) -> None:
        self.cache, self._bridge = cache, bridge
        self.ids: list[int] = []
        self._tokens: list[int] = []
        self._ends = [0]
        self._add(tokens)

    @property
    def lacking(self) -> list[int]:
        """The draft's ids that are not computed yet."""
        return self.ids[self.cache.pointer :]

    @property
    def pointer(self) -> int:
        """How many of the target's tokens are computed whole."""
        return bisect_right(self._ends, self.cache.pointer) - 1

    def follow(self, tokens: Items[int]) -> None:
        """Stand for `tokens`; roll the cache back to what they share with those before, the last token left pending."""
        if list(tokens[: len(self._tokens)]) != self._tokens:
            pairs = enumerate(zip(tokens, self._tokens, strict=False))
            same = next((at for at, (a, b) in pairs if a != b), min(len(tokens), len(self._tokens)))
            del self._tokens[same:], self._ends[same + 1 :], self.ids[self._ends[same] :]
        kept = self._ends[-1]
        self._add(tokens[len(self._tokens) :])
        self.cache.rollback(min(self.cache.pointer, kept, self._ends[max(0, len(tokens) - 1)]))

    def _add(self, tokens: Items[int]) -> None:
        for token in tokens:
            self._tokens.append(token)
            self.ids += self._bridge.spell([token])
            self._ends.append(len(self.ids))

    def fork(self) -> Mirror:
        """Return an independent copy."""
        twin = Mirror(self.cache.fork(), self._bridge)
        twin.ids, twin._tokens, twin._ends = list(self.ids), list(self._tokens), list(self._ends)
        return twin

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """Return the keys and values of the computed ids; see `Cache.contents`."""
        return self.cache.contents()

    def poison(self) -> None:
        """Spoil what must not be read; see `Cache.poison`."""
        self.cache.poison()
