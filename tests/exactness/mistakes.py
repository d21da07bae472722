"""The mistakes that engines really make, each as a patch of one honest function; the exam of the tests uses them.

Every mistake runs: a crash would not count as being caught.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_kernels import rejection
from specdec_teach import ending, grammar, limits, noise
from specdec_teach import sampling as sampling_module
from specdec_teach.caches.contiguous import ContiguousCache
from specdec_teach.drafters import chain
from specdec_teach.drafters import model as model_drafter
from specdec_teach.drafters.base import Proposal
from specdec_teach.rules import Rejection, Verdict
from specdec_teach.rules import rejection as rejection_rule

Patch = pytest.MonkeyPatch


def redraw_from_p(patch: Patch) -> None:
    """After a rejection, draw from the target again."""
    patch.setattr(rejection_rule, "residual", lambda p, q, token: (p, p.sum(-1)))


def accept_if_likelier(patch: Patch) -> None:
    """Accept iff p ≥ q."""
    patch.setattr(rejection, "accepts", lambda u, p, q: p >= q)


def not_strict(patch: Patch) -> None:
    """Accept a token the target excludes when the draft excludes it too."""
    patch.setattr(rejection, "accepts", lambda u, p, q: u * q <= p)


def argmax_with_soft_q(patch: Patch) -> None:
    """Draft the likeliest token and still divide by its softmax."""
    honest = model_drafter.ModelDrafter.propose

    def propose(self: Any, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
        kept = [sequence.noise for sequence in sequences]
        for sequence in sequences:
            sequence.noise = noise.GreedyNoise()
        try:
            return honest(self, sequences, counts)
        finally:
            for sequence, source in zip(sequences, kept, strict=True):
                sequence.noise = source

    patch.setattr(model_drafter.ModelDrafter, "propose", propose)


def raw_q(patch: Patch) -> None:
    """Draw from the filtered q, report the raw softmax."""
    honest = model_drafter.ModelDrafter.propose

    def propose(self: Any, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
        return [alone(self, one, count) for one, count in zip(sequences, counts, strict=True)]

    def alone(self: Any, sequence: Any, count: int) -> Proposal:
        rows: list[Tensor] = []

        def both(logits: Tensor, sampling: sd.Sampling) -> Tensor:
            rows.append(logits.softmax(-1))
            return honest_processed(logits, sampling)

        honest_processed = chain.processed
        chain.processed = both  # type: ignore[attr-defined]
        try:
            (proposal,) = honest(self, [sequence], [count])
        finally:
            chain.processed = honest_processed  # type: ignore[attr-defined]
        return Proposal(proposal.tokens, torch.cat(rows) if rows else None)

    patch.setattr(model_drafter.ModelDrafter, "propose", propose)


def loaded_dice(patch: Patch) -> None:
    """The number that judged a draft also draws its correction."""
    honest = noise.CounterNoise.draw

    def draw(self: Any, stream_id: int, number: int, weights: Tensor) -> int:
        return honest(self, noise.StreamId.ACCEPT if stream_id == noise.StreamId.TOKEN else stream_id, number, weights)  # type: ignore[arg-type]

    patch.setattr(noise.CounterNoise, "draw", draw)


def stale_slots_kept(patch: Patch) -> None:
    """A slot that was written once is not written again, so rejected tokens stay in the history."""
    highest: dict[tuple[int, int], int] = {}
    honest = ContiguousCache.write

    def write(self: Any, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        full = highest.get((id(self), layer), 0) if self.pointer else 0
        if layer in self.store.layers:
            stop = min(full, self.pointer + keys.shape[2])
            keys, values = keys.clone(), values.clone()
            count = max(0, stop - self.pointer)
            keys[:, :, :count] = self.store.layers[layer][0][:, :, self.pointer : self.pointer + count]
            values[:, :, :count] = self.store.layers[layer][1][:, :, self.pointer : self.pointer + count]
        highest[id(self), layer] = max(full, self.pointer + keys.shape[2])
        return honest(self, layer, keys, values)

    patch.setattr(ContiguousCache, "write", write)


def draft_hole(patch: Patch) -> None:
    """After an all-accept the draft counts its last proposal as computed, though it was only sampled."""
    honest = model_drafter.ModelDrafter.commit

    def commit(self: Any, sequence: Any) -> None:
        honest(self, sequence)
        cache = sequence.draft
        if cache.pointer == len(sequence.tokens) - 2 and sequence.number:
            cache.advance(1)

    patch.setattr(model_drafter.ModelDrafter, "commit", commit)


def draft_trimmed_too_far(patch: Patch) -> None:
    """The draft is rolled back two too many."""

    def commit(self: Any, sequence: Any) -> None:
        cache = sequence.draft
        if cache.pointer > len(sequence.tokens) - 1:
            cache.rollback(max(0, len(sequence.tokens) - 3))

    patch.setattr(model_drafter.ModelDrafter, "commit", commit)


def end_seen_at_the_end_only(patch: Patch) -> None:
    """Only the last token of a block is compared with the end token."""
    honest = ending.Ending.feed

    def feed(self: Any, tokens: Any, *, last: bool = False) -> Any:
        inside = honest(replace(self, eos=frozenset()), tokens[:-1])
        return replace(honest(replace(inside.after, eos=self.eos), tokens[-1:], last=last), kept=len(tokens))

    patch.setattr(ending.Ending, "feed", feed)


def count_the_ticks(patch: Patch) -> None:
    """accepted = the sum of all flags."""
    honest = Rejection.judge

    def judge(self: Any, proposal: Proposal, p_RV: Tensor, source: Any, first: int) -> Verdict:
        verdict = honest(self, proposal, p_RV, source, first)
        behind = zip(verdict.p[verdict.accepted + 1 :], verdict.q[verdict.accepted + 1 :], strict=True)
        later = sum(rejection.accepts(0.5, p, q) for p, q in behind)
        return replace(verdict, accepted=verdict.accepted + later)

    patch.setattr(Rejection, "judge", judge)


def first_unverified(patch: Patch) -> None:
    """Rows are shifted by one: nothing judges the first draft."""
    honest = Rejection.judge

    def judge(self: Any, proposal: Proposal, p_RV: Tensor, source: Any, first: int) -> Verdict:
        if not proposal.tokens:
            return honest(self, proposal, p_RV, source, first)
        rest = Proposal(proposal.tokens[1:], None if proposal.q_KV is None else proposal.q_KV[1:])
        tail = honest(self, rest, p_RV[1:], source, first + 1)
        whole = honest(self, proposal, p_RV, source, first)
        return replace(
            whole,
            accepted=tail.accepted + 1,
            token=tail.token,
            source=tail.source,
            law_V=tail.law_V,
            uniforms=(None, *tail.uniforms),
            chances=(None, *tail.chances),
        )

    patch.setattr(Rejection, "judge", judge)


def _more_room(patch: Patch) -> None:
    """Every cache holds more than it was made for, so that a mistake runs on instead of crashing."""
    honest = ContiguousCache.__init__
    patch.setattr(
        ContiguousCache, "__init__", lambda self, capacity, kind="contiguous": honest(self, capacity + 64, kind)
    )


def cap_from_the_wrong_base(patch: Patch) -> None:
    """γ is not shrunk at the end."""
    _more_room(patch)
    patch.setattr(limits.Limits, "gamma", lambda self, asked, length: asked)


def numbers_from_a_shared_generator(patch: Patch) -> None:
    """Global random numbers instead of the request's own."""
    state = iter(range(10**9))
    honest = noise.uniform
    patch.setattr(noise, "uniform", lambda seed, stream_id, number: honest(0, 0, next(state)))


