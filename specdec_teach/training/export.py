"""Writes a trained network in the transformers format (fp16 safetensors) and reads such a folder back.

Invariant: what is read back is what the shipped file holds, rounded to fp16 and widened to float32.
Does not know: training.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from specdec_teach.training.corpus import END_ID, END_TEXT
from specdec_teach.training.network import EPSILON, Network, Shape


def config_of(shape: Shape) -> dict[str, object]:
    """The transformers configuration of a shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.width,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.width // shape.heads,
        "hidden_act": "silu",
        "max_position_embeddings": shape.context,
        "initializer_range": 0.02,
        "rms_norm_eps": EPSILON,
        "rope_theta": shape.theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": shape.theta},
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": END_ID,
        "pad_token_id": END_ID,
        "use_cache": True,
        "dtype": "float16",
    }


def save_model(network: Network, folder: Path) -> None:
    """Write config.json and model.safetensors (the tied embedding once) to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_of(network.shape), indent=2) + "\n", encoding="utf-8")
    tensors = {name: value.detach().to(torch.float16).contiguous() for name, value in network.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)


def load_model(folder: Path) -> Network:
    """Read a folder written by `save_model` as a float32 network; FileNotFoundError if it is missing."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shape = Shape(
        vocab=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        context=config["max_position_embeddings"],
        theta=config["rope_theta"],
    )
    network = Network(shape)
    network.load_state_dict({name: value.float() for name, value in load_file(folder / "model.safetensors").items()})
    return network.eval()


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write tokenizer.json and the small file with which transformers loads it as a fast tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END_TEXT,
        "pad_token": END_TEXT,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
