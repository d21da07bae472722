"""Heads draft what they must: from the target's states where it has been, behind that from their own.

Every proposal of a run is compared with the head worked out from nothing (`tests.heads`): a state that is off by one, a
row that a rejection left behind, or a token beside its state changes what is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach import checking
from specdec_teach.caches import KINDS
from specdec_teach.drafters.head import HeadDrafter, HeadState
from specdec_teach.drafters.medusa import MedusaDrafter
from specdec_teach.hidden import Hidden
from specdec_teach.policy import processed
from specdec_teach.sequence import Sequence as Request

from ..heads import FEATURES, head_for, head_logits, medusa_logits, tiny

TARGET = tiny()
PROMPTS = ([5, 9, 2, 33, 7], [1, 2], [60], [11, 4, 4, 8, 15, 16, 23, 42, 1, 1, 2])
GREEDY = sd.Sampling(temperature=0, eos_token_id=None)
WARM = sd.Sampling(temperature=0.9, seed=3, eos_token_id=None)


def near(kind: str) -> HeadDrafter | MedusaDrafter:
    return head_for(TARGET, kind, spread=0.02)


def right_q(drafter: Any, tokens: Sequence[int], drafts: Sequence[int], sampling: sd.Sampling) -> torch.Tensor:
    """What each draft must have been drawn from, `[K, V]`."""
    network = drafter._network
    if isinstance(drafter, MedusaDrafter):
        logits = medusa_logits(TARGET, network, tokens)[: len(drafts)]
    else:
        logits = head_logits(TARGET, network, tokens, drafts)[: len(drafts)]
    return processed(logits, sampling)


def watch(drafter: Any) -> list[tuple[list[int], sd.Proposal]]:
    """Write down every proposal and the text it was made for."""
    seen: list[tuple[list[int], sd.Proposal]] = []
    honest = drafter.propose

    def propose(sequences: Any, counts: Any, hidden: Any = None) -> list[sd.Proposal]:
        made: list[sd.Proposal] = honest(sequences, counts)
        seen.extend((list(s.tokens), one) for s, one in zip(sequences, made, strict=True) if len(one.tokens))
        return made

    drafter.propose = propose
    return seen


def compare(drafter: Any, seen: list[tuple[list[int], sd.Proposal]], sampling: sd.Sampling) -> None:
    assert len(seen) > 4
    for tokens, proposal in seen:
        q_KV = right_q(drafter, tokens, proposal.tokens, sampling)
        if proposal.q_KV is None:
            assert proposal.tokens == tuple(q_KV.argmax(-1).tolist())
        else:
            torch.testing.assert_close(proposal.q_KV, q_KV, atol=2e-5, rtol=2e-4)


def run(kind: str, sampling: sd.Sampling, decoder: str = "auto", cache: str = "contiguous") -> None:
    drafter = near(kind)
    seen = watch(drafter)
    engine = sd.Engine(TARGET, drafter=drafter, decoder=decoder, cache=cache, block_size=4, debug=True)
    results = engine.generate(list(PROMPTS), sampling, max_new_tokens=19)
    plain = engine.generate(list(PROMPTS), GREEDY, max_new_tokens=19, speculate=False)
    if sampling is GREEDY:
        assert [one.tokens for one in results] == [one.tokens for one in plain]
    assert 0 < sum(one.stats.accepted for one in results) < sum(one.stats.drafted for one in results)
    compare(drafter, seen, sampling)
    for result in results:
        assert result.trace is not None
        assert sd.invariants.check(result.trace) == []
        assert result.trace.meta.lossless


@pytest.mark.parametrize("cache", KINDS)
@pytest.mark.parametrize("decoder", ["auto", "hf"])
@pytest.mark.parametrize("kind", FEATURES)
def test_greedy_text_is_plain_text_and_every_draft_is_the_heads(kind: str, decoder: str, cache: str) -> None:
    run(kind, GREEDY, decoder, cache)


@pytest.mark.parametrize("kind", FEATURES)
def test_sampled_drafts_come_from_the_distribution_that_is_reported(kind: str) -> None:
    run(kind, WARM)


@pytest.mark.parametrize("kind", FEATURES)
def test_served_in_chunks_and_after_preemption(kind: str) -> None:
    drafter = near(kind)
    seen = watch(drafter)
    engine = sd.Engine(TARGET, drafter=drafter, gamma=3, block_size=4)
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=11, chunk=3)
    prompts = [PROMPTS[3], PROMPTS[3], PROMPTS[0], PROMPTS[1]]
    requests = [scheduler.submit(prompt, GREEDY, max_new_tokens=17) for prompt in prompts]
    scheduler.run()
    assert any(row.state == "preempted" for step in scheduler.timeline().steps for row in step.rows)
    for request, prompt in zip(requests, prompts, strict=True):
        assert request.result.tokens == engine.generate(prompt, GREEDY, max_new_tokens=17, speculate=False).tokens
    compare(drafter, seen, GREEDY)


@pytest.mark.parametrize("kind", FEATURES)
def test_a_forced_pattern_goes_on_from_tokens_that_the_target_has_not_seen(kind: str) -> None:
    engine = sd.Engine(TARGET, drafter=near(kind), gamma=3)
    for at in (0, 1, 2, 3):
        result = engine.generate(list(PROMPTS[0]), GREEDY, max_new_tokens=13, reject_at=at)
        assert result.trace is not None
        full = [cycle for cycle in result.trace.cycles if len(cycle.proposed) == 3]
        assert all(cycle.accepted == (at - 1 if at else 3) for cycle in full)
        assert sd.invariants.check(result.trace) == []


@pytest.mark.parametrize("kind", FEATURES)
def test_two_streams_that_take_turns_share_nothing(kind: str) -> None:
    drafter = near(kind)
    engine = sd.Engine(TARGET, drafter=drafter)
    alone = [engine.generate(list(prompt), WARM, max_new_tokens=15) for prompt in (PROMPTS[0], PROMPTS[3])]
    streams = [engine.stream(list(prompt), WARM, max_new_tokens=15) for prompt in (PROMPTS[0], PROMPTS[3])]
    while sum([stream.step() for stream in streams]):
        pass
    assert [stream.result().tokens for stream in streams] == [one.tokens for one in alone]
    assert [stream.result().stats.accepted for stream in streams] == [one.stats.accepted for one in alone]


def test_what_was_read_is_dropped() -> None:
    """Between cycles no more states wait than the last cycle committed; Medusa keeps one."""
    for kind in FEATURES:
        stream = sd.Engine(TARGET, drafter=near(kind)).stream(list(PROMPTS[3]), GREEDY, max_new_tokens=19)
        for cycle in stream:
            assert stream.sequence.hidden is not None
            most = 1 if kind == "medusa" else len(cycle.emitted)
            assert not cycle.proposed or len(stream.sequence.hidden.rows_RW) <= most


@pytest.mark.parametrize("kind", ["head", "head3"])
def test_a_record_says_what_was_read(kind: str) -> None:
    """Hence why the head's rows are let go with the drafts that stood; without that word they would be missing."""
    drafter = near(kind)
    drafter.name = "another name"
    broken = set()
    for result in sd.Engine(TARGET, drafter=drafter).generate(list(PROMPTS), GREEDY, max_new_tokens=19):
        trace = result.trace
        assert trace is not None
        assert trace.meta.features == FEATURES[kind]
        assert sd.invariants.check(trace) == []
        silent = replace(trace, meta=replace(trace.meta, features=()))
        broken |= {one.name for one in sd.invariants.check(silent)}
    assert broken == {"draft-lag"}


