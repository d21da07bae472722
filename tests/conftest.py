"""Shared fixtures: one thread for the tiny models (more of them only wait for each other), and the embedded pair."""

from __future__ import annotations

import pytest
import torch

import specdec_teach as sd

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def pair() -> sd.Pair:
    """The embedded pair, loaded once."""
    return sd.load_pair()
