"""One short run on a model whose answers are known, for the commands that show a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import specdec_teach as sd


@pytest.fixture(scope="session")
def result() -> sd.Result:
    """A run with an accepted, a rejected and an unused draft in its first cycle."""
    target = sd.testing.TabularLM([[0.0, 4.0, 0.0], [0.0, 0.0, 4.0], [4.0, 0.0, 0.0]])
    engine = sd.Engine(target, drafter=sd.ScriptedDrafter([1, 0, 0]), gamma=3)
    return engine.generate([0], sd.Sampling.greedy(), max_new_tokens=8)


@pytest.fixture(scope="session")
def saved(result: sd.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert result.trace is not None
    return result.trace.save(tmp_path_factory.mktemp("run") / "run.json")
