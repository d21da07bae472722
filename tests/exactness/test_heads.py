"""With heads as drafters the engine emits the target's own law: every random choice enumerated in float64 (< 1e-12)."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.hf import ModelRunner
from specdec_teach.policy import processed

from ..checks import product_law, same_law
from ..heads import FEATURES, head_for, tiny

TARGET = tiny(4, torch.float64)
PROMPT = (1, 3)
FILTERED = {"temperature": 0.7, "top_k": 3}


@functools.cache
def own_law(sampling: sd.Sampling, count: int) -> dict[Any, float]:
    """Ancestral sampling from what the target says of each prefix, each worked out from nothing.

    In float64, which transformers' own norm leaves for float32: its law is the same up to that.
    """
    runner = ModelRunner(TARGET, "target")

    def step(prefix: tuple[int, ...]) -> list[float]:
        law: list[float] = processed(runner.forward(runner.new_cache(8), list(prefix), 1), sampling)[0].tolist()
        with torch.inference_mode():
            loose = processed(TARGET(input_ids=torch.tensor([prefix])).logits[0, -1:], sampling)[0]
        torch.testing.assert_close(torch.tensor(law, dtype=torch.float64), loose, atol=1e-6, rtol=0)
        return law

    return product_law(step, PROMPT, count)


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("rejection", {}),
        ("rejection", FILTERED),
        ("block", {}),
        ("block", FILTERED),
        ("coupled", FILTERED),
        pytest.param("coupled", {}, marks=pytest.mark.exhaustive),  # many ways, and nothing that the others lack
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", FEATURES)
def test_the_law_is_the_targets(kind: str, rule: str, settings: dict[str, Any]) -> None:
    sampling = sd.Sampling(**settings, eos_token_id=None)
    engine = sd.Engine(TARGET, drafter=head_for(TARGET, kind), gamma=2, verify=rule)
    law = sd.exact_law(engine, PROMPT, 3, sampling)
    same_law(law, own_law(sampling, 3))
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", FEATURES)
def test_drafts_that_are_not_drawn_from_the_reported_q_break_the_law(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof can fail: a head that reports another distribution than it drew from is seen."""
    drafter, sampling = head_for(TARGET, kind), sd.Sampling(eos_token_id=None)
    honest = drafter.propose

    def lies(sequences: Any, counts: Any, hidden: Any = None) -> list[sd.Proposal]:
        made = honest(sequences, counts)
        return [one if one.q_KV is None else sd.Proposal(one.tokens, one.q_KV.flip(-1)) for one in made]

    monkeypatch.setattr(drafter, "propose", lies)
    with pytest.raises(AssertionError):
        same_law(sd.exact_law(sd.Engine(TARGET, drafter=drafter, gamma=2), PROMPT, 3, sampling), own_law(sampling, 3))
