"""Drafts from a smaller language model with a cache of its own.

Invariant: "computed catches up with committed": each call first feeds whatever committed tokens the cache lacks (two
after a cycle that accepted everything, one otherwise), and the last draft of a call is never fed, only sampled.
It does not know the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from typing import Literal, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, unknown_name
from specdec_teach.caches.contiguous import ContiguousCache
from specdec_teach.drafters.base import Proposal
from specdec_teach.hf import ModelRunner
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

    def __init__(self, model: object, mode: Literal["sample", "argmax"] = "sample") -> None:
        if mode not in ("sample", "argmax"):
            raise unknown_name("mode", mode, ("sample", "argmax"))
        self._runner = ModelRunner(model, "draft")
        self._mode = mode
        self.name = "model" if mode == "sample" else "model-argmax"
        self.model_name: str | None = self._runner.name
        self.revision: str | None = self._runner.revision
        self.context = self._runner.context
        self.exact = True

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
        """See `Drafter.propose`."""
        return [self._propose(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]

    def _propose(self, sequence: Sequence, count: int) -> Proposal:
        cache = self._cache(sequence)
        tokens: list[int] = []
        rows: list[Tensor] = []
        feed = self._known(sequence.tokens[cache.pointer :])
        certain = self._mode == "argmax" or sequence.sampling.greedy_now
        while len(tokens) < count:
            logits_1V = fit_width(self._runner.forward(cache, feed, keep=1), sequence.vocab)
            logits_1V = sequence.policy.scores(logits_1V, sequence.tokens + tokens, ())
            if float(logits_1V.amax()) == -math.inf:
                break
            if certain:
                token = self._likeliest(logits_1V, len(tokens), sequence)
            else:
                q_1V = processed(logits_1V, sequence.sampling)
                token = sequence.noise.draw(StreamId.DRAFT, sequence.number + len(tokens), q_1V[0])
                if token >= sequence.vocab or math.isnan(float(q_1V[0, token])):
                    raise self._not_numbers(len(tokens), sequence)
                rows.append(q_1V)
            tokens.append(token)
            feed = self._known([token])
        return Proposal(tuple(tokens), torch.cat(rows) if rows else None)

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

    def _cache(self, sequence: Sequence) -> ContiguousCache:
        assert isinstance(sequence.draft, ContiguousCache), "reset comes first"
        return sequence.draft
