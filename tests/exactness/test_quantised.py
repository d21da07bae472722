"""Quantised targets: speculation follows the target it is given, not the one that was quantised.

int8: weights in eight bits with a scale for each output; a token's answer depends on nothing behind it, so the proof is
the usual one. bfloat16: the proof has a band. A greedy token may flip only where the target's two best logits lie
closer than `BAND` of its largest logit. Activations with one scale for a whole forward are no target at all: refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import specdec_teach as sd
from specdec_teach.hf import ModelRunner

from ..checks import product_law, same_as_fresh, same_law

GREEDY = sd.Sampling.greedy()
PROMPTS = [[1, 2, 3], [9, 4, 4, 7, 1], [5] * 6, [60]]
BAND = 2.0**-7  # a few roundings of bfloat16, whose eight bits of precision are 2^-8 apart
DRAFTS = {"near": sd.testing.tiny_llama(noise=0.08), "far": sd.testing.tiny_llama(seed=9)}


class Int8Linear(nn.Module):
    """A linear map whose weight is int8 `[O, I]` with a scale for each output; activations stay as they are."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.detach().abs().amax(dim=1, keepdim=True) / 127
        self.register_buffer("weight", (linear.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x_BTI: Tensor) -> Tensor:
        return nn.functional.linear(x_BTI, self.weight.to(x_BTI.dtype) * self.scale, self.bias)


class Int8Everything(Int8Linear):
    """The same, with activations rounded to eight bits too, by one scale for all that comes in."""

    def forward(self, x_BTI: Tensor) -> Tensor:
        step = x_BTI.abs().amax().clamp(min=1e-9) / 127
        return super().forward((x_BTI / step).round() * step)


def int8(model: Any, kind: type[Int8Linear] = Int8Linear) -> Any:
    """The same model with int8 weights in every linear map."""
    twin = copy.deepcopy(model)
    for parent in list(twin.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, kind(child))
    return twin


def dynamic_by_torch(model: Any) -> Any:
    """The same model as torch's own dynamic quantisation makes it, where torch still has it."""
    quantization = pytest.importorskip("torch.ao.quantization")
    return quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)


FULL = sd.testing.tiny_llama()
INT8, BF16 = int8(FULL), copy.deepcopy(FULL).to(torch.bfloat16)


def plain(model: Any, prompt: Sequence[int], count: int) -> list[int]:
    """Greedy decoding on paper: a fresh forward for each token, no cache."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(fresh(model, tokens).argmax()))
    return tokens[len(prompt) :]


def fresh(model: Any, tokens: Sequence[int]) -> Tensor:
    """The next-step logits, float32 `[V]`, without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0, -1].float()


@pytest.mark.parametrize("draft", DRAFTS)
def test_int8_text_is_the_quantised_target_s_own(draft: str) -> None:
    """An fp32 draft before an int8 target: the int8 target's greedy text, which is not the fp32 target's."""
    subject = sd.Engine(INT8, drafter=sd.ModelDrafter(DRAFTS[draft]), gamma=4)
    other = 0
    for prompt in PROMPTS:
        fast = list(subject.generate(prompt, GREEDY, max_new_tokens=40).tokens)
        assert fast == list(subject.generate(prompt, GREEDY, max_new_tokens=40, speculate=False).tokens)
        assert fast == plain(INT8, prompt, 40)
        other += fast != plain(FULL, prompt, 40)
    assert other > 0, "quantisation changed no text, so this test could not tell the two targets apart"


def test_int8_law_is_the_quantised_target_s_own() -> None:
    """Every random choice enumerated: the first two tokens follow the int8 target, measurably not the fp32 one."""
    small, draft = sd.testing.tiny_llama(vocab=5), sd.testing.tiny_llama(vocab=5, noise=0.3)
    target = int8(small)
    found = sd.exact_law(sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=2), [1], 2, sd.Sampling())

    def law_of(model: Any) -> dict[Any, float]:
        return product_law(lambda prefix: fresh(model, prefix).double().softmax(-1).tolist(), (1,), 2)

    same_law(found, law_of(target), 1e-6)
    with pytest.raises(AssertionError, match="the laws differ"):
        same_law(found, law_of(small), 1e-3)


