"""Paged caches over one pool do what a dictionary of token lists does, whatever happens in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import settings

from .machine import PagedMachine, walk

TestPagedMachine = PagedMachine.TestCase
TestPagedMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, derandomize=True)


@pytest.mark.parametrize("seed", range(40))
def test_long_walks(seed: int) -> None:
    walk(seed)
