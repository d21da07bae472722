"""What is asked of a model before it is trusted with a cache, and a few tokens to ask it with.

Invariant: a question leaves the model as it was. It does not know caches or who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["cache_argument", "context_of", "differs", "mixes_tokens", "probe_ids"]


def cache_argument(parameters: Mapping[str, object]) -> str | None:
    """Return what a model's forward calls the cache it takes, None if it takes none.

    >>> cache_argument({"input_ids": 0, "past_key_values": 0})
    'past_key_values'
    """
    return next((name for name in ("past_key_values", "cache_params", "state") if name in parameters), None)


def context_of(config: Any) -> int | None:
    """Return how many positions a model has, None for no limit.

    Past its original length, long-rope turns every key another way than it was cached: the text ends there.
    """
    limit = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":
        limit = rope.get("original_max_position_embeddings", limit)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


def probe_ids(count: int, vocab: int) -> list[int]:
    """Return `count` token ids to try a model with.

    >>> probe_ids(4, 5)
    [3, 0, 2, 4]
    """
    return [(7 * at + 3) % vocab for at in range(count)]


def differs(rows_RV: Tensor, fresh_RV: Tensor) -> bool:
    """Whether logits differ by more than rounding can explain, measured by how far they spread.

    >>> differs(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.00001]]))
    False
    """
    spread, largest = (fresh_RV - fresh_RV.mean()).abs().max().item(), fresh_RV.abs().max().item()
    exact = fresh_RV.dtype in (torch.float32, torch.float64)
    allowed = 1e-4 * spread + 2e-6 * largest if exact else 0.1 * spread + 1e-2 * largest
    return not (rows_RV - fresh_RV).abs().max().item() <= allowed


@torch.inference_mode()
def mixes_tokens(model: Any, vocab: int) -> bool:
    """Whether what a quantised model says after a token depends on the tokens behind it in the same forward.

    Integer activations with one scale for a whole forward do that. Models in floating point are not asked.
    """
    if not any(_quantised(module) for module in model.modules()):
        return False
    ids = torch.tensor([probe_ids(8, vocab)], device=model.device)
    whole_RV = model(input_ids=ids).logits[0]
    return any(differs(model(input_ids=ids[:, :stop]).logits[0], whole_RV[:stop]) for stop in (1, 2, 4))


def _quantised(module: Any) -> bool:
    """Whether a module of its own holds numbers that are not in floating point, openly or packed."""
    held: Iterable[Tensor | None] = [*module._parameters.values(), *module._buffers.values()]
    packed = getattr(module, "_packed_params", None) is not None
    return packed or any(t is not None and t.dtype in (torch.int8, torch.uint8) for t in held)
