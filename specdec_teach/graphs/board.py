"""What the device knows of the request that is on it: its text, and six numbers.

Invariant: the tensors are made once and only their contents change; a kernel that reads them is told where it is by
their contents alone. It does not know models, or who changes what.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

__all__ = ["Board", "Standing"]


@final
@dataclass(frozen=True, slots=True)
class Standing:
    """Where a request stands between two cycles: committed tokens, both pointers, the next unused draw number."""

    committed: int
    target: int
    draft: int
    number: int


@final
class Board:
    """`text_S` int64 `[S]`: a request's tokens by position, drafts included. Numbers are int64 `[1]` each.

    `committed`, `target`, `draft`, `number`: see `Standing`. `seed`: the request's, as a signed number. `bad`: how many
    drafts were taken from logits that are no numbers.
    """

    __slots__ = ("_numbers_6", "bad", "committed", "draft", "number", "seed", "target", "text_S")

    def __init__(self, slots: int, device: torch.device) -> None:
        self.text_S = torch.zeros(slots, dtype=torch.int64, device=device)
        self._numbers_6 = torch.zeros(6, dtype=torch.int64, device=device)
        self.committed, self.target, self.draft, self.number, self.seed, self.bad = self._numbers_6.view(6, 1).unbind()

    def write(self, tokens: list[int], standing: Standing, seed: int) -> None:
        """Put a request on the board."""
        it, signed = standing, seed - 2**64 if seed >= 2**63 else seed
        numbers = [it.committed, it.target, it.draft, it.number, signed, 0]
        self.text_S[: len(tokens)].copy_(torch.tensor(tokens))
        self._numbers_6.copy_(torch.tensor(numbers))

    def places(self, start_1: Tensor, count: int) -> Tensor:
        """Return `count` positions from `start_1` on, int64 `[count]`, held inside the text."""
        return (start_1 + torch.arange(count, device=start_1.device)).clamp_max(len(self.text_S) - 1)

    def put(self, place_1: Tensor, tokens_K: Tensor) -> None:
        """Write tokens at `place_1` and behind."""
        self.text_S.index_copy_(0, self.places(place_1, len(tokens_K)), tokens_K)

    def read(self, place_1: Tensor, count: int) -> Tensor:
        """Return `count` tokens from `place_1` on."""
        return self.text_S.index_select(0, self.places(place_1, count))
