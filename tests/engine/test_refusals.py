"""Each refusal: one clear line, before anything has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MambaConfig,
    MambaForCausalLM,
    OpenAIGPTConfig,
    OpenAIGPTLMHeadModel,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
)

import specdec_teach as sd

TARGET = sd.testing.tiny_llama(context=32)


def engine(**settings: Any) -> sd.Engine:
    """A small engine with a model drafter."""
    return sd.Engine(TARGET, **{"drafter": sd.ModelDrafter(sd.testing.tiny_llama(noise=0.1, context=32)), **settings})


def mamba() -> Any:
    """A model with a recurrent state, which it hands out."""
    return MambaForCausalLM(MambaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=1, state_size=4)).eval()


def recurrent_gemma() -> Any:
    """A model with a recurrent state that it keeps to itself."""
    config = RecurrentGemmaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, lru_width=16
    )
    return RecurrentGemmaForCausalLM(config).eval()


def first_gpt() -> Any:
    """A model without a cache."""
    return OpenAIGPTLMHeadModel(OpenAIGPTConfig(vocab_size=64, n_embd=16, n_layer=1, n_head=2)).eval()


def bart() -> Any:
    """An encoder-decoder model."""
    config = BartConfig(vocab_size=64, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2)
    config.decoder_attention_heads = 2
    return BartForConditionalGeneration(config).eval()


CASES: list[tuple[str, Callable[[], object], str]] = [
    ("gamma below zero", lambda: engine(gamma=-1), "gamma=-1; give 0"),
    ("gamma not whole", lambda: engine(gamma=2.5), "gamma=2.5; give 0"),
    ("unknown rule", lambda: engine(verify="rejektion"), "Did you mean 'rejection'?"),
    ("unknown cache", lambda: engine(cache="continuous"), "Did you mean 'contiguous'?"),
    ("unknown mode", lambda: sd.ModelDrafter(TARGET, "argmin"), "Did you mean 'argmax'?"),  # type: ignore[arg-type]
    ("no model", lambda: sd.Engine("gpt2"), "give a causal language model"),
    (
        "hidden state in a target",
        lambda: sd.Engine(recurrent_gemma()),
        "hands out no state, so it cannot be rolled back",
    ),
    (
        "hidden state in a draft",
        lambda: sd.ModelDrafter(recurrent_gemma()),
        "the draft RecurrentGemmaForCausalLM hands out no state",
    ),
    ("no cache", lambda: sd.Engine(first_gpt()), "OpenAIGPTLMHeadModel takes no cache"),
    ("a state in blocks", lambda: sd.Engine(mamba(), cache="paged"), "cache='paged' holds keys and values by slot"),
    ("snapshots without need", lambda: engine(cache="snapshot"), "unknown cache= 'snapshot'"),
    ("encoder-decoder", lambda: sd.Engine(bart()), "encoder-decoder"),
    ("training mode", lambda: sd.Engine(sd.testing.tiny_llama().train()), r"call .eval\(\)"),
    ("empty text", lambda: engine(tokenizer=object()).generate(""), "the prompt is empty"),
    ("empty ids", lambda: engine().generate([]), "the prompt is empty"),
    ("text without tokenizer", lambda: engine().generate("Once"), "no tokenizer"),
    ("prompt of no kind", lambda: engine().generate(7), "the prompt is a int"),  # type: ignore[call-overload]
    ("id out of range", lambda: engine().generate([1, 64]), "item 1 is 64; the target's ids are 0 to 63"),
    ("id not a number", lambda: engine().generate([1, 2.5]), "item 1 is 2.5"),  # type: ignore[list-item]
    ("prompt too long", lambda: engine().generate(list(range(33))), "33 tokens and the target's context holds 32"),
    ("cap below zero", lambda: engine().generate([1], max_new_tokens=-1), "max_new_tokens=-1"),
    ("gamma in a call", lambda: engine().generate([1], gamma=-2), "gamma=-2"),
    ("no sampling", lambda: engine().generate([1], 0.8), "sampling is a float"),  # type: ignore[call-overload]
    ("trace of nothing", lambda: engine().generate([1], trace=0), "trace=0"),
    ("reject behind gamma", lambda: engine().generate([1], reject_at=5), "cannot happen with 4 drafts"),
    (
        "reject without drafts",
        lambda: engine().generate([1], reject_at=1, speculate=False),
        "cannot happen with 0 drafts",
    ),
    (
        "batch that does not fit",
        lambda: engine().generate([[1], [2]], max_new_tokens=[3]),
        "1 entries for a batch of 2",
    ),
    ("words among ids", lambda: engine().generate([[1], 2]), "the batch holds 2 beside whole prompts"),  # type: ignore[list-item]
    ("a dictionary", lambda: engine().generate({"ids": [1]}), "the prompt is a dict"),  # type: ignore[call-overload]
    ("bytes", lambda: engine().generate(b"ab"), "the prompt is a bytes"),
    ("fractions in a tensor", lambda: engine().generate(torch.tensor([1.5])), "item 0 is 1.5"),  # type: ignore[call-overload]
    ("a batch in a stream", lambda: engine().stream([[1]]), "stream takes one prompt"),  # type: ignore[list-item]
    ("gamma of no number", lambda: engine(gamma=torch.zeros(2, 2)), "gamma=tensor"),
    ("no such device", lambda: sd.load_pair(device="cuda:9"), "device='cuda:9' cannot be used"),
    ("script of fractions", lambda: sd.ScriptedDrafter([1.5]), "whole token ids"),  # type: ignore[list-item]
    ("a lossy rule cannot be forced", lambda: engine(verify="typical").generate([1], reject_at=1), "cannot be forced"),
    ("coupled cannot be forced", lambda: engine(verify="coupled").generate([1], reject_at=1), "cannot be forced"),
    ("bad row of a batch", lambda: engine().generate([[1], []]), "the prompt is empty"),
    ("script out of range", lambda: engine(drafter=sd.ScriptedDrafter([1, 64])), "the script holds token 64"),
    ("q of another width", lambda: engine(drafter=sd.ScriptedDrafter([1], [0.5, 0.5])), "q has 2 probabilities"),
    ("q below zero", lambda: sd.ScriptedDrafter([1], [-0.5, 1.5]), "none below 0"),
    ("table of no shape", lambda: sd.testing.TabularLM(torch.zeros(2, 3)), r"shape \(2, 3\)"),
    ("draft without target", lambda: sd.load_pair(draft="somewhere"), "without a target"),
    ("no such model", lambda: sd.load_pair("no/such/folder"), "cannot load 'no/such/folder'"),
    ("no such dtype", lambda: sd.load_pair(dtype="int8"), "dtype='int8'"),
]


@pytest.mark.parametrize(("make", "says"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_refused(make: Callable[[], object], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is ours, fits on one line and says what to do."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(sd.SpecDecError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_refused_call_leaves_the_engine_as_it_was() -> None:
    """The next good call gives what it gave before."""
    subject = engine()
    before = subject.generate([1, 2], sd.Sampling(seed=3), max_new_tokens=8).tokens
    for bad in ([], [1, 99], list(range(40))):
        with pytest.raises(sd.SpecDecError):
            subject.generate(bad, sd.Sampling(seed=3))
    with pytest.raises(sd.SpecDecError):
        subject.generate([[1, 2], [64]], sd.Sampling(seed=3))
    assert subject.generate([1, 2], sd.Sampling(seed=3), max_new_tokens=8).tokens == before
    assert subject.observers == []


@pytest.mark.parametrize("who", ["target", "draft"])
@pytest.mark.parametrize("sampling", [sd.Sampling.greedy(), sd.Sampling(seed=1), sd.Sampling(seed=1, top_p=0.9)])
def test_logits_that_are_not_numbers(who: str, sampling: sd.Sampling) -> None:
    """NaN from either model after the third token: an EngineFailure that names the row; what came before is kept."""

    def broken(prefix: tuple[int, ...]) -> torch.Tensor:
        return torch.full((4,), torch.nan) if len(prefix) > 3 else torch.zeros(4)

    good, bad = sd.testing.TabularLM(torch.zeros(4)), sd.testing.TabularLM(broken, vocab=4)
    target, draft = (bad, good) if who == "target" else (good, bad)
    stream = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=1).stream([0, 1, 2], sampling, max_new_tokens=9)
    with pytest.raises(sd.EngineFailure, match=f"the {who}.*not numbers"):
        list(stream)
    kept = list(stream.sequence.tokens)
    assert stream.result().tokens == tuple(kept[3:])
    with pytest.raises(sd.EngineFailure, match=r"after \d+ tokens"):
        next(stream)
    assert stream.sequence.tokens == kept
