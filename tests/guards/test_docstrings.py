"""What a user calls by name says how it is used: an example that doctest runs, and what it refuses."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

import specdec_teach as sd

SHOWN_ELSEWHERE = {"play", "Request"}
"""The player needs a notebook, where the lessons run it; `Scheduler.submit` makes requests."""


def _called(thing: Any) -> bool:
    """Functions and classes that a user calls: no error, no protocol, no record that the engine makes."""
    if not inspect.isclass(thing):
        return inspect.isfunction(thing)
    made_by_the_engine = dataclasses.is_dataclass(thing) and thing is not sd.Sampling
    return not (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False) or made_by_the_engine)


CALLED = [name for name in sd.__all__ if _called(getattr(sd, name)) and name not in SHOWN_ELSEWHERE]


@pytest.mark.parametrize("name", CALLED)
def test_it_has_an_example_and_names_what_it_refuses(name: str) -> None:
    thing = getattr(sd, name)
    texts = [
        inspect.getdoc(one) or "" for one in (thing, *vars(thing).values()) if one is thing or inspect.isroutine(one)
    ]
    assert any(">>>" in text for text in texts), f"{name} has no example"
    if inspect.isclass(thing) or inspect.signature(thing).parameters:
        assert any(word in text for text in texts for word in ("InvalidInput", "EngineFailure")), (
            f"{name} does not say what it refuses"
        )


def test_there_is_something_to_look_at() -> None:
    assert {"Engine", "ModelDrafter", "check", "exact_law", "load_pair"} <= set(CALLED)
