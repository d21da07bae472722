"""The target's hidden states of one sequence, kept for a drafter that reads them until it has.

Every forward of the target puts in what it made, drafts included; a rollback cuts away what was not accepted, and the
drafter drops what it has read. So there are never more rows than a prefill or a cycle made.
Invariant: row i belongs to position `start + i`, and no row stands at or past the target's pointer between cycles.
Rows of positions that the drafter has read are not taken in again, whatever is computed again.
It does not know layers, or what is read out of a state.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure

__all__ = ["Hidden"]


@final
class Hidden:
    """Rows `[R, W]` of positions `start` .. `start + R − 1`: the states of `layers` side by side, W = layers × size.

    `layers`: as transformers counts `hidden_states`: 0 is the embedding, i what layer i hands on, and the last one has
    gone through the final norm.

    >>> hidden = Hidden((2,))
    >>> hidden.put(0, torch.arange(4.0)[:, None])
    >>> hidden.drop(1); hidden.cut(3); hidden.start, hidden.rows_RW.flatten().tolist()
    (1, [1.0, 2.0])
    """

    __slots__ = ("_rows_RW", "layers", "start")

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        self.start = 0
        self._rows_RW: Tensor | None = None

    @property
    def stop(self) -> int:
        """The position behind the last row."""
        return self.start + (0 if self._rows_RW is None else len(self._rows_RW))

    @property
    def rows_RW(self) -> Tensor:
        """The rows that were not read yet; EngineFailure before the first forward."""
        if self._rows_RW is None:
            raise EngineFailure("the target has computed nothing yet, so there is no hidden state to read")
        return self._rows_RW

    def put(self, at: int, rows_TW: Tensor) -> None:
        """Take in the states of the T positions from `at` on, in place of what stood there or behind.

        EngineFailure where positions before them are missing: somebody else computed them.
        """
        self.cut(at)
        if at > self.stop:
            raise EngineFailure(
                f"the hidden states of positions {self.stop}..{at - 1} are missing; a drafter that reads them cannot "
                "take over what others computed"
            )
        fresh_TW = rows_TW[self.start - at :] if at < self.start else rows_TW
        old = self._rows_RW
        self._rows_RW = fresh_TW if old is None or not len(old) else torch.cat([old, fresh_TW])

    def cut(self, to: int) -> None:
        """Forget the states of position `to` and all behind it."""
        if self._rows_RW is not None and to < self.stop:
            self._rows_RW = self._rows_RW[: max(to - self.start, 0)]

    def compact(self, start: int, kept: Items[int]) -> None:
        """Of the states from position `start` on keep those at `kept` (rising), moved together behind `start`.

        >>> hidden = Hidden((2,))
        >>> hidden.put(0, torch.arange(4.0)[:, None])
        >>> hidden.compact(1, [1, 3]); hidden.rows_RW.flatten().tolist()
        [0.0, 1.0, 3.0]
        """
        if self._rows_RW is not None:
            stay = [at - self.start for at in (*range(self.start, start), *kept) if at >= self.start]
            self._rows_RW = self._rows_RW[stay]

    def drop(self, to: int) -> None:
        """Forget the states before position `to`: they were read and are not wanted again."""
        if to > self.start:
            if self._rows_RW is not None:
                self._rows_RW = self._rows_RW[to - self.start :].clone()
            self.start = to

    def clear(self) -> None:
        """Begin again at position 0."""
        self.start, self._rows_RW = 0, None

    def fork(self) -> Hidden:
        """Return an independent copy; rows are never changed in place, so both read the same ones."""
        twin = Hidden(self.layers)
        twin.start, twin._rows_RW = self.start, self._rows_RW
        return twin
