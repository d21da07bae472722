"""Draft trees in the whole engine: texts, caches, limits, interrupts, company; and what refuses them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach import invariants, sight, tree
from specdec_teach.drafters.base import Proposal, spare_nodes
from specdec_teach.hf import ModelRunner
from specdec_teach.keeping import Keeping
from specdec_teach.tree import Parents

from ..checks import same_as_fresh

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
KINDS = ("contiguous", "masked", "paged", "selective", "recompute")
PROMPTS = [[1, 2, 3], [9, 8, 7, 6, 5, 4, 3, 2]]
SHAPES: dict[str, dict[str, Any]] = {
    "fixed": {"shape": (3, 2, 1)},
    "certain": {"shape": (2, 2), "mode": "top"},
    "unbalanced": {"shape": (-1, -1, 0, 2, 2, -1)},
    "by confidence": {"budget": 9, "beam": 3, "depth": 4},
}


def trees(how: dict[str, Any] = SHAPES["fixed"], **settings: Any) -> sd.Engine:
    """An engine over two tiny models that drafts trees."""
    return sd.Engine(TARGET, drafter=sd.TreeDrafter(sd.ModelDrafter(NEAR), **how), **{"gamma": 4, **settings})


def texts(engine: sd.Engine, prompts: list[list[int]], sampling: sd.Sampling, **more: Any) -> list[tuple[int, ...]]:
    return [result.tokens for result in engine.generate(prompts, sampling, max_new_tokens=18, **more)]


@pytest.mark.parametrize("decoder", ["auto", "hf"])
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_the_plain_text(kind: str, decoder: str) -> None:
    """Alone and in a ragged batch, with fixed trees and with trees that differ from row to row."""
    for how in (SHAPES["fixed"], SHAPES["by confidence"]):
        engine = trees(how, cache=kind, decoder=decoder)
        plain = texts(engine, PROMPTS, sd.Sampling.greedy(), speculate=False)
        assert texts(engine, PROMPTS, sd.Sampling.greedy()) == plain
        assert texts(engine, PROMPTS[:1], sd.Sampling.greedy()) == plain[:1]


@pytest.mark.parametrize("how", SHAPES.values(), ids=SHAPES)
def test_coupled_text_is_the_plain_text(how: dict[str, Any]) -> None:
    """Siblings are the likeliest tokens under one noise; what is emitted is the target's own choice."""
    engine, kept = trees(how, verify="coupled"), 0
    for seed in range(4):
        sampling = sd.Sampling(temperature=0.9, seed=seed)
        fast, plain = (
            engine.generate([1, 2, 3], sampling, max_new_tokens=24, speculate=speculate) for speculate in (True, False)
        )
        assert fast.tokens == plain.tokens
        assert fast.trace is not None
        assert invariants.check(fast.trace) == []
        kept += sum(len(cycle.path or ()) for cycle in fast.trace.cycles)
    assert kept > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", SHAPES.values(), ids=SHAPES)
def test_caches_are_those_of_a_fresh_prefill(how: dict[str, Any], kind: str) -> None:
    """After every cycle, whatever way was kept: keys, values and what the model says next, of both models."""
    ways = set()
    for seed in range(2):
        stream = trees(how, cache=kind, debug=True).stream(PROMPTS[1], sd.Sampling(seed=seed), max_new_tokens=16)
        for cycle in stream:
            ways.add(cycle.path)
            if stream.sequence.cache.pointer:
                same_as_fresh(TARGET, stream.sequence.tokens, stream.sequence.cache, 1e-5)  # type: ignore[arg-type]
            same_as_fresh(NEAR, stream.sequence.tokens, stream.sequence.draft, 1e-5)  # type: ignore[arg-type]
    assert len(ways - {None, ()}) > 1