def test_int8_cache_is_a_fresh_prefill() -> None:
    """Keys, values and next step after every cycle, 1e-5 as in fp32: weights alone are in eight bits."""
    stream = sd.Engine(INT8, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=4).stream([1, 2, 3], GREEDY)
    for _ in stream:
        same_as_fresh(INT8, stream.sequence.tokens, stream.sequence.cache, 1e-5)


@pytest.mark.parametrize("draft", DRAFTS)
def test_bfloat16_text_is_its_own_outside_the_band(draft: str) -> None:
    """The bfloat16 target's greedy text; a flip is reported and legal only inside the band."""
    subject = sd.Engine(BF16, drafter=sd.ModelDrafter(DRAFTS[draft]), gamma=4)
    flips, other = [], 0
    for prompt in PROMPTS:
        fast = list(subject.generate(prompt, GREEDY, max_new_tokens=40).tokens)
        right = plain(BF16, prompt, 40)
        flips += [gap for gap in [tie(BF16, prompt, fast, right)] if gap is not None]
        other += fast != plain(FULL, prompt, 40)
    assert all(gap < BAND for gap in flips), f"flips outside the tie band: relative gaps {flips}, band {BAND}"
    assert other > 0, "rounding to bfloat16 changed no text, so this test could not tell the two targets apart"


def tie(model: Any, prompt: Sequence[int], found: Sequence[int], right: Sequence[int]) -> float | None:
    """The gap of the two best logits, relative to the largest, where the texts first differ; None if they do not."""
    at = next((i for i, (one, other) in enumerate(zip(found, right, strict=True)) if one != other), None)
    if at is None:
        return None
    logits_V = fresh(model, [*prompt, *right[:at]])
    best = logits_V.topk(2).values
    return float((best[0] - best[1]) / logits_V.abs().max())


def test_the_band_is_narrower_than_a_wrong_token() -> None:
    """A text with one token exchanged for the runner-up is outside the band nearly everywhere."""
    right = plain(BF16, PROMPTS[0], 40)
    gaps = []
    for at in range(40):
        runner_up = int(fresh(BF16, [*PROMPTS[0], *right[:at]]).topk(2).indices[1])
        gaps.append(tie(BF16, PROMPTS[0], [*right[:at], runner_up, *right[at + 1 :]], right))
    assert sum(gap is not None and gap >= BAND for gap in gaps) > 30


def test_bfloat16_cache_is_a_fresh_prefill_within_rounding() -> None:
    """Keys, values and next step after every cycle, within the band (and K/V of size up to a few)."""
    stream = sd.Engine(BF16, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=4).stream([1, 2, 3], GREEDY)
    for _ in stream:
        same_as_fresh(BF16, stream.sequence.tokens, stream.sequence.cache, 4 * BAND)
    assert stream.meta.dtype == "bfloat16"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch is about to take it away
@pytest.mark.parametrize("make_target", [lambda: int8(FULL, Int8Everything), lambda: dynamic_by_torch(FULL)])
def test_one_scale_for_a_whole_forward_is_refused(make_target: Callable[[], Any]) -> None:
    """Dynamic quantisation by tensor: the logits after the first token move with what stands behind it."""
    dynamic = make_target()
    ids = torch.tensor([[1, 2, 3, 4, 5, 6]])
    with torch.inference_mode():
        alone, among = dynamic(ids[:, :1]).logits[0, 0], dynamic(ids).logits[0, 0]
    assert (alone - among).abs().max() > 0.01
    for role, make in (("target", sd.Engine), ("draft", sd.ModelDrafter)):
        with pytest.raises(sd.InvalidInput, match=f"the {role} LlamaForCausalLM quantises activations by a scale"):
            make(dynamic)


def test_weights_alone_are_not_refused() -> None:
    """int8 weights pass the same question, and share forwards like any other model."""
    assert ModelRunner(INT8, "target").shares
    rows = sd.Engine(INT8, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=3).generate(PROMPTS, GREEDY)
    for prompt, row in zip(PROMPTS, rows, strict=True):
        assert list(row.tokens) == plain(INT8, prompt, len(row.tokens))
