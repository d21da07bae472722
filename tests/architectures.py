"""Tiny random models of many families of transformers, and the table of what the engine does with each.

`python -m tests.architectures` writes docs/architectures.md.
Invariant: equal labels give equal models, in eval mode, float32, whose opinions are decided and whose texts never end.
It does not know how they are tested.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import torch
import transformers

from specdec_kernels.errors import InvalidInput
from specdec_teach.hf import ModelRunner

__all__ = ["ARCHITECTURES", "REFUSED", "Architecture", "build", "table"]

VOCAB = 64
_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
_OLD = {
    "vocab_size": VOCAB,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}


@final
@dataclass(frozen=True, slots=True)
class Architecture:
    """One family: `label` is what it is known for, `stem` the beginning of its class names, `fields` its config."""

    label: str
    stem: str
    fields: dict[str, Any] = field(default_factory=dict)
    common: dict[str, Any] = field(default_factory=lambda: _COMMON)
    config: str | None = None
    model: str | None = None
    seed: int = 0

    @property
    def class_name(self) -> str:
        """The class of the model."""
        return self.model or f"{self.stem}ForCausalLM"

    @property
    def config_name(self) -> str:
        """The class of its config."""
        return self.config or f"{self.stem}Config"


_MLA = {
    "kv_lora_rank": 8,
    "q_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
    "num_hidden_layers": 2,
}
_SSM = {"state_size": 8, "expand": 2, "conv_kernel": 4}

# fmt: off
_MIXED = {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}
_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

ARCHITECTURES: dict[str, Architecture] = {
    one.label: one
    for one in (
        Architecture("Llama", "Llama"),
        Architecture("Mistral, window 6", "Mistral", {"sliding_window": 6}),
        Architecture("Qwen2", "Qwen2"),
        Architecture("Qwen2, windows above layer 1", "Qwen2", {"use_sliding_window": True, "sliding_window": 6,
            "max_window_layers": 1}),
        Architecture("Qwen3", "Qwen3", {"head_dim": 8}),
        Architecture("Gemma", "Gemma", {"head_dim": 8}),
        Architecture("Gemma 2, window 6 and full", "Gemma2", {"head_dim": 8, "sliding_window": 6,
            "query_pre_attn_scalar": 8}),
        Architecture("Gemma 3, window 6 and full", "Gemma3", {"head_dim": 8, "sliding_window": 6,
            "query_pre_attn_scalar": 8, "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention",
            "sliding_attention"]}, config="Gemma3TextConfig"),
        Architecture("Gemma 3n, layers that share K/V", "Gemma3n", {"head_dim": 8, "sliding_window": 6,
            "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types": _MIXED["layer_types"] * 2,
            "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 4, "laurel_rank": 4,
            "activation_sparsity_pattern": None, "altup_num_inputs": 2, "intermediate_size": 48},
            config="Gemma3nTextConfig"),
        Architecture("Gemma 4, layers that share K/V", "Gemma4", {"head_dim": 8, "global_head_dim": 8,
            "sliding_window": 6, "num_hidden_layers": 4, "num_kv_shared_layers": 2, "layer_types":
            _MIXED["layer_types"] * 2, "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 4},
            config="Gemma4TextConfig"),
        Architecture("GPT-2", "GPT2", {**_GPT}, _OLD, model="GPT2LMHeadModel"),
        Architecture("GPT-Neo, local and global", "GPTNeo", {"hidden_size": 32, "num_layers": 2, "num_heads": 4,
            "attention_types": [[["global", "local"], 1]], "window_size": 6, "max_position_embeddings": 256}, _OLD),
        Architecture("GPT-NeoX", "GPTNeoX", {"rotary_pct": 0.5}, seed=1),
        Architecture("GPT-J", "GPTJ", {**_GPT, "rotary_dim": 4}, _OLD),
        Architecture("GPT-BigCode, one K/V head", "GPTBigCode", {**_GPT}, _OLD),
        Architecture("CodeGen", "CodeGen", {**_GPT, "rotary_dim": 4}, _OLD),
        Architecture("OPT", "OPT", {"ffn_dim": 48, "word_embed_proj_dim": 32, "dropout": 0.0}),
        Architecture("Phi", "Phi"),
        Architecture("Phi-3, window 6", "Phi3", {"sliding_window": 6}),
        Architecture("Phi-3, long rope", "Phi3", {"sliding_window": None, "original_max_position_embeddings": 64,
            "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4,
            "long_factor": [1.0, 2.0, 4.0, 8.0], "original_max_position_embeddings": 64}}),
        Architecture("PhiMoE", "Phimoe", {**_LOCAL_EXPERTS, "sliding_window": None}),
        Architecture("Falcon, rotary", "Falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
        Architecture("Falcon, ALiBi", "Falcon", {"alibi": True, "new_decoder_architecture": False, "multi_query":
            True}),
        Architecture("BLOOM, ALiBi", "Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}, _OLD),
        Architecture("MPT, ALiBi", "Mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 256,
            "expansion_ratio": 2}, _OLD),
        Architecture("StarCoder2, window 6", "Starcoder2", {"sliding_window": 6}),
        Architecture("StableLM", "StableLm"),
        Architecture("OLMo", "Olmo"),
        Architecture("OLMo 2", "Olmo2"),
        Architecture("OLMo 3, window 6 and full", "Olmo3", _MIXED),
        Architecture("Granite", "Granite"),
        Architecture("Cohere", "Cohere", {"logit_scale": 1.0}),
        Architecture("Cohere 2, window 6 and full", "Cohere2", {"logit_scale": 1.0, **_MIXED}),
        Architecture("SmolLM3, a layer without positions", "SmolLM3", {"no_rope_layers": [1, 0], "layer_types":
            ["full_attention"] * 2}),
        Architecture("Nemotron", "Nemotron"),
        Architecture("GLM-4", "Glm4", {"head_dim": 8}),
        Architecture("EXAONE 4", "Exaone4", _MIXED),
        Architecture("Persimmon", "Persimmon"),
        Architecture("XGLM", "XGLM", {"d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4,
            "max_position_embeddings": 256, "dropout": 0.0, "pad_token_id": 0}, _OLD),
        Architecture("BioGPT", "BioGpt", {"pad_token_id": 0}),
        Architecture("Mixtral", "Mixtral", {**_LOCAL_EXPERTS, "sliding_window": None}),
        Architecture("Qwen2-MoE", "Qwen2Moe", {**_EXPERTS, "shared_expert_intermediate_size": 16}, seed=1),
        Architecture("Qwen3-MoE", "Qwen3Moe", {**_EXPERTS, "head_dim": 8}),
        Architecture("OLMoE", "Olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
        Architecture("gpt-oss, sinks, window 6 and full", "GptOss", {**_LOCAL_EXPERTS, "head_dim": 8, **_MIXED}),
        Architecture("Llama 4, chunks of 6 and full", "Llama4", {"head_dim": 8, "attention_chunk_size": 6,
            "num_local_experts": 2, "interleave_moe_layer_step": 2, "intermediate_size_mlp": 48, "no_rope_layers": [1,
            0], "layer_types": ["chunked_attention", "full_attention"]}, config="Llama4TextConfig"),
        Architecture("DeepSeek-V2, latent attention", "DeepseekV2", {**_MLA, "topk_method": "greedy"}),
        Architecture("DeepSeek-V3, latent attention", "DeepseekV3", _MLA),
        Architecture("BART, its decoder alone", "Bart", {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads":
            4, "decoder_ffn_dim": 48, "max_position_embeddings": 256, "forced_eos_token_id": None, "pad_token_id": 0},
            _OLD),
        Architecture("RoFormer as a decoder", "RoFormer", {"is_decoder": True, "pad_token_id": 0}),
        Architecture("Mamba", "Mamba", _SSM),
        Architecture("Mamba-2", "Mamba2", {**_SSM, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8}),
        Architecture("Falcon-Mamba", "FalconMamba", _SSM),
        Architecture("Jamba, Mamba and attention", "Jamba", {"num_hidden_layers": 4, "attn_layer_period": 4,
            "attn_layer_offset": 2, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 2,
            "num_experts_per_tok": 1, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 4}),
        Architecture("Zamba, Mamba and shared attention", "Zamba", {"num_hidden_layers": 4, "layers_block_type":
            ["mamba", "hybrid", "mamba", "hybrid"], "mamba_d_state": 8, "mamba_dt_rank": 4, "n_mamba_heads": 2,
            "attn_layer_period": 2, "attn_layer_offset": 1}),
        Architecture("Zamba 2, Mamba-2 and shared attention", "Zamba2", {"num_hidden_layers": 3, "layers_block_type":
            ["mamba", "hybrid", "mamba"], "mamba_d_state": 8, "mamba_headdim": 8, "n_mamba_heads": 8, "mamba_ngroups":
            1, "chunk_size": 8, "num_mem_blocks": 1, "hybrid_layer_ids": [1], "adapter_rank": 4}),
        Architecture("Bamba, Mamba-2 and attention", "Bamba", {"num_hidden_layers": 3, "attn_layer_indices": [1],
            "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}),
        Architecture("Granite hybrid, Mamba-2 and attention", "GraniteMoeHybrid", {"num_hidden_layers": 3,
            "layer_types": ["mamba", "attention", "mamba"], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8,
            "mamba_chunk_size": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "shared_intermediate_size": 16}),
        Architecture("Falcon-H1, both in every layer", "FalconH1", {"mamba_n_heads": 8, "mamba_d_head": 8,
            "mamba_d_ssm": 64, "mamba_d_state": 8, "mamba_chunk_size": 8, "head_dim": 8}),
        Architecture("Nemotron-H", "NemotronH", {"num_hidden_layers": 3, "layers_block_type": ["mamba", "attention",
            "mamba"], "mamba_num_heads": 8, "mamba_head_dim": 8, "ssm_state_size": 8, "chunk_size": 8, "n_groups": 1,
            "head_dim": 8}),
        Architecture("Qwen3-Next, gated delta net and attention", "Qwen3Next", {"num_hidden_layers": 3, "layer_types":
            ["linear_attention", "full_attention", "linear_attention"], "head_dim": 8, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4, **_EXPERTS,
            "shared_expert_intermediate_size": 16, "decoder_sparse_step": 1}),
        Architecture("LFM2, short convolutions and attention", "Lfm2", {"num_hidden_layers": 3, "layer_types": ["conv",
            "full_attention", "conv"], "conv_L_cache": 3, "block_ff_dim": 32, "block_multiple_of": 8}),
        Architecture("MiniMax, lightning attention", "MiniMax", {"num_hidden_layers": 3, "layer_types":
            ["linear_attention", "full_attention", "linear_attention"], "block_size": 8, "num_local_experts": 2,
            "num_experts_per_tok": 1, "head_dim": 8}),
        Architecture("RecurrentGemma", "RecurrentGemma", {"num_hidden_layers": 3, "lru_width": 32,
            "attention_window_size": 6, "head_dim": 8, "block_types": ["recurrent", "attention", "recurrent"],
            "conv1d_width": 4}),
        Architecture("OLMo hybrid", "OlmoHybrid", {"num_hidden_layers": 3, "layer_types": ["linear_attention",
            "full_attention", "linear_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 2,
            "linear_key_head_dim": 8, "linear_value_head_dim": 8}),
        Architecture("RWKV-4", "Rwkv", {"attention_hidden_size": 32, "context_length": 256}),
        Architecture("xLSTM", "xLSTM", {"num_heads": 2, "hidden_size": 64, "embedding_dim": 64, "qk_dim_factor": 1.0,
            "autocast_kernel_dtype": "float32", "mode": "inference", "chunkwise_kernel": "chunkwise--native_autograd",
            "sequence_kernel": "native_sequence__native", "step_kernel": "native", "chunk_size": 8}),
        Architecture("GPT-1", "OpenAIGPT", {**_GPT}, _OLD, model="OpenAIGPTLMHeadModel"),
        Architecture("CPM-Ant, with a prompt of its own", "CpmAnt", {"hidden_size": 32, "num_attention_heads": 4,
            "dim_head": 8, "dim_ff": 48, "num_hidden_layers": 2}, _OLD),
    )
}
# fmt: on


REFUSED = {
    "RecurrentGemma": "hands out no state",
    "GPT-1": "takes no cache",
    "CPM-Ant, with a prompt of its own": "fails when it is fed at a pointer",
}

_HEAD = """# Architectures