def test_a_head_for_another_target_is_refused() -> None:
    wide = sd.testing.tiny_llama(vocab=48)
    for kind in FEATURES:
        with pytest.raises(sd.InvalidInput, match="the target has 48"):
            sd.Engine(wide, drafter=near(kind))


@pytest.mark.parametrize("kind", FEATURES)
def test_a_head_for_another_model_of_the_same_size_is_refused(kind: str) -> None:
    """Its states would mean nothing to the head; alone and below a tree."""
    for drafter in (near(kind), sd.TreeDrafter(near(kind), (2, 1))):
        with pytest.raises(sd.InvalidInput, match="made for another model's hidden states"):
            sd.Engine(tiny(), drafter=drafter)


@pytest.mark.parametrize("kind", FEATURES)
def test_a_drafter_leaves_the_network_as_it_was(kind: str) -> None:
    """A second drafter from the same weights, for a target of another dtype, does not change the first."""
    first = near(kind)
    network: Any = first._network.train()
    narrow = type(first)(network, tiny(dtype=torch.float64))
    assert network.training
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    for target, drafter in ((TARGET, first), (narrow.target, narrow)):
        sd.Engine(target, drafter=drafter).generate([1, 2, 3], GREEDY, max_new_tokens=6)


def _keeps(self: HeadState) -> None:
    self.cache.rollback(min(self.cache.pointer, self.sure + 1))
    self.said_1N = self.said_sure


def _off_by_one(self: Hidden, at: int, rows: Any, put: Callable[..., None] = Hidden.put) -> None:
    put(self, at, rows.roll(1, 0))


MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "states are paired with the token before": ("head3", Hidden, "put", _off_by_one),
    "states of rejected drafts are read": ("medusa", Request, "trim", lambda self: None),
    "states of rejected drafts stay in front of new ones": ("head3", Hidden, "cut", lambda self, to: None),
    "the head's cache is not rolled back": ("head3", HeadState, "settle", _keeps),
    "rows that the head made up are taken for sure": ("head", HeadState, "settle", HeadState.keep),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, owner, attribute, wrong = MISTAKES[name]
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises((AssertionError, sd.EngineFailure)):
        run(kind, GREEDY)


@pytest.mark.parametrize("kind", FEATURES)
def test_the_check_passes(kind: str) -> None:
    """States of both caches with every layout, laws and ends: the sections that look at a drafter's own state."""
    report = sd.check(sd.Engine(TARGET, drafter=near(kind), gamma=2), ("greedy", "runs", "states"))
    assert report.ok, report.failures[:3]


@pytest.mark.parametrize("kind", ["head", "medusa"])
def test_the_check_sees_states_that_stay_behind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "medusa":
        monkeypatch.setattr(Hidden, "cut", lambda self, to: None)
    else:
        monkeypatch.setattr(HeadState, "settle", _keeps)
    rows = list(checking.states.states(sd.Engine(TARGET, drafter=near(kind), gamma=2), ("contiguous",)))
    assert not all(row.ok for row in rows)
