"""What a verification says, and what it says when it cannot: the result record and the status of a row.

Invariant: a status is 0 for a row that was judged, else `code | step << 8`; a refused row has accepted −1, no tokens.
Both backends write the same statuses; only `refuse` turns them into an error. It does not know how a row is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, final

from specdec_kernels.errors import EngineFailure, InvalidInput

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["DRAFT_BAD", "ID_BAD", "NO_MASS", "PADDING_BAD", "TARGET_BAD", "UNIFORM_BAD", "Verdict", "refuse"]

# The codes of a status, in its low byte.
ID_BAD, PADDING_BAD, UNIFORM_BAD, TARGET_BAD, DRAFT_BAD, NO_MASS = 1, 2, 3, 4, 5, 6


@final
@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """The outcome of one verification of B rows with up to K drafts each.

    `accepted` int64 `[B]`: drafts that stand. `tokens` int64 `[B, K + 1]`: the accepted drafts, then the correction or
    the bonus, then −1. `degenerate` bool `[B]`: the residual was empty and the target's row was used in its place.
    `status` int64 `[B]`: what is wrong with each row, where nobody has looked yet; None where all rows were judged.
    """

    accepted: Tensor
    tokens: Tensor
    degenerate: Tensor
    status: Tensor | None = None

    def check(self) -> None:
        """Raise for the first row that could not be judged, as `refuse` does: one copy to the host.

        Without `status` that has been done, and there is nothing to do.
        """
        if self.status is not None:
            refuse(self.status.tolist())


def refuse(statuses: list[int]) -> None:
    """Raise for the first row whose status is not 0, naming row and step; return when there is none.

    `statuses`: one a row. InvalidInput for ids, padding and uniforms; EngineFailure for numbers that are none.

    >>> refuse([0, 0])
    >>> refuse([0, ID_BAD | 2 << 8])
    Traceback (most recent call last):
    specdec_kernels.errors.InvalidInput: row 1, step 2: the drafted id is not in the vocabulary; ...
    """
    for row, status in enumerate(statuses):
        if status:
            _raise(row, status >> 8, status & 0xFF)


def _raise(row: int, step: int, code: int) -> NoReturn:
    where = f"row {row}, step {step}: "
    if code == ID_BAD:
        raise InvalidInput(where + "the drafted id is not in the vocabulary; give ids from 0 to V − 1, −1 for padding")
    if code == PADDING_BAD:
        raise InvalidInput(where + "a draft stands behind padding; −1 may only fill the end of a row")
    if code == UNIFORM_BAD:
        raise InvalidInput(where + "a given uniform is outside (0, 1); the ends are excluded")
    if code == NO_MASS:
        raise EngineFailure(where + "the target's row holds no positive probability; check the mask that made it")
    who = "target" if code == TARGET_BAD else "draft"
    raise EngineFailure(
        where + f"the {who}'s row is not numbers (NaN or infinite); check its weights and dtype, or the processors"
    )
