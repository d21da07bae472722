"""Drafts from Medusa heads: each guesses one token further ahead, all from one hidden state of the target.

The state is that of the last computed position. What the target says there is the pending token already, so head i
(from 1) guesses the token i + 1 places behind it, and knows nothing of the guesses of the others.
Invariant: each draft is drawn from its own head's processed distribution, with the drafts before it as history. It
keeps no cache; between cycles the last state waits in `sequence.hidden` and nothing else does.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.base import Proposal, Sprout
from specdec_teach.drafters.chain import Chain
from specdec_teach.drafters.networks import MedusaNetwork
from specdec_teach.drafters.shipped import shipped
from specdec_teach.hf import ModelRunner
from specdec_teach.pairs import Pair
from specdec_teach.sequence import Sequence
from specdec_teach.tree import depths

__all__ = ["MedusaDrafter"]


@final
class MedusaDrafter:
    """Draws draft i from head i of `network`, which was trained for `target`; there are as many drafts as heads.

    The weights are copied. `target`: the model that the engine serves; the output matrix is its own.
    `MedusaDrafter.of(pair)` loads the weights that come with the embedded target. Before the target has computed a
    token nothing is proposed.
    InvalidInput when network and target have different widths. Source: Medusa (Cai et al. 2024).

    >>> from specdec_teach import load_pair
    >>> MedusaDrafter.of(load_pair()).features  # the hidden states of the target that they read
    (7, 10)
    """

    def __init__(self, network: MedusaNetwork, target: Any, *, name: str = "medusa", revision: str = "local") -> None:
        output = target.get_output_embeddings()
        width = int(output.weight.shape[1])
        if width != network.shape.width:
            raise InvalidInput(
                f"the heads are {network.shape.width} wide and {type(target).__name__} {width}; give heads that were "
                "trained for this target"
            )
        self._network = copy.deepcopy(network).to(output.weight.device, output.weight.dtype).eval()
        self._output = output
        self.target = target
        self.features = network.shape.features
        self.name, self.revision = name, revision
        self.model_name: str | None = name
        self.context: int | None = None
        self.exact = True

    @classmethod
    def of(cls, pair: Pair) -> MedusaDrafter:
        """Return the heads that come with the embedded target; InvalidInput for another target."""
        network, revision = shipped("medusa", pair.target)
        assert isinstance(network, MedusaNetwork)
        return cls(network, pair.target, revision=revision)

    def check(self, vocab: int) -> None:
        """Refuse a target of another vocabulary."""
        have = int(self._output.weight.shape[0])
        if have != vocab:
            raise InvalidInput(
                f"the heads speak through an output matrix of {have} tokens and the target has {vocab}; give them "
                "the engine's own target"
            )

    def check_target(self, target: ModelRunner) -> None:
        """See `OnTarget.check_target`."""
        if target.model is not self.target:
            raise InvalidInput(
                f"the heads were made for another model's hidden states than the target's, {target.name}; give them "
                "the engine's own target"
            )

    def check_tree(self) -> None:
        """See `Expandable.check_tree`; what a head says is the same behind every node of a depth."""

    def reset(self, sequence: Sequence, capacity: int, spare: int = 0) -> None:
        """There is nothing to prepare."""

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; the target's states wait in each `sequence.hidden`."""
        chains = [Chain(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]
        active = [chain for chain in chains if chain.count > 0 and _ahead(chain.sequence) is not None]
        for logits_KV, chain in zip(self._say([chain.sequence for chain in active]), active, strict=True):
            for logits_1V in torch.split(logits_KV, 1):
                if not chain.take(logits_1V):
                    break
        return [chain.proposal() for chain in chains]

    def expand(
        self, sequences: Items[Sequence], sprouts: Items[Sprout], hidden: Items[Tensor] | None = None
    ) -> list[Tensor]:
        """See `Expandable.expand`: a node's depth says which head speaks, whatever stands on the way to it."""
        fresh = [s for s, sprout in zip(sequences, sprouts, strict=True) if not sprout.grown and _ahead(s) is not None]
        for sequence, logits_KV in zip(fresh, self._say(fresh), strict=True):
            sequence.draft = _Said(logits_KV)
        return [self._behind(sequence, sprout) for sequence, sprout in zip(sequences, sprouts, strict=True)]

    def _say(self, sequences: Items[Sequence]) -> list[Tensor]:
        """Return for each sequence what the heads say whose place is not known yet, `[K, V]`."""
        states = [one.hidden.rows_RW[-1] for one in sequences if one.hidden is not None]
        if not states:
            return []
        logits_BKV: Tensor = self._output(self._network(torch.stack(states))).transpose(0, 1)
        return [said_KV[_ahead(one) or 0 :] for said_KV, one in zip(logits_BKV, sequences, strict=True)]

    def _behind(self, sequence: Sequence, sprout: Sprout) -> Tensor:
        said, head = sequence.draft, max(depths(sprout.parents), default=0)
        weight = self._output.weight
        nothing_V: Tensor = weight.new_full((len(weight),), -torch.inf)
        here_V = said.logits_KV[head] if isinstance(said, _Said) and head < len(said.logits_KV) else nothing_V
        return here_V.expand(len(sprout.frontier), -1)

    def retract(self, sequence: Sequence) -> None:
        """See `Expandable.retract`."""
        sequence.draft = None

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`: only the last state is wanted again."""
        if sequence.hidden is not None:
            sequence.hidden.drop(sequence.hidden.stop - 1)

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    """What the heads said of the places behind the text, `[K, V]`, while a tree grows from it."""

    logits_KV: Tensor

    def fork(self) -> _Said:
        """It is never changed, so both read the same."""
        return self


def _ahead(sequence: Sequence) -> int | None:
    """Return how many tokens are known behind the one that the last state's own guess stands for; None without one."""
    hidden = sequence.hidden
    return None if hidden is None or hidden.stop == hidden.start else len(sequence.tokens) - 1 - hidden.stop
