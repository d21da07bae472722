"""Drafters as users meet them: at the edges of what they are made for, and past them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.invariants import Watch, check
from specdec_teach.noise import CounterNoise

from ..heads import FEATURES, head_for, head_logits, tiny
from .test_heads import watch

TARGET, TALL = sd.testing.tiny_llama(), tiny()
GREEDY = sd.Sampling.greedy()


def test_a_tree_that_is_a_chain_this_time() -> None:
    """Where one token is possible there are no siblings; the draft lets the tree go all the same, and a record says so.

    Without that word the draft's cache would be behind by more than a chain of a draft model can be.
    """
    drafter = sd.TreeDrafter(sd.ModelDrafter(TARGET), (2, 2, 1))
    engine = sd.Engine(TARGET, drafter=drafter, gamma=3, debug=True)
    engine.observers.append(Watch())
    trace = engine.generate([1, 2, 3], sd.Sampling(top_k=1, seed=1), max_new_tokens=16).trace
    assert trace is not None
    assert [(cycle.parents, cycle.accepted) for cycle in trace.cycles] == [(None, 3)] * 4
    assert check(trace) == []
    silent = replace(trace, meta=replace(trace.meta, trees=False))
    assert {one.name for one in check(silent)} == {"draft-lag"}


@pytest.mark.parametrize(
    ("given", "called"),
    [("ngram", "a str"), (TARGET, "a LlamaForCausalLM"), (sd.NgramDrafter, "the class NgramDrafter")],
)
def test_what_is_no_drafter(given: Any, called: str) -> None:
    """The mistakes that are made first: a name, the draft model itself, a class without its brackets."""
    with pytest.raises(sd.InvalidInput, match=f"^drafter= is {called}; give a drafter"):
        sd.Engine(TARGET, drafter=given)


def test_a_draft_length_past_all_reason() -> None:
    """It costs nothing: what is asked for in a cycle is what can be kept, and room is made for no more."""
    for drafter in (sd.NgramDrafter(), sd.TreeDrafter(sd.ModelDrafter(TARGET), (2, 1))):
        engine = sd.Engine(TARGET, drafter=drafter, gamma=10**12)
        plain = engine.generate([1, 2, 1, 2], GREEDY, max_new_tokens=9, speculate=False)
        assert engine.generate([1, 2, 1, 2], GREEDY, max_new_tokens=9).tokens == plain.tokens


def test_the_budget_goes_to_the_likeliest_ways() -> None:
    """Below the favourite (.9) lie ways of .72, twice, and .16; its rival (.1) and all below that one are let go."""
    rows = torch.tensor([[0, 0.9, 0.1, 0], [0.02, 0, 0.18, 0.8], [0.5, 0.5, 0, 0], [1, 0, 0, 0]])
    draft = sd.testing.TabularLM((rows + 1e-9).log())
    drafter = sd.TreeDrafter(sd.ModelDrafter(draft), budget=4, beam=2, depth=3)
    assert [drafter.nodes(depth) for depth in range(4)] == [0, 2, 4, 4]
    result = sd.Engine(draft, drafter=drafter, gamma=3).generate([0], GREEDY, max_new_tokens=4)
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    assert (cycle.proposed, cycle.parents) == ((1, 3, 2, 0), (-1, 0, 0, 1))


def _near_the_last(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """A processor that reads the order of the text: three tokens may follow the last one."""
    barred = torch.ones_like(logits, dtype=torch.bool)
    barred[0, [(int(ids[0, -1]) * 3 + step) % logits.shape[1] for step in range(3)]] = False
    return logits.masked_fill(barred, -torch.inf)


@pytest.mark.parametrize("shape", [None, (2, 1, 1)], ids=["chain", "tree"])
@pytest.mark.parametrize(("temperature", "rule"), [(0.0, "rejection"), (0.8, "rejection"), (0.8, "coupled")])
def test_a_draft_with_the_targets_own_mind_is_always_right(
    shape: tuple[int, ...] | None, temperature: float, rule: str
) -> None:
    """It sees the drafts before it, and the noise of its place, as the target will; no law of a text tells."""
    base = sd.ModelDrafter(TARGET)
    drafter = base if shape is None else sd.TreeDrafter(base, shape)
    engine = sd.Engine(TARGET, drafter=drafter, gamma=3, verify=rule)
    penalties: Any = {"frequency_penalty": 2.0, "repetition_penalty": 1.5}
    sampling = sd.Sampling(temperature=temperature, seed=2, processors=(_near_the_last,), **penalties)
    result = engine.generate([7, 7, 3], sampling, max_new_tokens=24)
    assert result.trace is not None
    assert [cycle.accepted for cycle in result.trace.cycles] == [3] * 6


def test_a_record_shows_the_row_where_a_path_ends() -> None:
    """The bonus's bars are those of the target behind the last draft that was kept, not behind the first."""
    engine = sd.Engine(TARGET, drafter=sd.TreeDrafter(sd.ModelDrafter(TARGET), (2, 2)), gamma=2)
    result = engine.generate([7, 7, 3], sd.Sampling(seed=1), max_new_tokens=12)
    assert result.trace is not None
    text = [7, 7, 3, *result.tokens]
    for cycle in result.trace.cycles:
        assert (cycle.accepted, cycle.last_kind) == (2, "bonus")
        assert cycle.last_top is not None
        with torch.inference_mode():
            p_V = TARGET(input_ids=torch.tensor([text[: cycle.committed_after - 1]])).logits[0, -1].softmax(-1)
        shown = torch.tensor([p for _, p in cycle.last_top.tokens])
        assert torch.allclose(shown, p_V.topk(len(shown)).values, atol=1e-5)


