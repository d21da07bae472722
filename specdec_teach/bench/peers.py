"""transformers' own decoding as candidates: plain `generate`, assisted generation, prompt lookup.

Each gets its best form: ids that are already tensors, no gradients, and a fixed draft length (its default grows and
shrinks it, and stops at drafts that the assistant doubts). Invariant: models' settings and the global random state are
as before after every call. It needs nothing of transformers but the models' methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from specdec_teach.bench.records import Candidate
from specdec_teach.bench.task import Decode, Task, quiet

__all__ = ["assisted", "assisted_candidate", "lookup", "lookup_candidate", "plain", "plain_candidate"]


def plain_candidate() -> Candidate:
    """Return plain `generate` as it is called in a race."""
    return Candidate("transformers plain", "transformers", "generate()")


def assisted_candidate(gamma: int) -> Candidate:
    """Return assisted generation as it is called in a race."""
    detail = f"assistant_model, num_assistant_tokens={gamma}, schedule constant, no confidence threshold"
    return Candidate(f"transformers assisted γ={gamma}", "transformers", detail, gamma)


def lookup_candidate(gamma: int, longest: int) -> Candidate:
    """Return prompt lookup as it is called in a race."""
    detail = f"prompt_lookup_num_tokens={gamma}, max_matching_ngram_size={longest}"
    return Candidate(f"transformers prompt lookup γ={gamma}", "transformers", detail, gamma)


def plain(model: Any, task: Task) -> Decode:
    """Return plain decoding by transformers."""
    return _decode(model, task, {}, {})


def assisted(model: Any, assistant: Any, task: Task, gamma: int) -> Decode:
    """Return assisted generation with a draft length that stays γ."""
    fixed = {
        "num_assistant_tokens": gamma,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,
    }
    return _decode(model, task, {"assistant_model": assistant}, fixed)


def lookup(model: Any, task: Task, gamma: int, longest: int) -> Decode:
    """Return prompt lookup: γ tokens behind the longest n-gram, of at most `longest` tokens, that stood before."""
    return _decode(model, task, {"prompt_lookup_num_tokens": gamma, "max_matching_ngram_size": longest}, {})


def _decode(model: Any, task: Task, extra: dict[str, Any], fixed: dict[str, Any]) -> Decode:
    how: dict[str, Any] = {"do_sample": False}
    if task.temperature > 0:
        how = {"do_sample": True, "temperature": task.temperature, "top_k": 0, "top_p": 1.0}
    assistant = extra.get("assistant_model")

    def run(ids: list[int], seed: int) -> tuple[int, ...]:
        x_BT = torch.tensor([ids], device=model.device)
        with ExitStack() as stack:
            stack.enter_context(quiet())
            stack.enter_context(_settings(model, {"eos_token_id": None}))
            if assistant is not None:
                stack.enter_context(_settings(assistant, {"eos_token_id": None, **fixed}))
            stack.enter_context(torch.random.fork_rng())
            stack.enter_context(torch.inference_mode())
            torch.manual_seed(seed)
            mask_BT = torch.ones_like(x_BT)
            out = model.generate(x_BT, attention_mask=mask_BT, max_new_tokens=task.tokens, **how, **extra)
        return tuple(out[0, len(ids) :].tolist())

    return run


@contextmanager
def _settings(model: Any, values: dict[str, Any]) -> Iterator[None]:
    """Change a model's generation settings for one call; what the call itself changes is undone as well."""
    config = model.generation_config
    before = {name: getattr(config, name, None) for name in values}
    for name, value in values.items():
        setattr(config, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)
