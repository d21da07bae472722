"""Runs that go where they are sent: a fixed text, and a draft that is refused at a chosen place.

Every request is given a processor that leaves one token possible at each position, the next one of a script. So target
and draft say the script, whatever their caches hold, and it is known beforehand what a fresh prefill must give. A
drafter around the engine's own then swaps one draft for another token, which the target refuses. One without a cache
does not listen to processors, so the script is proposed in its place: there the target's cache is all there is to see.
Invariant: drafts with a cache are made by the engine's own drafter in it. It does not know cache layouts.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any, cast, final

import torch
from torch import Tensor

from specdec_teach.drafters.base import Drafter, Proposal
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence

__all__ = ["Script", "steered"]


@final
@dataclass(frozen=True, slots=True)
class Script:
    """A text of token ids; as a processor it lets only the token at the next position through."""

    ids: tuple[int, ...]

    @classmethod
    def of(cls, length: int, vocab: int, among: Items[int] | None = None) -> Script:
        """Return `length` ids below `vocab`, or of `among`, the same ones each time, neighbours never equal.

        >>> Script.of(5, 64).ids
        (17, 10, 51, 23, 11)
        """
        ids: list[int] = []
        vocab, state = vocab if among is None else len(among), 17
        for at in range(length):
            token = state % vocab
            ids.append((token + 1) % vocab if at and token == ids[-1] else token)
            state = (state * 48271 + 11) % (2**31 - 1)
        return cls(tuple(ids if among is None else (among[at] for at in ids)))

    def sampling(self) -> Sampling:
        """Return settings under which the script is said: temperature 1, one token possible each time."""
        return Sampling(seed=11, eos_token_id=None, processors=(self,))

    def __call__(self, ids_1T: Tensor, logits_1V: Tensor) -> Tensor:
        """Leave one token possible; a logit that is no number stays none."""
        at, changed = ids_1T.shape[1], torch.full_like(logits_1V, -torch.inf)
        token = self.ids[at] if at < len(self.ids) else 0
        changed[:, token] = logits_1V[:, token] * 0.0
        return changed


def steered(drafter: Drafter, script: Script, at: int) -> Drafter:
    """Return `drafter` saying the script, but for one token in place of draft `at` of every cycle (from 1; 0: none)."""
    return cast(Drafter, _Steered(drafter, script, at))


@final
@dataclass(frozen=True, slots=True)
class _Steered:
    inner: Drafter
    script: Script
    at: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        proposals = self.inner.propose(sequences, counts)
        return [self._swap(*one) for one in zip(sequences, counts, proposals, strict=True)]

    def _swap(self, sequence: Sequence, count: int, proposal: Proposal) -> Proposal:
        if self.inner.pointer(sequence) is None:
            start = len(sequence.tokens)
            proposal = Proposal(self.script.ids[start : start + count])
        if not 0 < self.at <= len(proposal.tokens):
            return proposal
        row, tokens, q_KV = self.at - 1, list(proposal.tokens), proposal.q_KV
        tokens[row] = (tokens[row] + 1) % sequence.vocab
        if q_KV is not None:
            q_KV = q_KV.clone()
            q_KV[row] = 0.0
            q_KV[row, tokens[row]] = 1.0
        return replace(proposal, tokens=tuple(tokens), q_KV=q_KV)