def test_a_record_of_a_tree() -> None:
    """Each draft has its parent, what fell before a sibling has made its p smaller, and the counts follow."""
    far = sd.TreeDrafter(sd.ModelDrafter(sd.testing.tiny_llama(noise=0.4)), (3, 2, 1))
    result = sd.Engine(TARGET, drafter=far).generate([1, 2, 3], sd.Sampling(seed=5), max_new_tokens=40)
    assert result.trace is not None
    assert invariants.check(result.trace) == []
    loaded = sd.Trace.from_dict(result.trace.to_dict())
    assert loaded == result.trace
    second = 0
    for cycle in loaded.cycles[:-3]:
        assert cycle.parents == tree.levels((3, 2, 1))
        assert cycle.path == tree.path_to(cycle.parents, cycle.path[-1]) if cycle.path else cycle.path == ()
        assert cycle.emitted[: cycle.accepted] == tuple(cycle.proposed[node] for node in cycle.path)
        family = [d for d, parent in zip(cycle.decisions, cycle.parents, strict=True) if parent == -1]
        for before, after in pairwise(family):
            if before.status == "rejected" and after.u is not None:
                second += 1
                left = {bar.token: bar.residual for bar in before.bars}
                assert after.token not in left or after.p == pytest.approx(left[after.token], abs=1e-6)
        assert cycle.draft_kv is not None
        assert cycle.draft_kv.written > cycle.draft_kv.after
    assert second > 3
    table = loaded.to_table()
    assert "  ·   4 " in table or "  ✗   4 " in table
    assert result.stats.drafted == sum(len(cycle.proposed) for cycle in loaded.cycles)
    assert loaded.cycles[-1].committed_after == 43


@pytest.mark.parametrize("cap", range(1, 9))
@pytest.mark.parametrize("how", [SHAPES["fixed"], SHAPES["by confidence"]], ids=["fixed", "by confidence"])
def test_the_depth_shrinks_at_the_end(cap: int, how: dict[str, Any]) -> None:
    """No draft is asked for that could not be kept, in the text's length and in both contexts."""
    small = sd.testing.tiny_llama(context=3 + cap)
    for target, draft in ((TARGET, NEAR), (small, NEAR), (TARGET, small)):
        engine = sd.Engine(target, drafter=sd.TreeDrafter(sd.ModelDrafter(draft), **how), gamma=4, debug=True)
        fast, plain = (
            engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=cap, speculate=s) for s in (True, False)
        )
        assert fast.tokens == plain.tokens
        assert fast.trace is not None
        for cycle in fast.trace.cycles:
            depth = max(tree.depths(cycle.parents or tree.chain(len(cycle.proposed))), default=0)
            assert depth <= max(0, 3 + cap - cycle.committed_before - 1)


def test_an_end_token_anywhere_on_the_way() -> None:
    """What hangs below it is cut, what fell beside it stays rejected, and nothing follows."""
    plain = trees().generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=12, speculate=False).tokens
    cuts = 0
    for end in dict.fromkeys(plain):
        result = trees(debug=True).generate([1, 2, 3], sd.Sampling(temperature=0, eos_token_id=end), max_new_tokens=12)
        assert result.tokens == plain[: plain.index(end) + 1]
        assert result.finish_reason == "eos"
        assert result.trace is not None
        last = result.trace.cycles[-1]
        cuts += last.stop_cut
        assert [d.status for d in last.decisions].count("cut") == last.stop_cut
    assert cuts > 0


class Stop(BaseException):
    """An interrupt."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_in_the_middle_of_the_moving(kind: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cycle is settled again from what is committed: the text goes on as if nothing had happened."""
    sampling = sd.Sampling(seed=8)
    right = trees(cache=kind).generate([1, 2, 3], sampling, max_new_tokens=24).tokens
    stream = trees(cache=kind).stream([1, 2, 3], sampling, max_new_tokens=24)
    honest: Callable[..., int] = type(stream.sequence.cache).compact
    left = [3]

    def compact(self: Any, start: int, kept: Any) -> int:
        left[0] -= 1
        if left[0] == 0:
            if when == "after":
                honest(self, start, kept)
            else:
                self.poison()
            raise Stop
        return honest(self, start, kept)

    monkeypatch.setattr(type(stream.sequence.cache), "compact", compact)
    with pytest.raises(Stop):
        stream.finish()
    monkeypatch.undo()
    assert stream.finish().tokens == right


def test_a_path_is_moved_once() -> None:
    """Settling again after the moving leaves the cache alone."""
    stream = trees().stream([1, 2, 3], sd.Sampling(seed=1), max_new_tokens=20)
    cycle = next(stream)
    keeping = Keeping(cycle.committed_before, cycle.path)
    keeping.moved = True
    before = stream.sequence.cache.contents()
    keeping.settle(stream.sequence, len(stream.sequence.tokens) - 1)
    assert all(torch.equal(a, b) for a, b in zip(before[0], stream.sequence.cache.contents()[0], strict=True))


