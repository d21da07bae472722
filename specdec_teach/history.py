"""Penalties, bans and processors: what a row's own prefix does to its logits.

Invariant: row r is changed by the committed tokens and the first r drafts only, so a draft that is thrown away never
leaves a mark. Processors with a state of their own are refused, since a rejection could not take it back.
It does not know how tokens are drawn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, InvalidInput, shown
from specdec_teach.grammar import GrammarMasks
from specdec_teach.sampling import Sampling
from specdec_teach.tree import Parents, path_to

__all__ = ["History"]


@final
class History:
    """The steps of one request: bias and allowed, penalties, n-grams, bans, minimum length, processors, grammar."""

    __slots__ = ("_always", "_grammar", "_per_row", "_prompt_length")

    def __init__(
        self,
        sampling: Sampling,
        prompt: Items[int],
        vocab: int,
        eos: frozenset[int],
        banned: Items[tuple[int, ...]],
        rolls_back: bool,
        grammar: GrammarMasks | None,
    ) -> None:
        self._prompt_length = len(prompt)
        self._always = _always(sampling, vocab)
        self._grammar = grammar
        self._per_row: list[Callable[[Tensor, list[int]], Tensor]] = []
        if sampling.repetition_penalty != 1.0:
            self._per_row.append(lambda row, ids: _repetition(row, ids, sampling.repetition_penalty))
        if sampling.frequency_penalty or sampling.presence_penalty:
            self._per_row.append(lambda row, ids: self._counts(row, ids, sampling))
        if sampling.no_repeat_ngram_size:
            self._per_row.append(lambda row, ids: _without(row, _ngram_ends(ids, sampling.no_repeat_ngram_size)))
        if banned:
            self._per_row.append(lambda row, ids: _without(row, [b[-1] for b in banned if _ends_with(ids, b[:-1])]))
        if sampling.min_new_tokens and eos:
            least = len(prompt) + sampling.min_new_tokens
            ends = sorted(token for token in eos if token < vocab)
            self._per_row.append(lambda row, ids: _without(row, ends) if len(ids) < least else row)
        for processor in sampling.processors:
            if rolls_back:
                _refuse_state(processor, prompt, vocab)
            self._per_row.append(_as_step(processor))
        if grammar is not None:
            self._per_row.append(lambda row, ids: grammar.mask(row, ids[self._prompt_length :]))

    @classmethod
    def of(
        cls,
        sampling: Sampling,
        prompt: Items[int],
        vocab: int,
        eos: frozenset[int],
        banned: Items[tuple[int, ...]],
        rolls_back: bool = True,
        grammar: GrammarMasks | None = None,
    ) -> History | None:
        """Return the steps of a request, or None when it has none.

        `banned`: the phrases of `sampling.banned` as ids. `rolls_back`: whether drafts can be thrown away, which
        refuses processors with a state. InvalidInput for such a one, and for ids outside the vocabulary.
        """
        named = [*(sampling.allowed or ()), *(sampling.logit_bias or {}), *(t for phrase in banned for t in phrase)]
        wrong = next((token for token in named if not 0 <= token < vocab), None)
        if wrong is not None:
            raise InvalidInput(
                f"banned, allowed or logit_bias names token {wrong}; the target's ids are 0 to {vocab - 1}"
            )
        history = cls(sampling, prompt, vocab, eos, banned, rolls_back, grammar)
        return history if history._per_row or history._always is not None else None

    def apply(
        self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int], parents: Parents | None = None
    ) -> Tensor:
        """Return the logits `[R, V]` with every row changed by its own prefix; see `Policy.scores`."""
        logits_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
        if self._always is not None:
            logits_RV = logits_RV + self._always.to(logits_RV)
        if not self._per_row:
            return logits_RV
        rows = []
        for index, row_V in enumerate(logits_RV):
            ids = [*prefix, *_way(drafts, parents, index - 1)]
            for step in self._per_row:
                row_V = step(row_V, ids)
            rows.append(row_V)
        return torch.stack(rows)

    def legal(self, prefix: Items[int], drafts: Items[int], parents: Parents | None = None) -> tuple[int, ...]:
        """Return which of `drafts` the grammar allows where they stand; all of them where there is none."""
        grammar, every = self._grammar, range(len(drafts))
        if grammar is None:
            return tuple(every)
        new = prefix[self._prompt_length :]
        if parents is None:
            return tuple(every[: grammar.legal(new, drafts)])
        ways = [_way(drafts, parents, node) for node in every]
        return tuple(node for node, way in enumerate(ways) if grammar.legal(new, way) == len(way))

    def _counts(self, row_V: Tensor, ids: list[int], sampling: Sampling) -> Tensor:
        """Subtract both count penalties for the tokens said since the prompt."""
        said = torch.tensor(ids[self._prompt_length :], dtype=torch.int64, device=row_V.device)
        counts_V = torch.zeros_like(row_V).index_add_(0, said, torch.ones_like(said, dtype=row_V.dtype))
        return row_V - sampling.frequency_penalty * counts_V - sampling.presence_penalty * (counts_V > 0)


def _way(drafts: Items[int], parents: Parents | None, node: int) -> Items[int]:
    """Return the drafts from the first to `node`, both included; none for −1."""
    return drafts[: node + 1] if parents is None else [drafts[at] for at in path_to(parents, node)]


def _always(sampling: Sampling, vocab: int) -> Tensor | None:
    """Return what is added to every row, history or not."""
    if sampling.allowed is None and not sampling.logit_bias:
        return None
    added_V = torch.zeros(vocab, dtype=torch.float64)
    for token, bias in (sampling.logit_bias or {}).items():
        added_V[token] += bias
    if sampling.allowed is not None:
        shut_V = torch.ones(vocab, dtype=torch.bool)
        shut_V[list(sampling.allowed)] = False
        added_V[shut_V] = -torch.inf
    return added_V


def _repetition(row_V: Tensor, ids: list[int], penalty: float) -> Tensor:
    """Divide positive, multiply negative logits of every token seen. Source: Keskar et al. 2019, CTRL, section 4.1."""
    seen = torch.tensor(sorted(set(ids)), dtype=torch.int64, device=row_V.device)
    values = row_V[seen]
    return row_V.index_copy(0, seen, torch.where(values < 0, values * penalty, values / penalty))


def _ngram_ends(ids: list[int], size: int) -> list[int]:
    """Return the tokens that would complete an n-gram that `ids` already holds."""
    tail = ids[len(ids) - size + 1 :] if size > 1 else []
    return [ids[at + size - 1] for at in range(len(ids) - size + 1) if ids[at : at + size - 1] == tail]


def _ends_with(ids: list[int], phrase: tuple[int, ...]) -> bool:
    return not phrase or tuple(ids[-len(phrase) :]) == phrase


def _without(row_V: Tensor, tokens: list[int]) -> Tensor:
    if not tokens:
        return row_V
    return row_V.index_fill(0, torch.tensor(tokens, dtype=torch.int64, device=row_V.device), -torch.inf)


def _as_step(processor: Callable[[Any, Any], Any]) -> Callable[[Tensor, list[int]], Tensor]:
    def step(row_V: Tensor, ids: list[int]) -> Tensor:
        try:
            changed: Tensor = processor(torch.tensor([ids], device=row_V.device), row_V[None].clone())
        except Exception as error:
            raise EngineFailure(
                f"the processor {type(processor).__name__} failed after {len(ids)} tokens: "
                f"{type(error).__name__}: {shown(error)}"
            ) from error
        return changed[0]

    return step


def _refuse_state(processor: Callable[[Any, Any], Any], prompt: Items[int], vocab: int) -> None:
    """Walk one copy of the processor over prefixes that grow, shrink and branch, and compare it with fresh copies.

    InvalidInput when an answer depends on what was asked before, or when the processor cannot be copied to find out.
    """
    start, first, second = list(prompt), 0, vocab - 1
    walk = [start, [*start, first], [*start, first, first], [*start, second], start, [*start, second, first], start]
    try:
        walker = copy.deepcopy(processor)
        answers = [_answer(walker, ids, vocab) for ids in walk]
        fresh = [_answer(copy.deepcopy(processor), ids, vocab) for ids in walk]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the processor {type(processor).__name__} cannot be tried out on a copy ({shown(error)}); "
            "give a function (ids [1, T], logits [1, V]) -> logits that can be copied"
        ) from None
    if not all(torch.equal(a, b) for a, b in zip(answers, fresh, strict=True)) or not torch.equal(
        answers[0], answers[4]
    ):
        raise InvalidInput(
            f"the processor {type(processor).__name__} keeps a state, which cannot be rolled back after a rejection; "
            "give one that computes its answer from the ids alone, or decode with speculate=False"
        )


def _answer(processor: Callable[[Any, Any], Any], ids: list[int], vocab: int) -> Tensor:
    logits_1V = torch.linspace(-1.0, 1.0, vocab)[None]
    answer: Tensor = processor(torch.tensor([ids]), logits_1V)
    return answer
