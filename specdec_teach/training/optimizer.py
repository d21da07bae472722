"""Muon for the hidden matrices, AdamW for embeddings and norms.

Invariant: hidden matrices get updates whose singular values are all about one, whatever the gradient's scale.
Does not know: learning-rate schedules; the caller passes a factor at every step.
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import Executor
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ROUNDS = 5
CHUNK = 10
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrices: Tensor) -> Tensor:
    """Newton-Schulz rounds on a stack (N, rows, columns): singular values move to about one, vectors stay."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.bfloat16()
    x = x.mT if tall else x
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).contiguous()
    for _ in range(ROUNDS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    orthogonal: Tensor = x.mT if tall else x
    return orthogonal.float()


class Muon:
    """The pair of optimisers over a model's parameters; `muon_rate` and `adam_rate` are peak learning rates."""

    def __init__(self, model: nn.Module, muon_rate: float, adam_rate: float, decay: float = 0.01) -> None:
        self.muon_rate = muon_rate
        self.decay = decay
        stacks: dict[tuple[int, ...], list[nn.Parameter]] = defaultdict(list)
        rest: list[nn.Parameter] = []
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embed_tokens" not in name:
                stacks[tuple(weight.shape)].append(weight)
            else:
                rest.append(weight)
        self.stacks = [
            stack[first : first + CHUNK] for stack in stacks.values() for first in range(0, len(stack), CHUNK)
        ]
        self.momenta = [torch.zeros(len(stack), *stack[0].shape) for stack in self.stacks]
        self.adam_rate = adam_rate
        self.adam = torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.98), weight_decay=decay, fused=True)

    def step(self, factor: float, workers: Executor) -> None:
        """Update all parameters from their gradients with both rates multiplied by `factor`; clears gradients."""
        for _ in workers.map(lambda at: self._step_stack(at, factor), range(len(self.stacks))):
            pass
        for group in self.adam.param_groups:
            group["lr"] = self.adam_rate * factor
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    @torch.no_grad()
    def _step_stack(self, at: int, factor: float) -> None:
        stack, momentum = self.stacks[at], self.momenta[at]
        gradient = torch.stack([weight.grad for weight in stack if weight.grad is not None])
        momentum.mul_(MOMENTUM).add_(gradient, alpha=1 - MOMENTUM)
        update = orthogonalise(gradient.lerp(momentum, MOMENTUM))
        rows, columns = stack[0].shape
        rate = self.muon_rate * factor * max(1.0, rows / columns) ** 0.5
        for weight, change in zip(stack, update.unbind(0), strict=True):
            weight.mul_(1.0 - self.muon_rate * factor * self.decay).add_(change, alpha=-rate)
            weight.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume."""
        return {"momenta": self.momenta, "adam": self.adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        for momentum, saved in zip(self.momenta, state["momenta"], strict=True):
            momentum.copy_(saved)
        self.adam.load_state_dict(state["adam"])
