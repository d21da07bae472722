"""Trees over heads: each node's q is what the head says along that node's own way, worked out from nothing.

The oracle (`tests.heads`) knows no tree: it is asked for the chain of a node's ancestors, once for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach import checking, tree
from specdec_teach.caches import KINDS
from specdec_teach.drafters import head as head_module
from specdec_teach.drafters.head import HeadDrafter, HeadState
from specdec_teach.drafters.medusa import MedusaDrafter
from specdec_teach.policy import processed
from specdec_teach.tree import path_to

from ..heads import FEATURES, head_for, head_logits, medusa_logits
from .test_heads import GREEDY, PROMPTS, TARGET, WARM, watch

FIXED: dict[str, Any] = {"shape": (3, 2, 1)}
BY_CHANCE: dict[str, Any] = {"budget": 9, "beam": 3, "depth": 4}


def trees(kind: str, how: dict[str, Any] = FIXED, spread: float = 0.02, **settings: Any) -> sd.Engine:
    """An engine that drafts trees from a random head; with a small spread it agrees with the target at times."""
    drafter = sd.TreeDrafter(head_for(TARGET, kind, spread=spread), **how)
    return sd.Engine(TARGET, drafter=drafter, **{"gamma": 4, "block_size": 4, "debug": True, **settings})


def said(base: Any, text: list[int], way: list[int]) -> torch.Tensor:
    """What the head says `[V]` behind a way of drafts that the target has not seen."""
    if isinstance(base, MedusaDrafter):
        return medusa_logits(TARGET, base._network, text)[len(way)]
    return head_logits(TARGET, base._network, text, way)[len(way)]


def compare(engine: sd.Engine, seen: list[tuple[list[int], sd.Proposal]], sampling: sd.Sampling) -> None:
    """Work out the whole of every tree: q without the siblings before it, or what is likeliest."""
    assert len(seen) > 4
    base: Any = engine.drafter._base  # type: ignore[union-attr]
    for text, proposal in seen:
        for children in tree.children(proposal.shape):
            if not children:
                continue
            above = path_to(proposal.shape, proposal.shape[children[0]])
            logits_V = said(base, text, [proposal.tokens[node] for node in above])
            tokens = [proposal.tokens[node] for node in children]
            if proposal.q_KV is None:
                assert tokens == logits_V.topk(len(tokens)).indices.tolist()
                continue
            q_V = processed(logits_V[None], sampling)[0]
            for node, token in zip(children, tokens, strict=True):
                torch.testing.assert_close(proposal.q_KV[node], q_V, atol=3e-5, rtol=5e-4)
                q_V = q_V.index_fill(0, torch.tensor([token]), 0.0)
                q_V = q_V / q_V.sum()


def run(kind: str, how: dict[str, Any], sampling: sd.Sampling, **settings: Any) -> None:
    engine = trees(kind, how, **settings)
    seen = watch(engine.drafter)
    results = engine.generate(list(PROMPTS), sampling, max_new_tokens=19)
    if sampling is GREEDY:
        plain = engine.generate(list(PROMPTS), GREEDY, max_new_tokens=19, speculate=False)
        assert [one.tokens for one in results] == [one.tokens for one in plain]
    assert 0 < sum(one.stats.accepted for one in results) < sum(one.stats.drafted for one in results)
    compare(engine, seen, sampling)
    for result in results:
        assert result.trace is not None
        assert sd.invariants.check(result.trace) == []
        assert result.trace.meta.lossless


@pytest.mark.parametrize("cache", KINDS)
@pytest.mark.parametrize("how", [FIXED, BY_CHANCE], ids=["fixed", "by chance"])
@pytest.mark.parametrize("kind", FEATURES)
def test_greedy_text_is_plain_text_in_every_cache(kind: str, how: dict[str, Any], cache: str) -> None:
    """Alone and in company; every node is what the head says of its way."""
    run(kind, how, GREEDY, cache=cache)
    engine = trees(kind, how, cache=cache)
    alone = [engine.generate(list(PROMPTS[3]), GREEDY, max_new_tokens=19, speculate=s).tokens for s in (True, False)]
    assert alone[0] == alone[1]


@pytest.mark.parametrize("how", [FIXED, BY_CHANCE], ids=["fixed", "by chance"])
@pytest.mark.parametrize("kind", FEATURES)
def test_every_nodes_q_is_the_heads_along_its_way(kind: str, how: dict[str, Any]) -> None:
    run(kind, how, WARM)


@pytest.mark.parametrize("kind", FEATURES)
def test_a_tree_of_one_way_is_the_chain(kind: str) -> None:
    """The same drafts from the same numbers, hence the same text and the same cycles."""
    base = head_for(TARGET, kind, spread=0.02)
    chain = sd.Engine(TARGET, drafter=base, gamma=3)
    way = sd.Engine(TARGET, drafter=sd.TreeDrafter(base, (1, 1, 1)), gamma=3)
    for sampling in (GREEDY, WARM):
        one, other = (e.generate(list(PROMPTS[0]), sampling, max_new_tokens=24) for e in (chain, way))
        assert one.tokens == other.tokens
        assert one.trace is not None
        assert other.trace is not None
        assert [c.proposed for c in one.trace.cycles] == [c.proposed for c in other.trace.cycles]


@pytest.mark.parametrize("how", [FIXED, BY_CHANCE], ids=["fixed", "by chance"])
def test_nothing_of_a_tree_stays_in_the_heads_cache(how: dict[str, Any]) -> None:
    """After each cycle it holds the rows that a head fed with the target's states alone has, and the tree is let go."""
    stream = trees("head3", how).stream(list(PROMPTS[3]), WARM, max_new_tokens=19)
    for cycle in stream:
        state, text = stream.sequence.draft, stream.sequence.tokens
        assert isinstance(state, HeadState)
        assert state.made_GN is None
        assert state.pointer <= len(text) - 1
        if not cycle.proposed:
            continue
        assert state.pointer == cycle.committed_before
        assert cycle.draft_kv is not None
        assert cycle.draft_kv.written > state.pointer or cycle.gamma == 1
        fresh = trees("head3", how).stream(text[: state.pointer], GREEDY, max_new_tokens=9)
        next(fresh)
        other = fresh.sequence.draft
        assert isinstance(other, HeadState)
        for mine, right in zip(state.contents()[0], other.contents()[0], strict=True):
            torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", FEATURES)
