"""Runs that go where they are sent: a fixed text, and drafts that stand up to a chosen place.

Every request is given a processor that leaves one token possible at each position, the next one of a script. So target
and draft say the script, whatever their caches hold, and it is known beforehand what a fresh prefill must give. A
drafter around the engine's own then swaps one draft for another token, which the target refuses; in a tree it puts the
script on the way to one node and other tokens everywhere else. One without a cache
does not listen to processors, so the script is proposed in its place: there the target's cache is all there is to see.
Invariant: drafts with a cache are made by the engine's own drafter in it. It does not know cache layouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any, cast, final

import torch
from torch import Tensor

from specdec_teach.drafters.base import Branching, Drafter, Proposal, most_nodes
from specdec_teach.engine import Engine
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence
from specdec_teach.tree import Parents, depths, path_to

__all__ = ["Pattern", "Script", "patterns", "steered"]

_FAINT = -60.0


@final
@dataclass(frozen=True, slots=True)
class Script:
    """A text of token ids; as a processor it lets only the token at the next position through.

    `soft`: the others keep a chance, too small ever to matter, so that a tree can draw siblings.
    """

    ids: tuple[int, ...]
    soft: bool = False

    @classmethod
    def of(cls, length: int, vocab: int, among: Items[int] | None = None, soft: bool = False) -> Script:
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
        return cls(tuple(ids if among is None else (among[at] for at in ids)), soft)

    def sampling(self) -> Sampling:
        """Return settings under which the script is said: temperature 1, one token possible each time."""
        return Sampling(seed=11, eos_token_id=None, processors=(self,))

    def __call__(self, ids_1T: Tensor, logits_1V: Tensor) -> Tensor:
        """Leave one token possible; a logit that is no number stays none."""
        at, changed = ids_1T.shape[1], torch.full_like(logits_1V, _FAINT if self.soft else -torch.inf)
        token = self.ids[at] if at < len(self.ids) else 0
        changed[:, token] = logits_1V[:, token] * 0.0
        return changed


@final
@dataclass(frozen=True, slots=True)
class Pattern:
    """What becomes of the drafts of every cycle: `accepted` of them stand; None: whatever happens.

    `at`: the draft that is refused (from 1; 0: none); of a tree of this `shape`, `node` is the last one that stands.
    """

    name: str
    accepted: int | None
    at: int = 0
    shape: Parents | None = None
    node: int = -1


def patterns(engine: Engine) -> Iterator[Pattern]:
    """Yield every place where the drafts of an engine can end, and last that none is chosen."""
    drafter, gamma = engine.drafter, engine.gamma
    if isinstance(drafter, Branching):
        planned = getattr(drafter, "planned", lambda depth: None)(gamma)
        shape = planned if planned is not None else _twins(gamma, most_nodes(drafter, gamma))
        for node in range(-1, len(shape)):
            place = f"ends at node {node + 1} of {len(shape)}"
            yield Pattern(place, depths(shape)[node] if node >= 0 else 0, shape=shape, node=node)
    else:
        yield from (Pattern(f"rejected at {at}", at - 1, at) for at in range(1, gamma + 1))
        yield Pattern("all accepted", gamma)
    yield Pattern("none forced", None)


def _twins(depth: int, most: int) -> Parents:
    """Return a tree of two children a level, below the second of each level, with at most `most` nodes."""
    return tuple(node - 1 if node % 2 == 0 else node - 2 for node in range(min(2 * depth, most)))


def steered(drafter: Drafter, script: Script, pattern: Pattern) -> Drafter:
    """Return `drafter` saying the script as far as `pattern` lets its drafts stand."""
    if pattern.shape is not None:
        return cast(Drafter, _OnTree(drafter, script, pattern.shape, path_to(pattern.shape, pattern.node)))
    return cast(Drafter, _Steered(drafter, script, pattern.at))


@final
@dataclass(frozen=True, slots=True)
class _OnTree:
    inner: Drafter
    script: Script
    shape: Parents
    path: tuple[int, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; the drafter's own tree is grown too, and then forgotten."""
        grown = self.inner.propose(sequences, counts, hidden)
        return [self._put(s, proposal.reach) for s, proposal in zip(sequences, grown, strict=True)]

    def _put(self, sequence: Sequence, reach: int | None) -> Proposal:
        said = [self.script.ids[len(sequence.tokens) + depth - 1] for depth in depths(self.shape)]
        others = sequence.vocab - 1
        tokens = [
            token if node in self.path else (token + 1 + node % others) % sequence.vocab
            for node, token in enumerate(said)
        ]
        return Proposal(tuple(tokens), None, self.shape, reach)


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
