"""Judges of lesson 12: an invariant, the hunt for twelve broken engines, the learner's own test, step logs, powers.

Invariant: what is right is told by broken engines that run, or by the stored table of which test sees which of them; a
counter-example says what an engine does, never what is wrong with it. It does not know the lesson's text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Items
from functools import cache
from typing import Any, Final, cast

from specdec_teach import faults, invariants
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.exercises.suspects import (
    INCIDENTS,
    SECTIONS,
    THOUGHT_OF,
    THOUGHTS,
    TWELVE,
    base,
    incident,
    leaky,
    record,
    traced,
)
from specdec_teach.exercises.suspects import PROMPT as _PROMPT
from specdec_teach.faults import drafting
from specdec_teach.faults.matrix import GROUPS, subject
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Cycle, Trace

__all__: list[str] = []


def _ends(cycle: Cycle) -> str:
    return f"cycle {cycle.index} ({cycle.accepted} of {len(cycle.proposed)} drafts stood, L = {cycle.committed_after})"


def _lags() -> Iterator[tuple[str, Trace, bool]]:
    """Yield runs with what they are, and whether their draft pointers are as they must be."""
    honest = base()
    yield "an honest run", traced(honest, 40), True
    yield "an honest run in which every draft stands", traced(honest, 24, reject_at=0), True
    yield "an honest run without drafts", traced(honest, 6, speculate=False), True
    yield "a run whose draft is rewound too far", traced(drafting.cut_too_far(honest), 40), False
    yield "a run whose draft counts a token that it only drew", traced(drafting.hole(honest), 40), False


@cache
def _lag_runs() -> tuple[tuple[str, Trace, bool], ...]:
    return tuple(_lags())


@exercise("12.1")
def _lag(answer: Any) -> str:
    for name, trace, fine in _lag_runs():
        wrong = {v.cycle for v in invariants.check(trace) if v.name == "draft-lag"}
        for cycle in trace.cycles:
            kv, given = cycle.draft_kv, bool(ask(answer, cycle))
            if given == (cycle.index not in wrong) or (not fine and not cycle.proposed):
                continue
            where = "there is no draft pointer" if kv is None else f"the draft's C went {kv.written} → {kv.after}"
            said = "fine" if given else "broken"
            raise NotYet(f"{name}: you call {_ends(cycle)} {said}; {where}, {len(cycle.proposed)} drafts were made")
    return "every cycle of three honest runs is fine, and every wrong one of two broken runs is seen"


def _named(answer: Any, wanted: Items[str]) -> dict[str, Any]:
    """Return an answer as a dictionary by engine name, with short names made long."""
    if not isinstance(answer, Mapping):
        raise NotYet(f"a dictionary is wanted, a name of an engine for each key, not {answer!r}")
    found = {key if str(key).startswith("engine_") else f"engine_{key}": value for key, value in answer.items()}
    for name in found:
        if name not in TWELVE:
            raise NotYet(f"{name} is not one of the twelve: {', '.join(TWELVE)}")
    return {name: value for name, value in found.items() if value is not ... and value is not None} if wanted else found


@cache
def _accused() -> dict[str, tuple[str, int | None]]:
    """Return the first broken invariant of each record that has one, and its cycle."""
    broken = {name: invariants.check(record(name)) for name in TWELVE}
    return {name: (found[0].name, found[0].cycle) for name, found in broken.items() if found}


@exercise("12.2")
def _records(answer: Any) -> str:
    right = _accused()
    found = _named(answer, TWELVE)
    if not found:
        raise NotYet("none of them? Call sd.invariants.check on each record")
    for name, said in found.items():
        if name not in right:
            raise NotYet(f"{name}: its record breaks no invariant, in any of its {len(record(name).cycles)} cycles")
        parts = list(said) if isinstance(said, (tuple, list)) else []
        if len(parts) != 2 or parts[0] not in invariants.names():
            raise NotYet(f"{name}: the name of an invariant and a cycle are wanted, not {said!r}")
        places = [v.cycle for v in invariants.check(record(name)) if v.name == parts[0]]
        if parts[0] != right[name][0]:
            rest = f"it does break in cycle {places[0]}, but not first" if places else "it holds in every cycle"
            raise NotYet(f"{name}: {parts[0]} is not the first that breaks; {rest}")
        if parts[1] != right[name][1]:
            why = "it breaks there too, and earlier" if parts[1] in places else "it holds there"
            raise NotYet(f"{name}: {parts[0]} does not break first in cycle {parts[1]}: {why}")
    if len(found) < len(right):
        raise NotYet(f"these {len(found)} are right; {len(right) - len(found)} more records accuse their engines")
    return f"{len(right)} of twelve accuse themselves; {len(TWELVE) - len(right)} records are clean"


def _sees(section: str, name: str) -> bool:
    """Whether a section of `sd.check` fails on a broken engine, by the stored table."""
    column = faults.kill_matrix()["engines"][name]
    return any(column[group] for group in GROUPS[section])


@exercise("12.3")
def _clean(answer: Any) -> str:
    wanted = [name for name in TWELVE if name not in _accused()]
    found = _named(answer, TWELVE)
    for name, section in found.items():
        if name not in wanted:
            raise NotYet(f"{name} is not one of the four: its own record accuses it")
        if section not in SECTIONS:
            raise NotYet(f"{name}: a section of sd.check is wanted, one of {', '.join(SECTIONS)}, not {section!r}")
        if not _sees(section, name):
            raise NotYet(f"{name} passes the section {section!r}: every row of it is fine")
    if len(found) < len(wanted):
        raise NotYet(f"{len(found)} right so far; {len(wanted) - len(found)} more engines have clean records")
    return "each of the four is seen by a test that looks at more than one record"


@exercise("12.4")
def _thoughts(answer: Any) -> str:
    found = _named(answer, TWELVE)
    engines = faults.kill_matrix()["engines"]
    good = sum(THOUGHT_OF[name] == said for name, said in found.items())
    for name, said in found.items():
        if said not in THOUGHTS:
            raise NotYet(f"{name}: a letter from A to L is wanted, not {said!r}")
        if said == THOUGHT_OF[name]:
            continue
        other = next(engine for engine, letter in THOUGHT_OF.items() if letter == said)
        tests = [test for test in engines[name] if engines[name][test] != engines[other][test]]
        test = min(tests, key=lambda t: engines[name][t])  # best something that should fail and does not
        seen, sure = ("fails", "passes") if engines[name][test] else ("passes", "fails")
        raise NotYet(
            f"{good} of {len(TWELVE)} are right. {name} is not {said}: an engine with that thought {sure} "
            f"{test!r}, and this one {seen}"
        )
    if len(found) < len(TWELVE):
        raise NotYet(f"{good} of {len(TWELVE)} are right, the others are missing: {', '.join(_missing(found))}")
    return "twelve engines, twelve thoughts: all found"


def _missing(found: Mapping[str, Any]) -> list[str]:
    return [name for name in TWELVE if name not in found]


@cache
def _honest() -> tuple[tuple[str, Engine], ...]:
    return tuple((rule, subject(rule)) for rule in ("rejection", "block", "coupled"))


@exercise("12.5")
def _own_test(answer: Any) -> str:
    count = len(TWELVE)
    for rule, engine in _honest():
        if not ask(answer, engine):
            raise NotYet(f"score 0/{count}: a false alarm. The honest engine under the {rule} rule fails your test")
    missed = [name for name in TWELVE if ask(answer, faults.inject(subject(), name))]
    if missed:
        raise NotYet(f"score {count - len(missed)}/{count}, no false alarm; your test lets pass {', '.join(missed)}")
    return f"score {count}/{count}, and no false alarm under any of three exact rules"


def _leaks(cycle: Cycle) -> bool:
    """Whether a slot that a rejected draft was written to is counted as computed, or offered to others."""
    table, settled = cycle.blocks, cycle.committed_after - 1
    if cycle.last_kind != "correction" or table is None:
        return False
    offered = [(table.owned.index(block) + 1) * table.size for block in table.published]
    return cycle.target_kv.after > settled or max(offered, default=0) > settled


def _first_leak(name: str) -> tuple[int, int] | None:
    """Return the cycle and the position of the first rejected keys and values that somebody counts on."""
    return next(((c.index, c.committed_after - 1) for c in incident(name) if _leaks(c)), None)


@cache
def _proofs(name: str) -> tuple[int, ...]:
    """Return the positions of a forced rejection at which the first cycle leaks."""
    found = []
    for position in range(1, 5):
        stream = leaky(name).stream(_PROMPT, Sampling(temperature=0.8, seed=3), max_new_tokens=16, reject_at=position)
        if _leaks(next(stream)):
            found.append(position)
    return tuple(found)


@exercise("12.7")
def _logs(answer: Any) -> str:
    if not isinstance(answer, Mapping):
        raise NotYet(f"a dictionary with red, green and blue is wanted, not {answer!r}")
    for name in INCIDENTS:
        if name not in answer:
            raise NotYet(f"nothing is said about {name}")
        said, right = answer[name], _first_leak(name)
        if said is ...:
            raise NotYet(f"nothing is said about {name}")
        if said is None or right is None:
            if said is not right:
                why = "every slot that is counted or offered was read as committed text"
                raise NotYet(f"{name}: {why if right is None else 'something did leak'}")
            continue
        index, position = (int(part) for part in said)
        if (index, position) == right:
            continue
        cycle = next((cycle for cycle in incident(name) if cycle.index == index), None)
        if cycle is None:
            raise NotYet(f"{name}: there is no cycle {index}")
        if cycle.last_kind == "bonus":
            raise NotYet(f"{name}: nothing was rejected in cycle {index}, so no rejected keys and values can be there")
        if not _leaks(cycle):
            raise NotYet(f"{name}: cycle {index} counts and offers only slots below L′ − 1")
        if index > right[0]:
            raise NotYet(f"{name}: cycle {index} leaks, but it is not the first")
        raise NotYet(
            f"{name}: the cycle is right. Position {position} "
            + ("holds what was read as text" if position < right[1] else "is not counted by anybody")
        )
    return "two leaks, and one engine that only looks untidy"


@exercise("12.8")
def _forced(answer: Any) -> str:
    if not isinstance(answer, Mapping):
        raise NotYet(f"a dictionary with red and blue is wanted, not {answer!r}")
    for name in ("red", "blue"):
        if name not in answer or answer[name] is ...:
            raise NotYet(f"nothing is said about {name}")
        said, right = sorted(int(position) for position in answer[name]), list(_proofs(name))
        if said == right:
            continue
        extra, lost = sorted(set(said) - set(right)), sorted(set(right) - set(said))
        what = f"forced at {extra[0]} the first cycle leaks nothing" if extra else f"forced at {lost[0]} it leaks too"
        raise NotYet(f"{name}: {what}, where L′ = {7 + (extra or lost)[0]}")
    return "forced in the real engines: exactly these positions leak"


_POWERS: Final[tuple[tuple[Items[float], Items[float]], ...]] = (
    ((0.6, 0.3, 0.1), (0.44, 0.42, 0.14)),
    ((0.4, 0.3, 0.2, 0.1), (0.425, 0.276, 0.2, 0.099)),
    ((0.5, 0.5), (0.51, 0.49)),
    ((0.9, 0.1), (0.9, 0.1)),
)


@exercise("12.6")
def _needed(answer: Any) -> str:
    for p, wrong in _POWERS:
        each = sum((b - a) ** 2 / a for a, b in zip(p, wrong, strict=True))
        right = math.inf if each < 1e-15 else 30 / each
        given = float(cast(float, ask(answer, list(p), list(wrong))))
        call = f"needed({list(p)}, {list(wrong)})"
        if right == math.inf:
            if given != math.inf:
                raise NotYet(f"{call} is not {given:.6g}: the laws are equal, and no number of draws tells them apart")
        elif not abs(given - right) <= 1 + 1e-6 * right:
            squares = 30 / sum((b - a) ** 2 for a, b in zip(p, wrong, strict=True))
            why = ": divide each square by what was expected, p" if abs(given - squares) <= 1 + 1e-6 * squares else ""
            raise NotYet(f"{call} is about {right:.0f}, not {given:.6g}{why}")
    return "from a few hundred draws to tens of thousands: small biases need long tests"
