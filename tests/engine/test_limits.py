"""Where a text ends: EOS, cap and contexts in token order, for every place they can fall."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_teach.limits import Limits

from ..checks import flags_and_counts


def engines(gamma: int, *, context: int = 256, draft_context: int = 256) -> sd.Engine:
    """A target with itself as its draft: everything is accepted, so blocks are as long as they can be."""
    target, draft = sd.testing.tiny_llama(context=context), sd.testing.tiny_llama(context=draft_context)
    return sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=gamma)


def test_eos_at_every_place_of_a_block() -> None:
    """Each token of a plain run in turn ends the text: same ids as plain decoding, nothing behind it, caches cut."""
    engine = engines(4)
    prompt = [1, 2, 3]
    whole = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=24, speculate=False).tokens
    places = set()
    for place, token in enumerate(whole):
        if token in whole[:place]:
            continue
        sampling = sd.Sampling(temperature=0, eos_token_id=token)
        stream = engine.stream(prompt, sampling, max_new_tokens=24)
        cycles = list(stream)
        result = stream.result()
        assert result.tokens == whole[: place + 1]
        assert result.finish_reason == "eos"
        assert sum((cycle.emitted for cycle in cycles), ()) == result.tokens
        flags_and_counts(result)
        last = cycles[-1]
        assert last.stop_cut == (len(last.proposed) - last.accepted if last.last_kind == "none" else 0)
        assert last.target_kv.after == min(last.target_kv.written, last.committed_after - 1)
        assert last.draft_kv is not None
        assert last.draft_kv.after == min(last.draft_kv.written, last.committed_after - 1)
        assert [d.status for d in last.decisions[last.accepted :]] == ["cut"] * last.stop_cut
        places.add(place % 5)
    assert places == {0, 1, 2, 3, 4}


def test_eos_equals_transformers() -> None:
    """The same ids as transformers' generate with the same end tokens."""
    model = sd.testing.tiny_llama()
    engine = sd.Engine(model, drafter=sd.ModelDrafter(sd.testing.tiny_llama(noise=0.1)), gamma=4)
    for eos in ((), (26,), (11, 42), (62,)):
        ours = engine.generate([1, 2, 3], sd.Sampling(temperature=0, eos_token_id=eos), max_new_tokens=30)
        theirs = model.generate(
            torch.tensor([[1, 2, 3]]),
            do_sample=False,
            max_new_tokens=30,
            eos_token_id=list(eos) or None,
            pad_token_id=0,
        )
        assert list(ours.tokens) == theirs[0, 3:].tolist()


@pytest.mark.parametrize("cap", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize("gamma", [1, 4, 8])
def test_cap_is_exact(cap: int, gamma: int) -> None:
    """Exactly `cap` tokens, all accepted or not; the last cycle drafts one token less than what is still wanted."""
    for sampling in (sd.Sampling.greedy(), sd.Sampling(seed=4)):
        result = engines(gamma).generate([5, 6], sampling, max_new_tokens=cap)
        assert len(result.tokens) == cap
        assert result.finish_reason == "length"
        assert result.trace is not None
        done = 0
        for cycle in result.trace.cycles:
            assert len(cycle.proposed) <= cap - done - 1
            done += len(cycle.emitted)
        flags_and_counts(result)


def test_one_token_drafts_nothing_and_none_runs_nothing() -> None:
    """max_new_tokens=1 costs no draft work, not even its prefill; 0 costs none at all and tells one event."""
    engine = engines(4)
    one = engine.generate([5, 6], max_new_tokens=1)
    assert one.stats.drafted == 0
    assert one.stats.acceptance_rate is None
    assert one.trace is not None
    assert one.trace.prefill is not None
    assert one.trace.prefill.draft is None
    heard: list[object] = []
    engine.observers.append(type("Ear", (), {"on_event": lambda self, event: heard.append(event)})())
    none = engine.generate([5, 6], max_new_tokens=0)
    assert (none.tokens, none.text, none.finish_reason, none.stats.cycles) == ((), "", "length", 0)
    assert heard == [sd.events.Finished("length")]


@pytest.mark.parametrize("draft_context", [16, 27, 28, 29, 30, 32, 64])
def test_both_contexts(draft_context: int) -> None:
    """Target of 32 positions, prompt of 28: the text ends at 32 with "context"; a full draft goes on plainly."""
    prompt = list(range(1, 29))
    engine = engines(5, context=32, draft_context=draft_context)
    plain = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=10, speculate=False)
    result = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=10)
    assert result.tokens == plain.tokens
    assert len(result.tokens) == 4
    assert result.finish_reason == plain.finish_reason == "context"
    assert result.trace is not None
    for cycle in result.trace.cycles:
        length = cycle.committed_before
        fits = draft_context - length + 1 if length <= draft_context else 0
        assert cycle.gamma == len(cycle.proposed) == max(0, min(5, 32 - length - 1, fits))
        assert cycle.target_kv.written <= 32
        assert (cycle.draft_kv is None) == (draft_context < 28)
        assert cycle.draft_kv is None or cycle.draft_kv.written <= draft_context


def test_cap_and_context_together() -> None:
    """A cap that falls on the context's end is a length finish; a prompt that fills the context ends at once."""
    engine = engines(4, context=32)
    assert engine.generate(list(range(28)), max_new_tokens=4).finish_reason == "length"
    full = engine.generate(list(range(32)), max_new_tokens=4)
    assert (full.tokens, full.finish_reason) == ((), "context")


def test_eos_at_the_cap_is_eos() -> None:
    """A stop at the cap is a stop."""
    engine = engines(4)
    tokens = engine.generate([5, 6], sd.Sampling.greedy(), max_new_tokens=12).tokens
    last = next(i for i in range(11, -1, -1) if tokens[i] not in tokens[:i])
    result = engine.generate([5, 6], sd.Sampling(temperature=0, eos_token_id=tokens[last]), max_new_tokens=last + 1)
    assert result.finish_reason == "eos"


def test_limits_never_ask_for_what_cannot_be_kept() -> None:
    """The formulas of both contexts and the cap, over a grid."""
    for length in range(1, 20):
        limits = Limits(prompt=1, max_new=12, target_context=16, draft_context=9)
        gamma = limits.gamma(5, length)
        assert 0 <= gamma <= 5
        if gamma:
            assert length + gamma + 1 <= 13
            assert length + gamma - 1 <= 9
