"""Drafts from a smaller language model with a cache of its own.

Invariant: "computed catches up with committed": each call first feeds whatever committed tokens the cache lacks (two
after a cycle that accepted everything, one otherwise), and the last draft of a call is never fed, only sampled.
It does not know the target.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Literal, cast, final

from torch import Tensor

from specdec_kernels.errors import unknown_name
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Proposal
from specdec_teach.drafters.chain import Chain
from specdec_teach.hf import ModelRunner, PreTrainedModel
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
        chains = [
            Chain(sequence, count, self.mode == "argmax") for sequence, count in zip(sequences, counts, strict=True)
        ]
        active = [(chain, self._cache(chain.sequence)) for chain in chains if chain.count > 0]
        while active:
            caches = [cache for _, cache in active]
            feeds = [self._known(chain.text[cache.pointer :]) for chain, cache in active]
            rows = self._runner.forward_rows(caches, feeds, [1] * len(active))
            active = [one for one, logits_1V in zip(active, rows, strict=True) if one[0].take(logits_1V)]
        return [chain.proposal() for chain in chains]

    def _known(self, ids: list[int]) -> list[int]:
        """Put id 0 in place of ids that the draft's smaller vocabulary lacks; what is drawn from its q stays honest."""
        return [token if token < self._runner.vocab else 0 for token in ids]

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
