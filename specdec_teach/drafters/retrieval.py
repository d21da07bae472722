"""Drafts looked up in other texts: what followed these words in a corpus, or in what was said before.

Invariant: the texts change only when the caller says so, and a request drafts from those that were there when it began;
so a call that is made again gives the same trace. Drafts are certain (one-hot q), so every exact rule stays exact. It
keeps no key/value cache, looks at no request but its own, and does not know any model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from torch import Tensor

from specdec_kernels.errors import InvalidInput, shown, whole
from specdec_teach.asking import count as at_least
from specdec_teach.drafters.base import Proposal
from specdec_teach.drafters.passages import Ids, Passages
from specdec_teach.result import Result
from specdec_teach.sequence import Sequence

__all__ = ["RetrievalDrafter"]

_MOST = 2**31


@final
class RetrievalDrafter:
    """Proposes what followed, in other texts, the longest end of this one that they hold.

    `corpus`: texts (`tokenizer` is then needed) or lists of ids. The longest match wins, of `longest` to `shortest`
    tokens; of the tokens that stand behind its places (the last 4,096 of them) the most frequent one, and of equally
    frequent ones the one that stands last, newer texts being later. Places where another token stands are left behind,
    and the next draft is chosen among the others. Nothing is proposed where nothing matches, or where all texts end.

    `remember` adds texts, the outputs of this engine say; nothing else does. At most `max_tokens` tokens are kept, the
    oldest texts are forgotten first (the corpus is older than all that is remembered), and a text that is longer than
    all of it keeps its end. Memory: 12 bytes a token, and about 40 more for a moment when the first request begins
    after a change.
    Source: retrieval-based speculative decoding (He et al. 2023). InvalidInput for a text that is neither a string nor
    ids, and for bounds that are no whole numbers or not longest ≥ shortest ≥ 1.

    >>> drafter = RetrievalDrafter([[1, 2, 3, 9], [1, 2, 4, 8]])
    >>> drafter.remember([1, 2, 4, 6])
    >>> drafter.look_up([5, 1, 2], 2)
    [4, 6]
    """

    def __init__(
        self,
        corpus: Iterable[str | Items[int]] = (),
        *,
        tokenizer: Any = None,
        longest: int = 8,
        shortest: int = 1,
        max_tokens: int = 100_000,
    ) -> None:
        most, least = whole(longest), whole(shortest)
        if most is None or least is None or not most >= least >= 1:
            raise InvalidInput(
                f"longest={shown(longest)}, shortest={shown(shortest)}; give whole numbers, longest ≥ shortest ≥ 1"
            )
        self._longest, self._shortest = most, least
        self._max = at_least("max_tokens", max_tokens, 1, "how many tokens to keep at most, 1 or more")
        self._tokenizer, self._vocab = tokenizer, _MOST
        self._texts: deque[Ids] = deque()
        self._held = 0
        self._passages: Passages | None = None
        self.name = "retrieval"
        self.model_name: str | None = None
        self.revision: str | None = None
        self.context: int | None = None
        self.exact = True
        if isinstance(corpus, str) or not isinstance(corpus, Iterable):
            held = "one text" if isinstance(corpus, str) else f"a {type(corpus).__name__}"
            raise InvalidInput(f"the corpus is {held}; give a list of texts, or of lists of ids")
        self.remember(*corpus)

    @property
    def held(self) -> int:
        """How many tokens of other texts there are."""
        return self._held

    def remember(self, *texts: Result | str | Items[int]) -> None:
        """Add texts, results (their new tokens) or lists of ids, the newest last; requests that run do not see them.

        InvalidInput, and no change, for a text that cannot be used or holds an id that the target does not know.
        """
        added = [text for text in (self._ids(text) for text in texts) if len(text)]
        for text in added:
            self._refuse_above(self._vocab, text)
        self._texts.extend(text[-self._max :] for text in added)
        self._held = sum(map(len, self._texts))
        while self._held > self._max:
            self._held -= len(self._texts.popleft())
        self._passages = None if added else self._passages

    def forget(self) -> None:
        """Forget all texts, the corpus too; requests that run keep theirs."""
        self._texts.clear()
        self._held, self._passages = 0, None

    def look_up(self, tokens: Items[int], count: int) -> list[int]:
        """Return what a new request whose text is `tokens` would have proposed, at most `count` tokens."""
        return self._view().look_up(tokens, count)

    def over(self, model: Any, mode: object = None) -> RetrievalDrafter:
        """Return a drafter with the same bounds for a model with other ids, in whose texts each id follows the last."""
        ids = 2 * list(range(model.config.get_text_config(decoder=True).vocab_size))
        return RetrievalDrafter([ids], longest=self._longest, shortest=self._shortest, max_tokens=len(ids))

    def check(self, vocab: int) -> None:
        """Refuse texts with ids that a target of `vocab` ids does not know."""
        for text in self._texts:
            self._refuse_above(vocab, text)
        self._vocab = min(self._vocab, vocab)

    def reset(self, sequence: Sequence, capacity: int) -> None:
        """See `Drafter.reset`: take hold of the texts as they are now."""
        sequence.draft = self._view()

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        return [
            Proposal(tuple(cast(_View, sequence.draft).look_up(sequence.tokens, count)))
            for sequence, count in zip(sequences, counts, strict=True)
        ]

    def commit(self, sequence: Sequence) -> None:
        """Nothing is computed, so nothing is forgotten."""

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache."""

    def _view(self) -> _View:
        if self._passages is None:
            self._passages = Passages(list(self._texts), self._longest)
        return _View(self._passages, self._shortest)

    def _ids(self, text: object) -> Ids:
        if isinstance(text, str) and self._tokenizer is None:
            raise InvalidInput(f"{shown(text)} is a text and the drafter has no tokenizer; pass tokenizer=…, or ids")
        given = text.tokens if isinstance(text, Result) else text
        given = self._tokenizer(given).input_ids if isinstance(given, str) else given
        items = given.tolist() if hasattr(given, "tolist") else given
        ids = [whole(token) for token in items] if isinstance(items, (list, tuple, range)) else [None]
        wrong = next((at for at, token in enumerate(ids) if token is None or not 0 <= token < _MOST), None)
        if wrong is not None:
            held = shown(items[wrong]) if isinstance(items, (list, tuple, range)) else f"a {type(text).__name__}"
            raise InvalidInput(f"a text holds {held}; give texts, results, or lists of token ids from 0 on")
        return np.array(ids, dtype=np.int32)

    @staticmethod
    def _refuse_above(vocab: int, text: Ids) -> None:
        if len(text) and int(text.max()) >= vocab:
            raise InvalidInput(
                f"a text to retrieve from holds token {int(text.max())}; the target's ids are 0 to {vocab - 1}, so "
                "make the texts with its tokenizer"
            )


@final
@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The texts as they were when a request began; nothing in them changes."""

    passages: Passages
    shortest: int

    def look_up(self, tokens: Items[int], count: int) -> list[int]:
        """Return at most `count` drafts behind `tokens`."""
        return self.passages.follow(self.passages.behind(tokens, self.shortest), count)

    def fork(self) -> _View:
        """Return itself."""
        return self
