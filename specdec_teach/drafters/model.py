"""Drafts from a smaller language model with a cache of its own.

Invariant: "computed catches up with committed": each call first feeds whatever committed tokens the cache lacks (two
after a cycle that accepted everything, one otherwise), and the last draft of a call is never fed, only sampled.
It does not know the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Literal, cast, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, unknown_name
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Proposal
from specdec_teach.hf import ModelRunner, PreTrainedModel
from specdec_teach.noise import StreamId
from specdec_teach.policy import fit_width, processed
from specdec_teach.sequence import Sequence

__all__ = ["ModelDrafter"]


@final
class ModelDrafter:
    """Draws each draft from a causal LM of transformers, under the request's own sampling settings.

    `mode="sample"`: drafts are drawn from the processed distribution q, which is reported.
    `mode="argmax"`: drafts are the likeliest tokens, and the reported q is one-hot, whatever the temperature.
    Where the request's bans leave the draft nothing to say, it proposes less.
    InvalidInput when the model cannot serve (see `ModelRunner`) or the mode is unknown.
    """

    def __init__(self, model: object, mode: Literal["sample", "argmax"] = "sample", *, decoder: str = "auto") -> None:
        if mode not in ("sample", "argmax"):
            raise unknown_name("mode", mode, ("sample", "argmax"))
        self._runner = ModelRunner(model, "draft", decoder=decoder)
        self.mode: Literal["sample", "argmax"] = mode
        self.name = "model" if mode == "sample" else "model-argmax"
        self.model_name: str | None = self._runner.name
        self.revision: str | None = self._runner.revision
        self.context = self._runner.context
        self.exact = True

    @property
    def runner(self) -> ModelRunner:
        """What runs the draft model."""
        return self._runner

    @property
    def model(self) -> PreTrainedModel:
        """The draft model."""
        return self._runner.model

    def over(self, model: object, mode: Literal["sample", "argmax"] | None = None) -> ModelDrafter:
        """Return a drafter like this one over another model, and in another mode if one is given."""
        return ModelDrafter(model, self.mode if mode is None else mode)

    def check(self, vocab: int) -> None:
        """Any width fits: logits are cut or padded to the target's; tokenizers are compared when a pair is loaded."""

    def reset(self, sequence: Sequence, capacity: int) -> int:
        """See `Drafter.reset`; a prompt longer than the draft's context is left uncomputed."""
        cache = self._runner.new_cache(capacity if self.context is None else min(capacity, self.context))
        sequence.draft = cache
        ready = self._known(sequence.tokens[:-1])
        if ready and len(sequence.tokens) <= cache.capacity:
            self._runner.forward(cache, ready, keep=0)
        return cache.pointer

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; each step is one forward for all sequences that go on."""
        drafts: list[_Draft] = []
        for sequence, count in zip(sequences, counts, strict=True):
            cache = self._cache(sequence)
            drafts.append(_Draft(sequence, cache, count, self._known(sequence.tokens[cache.pointer :])))
        active = [draft for draft in drafts if draft.count > 0]
        while active:
            rows = self._runner.forward_rows([d.cache for d in active], [d.feed for d in active], [1] * len(active))
            active = [draft for draft, logits_1V in zip(active, rows, strict=True) if self._goes_on(draft, logits_1V)]
        return [Proposal(tuple(d.tokens), torch.cat(d.rows) if d.rows else None) for d in drafts]

    def _goes_on(self, draft: _Draft, logits_1V: Tensor) -> bool:
        """Draw one draft, and say whether there is another to come."""
        sequence, row = draft.sequence, len(draft.tokens)
        logits_1V = sequence.policy.scores(fit_width(logits_1V, sequence.vocab), sequence.tokens + draft.tokens, ())
        if float(logits_1V.amax()) == -math.inf:
            return False
        if self.mode == "argmax" or sequence.sampling.greedy_now:
            token = self._likeliest(logits_1V, row, sequence)
        else:
            q_1V = processed(logits_1V, sequence.sampling)
            token = sequence.noise.draw(StreamId.DRAFT, sequence.number + row, q_1V[0])
            if token >= sequence.vocab or math.isnan(float(q_1V[0, token])):
                raise self._not_numbers(row, sequence)
            draft.rows.append(q_1V)
        draft.tokens.append(token)
        draft.feed = self._known([token])
        return len(draft.tokens) < draft.count

    def _known(self, ids: list[int]) -> list[int]:
        """Put id 0 in place of ids that the draft's smaller vocabulary lacks; what is drawn from its q stays honest."""
        return [token if token < self._runner.vocab else 0 for token in ids]

    def _likeliest(self, logits_1V: Tensor, row: int, sequence: Sequence) -> int:
        if not torch.isfinite(logits_1V.amax()):
            raise self._not_numbers(row, sequence)
        return int(logits_1V.argmax())

    def _not_numbers(self, row: int, sequence: Sequence) -> EngineFailure:
        return EngineFailure(
            f"the draft model's logits for draft {row + 1} after {len(sequence.tokens)} tokens are not numbers; "
            "check its weights and dtype (float16 overflows on a CPU), or run without a drafter"
        )

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""
        cache = self._cache(sequence)
        cache.rollback(min(cache.pointer, len(sequence.tokens) - 1))

    def pointer(self, sequence: Sequence) -> int:
        """See `Drafter.pointer`."""
        return self._cache(sequence).pointer

    def _cache(self, sequence: Sequence) -> Cache:
        assert sequence.draft is not None, "reset comes first"
        return cast(Cache, sequence.draft)


@final
@dataclass(slots=True, eq=False)
class _Draft:
    """One sequence's drafts while they are made: `feed` is what its cache lacks, `rows` the q of each draft so far."""

    sequence: Sequence
    cache: Cache
    count: int
    feed: list[int]
    tokens: list[int] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)
