"""The compact decoder says what transformers says, family by family, for every cache and for rows of any length."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, PreTrainedModel, Qwen2Config, Qwen3Config

import specdec_teach as sd
from specdec_teach.caches import KINDS, BlockPool
from specdec_teach.decoder import CompactDecoder
from specdec_teach.linear import Linear

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64}
FAMILIES: dict[str, Any] = {
    "llama": LlamaConfig(**SIZES),
    "llama, all heads": LlamaConfig(**SIZES | {"num_key_value_heads": 4}),
    "llama, one kv head, biases": LlamaConfig(**SIZES | {"num_key_value_heads": 1}, attention_bias=True, mlp_bias=True),
    "llama, wide heads": LlamaConfig(**SIZES, head_dim=24),
    "smollm": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama3 rope": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "yarn": LlamaConfig(**SIZES, rope_parameters=YARN),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "mistral, window": MistralConfig(**SIZES, sliding_window=7),
    "qwen2": Qwen2Config(**SIZES),
    "qwen2, window": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=6, max_window_layers=1),
    "qwen3": Qwen3Config(**SIZES, head_dim=16),
    "qwen3, window": Qwen3Config(**SIZES, head_dim=8, use_sliding_window=True, sliding_window=5, max_window_layers=2),
}


def model_of(name: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A small random model in eval mode, its biases and norms random too."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(FAMILIES[name])
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if key.endswith("bias") or "norm" in key:
                weight.add_(torch.randn_like(weight) * 0.3)
    ready: PreTrainedModel = model.to(dtype).eval()
    return ready


def whole(model: PreTrainedModel, ids: list[int]) -> torch.Tensor:
    """The oracle: transformers over the whole text, without a cache."""
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([ids]), use_cache=False).logits[0]
    return logits


def close(found: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-5) -> None:
    """Equal up to rounding, in units of the largest logit."""
    assert found.shape == right.shape
    assert float((found - right).abs().max()) <= tolerance * max(1.0, float(right.abs().max()))


TEXTS = [[5], [9, 8, 7, 6, 5], [*range(1, 24)]]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_transformers(name: str) -> None:
    """Prefill, one token, a block of five, after a rewind: alone, and three rows of unequal length together."""
    model = model_of(name)
    assert CompactDecoder.fits(model)
    decoder = CompactDecoder(model)
    with torch.inference_mode():
        caches = [sd.caches.new_cache("contiguous", 48) for _ in TEXTS]
        for step, wanted in ((TEXTS, [1, 2, 3]), ([[3, 2], [4], [1, 2, 3, 4, 5]], [2, 1, 5])):
            for row, logits in enumerate(decoder(caches, step, wanted)):
                done = TEXTS[row] if step is not TEXTS else []
                close(logits, whole(model, done + step[row])[-wanted[row] :])
            if step is TEXTS:
                for cache, fed in zip(caches, step, strict=True):
                    cache.reserve(2)
                    cache.advance(len(fed) + 2)
                    cache.rollback(len(fed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["llama", "mistral, window", "qwen3"])
def test_every_cache(name: str, kind: str) -> None:
    """Random appends and rewinds, unreachable slots spoilt: always the logits of the text as it stands."""
    model = model_of(name)
    decoder = CompactDecoder(model)
    cache = sd.caches.new_cache(kind, 64, BlockPool(20, size=4))
    random = torch.Generator().manual_seed(5)
    text: list[int] = []
    with torch.inference_mode():
        for _ in range(30):
            feed = [*text[cache.pointer :], *torch.randint(64, (1 + len(text) % 5,), generator=random).tolist()]
            keep = min(3, len(feed))
            cache.reserve(len(feed))
            cache.poison()
            (logits,) = decoder([cache], [feed], [keep])
            text = text[: cache.pointer] + feed
            cache.advance(len(feed))
            close(logits, whole(model, text)[-keep:])
            cut = int(torch.randint(min(4, len(text)), (1,), generator=random)) if len(text) < 56 else 30
            text = text[: len(text) - cut]
            cache.rollback(min(cache.pointer, len(text)))


def test_long_texts_make_longer_tables() -> None:
    """Past 256 positions, and for a text that is longer than the tables at once."""
    model = model_of("llama")
    decoder = CompactDecoder(model)
    ids = [n % 64 for n in range(400)]
    with torch.inference_mode():
        for parts in ([250, 150], [400]):
            cache, start = sd.caches.new_cache("contiguous", 400), 0
            for part in parts:
                (logits,) = decoder([cache], [ids[start : start + part]], [2])
                cache.advance(part)
                start += part
            close(logits, whole(model, ids)[-2:])


def test_bfloat16_is_as_near_as_transformers() -> None:
    """Both differ from float64 by the same order: neither order of operations is more right."""
    model, exact = model_of("llama", torch.bfloat16), model_of("llama").double()
    exact.load_state_dict({key: value.double() for key, value in model.state_dict().items()})
    decoder = CompactDecoder(model)
    ids = [*range(1, 20)]
    with torch.inference_mode():
        (ours,) = decoder([sd.caches.new_cache("contiguous", 32)], [ids], [19])
    right = whole(exact, ids)
    theirs = float((whole(model, ids).double() - right).abs().max())
    assert float((ours.double() - right).abs().max()) < 2 * theirs + 1e-6


def test_what_does_not_fit() -> None:
    """Another family, another activation, changing rotary tables, swapped or watched modules."""
    assert not CompactDecoder.fits(sd.testing.TabularLM([0.0, 0.0]))
    for config in (
        LlamaConfig(**SIZES, hidden_act="gelu"),
        LlamaConfig(**SIZES, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}),
    ):
        assert not CompactDecoder.fits(AutoModelForCausalLM.from_config(config))
    swapped = model_of("llama")
    swapped.model.layers[1].mlp.up_proj = nn.Sequential(swapped.model.layers[1].mlp.up_proj)
    mixed = model_of("llama")
    mixed.model.layers[0].mlp.up_proj.to(torch.float64)
    watched = model_of("llama")
    watched.model.layers[0].self_attn.register_forward_hook(lambda *args: None)
    subclass = type("Custom", (type(watched),), {})(watched.config)
    for model in (swapped, mixed, watched, subclass):
        assert not CompactDecoder.fits(model)


def test_who_once_asked_for_hidden_states_has_changed_nothing() -> None:
    """transformers then leaves hooks in the model, which sleep: the compact decoder still fits, and early exit drafts.

    They are no reason to overlook a hook that somebody adds behind them.
    """
    model = sd.testing.tiny_llama(layers=3)
    model(input_ids=torch.tensor([[1, 2, 3]]), output_hidden_states=True)
    assert any(module._forward_hooks for module in model.modules())
    assert CompactDecoder.fits(model)
    engine = sd.Engine(model, drafter=sd.EarlyExitDrafter(model, 2))
    assert engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=8).stats.drafted > 0
    model.model.layers[0].register_forward_hook(lambda *args: None)
    assert not CompactDecoder.fits(model)


@pytest.mark.parametrize("rows", [1, 2, 5, 16])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_products(rows: int, bias: bool) -> None:
    """The packed form is the plain product; in float64 there is no packed form."""
    torch.manual_seed(0)
    parts = [nn.Linear(48, n, bias=bias) for n in (32, 16, 1)]
    x = torch.randn(rows, 48)
    with torch.inference_mode():
        right = torch.cat([part(x) for part in parts], dim=1)
        assert torch.allclose(Linear(parts)(x), right, atol=1e-5)
        doubles = [part.double() for part in parts]
        assert torch.allclose(Linear(doubles)(x.double()), right.double(), atol=1e-5)
