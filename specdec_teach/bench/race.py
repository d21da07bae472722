"""Run candidates in turn on the same work, round after round.

Each round runs every candidate once; the order is turned by one place from round to round, so that none always runs
behind the same other. Warm-up rounds are run and thrown away. Invariant: every kept round holds all candidates.
It does not know what a candidate does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import final

from specdec_teach.bench.figures import compare, fitting
from specdec_teach.bench.records import Candidate, Race, Round
from specdec_teach.probe import alternate

__all__ = ["Done", "Pace", "Work", "run"]


@final
@dataclass(frozen=True, slots=True)
class Done:
    """What one turn of a candidate did: units of work, and its seconds where it times itself."""

    units: int
    seconds: float | None = None


Work = Callable[[int], Done]
"""Do the work of a round; its number is the seed."""


@final
@dataclass(frozen=True, slots=True)
class Pace:
    """How many rounds: `rounds`, or (None) as many as fit into `budget` seconds, from 3 to `most`; how many warm up."""

    rounds: int | None = None
    warm_up: int = 1
    budget: float = 25.0
    most: int = 9

    def share(self, parts: int) -> Pace:
        """Return the pace of one of `parts` races that share the budget."""
        return replace(self, budget=self.budget / parts)


def run(
    name: str,
    unit: str,
    entries: Mapping[Candidate, Work],
    against: Mapping[str, tuple[str, ...]],
    pace: Pace,
    tolerance: float = 0.15,
) -> Race:
    """Return the race of `entries`; `against`: for each baseline's name, who is compared with it."""
    works = {candidate.name: work for candidate, work in entries.items()}
    spent = 0.0
    for number in range(pace.warm_up):
        spent = _turn(works, number, number)[1]
    count = pace.rounds or fitting(spent, pace.budget, 3, pace.most)
    rounds = tuple(_turn(works, number, pace.warm_up + number)[0] for number in range(count))
    pairs = [(one, base) for base, others in against.items() for one in others if {one, base} <= works.keys()]
    comparisons = tuple(compare(rounds, one, base, tolerance) for one, base in pairs)
    return Race(name, unit, tuple(entries), rounds, comparisons)


def _turn(works: Mapping[str, Work], shift: int, seed: int) -> tuple[Round, float]:
    """Run everybody once; return the round and the seconds that it took in all."""
    names = list(works)
    names = names[shift % len(names) :] + names[: shift % len(names)]
    done: dict[str, Done] = {}

    def once(name: str) -> Callable[[], None]:
        def act() -> None:
            done[name] = works[name](seed)

        return act

    clocked = {name: times[0] for name, times in alternate({n: once(n) for n in names}, 1, warm_up=0).items()}
    seconds = {name: clocked[name] if (own := done[name].seconds) is None else own for name in works}
    return Round(seconds, {name: done[name].units for name in works}), sum(clocked.values())