def test_a_scheduler_serves_trees() -> None:
    """Rows with different trees, few blocks, prefix reuse and preemption: texts are those of each alone."""
    engine = trees(SHAPES["by confidence"], block_size=4)
    plain = [engine.generate(p, sd.Sampling.greedy(), max_new_tokens=14, speculate=False).tokens for p in PROMPTS * 2]
    for blocks in (8, 12, 40):
        scheduler = sd.Scheduler(engine, max_batch=3, blocks=blocks)
        requests = [scheduler.submit(p, sd.Sampling.greedy(), max_new_tokens=14) for p in PROMPTS * 2]
        scheduler.run()
        assert [request.result.tokens for request in requests] == plain
        assert scheduler.blocks_in_use == 0
        for request in requests:
            assert request.result.trace is not None
            assert invariants.check(request.result.trace) == []


def test_a_call_with_few_blocks_counts_the_nodes() -> None:
    with pytest.raises(sd.InvalidInput, match="blocks"):
        trees(cache="paged", block_size=4, blocks=5).generate([1, 2, 3], max_new_tokens=16)
    assert len(trees(cache="paged", block_size=4, blocks=10).generate([1, 2, 3], max_new_tokens=16).tokens) == 16


def test_what_takes_no_trees_says_so() -> None:
    drafter = sd.TreeDrafter(sd.ModelDrafter(NEAR), (2, 1))
    for rule in ("block", "typical", "threshold", "synthetic"):
        with pytest.raises(sd.InvalidInput, match=f"{rule}.*trees"):
            sd.Engine(TARGET, drafter=drafter, verify=rule)
    engine = sd.Engine(TARGET, drafter=drafter)
    with pytest.raises(sd.InvalidInput, match=r"reject_at=1.*trees"):
        engine.generate([1], reject_at=1)
    with pytest.raises(sd.InvalidInput, match="grows trees"):
        sd.faults.inject(engine, "engine_a")
    with pytest.raises(sd.InvalidInput, match="share their noise"):
        sd.exact_law(sd.Engine(TARGET, drafter=drafter, verify="coupled"), [0], 1)
    with pytest.raises(sd.InvalidInput, match="expand"):
        sd.TreeDrafter(sd.NgramDrafter())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"shape": (2, 1), "budget": 4}, "one or the other"),
        ({"shape": ()}, "give children"),
        ({"shape": (2, 0)}, "1 or more children"),
        ({"shape": (9, 9)}, "63"),
        ({"shape": (-1, 3)}, "parent comes before"),
        ({"budget": 0}, "budget=0"),
        ({"budget": 64, "beam": 8}, "at most 63"),
        ({"mode": "best"}, "mode"),
    ],
)
def test_shapes_that_are_none(how: dict[str, Any], message: str) -> None:
    with pytest.raises(sd.InvalidInput, match=message):
        sd.TreeDrafter(sd.ModelDrafter(NEAR), **how)


