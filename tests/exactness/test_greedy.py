"""Greedy: speculative == plain == transformers' generate, token for token, on the embedded pair in float32."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd

from ..checks import flags_and_counts, greedy_equals_plain

OPENINGS = (
    "Once upon a time",
    "Mira had a red lantern and",
    "In the old mill lived a",
    "The rain stopped.",
    '"Come here," said',
)
PROMPTS = [
    f"{opening}{ending}"
    for opening in OPENINGS
    for ending in ("", " there", " a fox", " who", " the", " one day", " in a", " three", ",", " and")
]
TOKENS = 20


@pytest.fixture(scope="module")
def plain(pair: sd.Pair) -> list[tuple[int, ...]]:
    """What plain decoding says, and transformers with it."""
    engine = sd.Engine(pair.target, tokenizer=pair.tokenizer)
    results = engine.generate(PROMPTS, sd.Sampling.greedy(), max_new_tokens=TOKENS, trace=False)
    for prompt, result in zip(PROMPTS, results, strict=True):
        ids = torch.tensor([pair.tokenizer(prompt).input_ids])
        theirs = pair.target.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=TOKENS, pad_token_id=0
        )
        assert list(result.tokens) == theirs[0, ids.shape[1] :].tolist()
    return [result.tokens for result in results]


@pytest.mark.parametrize("gamma", range(1, 9))
def test_fifty_prompts(pair: sd.Pair, plain: list[tuple[int, ...]], gamma: int) -> None:
    """50 prompts for each γ, side by side, and every eighth of them alone: each prompt under one γ."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=gamma)
    assert len(PROMPTS) == len(set(PROMPTS)) == 50
    results = dict(enumerate(engine.generate(PROMPTS, sd.Sampling.greedy(), max_new_tokens=TOKENS)))
    for at, right in enumerate(plain):
        alone = (
            [engine.generate(PROMPTS[at], sd.Sampling.greedy(), max_new_tokens=TOKENS)] if at % 8 == gamma % 8 else []
        )
        for result in (results[at], *alone):
            assert result.tokens == right
            flags_and_counts(result)


def test_the_target_as_its_own_draft(pair: sd.Pair) -> None:
    """Nothing is ever rejected, greedy or sampled."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.target), tokenizer=pair.tokenizer, gamma=4)
    for prompt in PROMPTS[::10]:
        for sampling in (sd.Sampling.greedy(), sd.Sampling(temperature=0.8, seed=3)):
            assert engine.generate(prompt, sampling, max_new_tokens=20).stats.acceptance_rate == 1.0


def test_tiny_models_of_other_families() -> None:
    """GPT-2, Qwen3 and a sliding-window Mistral behind the same bridge."""
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        MistralConfig,
        MistralForCausalLM,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

    torch.manual_seed(0)
    common = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    common |= {"num_key_value_heads": 2, "bos_token_id": None, "eos_token_id": None, "initializer_range": 0.3}
    for model in (
        GPT2LMHeadModel(
            GPT2Config(
                vocab_size=64,
                n_embd=32,
                n_layer=2,
                n_head=4,
                bos_token_id=None,
                eos_token_id=None,
                initializer_range=0.3,
            )
        ),
        Qwen3ForCausalLM(Qwen3Config(**common, head_dim=8)),
        MistralForCausalLM(MistralConfig(**common, sliding_window=6)),
    ):
        model.eval()
        engine = sd.Engine(model, drafter=sd.ModelDrafter(sd.testing.tiny_llama(seed=2)), gamma=4)
        greedy_equals_plain(engine, [[1, 2, 3], [9]], reject_at=2)
        greedy_equals_plain(engine, [[1, 2, 3], [9]])
        ours = engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=24).tokens
        ids = torch.tensor([[1, 2, 3]])
        theirs = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24, pad_token_id=0
        )
        assert list(ours) == theirs[0, 3:].tolist()
