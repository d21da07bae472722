"""A drafter that proposes what it is told: for tests, crafted examples and forced patterns.

Invariant: the token for the n-th new position of a sequence is the same whenever it is asked for, whatever was
rejected in between. It keeps no cache and does not know any model.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput, shown, whole
from specdec_teach.drafters.base import Proposal
from specdec_teach.sequence import Sequence

__all__ = ["ScriptedDrafter"]

Script = Items[int] | Items[Items[int]] | Callable[[list[int], int], Items[int]]


@final
class ScriptedDrafter:
    """Proposes `tokens[n]` for the n-th new token of the sequence (from 0), and nothing when the list has ended.

    `tokens`: ids by new-token position; or a list of such lists, one per row of a batch; or a function
    (committed ids, count) -> ids. `q`: None when each token is certain (one-hot); one distribution `[V]` for every
    token; or `[N, V]` by new-token position. Tokens that were not really drawn from a q make a run that is not exact;
    its trace says so. InvalidInput: a q of another shape, or with an entry below 0.

    >>> from specdec_teach import Engine, Sampling
    >>> from specdec_teach.testing import TabularLM
    >>> engine = Engine(TabularLM([0.0, 9.0]), drafter=ScriptedDrafter([1, 0]), gamma=2)
    >>> [cycle.accepted for cycle in engine.generate([0], Sampling.greedy(), max_new_tokens=3).trace.cycles]
    [1, 0]
    """

    def __init__(self, tokens: Script, q: Tensor | Items[float] | Items[Items[float]] | None = None) -> None:
        self._script: Callable[[list[int], int], Items[int]] | None = tokens if callable(tokens) else None
        self._rows, self._per_row = ([], False) if callable(tokens) else _as_rows(tokens)
        self._q = None if q is None else torch.as_tensor(q)
        if self._q is not None and (self._q.dim() not in (1, 2) or bool((self._q < 0).any())):
            raise InvalidInput(f"q has shape {tuple(self._q.shape)}; give probabilities [V] or [N, V], none below 0")
        self.name = "scripted"
        self.model_name: str | None = None
        self.revision: str | None = None
        self.context: int | None = None
        self.exact = q is None

    def check(self, vocab: int) -> None:
        """Refuse ids outside the target's vocabulary and a q of another width."""
        wrong = next((token for row in self._rows for token in row if not 0 <= token < vocab), None)
        if wrong is not None:
            raise InvalidInput(f"the script holds token {wrong}; the target's ids are 0 to {vocab - 1}")
        if self._q is not None and self._q.shape[-1] != vocab:
            raise InvalidInput(f"q has {self._q.shape[-1]} probabilities a token; the target's vocabulary has {vocab}")

    def reset(self, sequence: Sequence, capacity: int) -> None:
        """There is nothing to prepare."""

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        return [self._propose(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]

    def _propose(self, sequence: Sequence, count: int) -> Proposal:
        start = len(sequence.tokens) - sequence.prompt_length
        tokens = tuple(self._tokens(sequence, start, count))
        if self._q is None or not tokens:
            return Proposal(tokens)
        if self._q.dim() == 1:
            return Proposal(tokens, self._q.expand(len(tokens), -1))
        q_KV = self._q[start : start + len(tokens)]
        return Proposal(tokens[: len(q_KV)], q_KV)

    def _tokens(self, sequence: Sequence, start: int, count: int) -> Items[int]:
        if self._script is not None:
            return _ids(self._script(list(sequence.tokens), count))[:count]
        row = sequence.row if self._per_row else 0
        return self._rows[row][start : start + count] if row < len(self._rows) else ()

    def commit(self, sequence: Sequence) -> None:
        """Nothing is computed, so nothing is forgotten."""

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache."""


def _as_rows(tokens: object) -> tuple[list[list[int]], bool]:
    """Return a script as rows of ids, and whether there is one for each row of a batch."""
    items = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    if not isinstance(items, (list, tuple, range)):
        raise InvalidInput(
            f"the script is a {type(tokens).__name__}; give token ids, a list of id lists, or a function"
        )
    if any(isinstance(item, (list, tuple)) or (hasattr(item, "tolist") and getattr(item, "ndim", 0)) for item in items):
        return [_ids(item) for item in items], True
    return [_ids(items)], False


def _ids(tokens: object) -> list[int]:
    items = tokens.tolist() if hasattr(tokens, "tolist") else tokens
    ids = [whole(token) for token in items] if isinstance(items, (list, tuple, range)) else [None]
    if any(token is None for token in ids):
        raise InvalidInput(f"the script holds {shown(tokens)}; give whole token ids")
    return [token for token in ids if token is not None]
