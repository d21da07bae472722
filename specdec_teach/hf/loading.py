"""Load models and tokenizers of transformers, from this package's weights, a folder or a hub id.

Invariant: a model that is returned is in eval mode and on its device. It does not know what it is used for.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.distributed.configuration_utils import DistributedConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

from specdec_kernels.errors import InvalidInput, shown

__all__ = ["llama_from_config", "llama_layer", "llama_norm", "load_any", "load_llama", "load_tensors", "load_tokenizer"]


def llama_from_config(config: dict[str, object]) -> LlamaForCausalLM:
    """Return a randomly initialised Llama in eval mode for the fields of a config.json."""
    model = LlamaForCausalLM(LlamaConfig(**config))  # type: ignore[arg-type]
    model.train(False)
    return model


def llama_layer(width: int, heads: int, inner: int, epsilon: float) -> LlamaDecoderLayer:
    """Return one Llama layer with weights that mean nothing yet: as many key/value heads as query heads, no bias."""
    return LlamaDecoderLayer(
        LlamaConfig(
            hidden_size=width,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            intermediate_size=inner,
            rms_norm_eps=epsilon,
        ),
        0,
    )


def llama_norm(width: int, epsilon: float) -> LlamaRMSNorm:
    """Return a norm by the root mean square, as a Llama has them."""
    return LlamaRMSNorm(width, eps=epsilon)


def load_llama(
    folder: Path, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32
) -> LlamaForCausalLM:
    """Load a Llama from `folder` (config.json, model.safetensors); quicker than from_pretrained for small models."""
    config = LlamaConfig(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
    config.name_or_path = folder.name
    state = load_file(folder / "model.safetensors")
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    missing, unexpected = model.load_state_dict({k: v.to(dtype) for k, v in state.items()}, strict=False, assign=True)
    model.tie_weights()
    if unexpected or any(name != "lm_head.weight" for name in missing):
        raise InvalidInput(f"{folder} does not hold the weights its config describes: {[*missing, *unexpected][:3]}")
    ready: LlamaForCausalLM = _ready(model, device)
    return ready


def _ready(model: Any, device: str | torch.device | None) -> Any:
    """Put a model on a device and into eval mode."""
    model.train(False)
    try:
        return model if device is None else model.to(device)
    except (AssertionError, RuntimeError) as error:
        raise InvalidInput(
            f"device={str(device)!r} cannot be used: {shown(error)}; give 'cpu' or a device that is here"
        ) from None


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Load the tensors of a safetensors file, and the words that were saved with them."""
    with safe_open(path, framework="pt") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}, dict(opened.metadata() or {})  # noqa: SIM118


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer that lies in `folder` (tokenizer.json, tokenizer_config.json)."""
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    keep = {
        key: settings[key]
        for key in ("eos_token", "model_max_length", "clean_up_tokenization_spaces")
        if key in settings
    }
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **keep)


def load_any(
    name: str,
    *,
    device: str | torch.device | None,
    dtype: torch.dtype | str,
    device_map: str | dict[str, Any] | None = None,
    tensor_parallel: bool = False,
) -> tuple[PreTrainedModel, Any]:
    """Load a causal LM and its tokenizer from a path or a hub id through transformers' own loaders.

    `device_map`: lay the layers over devices (accelerate does it). `tensor_parallel`: split every layer over the
    processes of `torchrun`. InvalidInput where that cannot be.
    """
    place: dict[str, Any] = {}
    if device_map is not None:
        if importlib.util.find_spec("accelerate") is None:
            raise InvalidInput(
                f"device_map={device_map!r} needs the package accelerate, which is not installed; "
                "pip install accelerate, or give device= for a model that fits on one device"
            )
        place["device_map"] = device_map
    try:
        if tensor_parallel:
            place["distributed_config"] = _split(name)
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **place)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except InvalidInput:
        raise
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidInput(
            f"cannot load {name!r}: {first} Give a folder that save_pretrained wrote, or a hub id"
        ) from None
    return _ready(model, device), tokenizer


def _split(name: str) -> DistributedConfig:
    """Return transformers' word for a model that is split over all processes; InvalidInput if it does not divide."""
    if "tp_size" not in inspect.signature(DistributedConfig).parameters:
        raise InvalidInput("tensor_parallel=True needs a newer transformers; pip install 'transformers>=5.23'")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    config = AutoConfig.from_pretrained(name).get_text_config(decoder=True)
    heads = config.num_attention_heads, getattr(config, "num_key_value_heads", config.num_attention_heads)
    if any(count % size for count in heads):
        raise InvalidInput(
            f"{name!r} has {heads[0]} query and {heads[1]} key/value heads, which {size} processes cannot share "
            "evenly; start a number of processes that divides both"
        )
    return DistributedConfig(tp_size=size)