def test_penalties_see_each_nodes_own_way(kind: str) -> None:
    sampling = sd.Sampling(temperature=0, eos_token_id=None, frequency_penalty=3.0, repetition_penalty=1.5)
    fast, plain = (trees(kind).generate(list(PROMPTS), sampling, max_new_tokens=19, speculate=s) for s in (True, False))
    assert [one.tokens for one in fast] == [one.tokens for one in plain]


@pytest.mark.parametrize("kind", FEATURES)
def test_served_with_preemption(kind: str) -> None:
    engine = trees(kind, BY_CHANCE, gamma=3)
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=14, chunk=3)
    prompts = [PROMPTS[3], PROMPTS[3], PROMPTS[0], PROMPTS[1]]
    requests = [scheduler.submit(prompt, GREEDY, max_new_tokens=17) for prompt in prompts]
    scheduler.run()
    assert any(row.state == "preempted" for step in scheduler.timeline().steps for row in step.rows)
    for request, prompt in zip(requests, prompts, strict=True):
        assert request.result.tokens == engine.generate(prompt, GREEDY, max_new_tokens=17, speculate=False).tokens


@pytest.mark.parametrize("how", [FIXED, BY_CHANCE], ids=["fixed", "by chance"])
@pytest.mark.parametrize("kind", FEATURES)
def test_coupled_text_is_the_plain_text(kind: str, how: dict[str, Any]) -> None:
    """Under one noise what is emitted is the target's own choice, draw for draw."""
    engine, kept = trees(kind, how, verify="coupled"), 0
    for seed in range(3):
        sampling = sd.Sampling(temperature=0.9, seed=seed, eos_token_id=None)
        fast, plain = (engine.generate(list(PROMPTS), sampling, max_new_tokens=19, speculate=s) for s in (True, False))
        assert [one.tokens for one in fast] == [one.tokens for one in plain]
        kept += sum(one.stats.accepted for one in fast)
    assert kept > 0


