"""`benchmarks/counts.py`: its arithmetic and its prompts; what it computes on given texts is `test_given`'s."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch


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
    assert counts.rate([2, 3], 6) == (2.4, 0.5)
    assert counts.rate([2, 2, 2], 4) == (2.0, 0.0)


def test_a_difference_on_the_same_texts_has_the_error_of_the_difference(counts: ModuleType) -> None:
    """Texts that take unlike numbers of forwards, in the same proportion each: nothing is uncertain."""
    assert counts.more([2, 4, 20], [3, 6, 30]) == (50.0, 0.0)
    assert counts.more([1, 1], [1, 2]) == (50.0, 50.0)


def test_each_kind_has_enough_different_prompts(counts: ModuleType) -> None:
    for kind in counts.KINDS:
        assert len(set(counts.prompts(kind))) == counts.REQUESTS


def test_other_shapes_and_their_bounds(counts: ModuleType) -> None:
    """Texts of 20 tokens, where a first candidate stands in half of the places and a second in three of ten."""
    text = torch.tensor([0.5, 0.3, 0.1])[:, None, None].expand(3, 20, counts.GAMMA)
    found = counts.other_shapes("model", {("model", kind): [text] for kind in counts.KINDS})
    *sizes, saved, perfect = [forwards["story"][0] for forwards in found.values()]
    chain = counts.forwards(text, counts.chain(4), 4)
    assert len(sizes) == len(counts.SIZES)
    assert chain > sizes[0] > sizes[-1] > perfect == 4.0  # 20 tokens, five each time
    assert counts.forwards(text, counts.spine(4), 4) > saved > perfect
