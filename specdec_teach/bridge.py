"""Two tokenizers that share some tokens: which ids mean the same text, and how one writes what the other says.

Invariant: a shared token has one id on either side, so that a draft drawn over the shared ones alone has the same
probability in both vocabularies; what is not shared is never drafted, only read. It does not know models or drafts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput, shown
from specdec_teach.text import pieces

__all__ = ["Bridge", "first_difference"]


def first_difference(target: Any, draft: Any) -> int | None:
    """Return the first id that stands for different tokens in two tokenizers, None if there is none.

    An id that only one of them has is no difference: the other's embedding may be padded there.
    """
    ours, theirs = ({i: t for t, i in tokenizer.get_vocab().items()} for tokenizer in (target, draft))
    return next((token for token in sorted(ours.keys() & theirs.keys()) if ours[token] != theirs[token]), None)


@final
class Bridge:
    """The tokens that a target's and a draft's tokenizer share, by their text as it is shown.

    `draft_vocab`: how many ids the draft model has. Where several ids of a tokenizer are written alike, the lowest one
    stands for them. InvalidInput when nothing is shared.
    """

    def __init__(self, target: Any, draft: Any, draft_vocab: int) -> None:
        ours, theirs = _by_text(target, None), _by_text(draft, draft_vocab)
        self._of = {token: theirs[text] for text, token in ours.items() if text in theirs}
        if not self._of:
            raise InvalidInput(
                f"the tokenizers {shown(getattr(target, 'name_or_path', target))} and "
                f"{shown(getattr(draft, 'name_or_path', draft))} share no token, so nothing can be drafted; "
                "choose a draft of the same family"
            )
        self._target, self._draft, self._width = target, draft, draft_vocab
        self._written: dict[int, list[int]] = {}
        self._index: tuple[Tensor, Tensor] | None = None

    @property
    def shared(self) -> tuple[int, ...]:
        """The target's ids of the shared tokens, rising."""
        return tuple(sorted(self._of))

    def spell(self, tokens: Iterable[int]) -> list[int]:
        """Return the draft's ids for target tokens: a shared one's own, else its text as the draft writes it.

        Each token is written by itself and never by nothing, so what stands before or behind it makes no difference.
        """
        ids: list[int] = []
        for token in tokens:
            if token in self._of:
                ids.append(self._of[token])
            else:
                ids.extend(self.write(token))
        return ids

    def write(self, token: int) -> list[int]:
        """Return the draft's ids for the text of one target token, id 0 where they have no text."""
        if token not in self._written:
            known = token < len(self._target)
            text = pieces(self._target, [token])[token] if known else ""
            ids = self._draft.encode(text, add_special_tokens=False) if text else []
            self._written[token] = [i for i in ids if i < self._width] or [0]
        return self._written[token]

    def widen(self, logits_1V: Tensor, vocab: int) -> Tensor:
        """Return the draft's logits `[1, D]` over the target's ids `[1, V]`: −inf for what is not shared."""
        if self._index is None or self._index[0].device != logits_1V.device:
            pairs = torch.tensor(sorted(self._of.items()), device=logits_1V.device)
            self._index = pairs[:, 0], pairs[:, 1]
        target_S, draft_S = self._index
        known = int((target_S < vocab).sum())
        wide_1V = logits_1V.new_full((1, vocab), -torch.inf)
        wide_1V[:, target_S[:known]] = logits_1V[:, draft_S[:known]]
        return wide_1V


def _by_text(tokenizer: Any, width: int | None) -> dict[str, int]:
    """Return the lowest id (below `width`) of every text that a tokenizer has a token for."""
    ids = sorted(token for token in tokenizer.get_vocab().values() if width is None or token < width)
    found: dict[str, int] = {}
    for token, text in pieces(tokenizer, ids).items():
        found.setdefault(text, token)
    return found
