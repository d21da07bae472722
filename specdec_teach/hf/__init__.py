"""The bridge to transformers: the only package that imports it."""

from __future__ import annotations

from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from specdec_teach.hf.loading import (
    llama_from_config,
    llama_layer,
    llama_norm,
    load_any,
    load_llama,
    load_tensors,
    load_tokenizer,
)
from specdec_teach.hf.runner import ModelRunner

__all__ = [
    "CausalLMOutputWithPast",
    "GenerationMixin",
    "ModelRunner",
    "PreTrainedConfig",
    "PreTrainedModel",
    "llama_from_config",
    "llama_layer",
    "llama_norm",
    "load_any",
    "load_llama",
    "load_tensors",
    "load_tokenizer",
]
