"""Costs are medians of alternating rounds; the clock is a fake one, so nothing here depends on the machine."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd
from specdec_teach import probe
from specdec_teach.hf import ModelRunner
from specdec_teach.probe import Costs

TARGET, DRAFT = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.1)


class Clock:
    """Stands still but for what a forward of so many tokens is said to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls = 0.0, []
        honest = ModelRunner.forward

        def forward(runner: ModelRunner, cache: object, ids: list[int], keep: int) -> object:
            self.calls.append((runner.model is DRAFT, len(ids)))
            self.now += 0.001 if runner.model is DRAFT else 0.010 + 0.001 * len(ids)
            return honest(runner, cache, ids, keep)  # type: ignore[arg-type]

        monkeypatch.setattr(ModelRunner, "forward", forward)
        monkeypatch.setattr(probe, "perf_counter", lambda: self.now)


def test_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """v and c come out as they were put in; every round runs every size once."""
    clock = Clock(monkeypatch)
    costs = probe.measure(ModelRunner(TARGET, "target"), ModelRunner(DRAFT, "draft"), positions=(2, 5), rounds=4)
    assert costs.target == pytest.approx({1: 0.011, 2: 0.012, 5: 0.015})
    assert costs.c == pytest.approx(0.001 / 0.011)
    assert costs.v(5) == pytest.approx(0.015 / 0.011)
    assert costs.v(3) == pytest.approx(0.013 / 0.011)
    assert costs.cycle(4) == pytest.approx(0.015 + 0.004)
    rounds = [call for call in clock.calls if call[1] < 60]
    assert rounds == [(False, 1), (False, 2), (False, 5), (True, 1)] * 7


def test_a_median_forgives(monkeypatch: pytest.MonkeyPatch) -> None:
    """One slow round in five changes nothing."""
    times = iter([0, 1, 1, 2, 2, 3, 3, 100, 100, 101])
    monkeypatch.setattr(probe, "perf_counter", lambda: float(next(times)))
    assert probe.alternate({"a": lambda: None}, 5, warm_up=0)["a"] == [1.0, 1.0, 1.0, 97.0, 1.0]


def test_short_contexts_and_no_draft() -> None:
    """A model that holds 20 positions is measured behind fewer tokens."""
    costs = probe.measure(ModelRunner(sd.testing.tiny_llama(context=20), "target"), positions=(1, 16), rounds=1)
    assert set(costs.target) == {1, 16}
    assert costs.c is None
    assert costs.draft is None


def test_outside_the_measured_sizes() -> None:
    """The nearest measured size stands for sizes beyond."""
    costs = Costs({1: 1.0, 4: 2.0}, None)
    assert (costs.v(1), costs.v(4), costs.v(9)) == (1.0, 2.0, 2.0)


@pytest.mark.parametrize(("slow_target", "slow_draft"), [("float32", "bfloat16"), ("bfloat16", "bfloat16")])
def test_auto_takes_the_quicker_precision(slow_target: str, slow_draft: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For target and draft by themselves; and a pair of two precisions decodes."""
    now = [0.0]
    honest = ModelRunner.forward

    def forward(runner: ModelRunner, cache: object, ids: list[int], keep: int) -> object:
        now[0] += 2.0 if runner.dtype == (slow_target if runner.layers > 1 else slow_draft) else 1.0
        return honest(runner, cache, ids, keep)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(ModelRunner, "forward", forward)
        patch.setattr(probe, "perf_counter", lambda: now[0])
        pair = sd.load_pair(dtype="auto")
    other = {"float32": torch.bfloat16, "bfloat16": torch.float32}
    assert (pair.target.dtype, pair.draft.dtype) == (other[slow_target], other[slow_draft])
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    for sampling in (sd.Sampling.greedy(), sd.Sampling(temperature=0.8, seed=1)):
        assert engine.generate("Once upon a time", sampling, max_new_tokens=24).stats.accepted > 4
