"""The whole engine with the interpreted kernel as its judge: the law across cycles, and the text where it is fixed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import specdec_teach as sd

P4, Q4 = (0.4, 0.3, 0.2, 0.1), (0.1, 0.15, 0.25, 0.5)


def constant(law: tuple[float, ...]) -> sd.testing.TabularLM:
    """A model that always says the same distribution."""
    return sd.testing.TabularLM(torch.tensor(law, dtype=torch.float64).log())


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_long_runs_follow_the_law(rule: str) -> None:
    """i.i.d. tokens of a constant target, γ = 3, judged and drawn by the kernel; a wrong law of the same size fails."""
    engine = sd.Engine(constant(P4), drafter=sd.ModelDrafter(constant(Q4)), gamma=3, verify=rule, backend="triton")
    tokens: list[int] = []
    for seed in range(3):
        result = engine.generate([0], sd.Sampling(seed=seed), max_new_tokens=200)
        tokens += result.tokens
        assert result.trace is not None
        assert result.trace.meta.backend == "triton"
    counts = np.bincount(tokens, minlength=4)
    assert stats.chisquare(counts, np.array(P4) * counts.sum()).pvalue > 1e-3
    redrawn = np.array([0.28, 0.285, 0.29, 0.145])  # min(p, q) + β·p: what redrawing from p gives
    assert stats.chisquare(counts, redrawn * counts.sum()).pvalue < 1e-6


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_greedy_text_is_the_plain_text(rule: str) -> None:
    """A real model, rejections and all."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
    by_kernel = sd.Engine(target, drafter=sd.ModelDrafter(near), gamma=3, verify=rule, backend="triton")
    plain = sd.Engine(target).generate([1, 2], sd.Sampling.greedy(), max_new_tokens=16)
    assert by_kernel.generate([1, 2], sd.Sampling.greedy(), max_new_tokens=16).tokens == plain.tokens


def test_coupled_text_is_the_same_on_both_backends() -> None:
    """One noise, one text: torch, kernel, with and without speculation."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
    texts = set()
    for backend in ("torch", "triton"):
        engine = sd.Engine(target, drafter=sd.ModelDrafter(near), gamma=3, verify="coupled", backend=backend)
        for speculate in (True, False):
            texts.add(engine.generate([1, 2], sd.Sampling(seed=7), max_new_tokens=16, speculate=speculate).tokens)
    assert len(texts) == 1
