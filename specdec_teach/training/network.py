"""A small Llama for training: the same mathematics and parameter names as the transformers model.

Invariant: ``state_dict`` (plus nothing) loads into LlamaForCausalLM and gives the same logits.
Does not know: caches and generation; it sees whole stories only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-5
INITIAL_SPREAD = 0.02


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama with tied embeddings: `width` = heads * head size, `inner` = width of the gated part."""

    vocab: int = 2048
    width: int = 256
    layers: int = 10
    heads: int = 4
    inner: int = 512
    context: int = 512
    theta: float = 10000.0

    def as_dict(self) -> dict[str, int | float]:
        """The sizes as a plain dictionary, for checkpoints."""
        return asdict(self)


class Norm(nn.Module):
    """Root-mean-square normalisation with a learned scale, (..., width) -> (..., width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last axis."""
        return functional.rms_norm(x.float(), (x.shape[-1],), self.weight, EPSILON)


class Attention(nn.Module):
    """Causal attention with rotary positions, (B, T, width) -> (B, T, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.q_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.k_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.v_proj = nn.Linear(shape.width, shape.width, bias=False)
        self.o_proj = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Let every position attend to itself and those before it."""
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        query = rotate(self.q_proj(x).view(split).transpose(1, 2), cos, sin)
        key = rotate(self.k_proj(x).view(split).transpose(1, 2), cos, sin)
        value = self.v_proj(x).view(split).transpose(1, 2)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class Gate(nn.Module):
    """The gated feed-forward part (SwiGLU), (..., width) -> (..., width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=False)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position on its own."""
        out: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One Llama layer: attention and gate, each behind a norm and added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = Gate(shape)
        self.input_layernorm = Norm(shape.width)
        self.post_attention_layernorm = Norm(shape.width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Add both parts to `x`, (B, T, width)."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Trunk(nn.Module):
    """Embedding, layers and final norm, under the names that transformers gives them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)


class Network(nn.Module):
    """The language model: token ids (B, T) -> logits (B, T, vocab); the embedding is also the output matrix."""

    def __init__(self, shape: Shape, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if shape.width % shape.heads or (shape.width // shape.heads) % 2:
            raise ValueError(f"width {shape.width} must be an even multiple of heads {shape.heads}")
        self.shape = shape
        self.model = Trunk(shape)
        cos, sin = rotary_tables(shape.width // shape.heads, shape.context, shape.theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        if generator is not None:
            self.initialise(generator)

    def describe(self) -> dict[str, int | float]:
        """The sizes, for checkpoints."""
        return self.shape.as_dict()

    def initialise(self, generator: torch.Generator) -> None:
        """Draw all matrices anew: normal with spread 0.02, those that end a branch smaller by depth."""
        shrink = (2 * self.shape.layers) ** -0.5
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.dim() == 2:
                    ends_branch = name.endswith(("o_proj.weight", "down_proj.weight"))
                    weight.normal_(0.0, INITIAL_SPREAD * (shrink if ends_branch else 1.0), generator=generator)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T, vocab) of the token after each of `ids` (B, T)."""
        length = ids.shape[1]
        cos, sin = self.get_buffer("cos")[:length], self.get_buffer("sin")[:length]
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.model.norm(x), self.model.embed_tokens.weight)


def rotary_tables(head: int, context: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the rotary angles, each (context, head)."""
    frequencies = theta ** (-torch.arange(0, head, 2, dtype=torch.float32) / head)
    angles = torch.outer(torch.arange(context, dtype=torch.float32), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn queries or keys (B, heads, T, head) by their position's angles; the dtype stays."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return (x * cos + turned * sin).to(x.dtype)
