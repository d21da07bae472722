"""Broken engines under neutral names, to be found out: each is the honest engine with one component swapped.

    >>> names()[:2]
    ('engine_a', 'engine_b')

Invariant: `inject` leaves the engine it is given as it was, and a broken engine runs: it never stops on its own, and
its trace reads like any other. This module does not say what is wrong with which; `describe` does.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, final

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.drafters.base import Branching
from specdec_teach.engine import Engine
from specdec_teach.faults.catalogue import CATALOGUE

__all__ = ["Fault", "describe", "inject", "kill_matrix", "names"]


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a broken engine. `killed_by`: the tests and invariants that see it, as in the kill matrix."""

    name: str
    title: str
    thought: str
    symptom: str
    killed_by: tuple[str, ...]


def names() -> tuple[str, ...]:
    """Return the names of all broken engines."""
    return tuple(CATALOGUE)


def inject(engine: Engine, name: str) -> Engine:
    """Return a broken engine made of an honest one, which stays as it is.

    A mistake that shows only with a paged cache or under another rule brings it along. InvalidInput: an unknown name,
    an engine without a drafter, one that drafts trees, or a mistake of a draft model where the drafter is none.
    """
    if name not in CATALOGUE:
        raise unknown_name("broken engine", name, CATALOGUE)
    if engine.drafter is None:
        raise InvalidInput("this engine drafts nothing, so nothing about drafts can be broken; give it a drafter")
    if isinstance(engine.drafter, Branching):
        raise InvalidInput(
            f"the mistakes are made in chains of drafts and {engine.drafter.name} grows trees; give a drafter of chains"
        )
    broken = CATALOGUE[name].build(engine)
    broken.graphs = None  # the mistakes are made in the general way
    return broken


def describe(name: str) -> Fault:
    """Return what is wrong with the broken engine of this name; InvalidInput for an unknown one."""
    if name not in CATALOGUE:
        raise unknown_name("broken engine", name, CATALOGUE)
    entry = CATALOGUE[name]
    killers = tuple(test for test, killed in kill_matrix()["engines"][name].items() if killed)
    return Fault(name, entry.title, entry.thought, entry.symptom, killers)


def kill_matrix() -> dict[str, Any]:
    """Return the stored table of which test sees which broken engine: {"tests": {…}, "engines": {name: {test: bool}}}.

    `python -m specdec_teach.faults` makes it anew.
    """
    text = files("specdec_teach.faults").joinpath("kill_matrix.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