Written by `python -m tests.architectures`. Each line is a tiny random model (float32, on a CPU) that
`tests/exactness/test_architectures.py` takes through the engine: forty greedy tokens under a far draft, a near draft,
the model itself as its draft, and forced rejections must be transformers' own greedy text; the rows of a ragged batch
must be those rows alone; and after every cycle the caches of target and draft must answer like a fresh prefill. A token
may differ only where the target's two best logits lie closer than 1e-4.

- **keys and values**: every layer keeps keys and values alone, so a rollback moves a pointer. Compared slot by slot
  (5e-5, for the norms of some families magnify rounding) and by the next step's logits.
- **snapshots**: a recurrent state cannot rewind. A copy from before the forward is put back, and what is then lacking
  is computed again. Compared by the next step's logits (1e-5). *At once*: a verify step is one forward.
  *One by one*: the model looks at its state only when it is given a single token, so it is given one at a time.
- **shared**: rows of a batch share each forward, padded. **row by row**: each row has its own.
"""


def table() -> str:
    """Return the text of docs/architectures.md: what the engine finds out about each model when it meets it."""
    lines = [_HEAD, "| family | class | cache | rows of a batch |", "| --- | --- | --- | --- |"]
    refused = [
        "",
        "Refused when an engine or a drafter is made:",
        "",
        "| family | class | reason |",
        "| --- | --- | --- |",
    ]
    for label, one in ARCHITECTURES.items():
        try:
            runner = ModelRunner(build(label), "target")
        except InvalidInput as error:
            reason = str(error).removeprefix(f"the target {one.class_name} ").split(";")[0].split(", so ")[0]
            refused.append(f"| {label} | `{one.class_name}` | {reason} |")
            continue
        cache = (
            "keys and values" if runner.rolls_back else f"snapshots, {'at once' if runner.at_once else 'one by one'}"
        )
        lines.append(f"| {label} | `{one.class_name}` | {cache} | {'shared' if runner.shares else 'row by row'} |")
    return "\n".join([*lines, *refused, ""])


def build(label: str, noise: float = 0.0) -> Any:
    """Return the model of this label; `noise`: relative size of a disturbance of every weight matrix."""
    one = ARCHITECTURES[label]
    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(one.seed)
        config = getattr(transformers, one.config_name)(**{**one.common, **one.fields})
        model = getattr(transformers, one.class_name)(config)
        with torch.no_grad():
            for weight in _matrices(model):
                weight.normal_(0.0, 0.2)
            torch.manual_seed(one.seed + 1)
            for weight in _matrices(model):
                weight.add_(torch.randn_like(weight) * 0.2 * noise)
        model.tie_weights()
    finally:
        torch.random.set_rng_state(state)
    model.train(False)
    model.generation_config.eos_token_id = None
    return model


def _matrices(model: Any) -> list[torch.Tensor]:
    """Return the weight matrices whose size is free: those of linear maps, embeddings and experts."""
    linear = (torch.nn.Linear, torch.nn.Embedding, transformers.pytorch_utils.Conv1D)
    owned = {id(module.weight): module.weight for module in model.modules() if isinstance(module, linear)}
    owned |= {id(w): w for name, w in model.named_parameters() if "experts" in name and w.dim() == 3}
    return list(owned.values())


if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs" / "architectures.md").write_text(table(), encoding="utf-8")
