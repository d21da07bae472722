"""The two losses: next token with extra weight on recalled facts, and distance to a teacher.

Invariant: padding never counts.
Does not know: models, batches on disk or optimisers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from specdec_teach.training.batches import Batch
from specdec_teach.training.stories.grammar import Mark


def recall_weights(batch: Batch, recall_weight: float) -> Tensor:
    """Loss weight of every position, (B, T): `recall_weight` on facts told again, 1 elsewhere, 0 on padding."""
    again = (batch.marks == int(Mark.AGAIN_FACT)) | (batch.marks == int(Mark.AGAIN_NAME))
    return (1.0 + (recall_weight - 1.0) * again) * batch.valid


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of each target, nats, (B, T), from logits (B, T, V)."""
    flat = functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return flat.view(targets.shape)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of `values` under `weights`, a scalar; zero if all weights are zero."""
    return (values * weights).sum() / weights.sum().clamp_min(1e-9)


def teacher_losses(logits: Tensor, teacher_logits: Tensor, temperature: float) -> Tensor:
    """Kullback-Leibler distance teacher -> student at `temperature`, nats, (B, T)."""
    student = functional.log_softmax(logits.float() / temperature, dim=-1)
    teacher = functional.log_softmax(teacher_logits.float() / temperature, dim=-1)
    return (teacher.exp() * (teacher - student)).sum(-1)


def marked_sum(values: Tensor, batch: Batch, marks: tuple[Mark, ...]) -> tuple[float, int]:
    """Sum and number of `values` (B, T) at valid positions that carry one of `marks`."""
    chosen = torch.zeros_like(batch.valid)
    for mark in marks:
        chosen |= batch.marks == int(mark)
    chosen &= batch.valid
    return float(values[chosen].sum()), int(chosen.sum())