def test_a_request_that_waits_holds_nothing_of_its_draft() -> None:
    """Preempted, it gives the memory of both caches back, and goes on to the same text."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(TARGET), gamma=2)
    stream = engine.stream([7, 7, 3], GREEDY, max_new_tokens=12)
    stream.step()
    stream.preempt()
    assert (stream.sequence.draft, stream.sequence.cache.pointer) == (None, 0)
    assert stream.finish().tokens == engine.generate([7, 7, 3], GREEDY, max_new_tokens=12).tokens


class _Interrupts:
    """Ctrl-C at every n-th event."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.heard = self.sent = 0

    def on_event(self, event: object) -> None:
        self.heard += 1
        if self.heard % self.every == 0:
            self.sent += 1
            raise KeyboardInterrupt


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("shape", [None, (2, 1)], ids=["chain", "tree"])
def test_heads_that_are_interrupted_keep_their_place(kind: str, shape: tuple[int, ...] | None) -> None:
    """A cycle that begins again reads the last token again: the same text, and no pointer past what is settled."""
    drafter: Any = head_for(TALL, kind, spread=0.02)
    engine = sd.Engine(TALL, drafter=drafter if shape is None else sd.TreeDrafter(drafter, shape), gamma=3, debug=True)
    sampling = sd.Sampling(seed=3, temperature=0.8)
    right = engine.generate([5, 9, 2], sampling, max_new_tokens=16)
    for every in (5, 7, 9):
        interrupts = _Interrupts(every)
        engine.observers[:] = [interrupts]
        stream, going = engine.stream([5, 9, 2], sampling, max_new_tokens=16), True
        while going:
            try:
                going = stream.step()
            except KeyboardInterrupt:
                continue
        assert interrupts.sent > 2
        assert stream.result().tokens == right.tokens
        assert check(stream.trace()) == []
        assert [c.proposed for c in stream.trace().cycles] == [c.proposed for c in right.trace.cycles]  # type: ignore[union-attr]
    engine.observers.clear()


