"""Prove an engine: both caches in every state, the law it draws from, and where its texts end.

    report = sd.check(engine)
    assert report.ok, report.failures[0]

Invariant: everything runs through the engine's own components; a check that stops counts as failed. This module does
not know what a single check does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach.checking import states, tables, texts
from specdec_teach.checking.report import Report, Row, Summary
from specdec_teach.engine import Engine

__all__ = ["SECTIONS", "Report", "Row", "Summary", "check", "run"]

SECTIONS: dict[str, Callable[[Engine], Iterator[Row]]] = {
    "laws": tables.laws,
    "chi-square": tables.chi_square,
    "ends": tables.ends,
    "caps": tables.caps,
    "penalties": tables.penalties,
    "greedy": texts.greedy,
    "self-draft": texts.self_draft,
    "second call": texts.second_call,
    "runs": texts.runs,
    "states": states.states,
}
"""What a check is made of, in the order in which it runs."""


def check(engine: Engine, sections: Iterable[str] | None = None) -> Report:
    """Return what an engine gets right and wrong; `sections`: names of `SECTIONS`, None for all.

    The engine's rule, its parts and its kind of drafter are proven over tabular models, its own models and caches
    against fresh prefills. InvalidInput: an engine without a drafter or with γ = 0, a lossy rule, an unknown section.

    >>> from specdec_teach.drafters.model import ModelDrafter
    >>> from specdec_teach.testing import TabularLM
    >>> check(Engine(TabularLM([0.0, 1.0]), drafter=ModelDrafter(TabularLM([1.0, 0.0])), gamma=2), ["caps"]).ok
    True
    """
    return Report.of(list(run(engine, sections)))


def run(engine: Engine, sections: Iterable[str] | None = None) -> Iterator[Row]:
    """Yield the rows of `check` as they are found; refusals come with the call."""
    wanted = list(SECTIONS) if sections is None else list(sections)
    for name in wanted:
        if name not in SECTIONS:
            raise unknown_name("section of the check", name, SECTIONS)
    if engine.drafter is None or engine.gamma == 0:
        raise InvalidInput("this engine drafts nothing, so there is nothing to prove; give it a drafter and gamma >= 1")
    if not engine.rule.lossless:
        raise InvalidInput(
            f"the rule {engine.rule.name} is lossy by design and the check proves exactness; "
            "use rejection, block or coupled"
        )
    if not engine.drafter.exact:
        raise InvalidInput(
            f"the drafter {engine.drafter.name} does not draw from the q it reports, so the text cannot follow the "
            "target; give one-hot drafts or another drafter"
        )
    return (row for name in wanted for row in SECTIONS[name](engine))
