"""Families of transformers behind the engine: the text of transformers' own greedy search, or a refusal that says why.

A flip is legal only where the target's two best logits lie closer than 1e-4. The table in docs/architectures.md says
for each family what is shown here.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.caches import SnapshotCache
from specdec_teach.hf import ModelRunner

from ..architectures import ARCHITECTURES, REFUSED, build, table
from ..checks import pointers_and_caches

GREEDY = sd.Sampling.greedy()
FAR = sd.testing.tiny_llama(seed=9)
PROMPT = [7, 3, 9, 1, 4, 8, 2, 6, 5, 11]  # longer than every window and chunk of 6
ROWS, GAMMAS = [[5], [7, 3, 9, 1, 4], [*PROMPT, 3]], [2, 4, 3]
TIE = 1e-4
SERVED = [label for label in ARCHITECTURES if label not in REFUSED]

pytestmark = pytest.mark.filterwarnings("default")  # warnings of transformers about itself are no concern of ours


@functools.cache
def near(label: str) -> tuple[Any, Any]:
    """The target, and a draft that is near it."""
    return build(label), build(label, noise=0.05)


def engine(label: str, drafter: Any, gamma: int) -> sd.Engine:
    """An engine on the target of a label."""
    return sd.Engine(near(label)[0], drafter=sd.ModelDrafter(drafter), gamma=gamma)


def fresh(model: Any, tokens: Sequence[int]) -> torch.Tensor:
    """The next-step logits after `tokens`, without any cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0, -1]


def same_text(model: Any, prompt: Sequence[int], found: Sequence[int], right: Sequence[int]) -> None:
    """The same tokens, up to a tie of the target."""
    assert len(found) == len(right)
    at = next((i for i, (one, other) in enumerate(zip(found, right, strict=True)) if one != other), None)
    if at is not None:
        best = fresh(model, [*prompt, *right[:at]]).topk(2).values
        assert best[0] - best[1] < TIE, f"token {at} is {found[at]} and should be {right[at]}"


def own_greedy(model: Any, prompt: Sequence[int], count: int) -> list[int]:
    """What transformers' own greedy search says."""
    ids = torch.tensor([list(prompt)])
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=count, pad_token_id=0
    )
    return list(out[0, len(prompt) :].tolist())


@pytest.mark.parametrize("label", SERVED)
def test_greedy_text_is_transformers_own(label: str) -> None:
    """Forty tokens under a far draft (γ = 1), a near one (γ = 3), the target itself (γ = 5) and forced rejections."""
    target, draft = near(label)
    right = own_greedy(target, PROMPT, 40)
    assert len(set(right)) > 3, "a text that repeats itself would hide a wrong position"
    for drafter, gamma, count, reject_at in (
        (FAR, 1, 40, None),
        (draft, 3, 40, None),
        (target, 5, 40, None),
        (draft, 4, 8, 2),
    ):
        result = engine(label, drafter, gamma).generate(
            PROMPT, GREEDY, max_new_tokens=count, reject_at=reject_at, trace=False
        )
        same_text(target, PROMPT, result.tokens, right[:count])
        assert drafter is not target or result.stats.acceptance_rate == 1.0


@pytest.mark.parametrize("label", SERVED)
def test_a_row_of_a_batch_is_that_row_alone(label: str) -> None:
    """Prompts of 1, 5 and 11 tokens with different γ in one batch; each is transformers' own text too."""
    target, draft = near(label)
    subject = engine(label, draft, 4)
    together = subject.generate(ROWS, GREEDY, max_new_tokens=12, gamma=GAMMAS, trace=False)
    for prompt, gamma, row in zip(ROWS, GAMMAS, together, strict=True):
        alone = subject.generate(prompt, GREEDY, max_new_tokens=12, gamma=gamma, trace=False)
        same_text(target, prompt, row.tokens, alone.tokens)
        same_text(target, prompt, row.tokens, own_greedy(target, prompt, 12))


