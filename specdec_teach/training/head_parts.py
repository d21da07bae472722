"""Makes the heads of the embedded target, each by one command: ``python -m specdec_teach.training --parts head``.

Invariant: a head's config.json names the target it was trained for, by the beginning of its weights' SHA-256.
Does not know: how a head learns, or how it drafts.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from specdec_teach.drafters.networks import HeadNetwork, HeadShape, MedusaNetwork, MedusaShape
from specdec_teach.training.corpus import Corpus
from specdec_teach.training.export import load_model
from specdec_teach.training.heads import HeadLearner, MedusaLearner, rows_loss
from specdec_teach.training.network import Network
from specdec_teach.training.trainer import Plan, train

HEADS = ("head", "head3", "medusa")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Which states a head reads, how many steps it is unrolled, and how much its state is held to the target's."""

    features: tuple[int, ...]
    steps: int
    regression: float


RECIPES = {
    "head": Recipe((10,), 1, 1.0),
    "head3": Recipe((3, 7, 10), 3, 0.0),
    "medusa": Recipe((7, 10), 0, 0.0),
}


def make_head(kind: str, corpus: Corpus, plan: Plan, work: Path, weights: Path) -> None:
    """Train the head `kind` for the target in `weights`, resuming from `work`, and export it."""
    target = load_model(weights / "target")
    network, learner = new_learner(kind, target, plan.seed)
    train(learner, corpus, rows_loss, plan, work / f"{kind}.pt", kind)
    save_head(kind, network, weights)


def new_learner(kind: str, target: Network, seed: int) -> tuple[HeadNetwork | MedusaNetwork, nn.Module]:
    """A fresh head and what teaches it."""
    recipe, generator = RECIPES[kind], torch.Generator().manual_seed(seed)
    width = target.shape.width
    if kind == "medusa":
        medusa = MedusaNetwork(MedusaShape(width, recipe.features)).initialise(generator)
        return medusa, MedusaLearner(medusa, target)
    head = HeadNetwork(HeadShape(width, recipe.features, target.shape.heads, target.shape.inner, target.shape.theta))
    return head, HeadLearner(head.initialise(generator), target, recipe.steps, recipe.regression)


def save_head(kind: str, network: HeadNetwork | MedusaNetwork, weights: Path) -> None:
    """Write config.json and model.safetensors (fp16) of a head to its folder in `weights`."""
    folder = weights / kind
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256((weights / "target" / "model.safetensors").read_bytes()).hexdigest()
    config = {"kind": kind, "target": digest[:12], **network.shape.as_dict()}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tensors = {name: value.detach().to(torch.float16).contiguous() for name, value in network.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
