"""The shipped heads belong to the embedded target, keep their card, and learn what they are asked to draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.drafters.networks import HeadNetwork, HeadShape, MedusaNetwork, MedusaShape
from specdec_teach.drafters.shipped import present, shipped
from specdec_teach.hf import llama_from_config
from specdec_teach.training.export import config_of
from specdec_teach.training.head_card import speed
from specdec_teach.training.heads import FADE, HeadLearner, MedusaLearner
from specdec_teach.training.network import Network, Shape
from specdec_teach.training.objective import teacher_losses

from ..heads import head_logits, medusa_logits

WEIGHTS = Path(sd.__file__).parent / "weights"
TINY = Shape(vocab=40, width=32, layers=3, heads=4, inner=48, context=64)


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    card: dict[str, Any] = json.loads((WEIGHTS / "heads.json").read_text(encoding="utf-8"))
    return card


def test_every_head_is_small_and_on_the_card(card: dict[str, Any]) -> None:
    assert "head3" in present()
    for kind in present():
        size = (WEIGHTS / kind / "model.safetensors").stat().st_size
        assert size == card[kind]["bytes"] <= 3_000_000
        assert kind in (WEIGHTS / "HEADS.md").read_text(encoding="utf-8")


def test_a_trained_head_beats_the_draft_model_in_tokens_per_target_forward(card: dict[str, Any], pair: sd.Pair) -> None:
    """On the card, and again here on a few prompts: greedy and at temperature 0.8."""
    for setting in ("greedy", "T = 0.8"):
        rates = {kind: card[kind]["figures"][setting]["tokens_per_forward"] for kind in ("model", "head3")}
        assert rates["head3"] > rates["model"] + 0.3
    head, model = (speed(pair, one, 6, 60) for one in (sd.HeadDrafter.of(pair), sd.ModelDrafter(pair.draft)))
    for setting in ("greedy", "T = 0.8"):
        assert head[setting]["tokens_per_forward"] > model[setting]["tokens_per_forward"]


def test_a_head_is_refused_for_another_target(pair: sd.Pair) -> None:
    other = sd.Pair(sd.testing.tiny_llama(), None, None)
    with pytest.raises(sd.InvalidInput, match="was trained for the embedded target"):
        sd.HeadDrafter.of(other)
    with pytest.raises(sd.InvalidInput, match="kind"):
        shipped("head7", pair.target)
    assert "head3" in sd.drafters_for(pair)
    assert "head3" not in sd.drafters_for(other)


def _pair_of(seed: int) -> tuple[Network, Any]:
    """A random training network, and the same weights as a model of transformers."""
    network = Network(TINY, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(8.0 if weight.dim() > 1 else 1.0)
    model = llama_from_config(config_of(TINY))
    model.load_state_dict(network.state_dict(), strict=False)
    model.tie_weights()
    return network, model


@pytest.mark.parametrize("features", [(3,), (1, 2, 3)])
def test_a_roll_out_in_training_is_what_a_head_meets_when_it_drafts(features: tuple[int, ...]) -> None:
    """The loss of a row, added up from a head that is worked out from nothing, step by step."""
    target, model = _pair_of(2)
    head = HeadNetwork(HeadShape(32, features, heads=4, inner=48)).initialise(torch.Generator().manual_seed(1))
    learner, ids = HeadLearner(head, target, 3, 0.0), torch.randint(0, 40, (1, 12), generator=torch.Generator())
    with torch.no_grad():
        found = learner(ids)[0]
        text, wanted = ids[0].tolist(), target(ids)[0]
    for row in range(11):
        right = 0.0
        for step in range(min(3, row + 1)):
            first = row - step  # the target has been up to here; `step` tokens behind it are drafts
            said = head_logits(model, head, text[: first + 2], text[first + 2 : row + 2])[step]
            right += FADE**step * float(teacher_losses(said, wanted[row + 1], 1.0))
        assert float(found[row]) == pytest.approx(right / sum(FADE**at for at in range(3)), rel=1e-3, abs=1e-4)
    assert float(found[11]) == 0.0


def test_medusa_heads_learn_the_places_that_they_draft() -> None:
    target, model = _pair_of(3)
    heads = MedusaNetwork(MedusaShape(32, (2, 3), count=3, rank=8)).initialise(torch.Generator().manual_seed(1))
    with torch.no_grad():
        for weight in heads.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(5)))
    learner, ids = MedusaLearner(heads, target), torch.randint(0, 40, (1, 12), generator=torch.Generator())
    with torch.no_grad():
        found, wanted, text = learner(ids)[0], target(ids)[0], ids[0].tolist()
    for row in range(8):
        said = medusa_logits(model, heads, text[: row + 2])
        right = sum(FADE**at * float(teacher_losses(said[at], wanted[row + at + 1], 1.0)) for at in range(3))
        assert float(found[row]) == pytest.approx(right / sum(FADE**at for at in range(3)), rel=1e-3, abs=1e-4)
