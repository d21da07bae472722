"""Random-weight Llamas of real shapes for benchmarks/gpu_engine.py, whose drafts agree as often as is wanted.

Nothing is downloaded. Every token has a planted successor, the same in target and draft but for a share of the tokens,
where the draft has another: greedy drafts are accepted with that chance, at any size and in any dtype, since the
planted logit is far above the rest. What the layers add is small beside it, so these models show speed and not
mistakes of attention; `near` makes small ones that show those. It does not know how they are run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from specdec_teach.hf import llama_from_config

__all__ = ["Shape", "near", "planted"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Llama; `vocab` and `context` are those of its pair."""

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int

    def build(self, vocab: int, context: int, device: str, dtype: torch.dtype, spread: float = 0.02) -> Any:
        """Return a random model in eval mode."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                return llama_from_config(
                    {
                        "vocab_size": vocab,
                        "hidden_size": self.hidden,
                        "intermediate_size": self.inner,
                        "num_hidden_layers": self.layers,
                        "num_attention_heads": self.heads,
                        "num_key_value_heads": self.kv_heads,
                        "max_position_embeddings": context,
                        "initializer_range": spread,
                        "tie_word_embeddings": False,
                        "bos_token_id": None,
                        "eos_token_id": None,
                        "pad_token_id": None,
                    }
                ).to(device=device, dtype=dtype)
        finally:
            torch.set_default_dtype(before)


B1 = Shape("1B", 2048, 8192, 16, 32, 8)
B8 = Shape("8B", 4096, 14_336, 32, 32, 8)
TINY = Shape("tiny", 64, 128, 2, 4, 2)


def planted(
    shapes: tuple[Shape, Shape], agree: float, vocab: int, context: int, device: str, dtype: torch.dtype
) -> Any:
    """Return target and draft; the draft's favourite is the target's for a share `agree` of the tokens."""
    generator = torch.Generator(device).manual_seed(1)
    follows = torch.randperm(vocab, generator=generator, device=device)
    differs = torch.rand(vocab, generator=generator, device=device) >= agree
    others = torch.where(differs, follows.roll(1), follows)
    models = []
    for shape, successors in zip(shapes, (follows, others), strict=True):
        model = shape.build(vocab, context, device, dtype)
        with torch.no_grad():
            embedding = model.model.embed_tokens.weight
            embedding.normal_(generator=generator)
            for layer in model.model.layers:
                layer.self_attn.o_proj.weight.mul_(0.02)
                layer.mlp.down_proj.weight.mul_(0.02)
            # A token's row of the head is the embedding of what it follows: that logit is about 12, the rest about 0.
            head = torch.zeros_like(embedding)
            head.index_add_(0, successors, embedding * (12.0 / shape.hidden))
            model.lm_head.weight.copy_(head)
        models.append(model)
    return models


def near(device: str, vocab: int, context: int, noise: float) -> Any:
    """Return a small float32 target whose every token depends on all before, and a disturbed copy as its draft."""
    shape = Shape("near", 128, 256, 3, 8, 2)
    torch.manual_seed(2)
    target, draft = (shape.build(vocab, context, device, torch.float32, 0.1) for _ in range(2))
    with torch.no_grad():
        for mine, other in zip(draft.parameters(), target.parameters(), strict=True):
            mine.copy_(other + noise * torch.randn_like(other) * (other.std() if other.dim() > 1 else 0.0))
    return target, draft
