"""Hold a report against a stored one: ratios only, each with the tolerance that was stored with it.

Invariant: seconds are never compared, so the two may come from different machines; what cannot be compared (another
suite, other models, another dtype) is refused rather than passed. It does not know how either was measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import final

from specdec_kernels.errors import InvalidInput
from specdec_teach.bench.records import Comparison, Report

__all__ = ["Fall", "admits", "falls"]


@final
@dataclass(frozen=True, slots=True)
class Fall:
    """A ratio that fell by more than its tolerance; `now` is None where it was not measured again."""

    race: str
    stored: Comparison
    now: float | None

    def __str__(self) -> str:
        """Say it in a line."""
        what = f"{self.race}: {self.stored.candidate} / {self.stored.baseline}"
        if self.now is None:
            return f"{what} was {self.stored.ratio:.2f} and was not measured now"
        least = self.stored.ratio * (1.0 - self.stored.tolerance)
        return f"{what} is {self.now:.2f}, was {self.stored.ratio:.2f}; at least {least:.2f} is allowed"


def admits(path: str | os.PathLike[str], suite: str, quick: bool = False) -> Report:
    """Return the stored report if a (quick) run of `suite` can be held against it; else raise InvalidInput."""
    stored = Report.load(path)
    if stored.meta.quick != quick:
        raise InvalidInput(
            f"{os.fspath(path)} was{'' if stored.meta.quick else ' not'} made with --quick, which is other work; "
            "gate like with like"
        )
    if stored.meta.suite != suite:
        raise InvalidInput(
            f"{os.fspath(path)} holds the suite {stored.meta.suite!r} and {suite!r} was asked for; gate like with like"
        )
    if not any(race.comparisons for race in stored.races):
        raise InvalidInput(f"{os.fspath(path)} compares nothing; store a run that does")
    for race in stored.races:
        for one in race.comparisons:
            if not (one.ratio > 0.0 and 0.0 <= one.tolerance < 1.0):
                raise InvalidInput(
                    f"{os.fspath(path)} has ratio {one.ratio} with tolerance {one.tolerance} for {one.candidate}; a "
                    "ratio is above 0, a tolerance is a share from 0 to below 1"
                )
    return stored


def falls(now: Report, stored: Report) -> list[Fall]:
    """Return every stored ratio that fell by more than its tolerance, or is missing from `now`.

    Missing is fine for candidates that need not be installed, as long as anything is left to compare. InvalidInput for
    other models, another dtype or decoder, and other numbers of tokens.
    """
    for name in ("target", "draft", "dtype", "decoder", "tokens"):
        here, there = getattr(now.meta, name), getattr(stored.meta, name)
        if here != there:
            raise InvalidInput(f"this run has {name} {here!r} and the stored one {there!r}; gate like with like")
    found = {(race.name, one.candidate, one.baseline): one.ratio for race in now.races for one in race.comparisons}
    fallen, compared = [], 0
    for race in stored.races:
        for one in race.comparisons:
            ratio = found.get((race.name, one.candidate, one.baseline))
            compared += ratio is not None
            may_miss = any(race.candidate(name).optional for name in (one.candidate, one.baseline))
            if (ratio is None and not may_miss) or (ratio is not None and ratio < one.ratio * (1.0 - one.tolerance)):
                fallen.append(Fall(race.name, one, ratio))
    if not compared:
        raise InvalidInput("this run and the stored one have no comparison in common; gate like with like")
    return fallen
