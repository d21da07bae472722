"""`benchmarks/counts.py`: its arithmetic, and that a second candidate's tokens are counted, once each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import specdec_teach as sd
from specdec_teach.tree import spine


@pytest.fixture(scope="module")
def counts() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "counts.py"
    spec = importlib.util.spec_from_file_location("counts", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_rate_and_its_error(counts: ModuleType) -> None:
    assert counts.rate([4, 6], [2, 2]) == (2.5, 0.5)
    assert counts.rate([4, 4, 2], [2, 2, 1]) == (2.0, 0.0)


def test_each_kind_has_enough_different_prompts(counts: ModuleType) -> None:
    for kind in counts.KINDS:
        assert len(set(counts.prompts(kind))) == counts.REQUESTS


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_a_second_candidate_brings(counts: ModuleType, temperature: float) -> None:
    """The chain of first candidates has those before the first that fell, and one token more."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.25)
    engine = sd.Engine(target, drafter=sd.TreeDrafter(sd.ModelDrafter(near), spine(3)), gamma=3)
    trace = engine.generate([1, 2], sd.Sampling(temperature=temperature, seed=2), max_new_tokens=60).trace
    assert trace is not None
    assert trace.cycles[-1].stop_cut == 0
    more = 0
    for cycle in trace.cycles:
        firsts = [decision.status for decision in cycle.decisions][::2]
        chain = next((place for place, fate in enumerate(firsts) if fate != "accepted"), len(firsts))
        more += len(cycle.emitted) - (chain + 1)
    assert counts.later(trace) == more > 0