def one_noise_vector(patch: Patch) -> None:
    """One Gumbel vector per position for the draft's draw and for the correction."""
    coupled = noise.CoupledNoise.draw
    patch.setattr(
        noise.CounterNoise, "draw", lambda self, stream_id, number, weights: coupled(self, stream_id, number, weights)
    )


def stop_seen_at_the_end_only(patch: Patch) -> None:
    """Only the end of a block is searched for a stop string, with a window as long as the string."""
    honest = ending.Ending._with_stops

    def feed(self: Any, tokens: Any, last: bool) -> Any:
        fed = honest(self, tokens, last)
        text = self.stream.fork().push(tokens)
        seen = any(text.endswith(stop) for stop in self.stop)
        return fed if fed.reason != "stop" or seen else self._without_stops(tokens, last)

    patch.setattr(ending.Ending, "_with_stops", feed)


def matcher_left_behind(patch: Patch) -> None:
    """The grammar is moved on by drafts and never taken back."""
    honest = grammar.GrammarMasks._move

    def move(self: Any, tokens: Any) -> int:
        extra = list(tokens[len(self._fed) :])
        return honest(self, [*self._fed, *extra]) if len(tokens) >= len(self._fed) else len(tokens)

    patch.setattr(grammar.GrammarMasks, "_move", move)


def greedy_in_one_place_only(patch: Patch) -> None:
    """The sampler's threshold for greedy is lower than it was meant: tiny temperatures take the sampling path."""
    patch.setattr(sampling_module, "GREEDY_BELOW", 0.0)


def draft_context_ignored(patch: Patch) -> None:
    """γ is clamped by the target's context only, and the draft's cache grows past its own."""
    _more_room(patch)
    patch.setattr(limits.Limits, "gamma", lambda self, asked, length: max(0, min(asked, self.capacity - length - 1)))
