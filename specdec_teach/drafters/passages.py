"""Texts of token ids that can be searched for what follows a given end: a suffix array of bounded depth.

All texts stand one behind the other, newest last, each closed by a mark that is no id; another array holds every
position, sorted by the tokens that stand from there on, so two bisections find all places of a passage side by side.
Invariant: nothing changes once it is built, so any number of requests can look things up in it. Memory: 8 bytes a
token, and about 40 more while it is built. It does not know drafters, or why a text is in it.
Source: suffix arrays (Manber and Myers 1990).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence as Items
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST", "Ids", "Passages"]

MOST = 4096
"""At how many places of a passage a look-up looks at most: the last ones."""

Ids = NDArray[np.int32]
_CLOSE = np.array([-1], dtype=np.int32)


@final
class Passages:
    """Texts (int32 ids, none below 0) of N tokens in all, sorted so that ends of at most `depth` tokens can be found.

    Building takes O(N log N log depth) steps, a look-up O(depth log N log depth) and the number of places found.

    >>> found = Passages([np.array([1, 2, 3, 9], np.int32), np.array([1, 2, 4, 8, 1, 2, 4], np.int32)], 4)
    >>> sorted(found.behind([7, 1, 2], 1).tolist())
    [3, 8, 12]
    >>> found.follow(found.behind([7, 1, 2], 1), 3)
    [4, 8, 1]
    """

    __slots__ = ("_depth", "_order", "_text")

    def __init__(self, texts: Items[Ids], depth: int) -> None:
        self._text: Ids = np.concatenate([_CLOSE, *(part for text in texts for part in (text, _CLOSE))])
        self._order, self._depth = _sorted(self._text, depth), depth

    def __len__(self) -> int:
        return len(self._text)

    def behind(self, tokens: Items[int], shortest: int) -> Ids:
        """Return the places behind the longest end of `tokens` that is known, `shortest` tokens or more.

        At most `depth` tokens are compared, and at most the last 4,096 places are returned. An end that is known where
        a text closes has no token behind it there.
        """
        low, high = shortest - 1, min(len(tokens), self._depth)
        places = self._order[:0]
        while low < high:  # an end is known only if every shorter one is
            size = (low + high + 1) // 2
            found = self._places(list(tokens[len(tokens) - size :]))
            low, high, places = (size, high, found) if len(found) else (low, size - 1, places)
        return places if len(places) <= MOST else np.partition(places, -MOST)[-MOST:]

    def _places(self, wanted: list[int]) -> Ids:
        """Return every place behind `wanted` that has a token."""
        size = len(wanted)

        def at(position: int) -> list[int]:
            here: list[int] = self._text[position : position + size].tolist()
            return here

        first = bisect_left(self._order, wanted, key=at)
        places = self._order[first : bisect_right(self._order, wanted, first, key=at)] + size
        return places[self._text[places] >= 0]

    def follow(self, places: Ids, count: int) -> list[int]:
        """Return at most `count` tokens that stand from `places` on.

        Each is the most frequent one there, of equally frequent ones the one that stands last; the places where
        another one stands are left behind.
        """
        tokens: list[int] = []
        while len(tokens) < count:
            nexts = self._text[places]
            places, nexts = places[nexts >= 0], nexts[nexts >= 0]
            if not len(places):
                break
            counts = np.bincount(nexts)
            token = int(self._text[places[counts[nexts] == counts.max()].max()])
            tokens.append(token)
            places = places[nexts == token] + 1
        return tokens


def _sorted(text: Ids, depth: int) -> Ids:
    """Return all positions of `text` in the order of the `depth` tokens from there on: prefix doubling."""
    rank = np.unique(text, return_inverse=True)[1].astype(np.int64)
    width = 1
    while width < depth:
        behind = np.zeros_like(rank)
        behind[: max(0, len(rank) - width)] = rank[width:] + 1
        rank = np.unique(rank * (len(rank) + 1) + behind, return_inverse=True)[1].astype(np.int64)
        width *= 2
    return np.argsort(rank, kind="stable").astype(np.int32)
