"""Random heads over tiny targets, and what they must say, worked out from nothing in the plainest way.

The oracle is transformers' own layer over the whole text at once: no cache, no batch, no rows that go on from others.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach.drafters.head import HeadDrafter
from specdec_teach.drafters.medusa import MedusaDrafter
from specdec_teach.drafters.networks import HeadNetwork, HeadShape, MedusaNetwork, MedusaShape

FEATURES = {"head": (3,), "head3": (1, 2, 3), "medusa": (2, 3)}


def tiny(vocab: int = 64, dtype: torch.dtype = torch.float32) -> Any:
    return sd.testing.tiny_llama(3, layers=3, vocab=vocab).to(dtype)


def head_for(target: Any, kind: str, seed: int = 1, spread: float = 0.3) -> HeadDrafter | MedusaDrafter:
    """A random head with decided opinions; one that hardly moves the state ("near") agrees with the target at times."""
    network = _network_for(target, kind, seed, spread)
    return MedusaDrafter(network, target) if isinstance(network, MedusaNetwork) else HeadDrafter(network, target)


@functools.cache
def _network_for(target: Any, kind: str, seed: int, spread: float) -> HeadNetwork | MedusaNetwork:
    """Made once: what it says of a text is then worked out once too."""
    generator = torch.Generator().manual_seed(seed)
    width, features = target.config.hidden_size, FEATURES[kind]
    if kind == "medusa":
        medusa = MedusaNetwork(MedusaShape(width, features, count=4, rank=16)).initialise(generator)
        with torch.no_grad():
            for weight in medusa.parameters():
                weight.add_(spread * torch.randn(weight.shape, generator=generator))
        return medusa
    head = HeadNetwork(HeadShape(width, features, heads=4, inner=48)).initialise(generator)
    with torch.no_grad():
        head.norm.weight.copy_(target.model.norm.weight)
        for weight in head.parameters():
            weight.add_(spread * torch.randn(weight.shape, generator=generator) if weight.dim() > 1 else 0.0)
    return head


@functools.cache
@torch.inference_mode()
def states_of(target: Any, tokens: tuple[int, ...], features: tuple[int, ...]) -> Tensor:
    """The target's hidden states `[T, W]` of all tokens."""
    seen = target(input_ids=torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([seen[layer][0] for layer in features], dim=-1)


def head_logits(target: Any, head: HeadNetwork, tokens: Sequence[int], drafts: Sequence[int]) -> Tensor:
    """The logits `[K + 1, V]` of a head behind `tokens` and each of `drafts`, which the target has not seen."""
    return _head_logits(target, head, tuple(tokens), tuple(drafts))


@functools.cache
@torch.inference_mode()
def _head_logits(target: Any, head: HeadNetwork, tokens: tuple[int, ...], drafts: tuple[int, ...]) -> Tensor:
    states = head.state(states_of(target, tokens[:-1], tuple(head.shape.features)))
    text, said = [*tokens, *drafts], []
    rotary = type(target.model.rotary_emb)(_rotary_config(target, head))
    for _ in range(len(drafts) + 1):
        rows = len(states)
        x_1TN = head.enter(target.model.embed_tokens(torch.tensor(text[1 : rows + 1])), states)[None]
        turns = rotary(x_1TN, torch.arange(rows)[None])
        mask = torch.full((rows, rows), -torch.inf, dtype=x_1TN.dtype).triu(1)[None, None]
        out = head.layer(x_1TN, attention_mask=mask, position_embeddings=turns)
        out = head.norm(out[0] if isinstance(out, tuple) else out).reshape(rows, -1)
        said.append(target.lm_head(out[-1]))
        states = torch.cat([states, out[-1:]])
    return torch.stack(said)


def _rotary_config(target: Any, head: HeadNetwork) -> Any:
    config = head.layer.self_attn.config
    config.rope_parameters = {"rope_type": "default", "rope_theta": head.shape.theta}
    config.max_position_embeddings = target.config.max_position_embeddings
    return config


def medusa_logits(target: Any, heads: MedusaNetwork, tokens: Sequence[int]) -> Tensor:
    """The logits `[K, V]` of Medusa heads at the last computed position of `tokens`."""
    return _medusa_logits(target, heads, tuple(tokens))


@functools.cache
@torch.inference_mode()
def _medusa_logits(target: Any, heads: MedusaNetwork, tokens: tuple[int, ...]) -> Tensor:
    state_W = states_of(target, tokens[:-1], tuple(heads.shape.features))[-1]
    parts = [
        rms(part) * norm.weight for part, norm in zip(state_W.chunk(len(heads.norm_in)), heads.norm_in, strict=True)
    ]
    said = []
    for inward, outward, norm in zip(heads.inward, heads.outward, heads.norms, strict=True):
        gate = inward.weight @ torch.cat(parts) + inward.bias
        said.append(target.lm_head(rms(parts[-1] + outward.weight @ (gate * gate.sigmoid())) * norm.weight))
    return torch.stack(said)


def rms(x_N: Tensor) -> Tensor:
    """Divide by the root mean square."""
    return x_N / (x_N.square().mean() + 1e-5).sqrt()
