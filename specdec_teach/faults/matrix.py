"""Which test sees which broken engine: every check and every invariant against every mistake.

Invariant: an engine counts as seen only where an answer is wrong, never because it stopped. The stored table is made by
this module alone (`python -m specdec_teach.faults`), and a test holds it in step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from specdec_teach import invariants
from specdec_teach.checking import SECTIONS, Row, run
from specdec_teach.checking.report import STOPPED
from specdec_teach.checking.states import states
from specdec_teach.checking.texts import ORDINARY
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.faults import inject, names
from specdec_teach.testing import tiny_llama

__all__ = ["GROUPS", "INVARIANTS", "TESTS", "honest_engines", "made", "markdown", "subject", "write"]

INVARIANTS = "invariants"
KINDS = ("contiguous", "paged")

GROUPS: dict[str, dict[str, str]] = {
    "laws": {
        "law, T = 1": "The exact law of the first tokens, every random choice enumerated.",
        "law, top-k": "The same with filters on both sides.",
        "law, penalty": "The same with penalties that depend on the tokens before.",
    },
    "chi-square": {"chi-square": "The shares of the tokens in 9600 drawn ones, across many cycles."},
    "ends": {"EOS": "The end token at every place of two full cycles."},
    "caps": {"length cap": "Every cap from nothing to two cycles."},
    "penalties": {"penalty": "Greedy text under penalties, worked out on paper."},
    "greedy": {
        "greedy == plain": "Greedy text, token for token, against plain decoding.",
        "greedy == plain, penalty": "The same with penalties.",
    },
    "self-draft": {"self-draft 100 %": "The target drafts for itself and every draft must stand."},
    "second call": {"second call": "The same call twice gives the same record."},
    "states": {
        "target cache": "Keys and values of every layer against a fresh prefill, in every state.",
        "next-step logits": "The next logits out of that cache against the prefill's.",
        "draft cache": "Keys and values of the draft against a fresh prefill.",
        "counters": "Computed tokens are the committed ones but the last.",
        "forced pattern": "A rejection that is forced at a draft happens there, and the cycle emits what it must.",
        "ownership": "Every block has as many holders as tables it stands in.",
    },
}
"""What each section of the check looks at. Invariants have a row of their own in the table, one each."""

TESTS: dict[str, str] = {
    **{group: text for groups in GROUPS.values() for group, text in groups.items()},
    **{f"invariant: {name}": text for name, text in invariants.descriptions().items()},
}


def subject(verify: str = "rejection") -> Engine:
    """Return the honest engine that the table is made with: a tiny random Llama and a draft near it."""
    return Engine(tiny_llama(), drafter=ModelDrafter(tiny_llama(noise=0.08)), gamma=4, verify=verify)


def honest_engines() -> Iterator[Engine]:
    """Yield honest engines of every exact rule, with certain drafts and with a paged cache too."""
    for verify in ("rejection", "block", "coupled"):
        yield subject(verify)
    engine = subject()
    yield engine.variant(drafter=ModelDrafter(tiny_llama(noise=0.08), "argmax"))
    yield engine.variant(cache="paged", block_size=4)


def made(engine: Engine, sections: Iterable[str]) -> dict[str, bool]:
    """Return for each test of these sections (of `GROUPS`, or `INVARIANTS`) whether the engine fails it."""
    seen: dict[str, bool] = {}
    for section in sections:
        if section == INVARIANTS:
            broken = set(_broken(engine))
            seen |= {f"invariant: {name}": name in broken for name in invariants.names()}
        else:
            rows = states(engine, KINDS) if section == "states" else run(engine, [section])
            failed = {row.group for row in rows if _wrong(row)}
            seen |= {group: group in failed for group in GROUPS[section]}
    return seen


def _wrong(row: Row) -> bool:
    return not row.ok and not row.detail.startswith(STOPPED)


def _broken(engine: Engine) -> Iterator[str]:
    """Yield the names of the invariants that ordinary runs break."""
    again = getattr(engine.drafter, "over", None)
    engines = [engine, engine.variant(cache="paged", block_size=4)]
    if again is not None:
        engines.append(engine.variant(drafter=again(engine.target_runner.model)))
    for one in engines:
        for sampling in ORDINARY.values():
            trace = one.generate([1, 2, 3], sampling, max_new_tokens=24).trace
            assert trace is not None
            yield from (violation.name for violation in invariants.check(trace))


def write(folder: Path, docs: Path) -> None:
    """Make the whole table and write it as JSON into `folder` and as Markdown into `docs`; minutes of work."""
    sections = [*GROUPS, INVARIANTS]
    assert {*GROUPS, "runs"} == {*SECTIONS}, "a section of the check is missing from the table"
    columns = [made(engine, sections) for engine in honest_engines()]
    engines = {"honest": {test: any(column[test] for column in columns) for test in TESTS}}
    for name in names():
        engines[name] = made(inject(subject(), name), sections)
        print(name, "is seen by", ", ".join(test for test, seen in engines[name].items() if seen) or "nothing")
    table: dict[str, Any] = {"tests": TESTS, "engines": engines}
    text = json.dumps(table, ensure_ascii=False, indent=1)
    folder.joinpath("kill_matrix.json").write_text(text + "\n", encoding="utf-8")
    docs.joinpath("kill-matrix.md").write_text(markdown(table), encoding="utf-8")


def markdown(table: dict[str, Any]) -> str:
    """Return the table as Markdown: a line for each test, a column for each engine."""
    tests, engines = table["tests"], table["engines"]
    short = [name.removeprefix("engine_") for name in engines]
    lines = [
        "# Which test sees which broken engine",
        "",
        "Each broken engine has one mistake (`sd.faults`). A cross says that the test fails on that engine; the honest "
        "engine, under every exact rule, fails none. No single test sees half of them.",
        "`python -m specdec_teach.faults` makes this table.",
        "",
        f"| test | {' | '.join(short)} |",
        f"| --- |{' :-: |' * len(short)}",
    ]
    for test in tests:
        crosses = ["✗" if engines[name][test] else "·" for name in engines]
        lines.append(f"| {test} | {' | '.join(crosses)} |")
    lines += ["", "## The tests", ""]
    lines += [f"- **{test}**: {text}" for test, text in tests.items()]
    return "\n".join(lines) + "\n"
