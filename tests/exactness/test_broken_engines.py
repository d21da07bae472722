"""The exam of the tests: every check above must fail on an engine that has the mistake it is there for.

Each broken engine swaps one function of the honest one. The honest engine passes every check (last test).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_kernels import rejection
from specdec_teach import ending, limits, noise
from specdec_teach.cache import ContiguousCache
from specdec_teach.drafters import model as model_drafter
from specdec_teach.drafters.base import Proposal
from specdec_teach.hf import ModelRunner
from specdec_teach.rules import Rejection, Verdict
from specdec_teach.rules import rejection as rejection_rule

from ..checks import (
    FILTER_P,
    FILTER_Q,
    P3,
    P4,
    Q3,
    Q4,
    chi_square_of_long_runs,
    flags_and_counts,
    greedy_equals_plain,
    law_of_constant,
    logs,
    pointers_and_caches,
    tabular,
)

Patch = pytest.MonkeyPatch
TARGET = sd.testing.tiny_llama()
NEAR = sd.testing.tiny_llama(noise=0.08)


def pair_engine(gamma: int = 4, draft: Any = NEAR) -> sd.Engine:
    """A target and a draft near it."""
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(draft), gamma=gamma)


def law_check(mode: str = "sample") -> None:
    """Exact law on the crafted four-token case, where several mistakes cannot hide."""
    law_of_constant(P4, Q4, sd.Sampling(), P4, mode)


def law_check_textbook() -> None:
    """Exact law on the textbook case."""
    law_of_constant(P3, Q3, sd.Sampling(), P3)


def filter_check() -> None:
    """Exact law with top-k 2."""
    law_of_constant(FILTER_P, FILTER_Q, sd.Sampling(top_k=2), (4 / 7, 3 / 7, 0, 0))


def chi_check() -> None:
    """Chi-square of long runs of the engine with its real numbers."""
    assert chi_square_of_long_runs(tabular(logs(P4), logs(Q4), 2), P4) > 1e-3


def greedy_check() -> None:
    """Greedy speculative == plain."""
    greedy_equals_plain(pair_engine(), [[1, 2, 3], [9]], reject_at=2)
    greedy_equals_plain(pair_engine(), [[1, 2, 3], [9], [17, 4]])


def pointer_check(draft: Any = NEAR) -> None:
    """Pointers and caches after every cycle, with rejections in some and none in others."""
    for settings in ({"reject_at": 2}, {"reject_at": 0}, {}):
        stream_ = pair_engine(4, draft).stream([1, 2, 3], sd.Sampling(seed=3), max_new_tokens=30, **settings)
        pointers_and_caches(stream_, TARGET, draft)


def eos_check() -> None:
    """An end token at every place of a self-drafted block."""
    engine = pair_engine(4, TARGET)
    whole = engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=16, speculate=False).tokens
    for place, token in enumerate(whole):
        if token not in whole[:place]:
            result = engine.generate([1, 2, 3], sd.Sampling(temperature=0, eos_token_id=token), max_new_tokens=16)
            assert result.tokens == whole[: place + 1]


def count_check() -> None:
    """Flags and counts."""
    for seed in range(6):
        flags_and_counts(pair_engine().generate([1, 2, 3], sd.Sampling(seed=seed), max_new_tokens=30))


def cap_check() -> None:
    """Never more than was asked for."""
    for cap in (1, 2, 5, 6):
        assert len(pair_engine(4, TARGET).generate([1], sd.Sampling.greedy(), max_new_tokens=cap).tokens) == cap


def second_call_check() -> None:
    """The same call again gives the same run."""
    engine = pair_engine()
    first, second = (engine.generate([1, 2], sd.Sampling(seed=8), max_new_tokens=24) for _ in range(2))
    assert first.tokens == second.tokens
    assert [c.proposed for c in first.trace.cycles] == [c.proposed for c in second.trace.cycles]  # type: ignore[union-attr]


# ---- the mistakes ---------------------------------------------------------------------------------------------------


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
    honest = model_drafter.ModelDrafter._propose

    def propose(self: Any, sequence: Any, count: int) -> Proposal:
        kept, sequence.noise = sequence.noise, noise.GreedyNoise()
        try:
            return honest(self, sequence, count)
        finally:
            sequence.noise = kept

    patch.setattr(model_drafter.ModelDrafter, "_propose", propose)


def raw_q(patch: Patch) -> None:
    """Draw from the filtered q, report the raw softmax."""
    honest = model_drafter.ModelDrafter._propose

    def propose(self: Any, sequence: Any, count: int) -> Proposal:
        rows: list[Tensor] = []

        def both(logits: Tensor, sampling: sd.Sampling) -> Tensor:
            rows.append(logits.softmax(-1))
            return honest_processed(logits, sampling)

        honest_processed = model_drafter.processed
        model_drafter.processed = both  # type: ignore[attr-defined]
        try:
            proposal = honest(self, sequence, count)
        finally:
            model_drafter.processed = honest_processed  # type: ignore[attr-defined]
        return Proposal(proposal.tokens, torch.cat(rows) if rows else None)

    patch.setattr(model_drafter.ModelDrafter, "_propose", propose)


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
        if layer in self._stores:
            stop = min(full, self.pointer + keys.shape[2])
            keys, values = keys.clone(), values.clone()
            count = max(0, stop - self.pointer)
            keys[:, :, :count] = self._stores[layer][0][:, :, self.pointer : self.pointer + count]
            values[:, :, :count] = self._stores[layer][1][:, :, self.pointer : self.pointer + count]
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
            law_V=tail.law_V,
            uniforms=(None, *tail.uniforms),
            chances=(None, *tail.chances),
        )

    patch.setattr(Rejection, "judge", judge)


def cap_from_the_wrong_base(patch: Patch) -> None:
    """γ is not shrunk at the end."""
    honest = ModelRunner.new_cache
    patch.setattr(ModelRunner, "new_cache", lambda self, capacity: honest(self, capacity + 64))
    patch.setattr(limits.Limits, "gamma", lambda self, asked, length: asked)


def numbers_from_a_shared_generator(patch: Patch) -> None:
    """Global random numbers instead of the request's own."""
    state = iter(range(10**9))
    honest = noise.uniform
    patch.setattr(noise, "uniform", lambda seed, stream_id, number: honest(0, 0, next(state)))