def test_a_wrong_tree_is_refused_before_the_target_runs() -> None:
    """A drafter that hands over no tree, one that is too deep, or more nodes than it said."""

    class Wrong:
        name, model_name, revision, context, exact = "wrong", None, None, None, True

        def __init__(self, parents: Parents) -> None:
            self.parents = parents

        def nodes(self, depth: int) -> int:
            return 3 if depth else 0

        def check(self, vocab: int) -> None: ...

        def reset(self, sequence: Any, capacity: int) -> None: ...

        def commit(self, sequence: Any) -> None: ...

        def pointer(self, sequence: Any) -> None: ...

        def propose(self, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
            if counts[0] < 2:
                return [Proposal(())]
            return [Proposal((1, 2, 3)[: len(self.parents)] + (4,) * (len(self.parents) - 3), None, self.parents)]

    for parents in ((-1, 1, 0), (-1, 0, 1), (-1, -1, -1, -1)):
        with pytest.raises(sd.EngineFailure, match="proposed"):
            sd.Engine(TARGET, drafter=Wrong(parents), gamma=2).generate([1, 2])  # type: ignore[arg-type]
    engine = sd.Engine(TARGET, drafter=Wrong((-1, 0, -1)), gamma=2)  # type: ignore[arg-type]
    plain = engine.generate([1, 2], sd.Sampling.greedy(), speculate=False, max_new_tokens=9)
    assert engine.generate([1, 2], sd.Sampling.greedy(), max_new_tokens=9).tokens == plain.tokens


def test_room_for_nodes() -> None:
    drafter = sd.TreeDrafter(sd.ModelDrafter(NEAR), (3, 2, 1))
    assert [drafter.nodes(depth) for depth in range(5)] == [0, 3, 9, 15, 15]
    assert [spare_nodes(drafter, gamma) for gamma in (0, 1, 2, 3, 9)] == [0, 2, 7, 12, 12]
    assert spare_nodes(sd.ModelDrafter(NEAR), 4) == 0


def test_windows_count_positions() -> None:
    """A sliding window narrower than text and tree: nodes and forward masks agree with ways fed alone."""
    config: dict[str, Any] = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2,
    }  # fmt: skip
    parents, ids = (-1, -1, 0, 1, 2), [5, 9, 13, 2, 40, 7, 8, 6, 4, 3, 11]
    torch.manual_seed(3)
    from transformers import MistralConfig, MistralForCausalLM

    model = MistralForCausalLM(MistralConfig(**config, sliding_window=4)).eval()
    for decoder in ("compact", "hf"):
        runner = ModelRunner(model, "target", decoder=decoder)
        assert runner.branches
        cache = runner.new_cache(len(ids))
        runner.forward(cache, ids[:4], 0)
        rows_RV = runner.forward_rows([cache], [ids[4:]], [6], trees=[parents])[0]
        for node in range(-1, 5):
            way = ids[:6] + [ids[6 + at] for at in tree.path_to(parents, node)]
            alone_V = runner.forward(runner.new_cache(len(way)), way, 1)[0]
            assert (rows_RV[node + 1] - alone_V).abs().max() < 1e-5, (decoder, node)


def test_who_sees_whom() -> None:
    """Nodes in the cache and nodes that are fed see the text before the tree, their ancestors and themselves."""
    parents = (-1, -1, 0, 2)
    shut = sight.hidden(7, 2, parents, 0)
    assert shut.int().tolist() == [[0, 0, 0, 0, 0, 0, 1, 0, 1][:9], [0, 0, 0, 0, 0, 0, 1, 0, 0]]
    assert sight.positions(9, parents) == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    whole = sight.hidden(0, 6, tree.chain(3), 0)
    assert torch.equal(whole, torch.ones(6, 6, dtype=torch.bool).triu(1))
    assert torch.equal(sight.hidden(2, 4, tree.chain(3), 3), sight.hidden(2, 4, (), 3))


@pytest.mark.parametrize("kind", ["contiguous", "paged"])
def test_a_batch_of_trees_and_chains(kind: str) -> None:
    """Rows without drafts, with chains at the end of their text and with trees share a forward."""
    engine = trees(cache=kind, debug=True)
    prompts, caps = [[1, 2, 3], [4], [5, 6, 7, 8, 9]], [3, 17, 9]
    results = engine.generate(prompts, sd.Sampling.greedy(), max_new_tokens=caps, gamma=[3, 0, 2])
    for result, prompt, cap in zip(results, prompts, caps, strict=True):
        right = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=cap, speculate=False)
        assert result.tokens == right.tokens


def test_logprobs_are_those_of_the_path() -> None:
    """Every emitted token's log p, from the row it came from."""
    sampling = sd.Sampling(temperature=0.8, seed=4, logprobs=2)
    result = trees().generate([1, 2, 3], sampling, max_new_tokens=20)
    ids = torch.tensor([[1, 2, 3, *result.tokens]])
    with torch.inference_mode():
        logs = (TARGET(input_ids=ids).logits[0, 2:-1] / 0.8).log_softmax(-1)
    assert result.logprobs is not None
    for at, (token, found) in enumerate(zip(result.tokens, result.logprobs, strict=True)):
        assert found[token] == pytest.approx(float(logs[at, token]), abs=1e-4)