def test_the_honest_head_passes_what_sees_mistakes() -> None:
    engine = trees("head3", spread=0.3)
    seen = watch(engine.drafter)
    engine.generate(list(PROMPTS), WARM, max_new_tokens=19)
    compare(engine, seen, WARM)


def test_more_levels_than_heads_are_not_there() -> None:
    """Four Medusa heads draft four levels; the fifth that was asked for stays empty."""
    engine = trees("medusa", {"budget": 30, "beam": 2, "depth": 6}, gamma=6)
    trace = engine.generate(list(PROMPTS[0]), GREEDY, max_new_tokens=19).trace
    assert trace is not None
    assert max(max(tree.depths(cycle.parents or ()), default=0) for cycle in trace.cycles) == 4


def _all_before(pointer: int, count: int, parents: Any, window: int, device: Any = "cpu") -> torch.Tensor:
    slots_S = torch.arange(pointer + count)
    return slots_S > slots_S[pointer:, None]


def _by_slot(stop: int, parents: Any) -> list[int]:
    return list(range(stop))


def _last_of_all(
    self: HeadDrafter, feeds: Any, shapes: Any = None, honest: Callable[..., Any] = HeadDrafter._pass
) -> Any:
    """Every node goes on from the newest state, whoever its parent is."""
    if shapes is not None:
        feeds = [(state, tokens, state.made_GN[-1:].expand(len(tokens), -1)) for state, tokens, _ in feeds]
    return honest(self, feeds, shapes)


MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "siblings see each other": (head_module, "unseen", _all_before),
    "a position is a slot": (head_module, "positions", _by_slot),
    "the state of another node": (HeadDrafter, "_pass", _last_of_all),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong = MISTAKES[name]
    engine = trees("head3", spread=0.3)
    seen = watch(engine.drafter)
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, wrong)
        engine.generate(list(PROMPTS), WARM, max_new_tokens=19)
    with pytest.raises(AssertionError):
        compare(engine, seen, WARM)


def test_rows_of_a_tree_that_stay_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadState, "settle", lambda self: setattr(self, "made_GN", None))
    with pytest.raises((AssertionError, sd.EngineFailure)):
        run("head3", FIXED, GREEDY)


@pytest.mark.parametrize("how", [{"shape": (2, 1)}, {"budget": 4, "beam": 2, "depth": 2}], ids=["fixed", "by chance"])
@pytest.mark.parametrize("kind", ["head3", "medusa"])
def test_the_check_passes(kind: str, how: dict[str, Any]) -> None:
    report = sd.check(trees(kind, how, gamma=2), ("greedy", "runs"))
    assert report.ok, report.failures[:3]
    rows = list(checking.states.states(trees(kind, how, gamma=2), ("contiguous", "paged")))
    assert all(row.ok for row in rows), [row for row in rows if not row.ok][:3]


@pytest.mark.parametrize("kind", FEATURES)
def test_over_another_model_a_draft_model_takes_the_heads_place(kind: str) -> None:
    """As the check asks for where it wants tables of known laws: the shape stays, no hidden state is read."""
    drafter = sd.TreeDrafter(head_for(TARGET, kind), **BY_CHANCE).over(sd.testing.tiny_llama(noise=0.1))
    assert drafter.features == ()
    assert drafter.nodes(4) == 9
    engine = sd.Engine(sd.testing.tiny_llama(), drafter=drafter)
    texts = [engine.generate([1, 2, 3], GREEDY, max_new_tokens=12, speculate=s).tokens for s in (True, False)]
    assert texts[0] == texts[1]
