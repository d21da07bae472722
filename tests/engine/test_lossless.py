"""`lossless=True` refuses every run that would not follow the target, before it begins; `debug=True` watches a run."""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def engine(**settings: Any) -> sd.Engine:
    """A target and a draft near it."""
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=3, **settings)


@pytest.mark.parametrize("verify", ["rejection", "block", "coupled"])
@pytest.mark.parametrize("sampling", [sd.Sampling(seed=1), sd.Sampling.greedy()], ids=["sampled", "greedy"])
def test_an_exact_run_is_not_refused(verify: str, sampling: sd.Sampling) -> None:
    """And asking for it changes nothing."""
    subject = engine(verify=verify)
    asked = subject.generate([1, 2], sampling, max_new_tokens=12, lossless=True)
    assert asked.tokens == subject.generate([1, 2], sampling, max_new_tokens=12).tokens
    assert asked.trace is not None
    assert asked.trace.meta.lossless


@pytest.mark.parametrize("verify", ["typical", "threshold", "synthetic"])
def test_a_lossy_rule_is_refused_by_name(verify: str) -> None:
    """In one prompt, in a batch and in a stream; plain decoding on the same engine is exact."""
    subject = engine(verify=verify)
    for ask in (
        lambda: subject.generate([1, 2], sd.Sampling(seed=1), lossless=True),
        lambda: subject.generate([[1], [2]], sd.Sampling(seed=1), lossless=True),
        lambda: subject.stream([1, 2], sd.Sampling(seed=1), lossless=True),
    ):
        with pytest.raises(sd.InvalidInput, match=f"the rule {verify}.*use rejection, block or coupled"):
            ask()
    plain = subject.generate([1, 2], sd.Sampling(seed=1), max_new_tokens=5, speculate=False, lossless=True)
    assert len(plain.tokens) == 5


def test_forced_patterns_and_scripted_drafts_are_refused() -> None:
    """A forced rejection is no sample; a drafter must draw from the q it reports, unless nothing is left to chance."""
    with pytest.raises(sd.InvalidInput, match="reject_at=1 forces a pattern"):
        engine().generate([1], sd.Sampling(seed=1), reject_at=1, lossless=True)
    scripted = sd.Engine(TARGET, drafter=sd.ScriptedDrafter([1, 2, 3], q=[1 / 64] * 64), gamma=2)
    with pytest.raises(sd.InvalidInput, match="the drafter scripted does not draw from the q"):
        scripted.generate([1], sd.Sampling(seed=1), lossless=True)
    assert scripted.generate([1], sd.Sampling.greedy(), max_new_tokens=4, lossless=True).tokens


@pytest.mark.parametrize("cache", ["contiguous", "masked", "paged", "selective", "recompute"])
def test_a_debugged_run_is_the_same_run(cache: str) -> None:
    """Two streams that take turns are told apart; without a trace the invariants are checked all the same."""
    quiet, watched = engine(cache=cache), engine(cache=cache, debug=True)
    for trace in (True, False):
        first, second = (watched.stream([n], sd.Sampling(seed=n), max_new_tokens=20, trace=trace) for n in (1, 2))
        while first.step() | second.step():
            pass
        for n, stream in ((1, first), (2, second)):
            assert stream.result().tokens == quiet.generate([n], sd.Sampling(seed=n), max_new_tokens=20).tokens


def test_a_debugged_run_stops_at_the_first_broken_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft cache that is cut too far changes no token; the watch says which cycle and what."""
    subject = engine(debug=True)
    honest = sd.ModelDrafter.commit

    def commit(self: sd.ModelDrafter, sequence: Any) -> None:
        honest(self, sequence)
        sequence.draft.rollback(max(0, sequence.draft.pointer - 2))

    monkeypatch.setattr(sd.ModelDrafter, "commit", commit)
    with pytest.raises(sd.EngineFailure, match="the invariant draft-lag is broken in cycle 0"):
        subject.generate([1, 2, 3], sd.Sampling(seed=1), max_new_tokens=20, trace=False)
