"""The likeliest tokens of a wide row are those of torch's topk."""

from __future__ import annotations

import pytest
import torch

from specdec_teach.recorder import TOP, likeliest


@pytest.mark.parametrize("width", [3, TOP, 2048, 8192, 8193, 8256, 50257])
@pytest.mark.parametrize("kind", ["dense", "peaked", "sparse", "in one part", "at the end"])
def test_against_topk(width: int, kind: str) -> None:
    """The same values in the same order, and tokens that have them; no token twice."""
    source = torch.Generator().manual_seed(width)
    weights = torch.rand(5, width, generator=source)
    if kind == "peaked":
        weights = (8 * torch.randn(5, width, generator=source)).softmax(-1)
    elif kind == "sparse":
        weights = weights * (torch.rand(5, width, generator=source) < 0.001)
    elif kind == "in one part":
        weights[:, : min(64, width)] += 1.0
    elif kind == "at the end":
        weights[:, -min(20, width) :] += 1.0
    values, ids = likeliest(weights, TOP)
    assert torch.equal(values, weights.topk(min(TOP, width)).values)
    assert torch.equal(values, weights.gather(-1, ids))
    assert all(len(set(row)) == len(row) for row in ids.tolist())
