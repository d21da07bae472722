"""Drafts from an EAGLE-style head: one layer that goes on from the target's own hidden states.

Row t of the head stands for token t + 1 and the state of position t, and guesses token t + 2. "Computed catches up with
committed": each call first feeds the target's states of all positions that were committed since; what the head had
made up for them while drafting is gone, its rows too.
Invariant: behind a commit the head's cache holds rows of the target's states only. It shares the target's embedding and
output matrix, and knows nothing of the layers between.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any, cast, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.caches import ContiguousCache
from specdec_teach.decoder import Layer, attended, normed
from specdec_teach.drafters.base import Proposal, Sprout
from specdec_teach.drafters.chain import Chain
from specdec_teach.drafters.networks import HeadNetwork
from specdec_teach.drafters.shipped import shipped
from specdec_teach.hf import ModelRunner
from specdec_teach.hidden import Hidden
from specdec_teach.pairs import Pair
from specdec_teach.sequence import Sequence
from specdec_teach.sight import hidden as unseen
from specdec_teach.sight import positions
from specdec_teach.tree import Parents, is_chain, kept

__all__ = ["HeadDrafter"]


@final
class HeadDrafter:
    """Draws each draft from a head that was trained for `target`, under the request's own sampling settings.

    `network`: its weights, which are copied. `target`: the model that the engine serves; embedding and output matrix
    are its own. `HeadDrafter.of(pair)` loads the weights that come with the embedded target. Before the target has
    computed a token nothing is proposed. InvalidInput when network and target have different widths.
    Source: EAGLE (Li et al. 2024); with several hidden states and roll-outs in training, EAGLE-3 (Li et al. 2025).

    >>> from specdec_teach import load_pair
    >>> HeadDrafter.of(load_pair()).features  # the hidden states of the target that it reads
    (3, 7, 10)
    """

    def __init__(self, network: HeadNetwork, target: Any, *, name: str = "head", revision: str = "local") -> None:
        embedding, output = target.get_input_embeddings(), target.get_output_embeddings()
        width = int(embedding.weight.shape[1])
        if width != network.shape.width:
            raise InvalidInput(
                f"the head is {network.shape.width} wide and {type(target).__name__} {width}; give a head that was "
                "trained for this target"
            )
        self._network = copy.deepcopy(network).to(embedding.weight.device, embedding.weight.dtype).eval()
        self._layer = Layer(self._network.layer, network.layer.self_attn.config, 0)
        self._embedding, self._output = embedding, output
        self._cos_PD = self._sin_PD = torch.empty(0, 0)
        self.target = target
        self.features = network.shape.features
        self.name, self.revision = name, revision
        self.model_name: str | None = name
        self.context: int | None = None
        self.exact = True

    @classmethod
    def of(cls, pair: Pair, kind: str = "head3") -> HeadDrafter:
        """Return the head that comes with the embedded target, "head3" or "head"; InvalidInput for another target.

        "head3" reads three hidden states and learnt from roll-outs of its own, "head" reads the last one.
        """
        network, revision = shipped(kind, pair.target)
        if not isinstance(network, HeadNetwork):
            raise unknown_name("kind", kind, ("head", "head3"))
        return cls(network, pair.target, name=kind, revision=revision)

    def check(self, vocab: int) -> None:
        """Refuse a target of another vocabulary."""
        have = int(self._output.weight.shape[0])
        if have != vocab:
            raise InvalidInput(
                f"the head speaks through an output matrix of {have} tokens and the target has {vocab}; give the "
                "head the engine's own target"
            )

    def check_target(self, target: ModelRunner) -> None:
        """See `OnTarget.check_target`."""
        if target.model is not self.target:
            raise InvalidInput(
                f"the head was made for another model's hidden states than the target's, {target.name}; give it the "
                "engine's own target"
            )

    def check_tree(self) -> None:
        """See `Expandable.check_tree`; the layer takes any mask and positions."""

    def reset(self, sequence: Sequence, capacity: int, spare: int = 0) -> int:
        """See `Expandable.reset`; the head's row of the last token waits for the first proposal."""
        sequence.draft = state = HeadState(ContiguousCache(capacity + spare))
        self._catch_up([sequence], len(sequence.tokens) - 2)
        return state.pointer

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; the target's states wait in each `sequence.hidden`."""
        chains = [Chain(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]
        active = [(chain, _of(chain.sequence)) for chain in chains if chain.count > 0]
        self._catch_up([chain.sequence for chain, _ in active], None)
        active = [one for one in active if one[1].said_1N is not None]
        while active:
            said_RN = torch.cat([cast(Tensor, state.said_1N) for _, state in active])
            rows = torch.split(self._output(said_RN), 1)
            active = [one for one, logits_1V in zip(active, rows, strict=True) if one[0].take(logits_1V)]
            self._feed([(state, chain.tokens[-1:], cast(Tensor, state.said_1N)) for chain, state in active])
        return [chain.proposal() for chain in chains]

    def expand(
        self, sequences: Items[Sequence], sprouts: Items[Sprout], hidden: Items[Tensor] | None = None
    ) -> list[Tensor]:
        """See `Expandable.expand`: each node goes on from what the head made up for the node above it."""
        self._catch_up([s for s, sprout in zip(sequences, sprouts, strict=True) if not sprout.grown], None)
        feeds: list[Feed] = []
        trees: list[Parents] = []
        for sequence, sprout in zip(sequences, sprouts, strict=True):
            state, number = _of(sequence), {node: at for at, node in enumerate(sprout.grown)}
            if not sprout.grown:
                state.made_GN = state.said_1N
            elif state.made_GN is not None:
                above = [number[sprout.parents[node]] for node in sprout.frontier]
                feeds.append((state, [sprout.tokens[node] for node in sprout.frontier], state.made_GN[above]))
                trees.append(kept(sprout.parents, (*sprout.grown[1:], *sprout.frontier)))
        fed = self._pass(feeds, None if all(map(is_chain, trees)) else trees)  # one node a level needs no mask
        for (state, _, _), said_FN in zip(feeds, fed, strict=True):
            state.made_GN = torch.cat([cast(Tensor, state.made_GN), said_FN])
        weight, said = self._output.weight, [_of(sequence).made_GN for sequence in sequences]
        return [
            weight.new_full((len(sprout.frontier), len(weight)), -torch.inf)
            if made_GN is None
            else self._output(made_GN[-len(sprout.frontier) :])
            for made_GN, sprout in zip(said, sprouts, strict=True)
        ]

    def retract(self, sequence: Sequence) -> int:
        """See `Expandable.retract`."""
        state = _of(sequence)
        reach = state.pointer
        state.settle()
        return reach

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`: rows of the head's own states go, and the target's states that were fed are dropped."""
        state = _of(sequence)
        state.doubt(len(sequence.tokens) - 2)
        state.settle()
        if sequence.hidden is not None:
            sequence.hidden.drop(state.sure)

    def pointer(self, sequence: Sequence) -> int:
        """See `Drafter.pointer`; the first token has no row, it is known by its state."""
        return _of(sequence).pointer

    def _catch_up(self, sequences: list[Sequence], stop: int | None) -> None:
        """Feed the rows of committed tokens below `stop` that are lacking, with the target's states where it has been.

        Behind them the head goes on by itself: the target has not been at tokens that are only supposed.
        """
        feeds = []
        for sequence in sequences:
            state = _of(sequence)
            last = len(sequence.tokens) - 1
            start, end = state.cache.pointer, min(_stop(sequence.hidden), last if stop is None else stop)
            if start < end:
                assert sequence.hidden is not None
                at = sequence.hidden.start
                hidden_RW = sequence.hidden.rows_RW[start - at : end - at]
                feeds.append((state, sequence.tokens[start + 1 : end + 1], self._network.state(hidden_RW)))
        self._feed(feeds)
        for state, _, _ in feeds:
            state.keep()
        while stop is None:
            behind = [(_of(one), one.tokens) for one in sequences if _lags(one)]
            if not behind:
                return
            self._feed([(s, [tokens[s.cache.pointer + 1]], cast(Tensor, s.said_1N)) for s, tokens in behind])

    def _feed(self, feeds: list[Feed]) -> None:
        """Feed each head state its own tokens and the states before them `[R, N]`, all in one pass."""
        for (state, _, _), said_1N in zip(feeds, self._pass(feeds), strict=True):
            state.said_1N = said_1N

    def _pass(self, feeds: list[Feed], trees: list[Parents] | None = None) -> list[Tensor]:
        """Send what is fed through the layer; return what it gave at the last row of each, or at all nodes of trees.

        Keys and values of the one layer need no row before them, so only those rows are worked out to the end.
        `trees`: for each feed the shape of a tree whose last nodes it feeds; those before are in the cache.
        """
        if not feeds:
            return []
        counts = [len(tokens) for _, tokens, _ in feeds]
        keeps = [1] * len(feeds) if trees is None else counts
        ids = torch.tensor([token for _, tokens, _ in feeds for token in tokens], device=feeds[0][2].device)
        x_TN = self._network.enter(self._embedding(ids), torch.cat([states for _, _, states in feeds]))
        spans = [(state.cache.pointer, state.cache.pointer + n) for (state, _, _), n in zip(feeds, counts, strict=True)]
        masks: list[Tensor | None] = [None] * len(feeds)
        places = [list(range(*span)) for span in spans]
        if trees is not None:
            places = [positions(stop, shape)[at:] for (at, stop), shape in zip(spans, trees, strict=True)]
            masks = [_mask(span, shape, x_TN) for span, shape in zip(spans, trees, strict=True)]
        parts = [torch.split(part, counts) for part in self._layer.project(x_TN, *self._turns(places, x_TN))]
        mixed = [
            attended(0, state.cache, q[-keep:], k, v, mask, self._layer.scale)
            for (state, _, _), q, k, v, keep, mask in zip(feeds, *parts, keeps, masks, strict=True)
        ]
        ends = torch.cat([part[-keep:] for part, keep in zip(torch.split(x_TN, counts), keeps, strict=True)])
        said_RN = normed(self._network.norm, self._layer.mix(ends, torch.cat(mixed)))
        for (state, _, _), count in zip(feeds, counts, strict=True):
            state.cache.advance(count)
        return list(torch.split(said_RN, keeps))

    def _turns(self, places: list[list[int]], like: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin `[T, 1, D]` of the rows at these places; the first half of sin is negative."""
        flat = [place for row in places for place in row]
        last = max(flat) + 1
        if last > len(self._cos_PD):
            shape = self._network.shape
            size = shape.width // shape.heads
            powers = torch.arange(0, size, 2, dtype=torch.float64) / size
            angles = torch.outer(torch.arange(max(256, 2 * last), dtype=torch.float64), shape.theta**-powers)
            cos, sin = angles.cos(), angles.sin()
            self._cos_PD = torch.cat([cos, cos], dim=-1).to(like)
            self._sin_PD = torch.cat([-sin, sin], dim=-1).to(like)
        at_T = torch.tensor(flat, device=like.device)
        return self._cos_PD[at_T][:, None], self._sin_PD[at_T][:, None]


@final
@dataclass(slots=True, eq=False)
class HeadState:
    """What the head keeps for one sequence. `sure`: how many rows were fed with the target's states.

    `said_1N`: what the head gave at its last row, `said_sure` at the last sure one: the state of the next position.
    `made_GN`: in a tree, what it gave for the pending token and each node that was asked for since, in that order.
    """

    cache: ContiguousCache
    sure: int = 0
    said_1N: Tensor | None = None
    said_sure: Tensor | None = None
    made_GN: Tensor | None = None

    @property
    def pointer(self) -> int:
        """How many tokens are computed: a row for each but the first."""
        return self.cache.pointer + 1 if self.cache.pointer else 0

    def keep(self) -> None:
        """Take all rows for sure."""
        self.sure, self.said_sure = self.cache.pointer, self.said_1N

    def doubt(self, most: int) -> None:
        """Take no more than `most` rows for sure: a cycle that was interrupted feeds the last token's row again.

        What the head gave at an earlier row is not known any more, nor is it wanted: more rows come first.
        """
        if 0 <= most < self.sure:
            self.sure, self.said_sure = most, None

    def settle(self) -> None:
        """Go back to the last sure row."""
        self.cache.rollback(self.sure)
        self.said_1N, self.made_GN = self.said_sure, None

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        """The keys and values of all rows."""
        return self.cache.contents()

    def poison(self) -> None:
        """Spoil what must not be read."""
        self.cache.poison()

    def fork(self) -> HeadState:
        """Return an independent copy."""
        return HeadState(self.cache.fork(), self.sure, self.said_1N, self.said_sure, self.made_GN)


Feed = tuple[HeadState, list[int], Tensor]
"""A state, its next tokens, and the states before them `[R, N]`."""


def _mask(span: tuple[int, int], shape: Parents, like: Tensor) -> Tensor:
    """Return what is added to the scores `[F, S]` of the last nodes of a tree."""
    at, stop = span
    hidden_FS = unseen(at, stop - at, shape, 0, like.device)
    return like.new_zeros(hidden_FS.shape).masked_fill_(hidden_FS, -torch.inf)


def _of(sequence: Sequence) -> HeadState:
    assert sequence.draft is not None, "reset comes first"
    return cast(HeadState, sequence.draft)


def _stop(hidden: Hidden | None) -> int:
    return 0 if hidden is None else hidden.stop


def _lags(sequence: Sequence) -> bool:
    """Whether a token is known that the head has not read, and a state to read it with."""
    state = _of(sequence)
    return state.said_1N is not None and state.cache.pointer < len(sequence.tokens) - 1