EXAM: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (redraw_from_p, law_check),
    (redraw_from_p, law_check_textbook),
    (redraw_from_p, chi_check),
    (accept_if_likelier, law_check),
    (accept_if_likelier, law_check_textbook),
    (argmax_with_soft_q, chi_check),
    (raw_q, filter_check),
    (loaded_dice, chi_check),
    (stale_slots_kept, pointer_check),
    (stale_slots_kept, greedy_check),
    (draft_hole, pointer_check),
    (draft_trimmed_too_far, pointer_check),
    (end_seen_at_the_end_only, eos_check),
    (count_the_ticks, greedy_check),
    (count_the_ticks, count_check),
    (first_unverified, count_check),
    (first_unverified, law_check),
    (first_unverified, greedy_check),
    (cap_from_the_wrong_base, cap_check),
    (numbers_from_a_shared_generator, second_call_check),
]


@pytest.mark.parametrize(("mistake", "check"), EXAM, ids=[f"{m.__name__}-{c.__name__}" for m, c in EXAM])
def test_a_mistake_is_caught(mistake: Callable[[Patch], None], check: Callable[[], None], monkeypatch: Patch) -> None:
    """The check fails by its own assertion; a crash would not count."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("check", list(dict.fromkeys(check for _, check in EXAM)), ids=lambda check: check.__name__)
def test_the_honest_engine_passes(check: Callable[[], None]) -> None:
    """No false alarm."""
    check()


def test_a_pointer_that_runs_ahead_is_refused_not_used(monkeypatch: Patch) -> None:
    """The correction or bonus taken as computed leaves nothing to feed: the run stops, it does not go wrong quietly."""
    honest = ContiguousCache.rollback
    monkeypatch.setattr(ContiguousCache, "rollback", lambda self, to: honest(self, min(self.pointer, to + 1)))
    with pytest.raises(sd.EngineFailure, match="has run ahead"):
        pair_engine().generate([1, 2, 3], sd.Sampling(seed=1), max_new_tokens=20, reject_at=1)


def test_a_token_excluded_by_both_is_refused(monkeypatch: Patch) -> None:
    """p = q = 0: only the strict comparison refuses it, whatever a script proposes."""
    engine = sd.Engine(
        sd.testing.TabularLM([0.0, 0.0, -torch.inf]), drafter=sd.ScriptedDrafter([2] * 9, [0.5, 0.5, 0.0]), gamma=2
    )
    assert 2 not in engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6).tokens
    not_strict(monkeypatch)
    assert 2 in engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6).tokens
