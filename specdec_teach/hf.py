"""The bridge to transformers: the only module that imports it.

`ModelRunner` runs any causal LM of transformers on our cache, one sequence at a time: feed tokens at the write pointer,
get the logits rows that were asked for. Masks and positions are made by transformers from the pointer, so windowed
attention works too: all keys stay in the cache and the window lives in the mask.
Invariant: after `forward(cache, ids)` the pointer stands len(ids) further, or the cache is as it was.
It does not know proposals, verification or sampling.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, final

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationMixin,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.modeling_outputs import CausalLMOutputWithPast

from specdec_kernels.errors import EngineFailure, InvalidInput, shown
from specdec_teach.caches.contiguous import ContiguousCache

__all__ = [
    "CausalLMOutputWithPast",
    "GenerationMixin",
    "ModelRunner",
    "PreTrainedConfig",
    "PreTrainedModel",
    "llama_from_config",
    "load_any",
    "load_llama",
    "load_tokenizer",
]

_ATTENTION_LAYERS = {"full_attention", "sliding_attention", "chunked_attention", "attention"}


@final
class _SlotLayer(CacheLayerMixin):
    """One layer of a transformers cache that reads and writes our store."""

    def __init__(self, store: ContiguousCache, layer: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.store, self.layer = store, layer
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the store allocates at its first write."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write at the pointer, return all that is readable."""
        return self.store.write(self.layer, key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many keys the coming forward can read, and the position of the first."""
        return self.store.pointer + query_length, 0

    def get_seq_length(self) -> int:
        """Return the write pointer."""
        return self.store.pointer

    def get_max_length(self) -> int:
        """Return −1: the mask is as wide as what is readable, not as the store."""
        return -1


@final
class ModelRunner:
    """A causal LM that can be fed at a cache's pointer and rolled back.

    InvalidInput when `model` is no causal LM of transformers, keeps a recurrent state that cannot be rolled back,
    or is in training mode.
    """

    def __init__(self, model: object, role: str) -> None:
        if not isinstance(model, PreTrainedModel) or not hasattr(model, "get_output_embeddings"):
            raise InvalidInput(
                f"the {role} is a {type(model).__name__}; give a causal language model of transformers, "
                "such as load_pair().target"
            )
        config = model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or ()) - _ATTENTION_LAYERS
        if model.config.is_encoder_decoder:
            raise InvalidInput(
                f"the {role} {type(model).__name__} is an encoder-decoder model; give a decoder-only one"
            )
        if model._is_stateful or kinds:
            why = "a recurrent state" if model._is_stateful else f"layers of kind {', '.join(sorted(kinds))}"
            raise InvalidInput(
                f"the {role} {type(model).__name__} has {why}, which cannot be rolled back after a rejection; "
                "give a model with attention layers only"
            )
        if model.training:
            raise InvalidInput(f"the {role} is in training mode, where dropout changes its answers; call .eval() on it")
        self.model = model
        self.layers = int(config.num_hidden_layers)
        self.vocab = int(config.vocab_size)
        limit = getattr(config, "max_position_embeddings", None)
        self.context: int | None = int(limit) if isinstance(limit, int) and limit > 0 else None
        self.name = str(model.config.name_or_path or type(model).__name__)
        self.revision = str(getattr(model.config, "_commit_hash", None) or "local")
        self.dtype = str(model.dtype).removeprefix("torch.")

    def new_cache(self, capacity: int) -> ContiguousCache:
        """Return an empty cache for one sequence of at most `capacity` tokens."""
        return ContiguousCache(capacity)

    def forward(self, cache: ContiguousCache, ids: list[int], keep: int) -> Tensor:
        """Feed `ids` at the pointer of `cache` and return the logits `[keep, V]` of the last `keep` of them.

        EngineFailure when there are fewer ids than rows wanted: the pointer has run ahead of the committed tokens.
        """
        start, count = cache.pointer, len(ids)
        if count < max(keep, 1):
            raise EngineFailure(f"{keep} rows were asked of {count} tokens; the cache's pointer {start} has run ahead")
        device = self.model.device
        with torch.inference_mode():
            out = self.model(
                input_ids=torch.tensor([ids], dtype=torch.int64, device=device),
                position_ids=torch.arange(start, start + count, device=device)[None],
                past_key_values=Cache(layers=[_SlotLayer(cache, layer) for layer in range(self.layers)]),
                use_cache=True,
                logits_to_keep=max(keep, 1),
            )
        logits: Tensor = out.logits
        if logits.dim() != 3 or logits.shape[1] < keep:
            raise EngineFailure(f"{self.name} returned logits of shape {tuple(logits.shape)}; expected [1, {keep}, V]")
        cache.advance(count)
        return logits[0, logits.shape[1] - keep :]


def llama_from_config(config: dict[str, object]) -> LlamaForCausalLM:
    """Return a randomly initialised Llama in eval mode for the fields of a config.json."""
    model = LlamaForCausalLM(LlamaConfig(**config))  # type: ignore[arg-type]
    model.train(False)
    return model


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


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Load the tokenizer that lies in `folder` (tokenizer.json, tokenizer_config.json)."""
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    keep = {
        key: settings[key]
        for key in ("eos_token", "model_max_length", "clean_up_tokenization_spaces")
        if key in settings
    }
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **keep)


def load_any(name: str, *, device: str | torch.device | None, dtype: torch.dtype | str) -> tuple[PreTrainedModel, Any]:
    """Load a causal LM and its tokenizer from a path or a hub id through transformers' own loaders."""
    try:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidInput(
            f"cannot load {name!r}: {first} Give a folder that save_pretrained wrote, or a hub id"
        ) from None
    return _ready(model, device), tokenizer
