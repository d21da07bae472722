"""Drafts from a smaller language model with a cache of its own.

Invariant: "computed catches up with committed": each call first feeds whatever committed tokens the cache lacks (two
after a cycle that accepted everything, one otherwise), and the last draft of a call is never fed, only sampled.
It does not know the target.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, Literal, cast, final

from torch import Tensor

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.bridge import Bridge
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Proposal, Sprout
from specdec_teach.drafters.chain import Chain
from specdec_teach.drafters.mirror import Mirror
from specdec_teach.hf import ModelRunner, PreTrainedModel
from specdec_teach.policy import fit_width
from specdec_teach.sequence import Sequence
from specdec_teach.tree import Parents, kept

__all__ = ["ModelDrafter"]

_ROOM = 4


@final
class ModelDrafter:
    """Draws each draft from a causal LM of transformers, under the request's own sampling settings.

    `mode="sample"`: drafts are drawn from the processed distribution q, which is reported.
    `mode="argmax"`: drafts are the likeliest tokens, and the reported q is one-hot, whatever the temperature.
    Where the request's bans leave the draft nothing to say, or its sequence's patience ends, it proposes less.
    `tokenizer`, `target_tokenizer`: for a model with another tokenizer than the target's, both. It then drafts the
    tokens that the two share, q is its law over those alone, and every other token of the text is read as the draft's
    own tokenizer writes it; a text that takes more than four of its ids a token may leave it no room to draft.
    Source: token-level intersection (Timor et al. 2025). InvalidInput when the model cannot serve (see `ModelRunner`),
    the mode is unknown, one tokenizer is given alone, or the two share nothing.

    >>> from specdec_teach import Engine, Sampling
    >>> from specdec_teach.testing import TabularLM
    >>> engine = Engine(TabularLM([1.0, 3.0]), drafter=ModelDrafter(TabularLM([3.0, 1.0])), gamma=2)
    >>> engine.generate([0], Sampling(seed=1), max_new_tokens=8).stats.drafted > 0
    True
    """

    def __init__(
        self,
        model: object,
        mode: Literal["sample", "argmax"] = "sample",
        *,
        decoder: str = "auto",
        tokenizer: Any = None,
        target_tokenizer: Any = None,
    ) -> None:
        if mode not in ("sample", "argmax"):
            raise unknown_name("mode", mode, ("sample", "argmax"))
        if (tokenizer is None) != (target_tokenizer is None):
            raise InvalidInput(
                "one tokenizer alone was given; give tokenizer= (the draft's) and target_tokenizer=, or neither where "
                "both models have the same"
            )
        self._runner = ModelRunner(model, "draft", decoder=decoder)
        self._bridge = None if tokenizer is None else Bridge(target_tokenizer, tokenizer, self._runner.vocab)
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

    @property
    def shared(self) -> tuple[int, ...] | None:
        """The target's ids that can be drafted, where the draft has another tokenizer; else None."""
        return None if self._bridge is None else self._bridge.shared

    def spell(self, tokens: Items[int]) -> list[int]:
        """Return the draft model's ids for tokens of the target.

        Ids that a smaller vocabulary lacks are put as 0: what is drawn from its q stays honest.
        """
        if self._bridge is not None:
            return self._bridge.spell(tokens)
        return [token if token < self._runner.vocab else 0 for token in tokens]

    def over(self, model: object, mode: Literal["sample", "argmax"] | None = None) -> ModelDrafter:
        """Return a drafter like this one over another model, and in another mode if one is given."""
        return ModelDrafter(model, self.mode if mode is None else mode)

    def check(self, vocab: int) -> None:
        """Any width fits: logits are cut or padded to the target's; tokenizers are compared when a pair is loaded."""

    def check_tree(self) -> None:
        """See `Expandable.check_tree`."""
        if self._bridge is not None:
            raise InvalidInput(
                "a draft with another tokenizer than the target's spells each way of a tree anew; draft chains with it"
            )
        if not self._runner.branches:
            raise InvalidInput(
                f"the draft {type(self.model).__name__} cannot be told the shape of a tree (its forward takes no "
                "positions, keeps a state, or does not follow a mask); draft chains with it"
            )

    def reset(self, sequence: Sequence, capacity: int, spare: int = 0) -> int:
        """See `Expandable.reset`; a prompt longer than the draft's context is left uncomputed."""
        ready, room = self.spell(sequence.tokens[:-1]), capacity
        if self._bridge is not None:
            room = len(ready) + _ROOM * (capacity - len(sequence.tokens) + 1)
        room = room if self.context is None else min(room, self.context)
        cache = self._runner.new_cache(room + spare)
        sequence.draft = cache if self._bridge is None else Mirror(cache, self._bridge, sequence.tokens[:-1])
        if ready and len(ready) < room:
            self._runner.forward(cache, ready, keep=0)
        return self.pointer(sequence)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; each step is one forward for all sequences that go on."""
        chains = [
            Chain(sequence, count, self.mode == "argmax") for sequence, count in zip(sequences, counts, strict=True)
        ]
        going = [chain for chain in chains if chain.count > 0]
        while active := [one for chain in going if (one := self._next(chain)) is not None]:
            caches, feeds = [cache for _, cache, _ in active], [feed for _, _, feed in active]
            rows = self._runner.forward_rows(caches, feeds, [1] * len(active))
            going = [
                chain
                for (chain, _, _), logits_1V in zip(active, rows, strict=True)
                if chain.take(self._wide(logits_1V, chain))
            ]
        return [chain.proposal() for chain in chains]

    def _next(self, chain: Chain) -> tuple[Chain, Cache, list[int]] | None:
        """Return what a chain lacks for its next draft, and the cache it goes to; None where that has no room."""
        state, text = self._state(chain.sequence), chain.text
        if isinstance(state, Mirror):
            state.follow(text)
            feed, cache = state.lacking, state.cache
        else:
            feed, cache = self.spell(text[state.pointer :]), state
        return (chain, cache, feed) if cache.pointer + len(feed) <= cache.capacity else None

    def _wide(self, logits_1V: Tensor, chain: Chain) -> Tensor:
        return logits_1V if self._bridge is None else self._bridge.widen(logits_1V, chain.sequence.vocab)

    def expand(
        self, sequences: Items[Sequence], sprouts: Items[Sprout], hidden: Items[Tensor] | None = None
    ) -> list[Tensor]:
        """See `Expandable.expand`: the nodes of each level are computed in one forward, behind those before them."""
        caches = [cast(Cache, self._state(sequence)) for sequence in sequences]
        feeds: list[list[int]] = []
        trees: list[Parents | None] = []
        for sequence, cache, sprout in zip(sequences, caches, sprouts, strict=True):
            nodes = [node for node in (*sprout.grown, *sprout.frontier) if node >= 0]
            fed = [sprout.tokens[node] for node in sprout.frontier] if nodes else sequence.tokens[cache.pointer :]
            feeds.append(self.spell(fed))
            trees.append(kept(sprout.parents, nodes) if nodes else None)
        rows = self._runner.forward_rows(caches, feeds, [len(sprout.frontier) for sprout in sprouts], trees=trees)
        return [fit_width(logits_FV, s.vocab) for s, logits_FV in zip(sequences, rows, strict=True)]

    def retract(self, sequence: Sequence) -> int:
        """See `Expandable.retract`."""
        cache = cast(Cache, self._state(sequence))
        reach = cache.pointer
        cache.rollback(min(reach, len(sequence.tokens)))
        return reach

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""
        state = self._state(sequence)
        if isinstance(state, Mirror):
            state.follow(sequence.tokens)
        else:
            state.rollback(min(state.pointer, len(sequence.tokens) - 1))

    def pointer(self, sequence: Sequence) -> int:
        """See `Drafter.pointer`; tokens of the target, whatever the draft's ids."""
        return self._state(sequence).pointer

    def _state(self, sequence: Sequence) -> Cache | Mirror:
        assert sequence.draft is not None, "reset comes first"
        return cast("Cache | Mirror", sequence.draft)
