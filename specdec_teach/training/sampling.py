"""Samples text from a network with a key/value cache, many sequences side by side.

Invariant: row `i` is a sample from the network's own distribution at the temperature, prompt excepted.
Does not know: text; it sees token ids only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specdec_teach.training.corpus import END_ID
from specdec_teach.training.network import Layer, Network, rotate


class Cache:
    """Keys and values of all layers, (layers, 2, B, heads, context, head), filled position by position."""

    def __init__(self, network: Network, rows: int, length: int) -> None:
        shape = network.shape
        self.store = torch.zeros(shape.layers, 2, rows, shape.heads, length, shape.width // shape.heads)


def step(network: Network, ids: Tensor, position: int, cache: Cache) -> Tensor:
    """Logits (B, vocab) after the tokens `ids` (B,) at `position`; earlier positions come from the cache."""
    x = network.model.embed_tokens(ids)
    cos, sin = network.get_buffer("cos")[position], network.get_buffer("sin")[position]
    for index, layer in enumerate(network.model.layers):
        assert isinstance(layer, Layer)
        attention = layer.self_attn
        normed = layer.input_layernorm(x)
        split = (len(ids), attention.heads, 1, x.shape[-1] // attention.heads)
        keys, values = cache.store[index]
        keys[:, :, position : position + 1] = rotate(attention.k_proj(normed).view(split), cos, sin)
        values[:, :, position : position + 1] = attention.v_proj(normed).view(split)
        query = rotate(attention.q_proj(normed).view(split), cos, sin)
        mixed = functional.scaled_dot_product_attention(query, keys[:, :, : position + 1], values[:, :, : position + 1])
        x = x + attention.o_proj(mixed.reshape(len(ids), -1))
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    return functional.linear(network.model.norm(x), network.model.embed_tokens.weight)


@torch.inference_mode()
def sample(
    network: Network, prompts: Sequence[Sequence[int]], tokens: int, temperature: float, generator: torch.Generator
) -> list[list[int]]:
    """Continue every prompt by at most `tokens` tokens; a sequence stops after its end token.

    Returns the sequences with their prompts. ValueError for an empty prompt or one too long for the context.
    """
    if any(not prompt for prompt in prompts):
        raise ValueError("every prompt needs at least one token")
    longest = max(len(prompt) for prompt in prompts) + tokens
    if longest > network.shape.context:
        raise ValueError(f"prompt and continuation need {longest} positions, the model has {network.shape.context}")
    rows = [list(prompt) for prompt in prompts]
    cache = Cache(network, len(rows), longest)
    for position in range(longest - 1):
        ids = torch.tensor([row[position] if position < len(row) else END_ID for row in rows])
        probabilities = torch.softmax(step(network, ids, position, cache) / temperature, dim=-1)
        drawn = torch.multinomial(probabilities, 1, generator=generator).flatten().tolist()
        open_rows = False
        for row, prompt, token in zip(rows, prompts, drawn, strict=True):
            full = len(row) >= len(prompt) + tokens or (len(row) > len(prompt) and row[-1] == END_ID)
            if position == len(row) - 1 and not full:
                row.append(token)
            open_rows |= not full
        if not open_rows:
            break
    return rows
