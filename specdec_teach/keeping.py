"""What a settled cycle leaves in the target's cache: everything committed but the last token, and nothing else.

Of a chain the first drafts stay, so the pointer moves back. Of a tree one path stays, and is moved together.
Invariant: it can be repeated after an interrupt anywhere. Where one fell into the moving, nothing can be said of the
slots that were written, so the whole cycle is given back and computed again like anything that is committed.
It does not know requests, or who decided which drafts stay.
"""

from __future__ import annotations

from typing import final

from specdec_teach.sequence import Sequence

__all__ = ["Keeping"]


@final
class Keeping:
    """The drafts of one cycle in a cache, from position `before` on. `path`: those of a tree that stay, None: a chain.

    `moved`: whether a path has been moved together; None before, False while that goes on.
    """

    __slots__ = ("_before", "_path", "moved")

    def __init__(self, before: int, path: tuple[int, ...] | None) -> None:
        self._before, self._path = before, path
        self.moved: bool | None = None

    def settle(self, sequence: Sequence, computed: int) -> None:
        """Leave at most `computed` tokens in the target's cache, fewer where they have to be computed again.

        Hidden states that nobody has read yet go the same way.
        """
        cache = sequence.cache
        if self._path is None or self.moved:
            cache.rollback(min(cache.pointer, computed))
        elif self.moved is None:
            self.moved = False
            stay = [self._before + node for node in self._path[: computed - self._before]]
            cache.compact(self._before, stay)
            if sequence.hidden is not None:
                sequence.hidden.compact(self._before, stay)
            self.moved = True
        else:
            cache.rollback(min(cache.pointer, self._before))
        sequence.trim()
