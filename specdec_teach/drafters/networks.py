"""What a trained head is made of: its sizes and its weights, under the names that a weights file has.

A head reads the target's hidden states and shares the target's embedding and output matrix, so neither is in here.
Invariant: the sizes say everything that the weights do not; both together are a head, for training and for drafting.
It does not know caches, sampling, or how a head is trained.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from specdec_teach.hf import llama_layer, llama_norm

__all__ = ["HeadNetwork", "HeadShape", "MedusaNetwork", "MedusaShape"]

_SPREAD = 0.02


@final
@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of an EAGLE-style head. `features`: which hidden states of the target it reads, counted as in `Hidden`."""

    width: int
    features: tuple[int, ...]
    heads: int = 4
    inner: int = 512
    theta: float = 10000.0
    epsilon: float = 1e-5

    def as_dict(self) -> dict[str, Any]:
        """The sizes as a plain dictionary."""
        return asdict(self) | {"features": list(self.features)}


@final
class HeadNetwork(nn.Module):
    """One decoder layer over [embedding of the next token; a state], N → N.

    The state of a position is what `state` makes of the target's hidden states there, or, where the target has not been
    yet, what the head itself gave for the position before. Source: EAGLE (Li et al. 2024) for one hidden state, EAGLE-3
    (Li et al. 2025) for several, which a linear map fuses.
    """

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        width, count = shape.width, len(shape.features)
        self.shape = shape
        self.norms = nn.ModuleList(llama_norm(width, shape.epsilon) for _ in shape.features)
        self.fuse = nn.Linear(count * width, width, bias=False) if count > 1 else nn.Identity()
        self.token_norm, self.state_norm = (llama_norm(width, shape.epsilon) for _ in range(2))
        self.mix = nn.Linear(2 * width, width, bias=False)
        self.layer: Any = llama_layer(width, shape.heads, shape.inner, shape.epsilon)
        self.norm = llama_norm(width, shape.epsilon)

    def initialise(self, generator: torch.Generator) -> HeadNetwork:
        """Draw all matrices anew; the state goes straight through at first."""
        with torch.no_grad():
            for weight in self.parameters():
                if weight.dim() == 2:
                    weight.normal_(0.0, _SPREAD, generator=generator)
            self.mix.weight[:, self.shape.width :] += torch.eye(self.shape.width)
            if isinstance(self.fuse, nn.Linear):
                self.fuse.weight[:, -self.shape.width :] += torch.eye(self.shape.width)
        return self

    def state(self, hidden_RW: Tensor) -> Tensor:
        """Return the states `[R, N]` of positions from the target's hidden states there, side by side."""
        parts = torch.split(hidden_RW, self.shape.width, dim=-1)
        fused: Tensor = self.fuse(torch.cat([norm(part) for norm, part in zip(self.norms, parts, strict=True)], dim=-1))
        return fused

    def enter(self, tokens_RN: Tensor, states_RN: Tensor) -> Tensor:
        """Return what the layer reads `[R, N]`: the embeddings of the next tokens, and the states before them."""
        mixed: Tensor = self.mix(torch.cat([self.token_norm(tokens_RN), self.state_norm(states_RN)], dim=-1))
        return mixed


@final
@dataclass(frozen=True, slots=True)
class MedusaShape:
    """Sizes of Medusa heads: how many there are, and the `rank` of each one's residual block."""

    width: int
    features: tuple[int, ...]
    count: int = 4
    rank: int = 256
    epsilon: float = 1e-5

    def as_dict(self) -> dict[str, Any]:
        """The sizes as a plain dictionary."""
        return asdict(self) | {"features": list(self.features)}


@final
class MedusaNetwork(nn.Module):
    """Independent heads on one hidden state: head i (from 1) guesses the token i + 1 places behind its position.

    Each is a residual block of its own, N → N through `rank`, and a norm; the output matrix is the target's.
    Source: Medusa (Cai et al. 2024), whose heads have output matrices of their own.
    """

    def __init__(self, shape: MedusaShape) -> None:
        super().__init__()
        self.shape = shape
        reads = shape.width * len(shape.features)
        self.norm_in = nn.ModuleList(llama_norm(shape.width, shape.epsilon) for _ in shape.features)
        self.norms: Any = nn.ModuleList(llama_norm(shape.width, shape.epsilon) for _ in range(shape.count))
        self.inward: Any = nn.ModuleList(nn.Linear(reads, shape.rank) for _ in range(shape.count))
        self.outward: Any = nn.ModuleList(nn.Linear(shape.rank, shape.width, bias=False) for _ in range(shape.count))

    def initialise(self, generator: torch.Generator) -> MedusaNetwork:
        """Draw the inward matrices anew; the outward ones are zero, so that each head starts from the state itself."""
        with torch.no_grad():
            for inward, outward in zip(self.inward, self.outward, strict=True):
                inward.weight.normal_(0.0, _SPREAD, generator=generator)
                inward.bias.zero_()
                outward.weight.zero_()
        return self

    def forward(self, hidden_RW: Tensor) -> Tensor:
        """Return the finished states `[K, R, N]` of K heads, to be multiplied by the output matrix."""
        parts = [
            norm(part) for norm, part in zip(self.norm_in, torch.split(hidden_RW, self.shape.width, -1), strict=True)
        ]
        read_RW = torch.cat(parts, dim=-1)
        heads = zip(self.norms, self.inward, self.outward, strict=True)
        return torch.stack([norm(parts[-1] + out(nn.functional.silu(into(read_RW)))) for norm, into, out in heads])