def test_a_head_reads_long_texts() -> None:
    """Its drafts are those of its layer worked out over the whole text, far behind the positions it began with."""
    target = sd.testing.tiny_llama(3, layers=3, context=320)
    drafter: Any = head_for(target, "head")
    prompt = [at * 7 % 64 for at in range(290)]
    cycle = next(sd.Engine(target, drafter=drafter, gamma=2).stream(prompt, GREEDY, max_new_tokens=8))
    said = head_logits(target, drafter._network, prompt, cycle.proposed)
    assert cycle.proposed == tuple(said[:2].argmax(-1).tolist())


@torch.inference_mode()
@pytest.mark.parametrize("kind", ["head", "head3"])
def test_a_head_asked_twice_goes_on_from_what_is_only_supposed(kind: str) -> None:
    """A second proposal in one cycle, behind tokens that the target has not seen, owes nothing to the first."""
    drafter: Any = head_for(TALL, kind)
    stream = sd.Engine(TALL, drafter=drafter, gamma=3).stream([5, 9, 2, 33, 7], GREEDY, max_new_tokens=20)
    stream.step()
    sequence, committed = stream.sequence, list(stream.sequence.tokens)
    drafter.commit(sequence)
    for supposed in ([], [17, 4], [8]):
        sequence.tokens = committed + supposed
        drafter.commit(sequence)
        drafts = drafter.propose([sequence], [3])[0].tokens
        said = head_logits(TALL, drafter._network, committed, [*supposed, *drafts])[len(supposed) :]
        assert drafts == tuple(said[:3].argmax(-1).tolist())


@pytest.mark.parametrize("kind", ["model", *FEATURES])
def test_a_copy_of_a_request_shares_nothing_with_it(kind: str) -> None:
    """Two copies with equal chances draft the same, though the request itself goes on in the middle of one."""
    drafter: Any = sd.ModelDrafter(TARGET) if kind == "model" else head_for(TALL, kind)
    stream = sd.Engine(TALL, drafter=drafter, gamma=3).stream([5, 9, 2], sd.Sampling(seed=5), max_new_tokens=40)
    stream.step()
    first, second = (stream.fork(CounterNoise(99)) for _ in range(2))
    seen = watch(drafter)
    for _ in range(4):
        second.step()
    begun = len(seen)
    stream.finish()
    del seen[begun:]
    second.finish()
    drafts = [(text, proposal.tokens) for text, proposal in seen]
    seen.clear()
    first.finish()
    assert drafts == [(text, proposal.tokens) for text, proposal in seen]


@pytest.mark.parametrize("kind", FEATURES)
def test_a_tree_beside_one_that_is_a_chain(kind: str) -> None:
    """In one batch: a row with one token possible at each place, and one with siblings, each as it is alone."""
    drafter: Any = sd.TreeDrafter(head_for(TALL, kind, spread=0.02), (2, 2, 1))
    engine, prompts = sd.Engine(TALL, drafter=drafter, gamma=3), [[5, 9, 2], [60, 3]]
    ways = [sd.Sampling(top_k=1, seed=1), sd.Sampling(seed=2)]
    together = engine.generate(prompts, ways, max_new_tokens=16)
    for result, prompt, sampling in zip(together, prompts, ways, strict=True):
        alone = engine.generate(prompt, sampling, max_new_tokens=16)
        assert result.trace is not None
        assert alone.trace is not None
        assert [c.proposed for c in result.trace.cycles] == [c.proposed for c in alone.trace.cycles]


@pytest.mark.parametrize("shape", [None, (2, 1)], ids=["chain", "tree"])
def test_a_draft_that_may_say_nothing(shape: tuple[int, ...] | None) -> None:
    """The only token that is allowed is one that the draft does not know: plain decoding goes on."""
    base = sd.ModelDrafter(sd.testing.TabularLM([0.0, 1.0, 0.5]))
    drafter = base if shape is None else sd.TreeDrafter(base, shape)
    engine = sd.Engine(sd.testing.TabularLM([0.0] * 5), drafter=drafter, gamma=2)
    result = engine.generate([0], sd.Sampling(allowed=(4,), seed=1), max_new_tokens=4)
    assert (result.tokens, result.stats.drafted) == ((4,) * 4, 0)
