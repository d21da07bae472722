"""What every key/value cache of one sequence can do, whatever its layout.

A forward appends provisionally: `reserve` room, `write` each layer at the pointer, `advance` once after the last layer.
Then `rollback` says how much of it stays. Invariant: slots below `pointer` hold the keys and values of the first
`pointer` tokens, and what lies at or past it never changes an answer. An interrupted forward leaves the cache as it
was. A cache may return less than was asked of `rollback`: what it lacks then is computed again, as for any token
that is committed and not yet computed. It does not know models, or why it is rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Protocol

from torch import Tensor

from specdec_kernels.errors import EngineFailure
from specdec_teach.trace import Blocks

__all__ = ["Cache", "chosen", "no_room", "rewound"]


class Cache(Protocol):
    """Keys and values of every layer for one sequence. Counts are tokens; keys and values are `[1, H, T, D]`."""

    @property
    def kind(self) -> str:
        """How the layout is called: the name that `Engine(cache=…)` takes."""

    @property
    def capacity(self) -> int:
        """How many tokens fit."""

    @property
    def pointer(self) -> int:
        """How many tokens are computed."""

    def reserve(self, count: int) -> None:
        """Make room for `count` tokens behind the pointer. EngineFailure, and no change, when there is none."""

    def span(self, count: int) -> int:
        """Return how many keys a forward over `count` more tokens reads; more than pointer + count are to be masked."""

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put T new tokens at the pointer of `layer`; return all `span(T)` keys and values, in order of position.

        Those past pointer + T are stale and have to be masked.
        """

    def advance(self, count: int) -> int:
        """Count `count` freshly written tokens as computed; return the new pointer."""

    def rollback(self, to: int) -> int:
        """Keep the first `to` tokens at most; return the new pointer. EngineFailure for more than are computed."""

    def compact(self, start: int, kept: Items[int]) -> int:
        """Of the tokens computed from position `start` on keep those at `kept` (rising), moved together behind `start`.

        Return the new pointer, start + len(kept), or less as for `rollback`: one path of a draft tree stays.
        EngineFailure, and no change, for positions that do not rise or are not computed.
        """

    def fork(self) -> Cache:
        """Return an independent copy with the same contents and pointer."""

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """Return per layer the keys and values of the computed tokens, `[1, H, pointer, D]` each."""

    def poison(self) -> None:
        """Spoil every slot that must not change an answer, so that an answer that uses one is seen at once."""

    def adopt(self, tokens: Items[int]) -> int:
        """Take over what others have computed for the start of `tokens`, at most all of it; return the new pointer.

        Only an empty cache does: one that has a pointer, or has reserved, returns its pointer.
        """

    def publish(self, tokens: Items[int]) -> None:
        """Offer to others what is computed of the committed `tokens`; roll rejected tokens back first."""

    def release(self) -> None:
        """Give everything back; the pointer is 0 afterwards and the cache can be used again."""

    def blocks(self) -> Blocks | None:
        """Return what happened to its blocks since the last `mark`; None for a cache without blocks."""

    def mark(self) -> None:
        """Begin a new account of blocks."""


def rewound(pointer: int, to: int) -> int:
    """Return `to` if a cache of `pointer` computed tokens can be rolled back to it; else raise EngineFailure."""
    if not 0 <= to <= pointer:
        raise EngineFailure(f"cannot roll a cache of {pointer} computed tokens back to {to}; give 0..{pointer}")
    return to


def chosen(pointer: int, start: int, kept: Items[int]) -> list[int]:
    """Return `kept` if `compact(start, kept)` can be done with `pointer` computed tokens; else raise EngineFailure."""
    rewound(pointer, start)
    if any(not low < high < pointer for low, high in zip([start - 1, *kept], kept, strict=False)):
        raise EngineFailure(f"cannot keep the tokens at {list(kept)}; give rising positions of {start}..{pointer - 1}")
    return list(kept)


def no_room(capacity: int, wanted: int) -> EngineFailure:
    """Return the error for a forward that would end past the capacity."""
    return EngineFailure(f"the cache holds {capacity} tokens and {wanted} were asked for; roll back first")
