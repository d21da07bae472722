"""The training loop: batches in, checkpoints out, able to stop and go on.

Invariant: with a step limit, training in several sittings gives bit for bit what one sitting gives.
Does not know: where stories come from, and what the finished model is for.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from tqdm import tqdm  # type: ignore[import-untyped]

from specdec_teach.training.batches import Batch, load_batch, plan_epoch, split_batch
from specdec_teach.training.corpus import Corpus
from specdec_teach.training.optimizer import Muon

CLIP = 1.0
FLOOR = 0.02
BAR = "{l_bar}{bar}| {elapsed}<{remaining}{postfix}"

Loss = Callable[[Tensor, Batch], Tensor]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train: a limit in `steps` or in `minutes` of training time, `budget` tokens a step, peak rates."""

    steps: int | None = None
    minutes: float | None = None
    budget: int = 2048
    muon_rate: float = 0.02
    adam_rate: float = 0.002
    warmup: int = 60
    hold: float = 0.35
    seed: int = 1
    save_every: float = 180.0
    replicas: int = 2

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("give either steps or minutes as the limit of training")
        if (self.steps or self.minutes or 0) <= 0:
            raise ValueError("the limit of training must be positive")


@dataclass(slots=True)
class Progress:
    """How far training is: optimiser steps, tokens seen, seconds of training, running mean of the loss."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    loss: float = float("nan")


def rate_factor(done: float, step: int, plan: Plan) -> float:
    """Learning-rate factor when the share `done` of training is over: warm-up, hold, cosine to a small floor."""
    warm = min(1.0, (step + 1) / max(plan.warmup, 1))
    if done <= plan.hold:
        return warm
    along = min(1.0, (done - plan.hold) / (1.0 - plan.hold))
    return warm * (FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + math.cos(math.pi * along)))


def share_done(progress: Progress, plan: Plan) -> float:
    """Share of the plan's limit that is used up."""
    if plan.steps is not None:
        return progress.step / plan.steps
    assert plan.minutes is not None
    return progress.seconds / (60.0 * plan.minutes)


def train(model: nn.Module, corpus: Corpus, loss: Loss, plan: Plan, checkpoint: Path, label: str = "train") -> Progress:
    """Train `model` in place until the plan's limit, resuming from `checkpoint` if that file exists."""
    optimizer = Muon(model, plan.muon_rate, plan.adam_rate)
    progress = _resume(model, optimizer, checkpoint)
    replicas = _replicas(model, plan.replicas)
    epoch, first = -1, 0
    batches: list[list[int]] = []
    saved = time.monotonic()
    workers = ThreadPoolExecutor(plan.replicas, initializer=torch.set_num_threads, initargs=(1,))
    with workers, tqdm(total=1000, desc=label, mininterval=5, bar_format=BAR) as bar:
        while share_done(progress, plan) < 1.0:
            began = time.monotonic()
            while epoch < 0 or progress.step >= first + len(batches):
                first += len(batches)
                epoch += 1
                batches = plan_epoch(corpus, plan.budget, plan.seed, epoch)
            batch = load_batch(corpus, batches[progress.step - first])
            now = _gradients(replicas, batch, loss, workers)
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step(rate_factor(share_done(progress, plan), progress.step, plan), workers)
            progress.step += 1
            progress.tokens += int(batch.valid.sum())
            progress.loss = now if math.isnan(progress.loss) else 0.99 * progress.loss + 0.01 * now
            progress.seconds += time.monotonic() - began
            bar.n = int(1000 * min(1.0, share_done(progress, plan)))
            bar.set_postfix_str(f"step {progress.step}, loss {progress.loss:.3f}, {progress.tokens / 1e6:.2f}M tokens")
            if time.monotonic() - saved > plan.save_every:
                save_checkpoint(model, optimizer, progress, checkpoint)
                saved = time.monotonic()
    save_checkpoint(model, optimizer, progress, checkpoint)
    return progress


def _replicas(model: nn.Module, number: int) -> list[nn.Module]:
    """The model and copies of it that share its parameters but collect gradients of their own."""
    copies = [copy.deepcopy(model) for _ in range(number - 1)]
    for twin in copies:
        for weight, original in zip(twin.parameters(), model.parameters(), strict=True):
            weight.data = original.data
    return [model, *copies]


def _gradients(replicas: list[nn.Module], batch: Batch, loss: Loss, workers: Executor) -> float:
    """Leave the batch's mean gradient in the first replica, one slice of the batch per replica; returns the loss."""
    slices = split_batch(batch, len(replicas))

    def work(at: int) -> float:
        share = len(slices[at].inputs) / len(batch.inputs)
        with torch.autocast("cpu", torch.bfloat16):
            value = loss(replicas[at](slices[at].inputs), slices[at]) * share
        value.backward()  # type: ignore[no-untyped-call]
        return float(value.detach())

    total = sum(workers.map(work, range(len(slices))))
    for twin in replicas[1 : len(slices)]:
        for weight, original in zip(twin.parameters(), replicas[0].parameters(), strict=True):
            if weight.grad is not None and original.grad is not None:
                original.grad += weight.grad
            weight.grad = None
    return total


def save_checkpoint(model: nn.Module, optimizer: Muon, progress: Progress, path: Path) -> None:
    """Write a checkpoint to `path`, replacing an older one only when the new one is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    state = {
        "shape": _sizes(model),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": (progress.step, progress.tokens, progress.seconds, progress.loss),
    }
    torch.save(state, fresh)
    fresh.replace(path)


def _sizes(model: nn.Module) -> dict[str, Any]:
    """What tells a checkpoint of this model from one of another."""
    sizes: dict[str, Any] = cast(Any, model).describe()
    return sizes


def load_progress(path: Path) -> Progress:
    """The progress stored in a checkpoint."""
    return Progress(*torch.load(path, weights_only=True)["progress"])


def _resume(model: nn.Module, optimizer: Muon, path: Path) -> Progress:
    if not path.exists():
        return Progress()
    state = torch.load(path, weights_only=True)
    if state["shape"] != _sizes(model):
        raise ValueError(f"checkpoint {path.name} is of another model shape: {state['shape']}")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(*state["progress"])