@pytest.mark.parametrize("label", SERVED)
def test_caches_answer_like_a_fresh_prefill(label: str) -> None:
    """After every cycle, target and draft: keys, values and next-step logits, or for a state the logits alone."""
    target, draft = near(label)
    stream = engine(label, draft, 3).stream(PROMPT, GREEDY, max_new_tokens=9)
    if ModelRunner(target, "target").rolls_back:
        assert stream.meta.cache == "contiguous"
        assert pointers_and_caches(stream, target, draft, 5e-5) > 2
    else:
        assert stream.meta.cache == "snapshot"
        assert snapshots(stream, target, draft) > 2
        assert not sd.invariants.check(stream.trace())


def snapshots(stream: Any, target: Any, draft: Any) -> int:
    """Check both states after every cycle against forwards without a cache; return how many cycles there were."""
    sequence, owed, cycles = stream.sequence, 0, 0
    runners = [ModelRunner(model, "target") for model in (target, draft)]
    for cycle in stream:
        cycles += 1
        assert cycle.caught_up == owed, "what a rollback gave up is computed again, and the trace says so"
        owed = cycle.committed_after - 1 - cycle.target_kv.after
        assert 0 <= owed <= len(cycle.proposed)
        assert cycle.target_kv.after == sequence.cache.pointer
        for runner, cache in zip(runners, (sequence.cache, sequence.draft), strict=True):
            assert isinstance(cache, SnapshotCache)
            step = runner.forward(cache.fork(), sequence.tokens[cache.pointer :], keep=1)[0]
            right = fresh(runner.model, sequence.tokens)
            assert (step - right).abs().max() <= 1e-5 * max(1.0, right.abs().max().item())
    return cycles


@pytest.mark.parametrize("label", REFUSED)
def test_a_refusal_names_the_reason(label: str) -> None:
    """As target and as draft, when the engine or the drafter is made."""
    for role, make in (("target", sd.Engine), ("draft", sd.ModelDrafter)):
        with pytest.raises(sd.InvalidInput, match=rf"the {role} {ARCHITECTURES[label].class_name} .*{REFUSED[label]}"):
            make(near(label)[0])


def test_long_rope_ends_at_its_original_length() -> None:
    """Beyond it every key would be turned another way than it was cached: the text ends there, with "context"."""
    label = "Phi-3, long rope"
    result = engine(label, near(label)[1], 3).generate([1, 2, 3], GREEDY, max_new_tokens=100, trace=False)
    assert (result.finish_reason, len(result.tokens)) == ("context", 61)
    same_text(near(label)[0], [1, 2, 3], result.tokens, own_greedy(near(label)[0], [1, 2, 3], 61))


def test_the_table_is_in_step() -> None:
    """docs/architectures.md is what `python -m tests.architectures` writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = table()
    assert (Path(__file__).parents[2] / "docs" / "architectures.md").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    "label", ["Falcon, rotary", "Phi-3, window 6", "OLMo 3, window 6 and full", "Cohere 2, window 6 and full"]
)
def test_draft_trees_through_transformers(label: str) -> None:
    """A mask of our own for every kind of layer: the text is the plain one, in a batch longer than the windows."""
    target, draft = near(label)
    engine = sd.Engine(target, drafter=sd.TreeDrafter(sd.ModelDrafter(draft), (2, 2)), gamma=2)
    found = engine.generate(ROWS, GREEDY, max_new_tokens=10)
    right = engine.generate(ROWS, GREEDY, max_new_tokens=10, speculate=False)
    for prompt, one, plain in zip(ROWS, found, right, strict=True):
        same_text(target, prompt, one.tokens, plain.tokens)


@pytest.mark.parametrize("label", ["BLOOM, ALiBi", "Llama 4, chunks of 6 and full", "Mamba"])
def test_models_that_follow_no_tree_are_refused(label: str) -> None:
    with pytest.raises(sd.InvalidInput, match="shape"):
        sd.Engine(near(label)[0], drafter=sd.TreeDrafter(sd.ModelDrafter(FAR), (2,)))
