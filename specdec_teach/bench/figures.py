"""From seconds to figures: medians, their ratios, and how far single rounds stray.

Invariant: a ratio is one of medians over all rounds; its spread comes from the ratios within each round, whose two runs
met the same machine at nearly the same moment. It does not know what was timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from specdec_teach.bench.records import Comparison, Point, Round

__all__ = ["compare", "fitting", "per_unit", "point", "quartiles"]


def per_unit(rounds: Sequence[Round], name: str) -> list[float]:
    """Return the seconds a unit of one candidate, round by round.

    >>> per_unit([Round({"a": 6.0}, {"a": 3}), Round({"a": 8.0}, {"a": 2})], "a")
    [2.0, 4.0]
    """
    return [one.seconds[name] / one.units[name] for one in rounds]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile, by line between the values; of one value, the value itself.

    >>> quartiles([4.0, 1.0, 3.0, 2.0, 5.0]), quartiles([7.0])
    ((2.0, 4.0), (7.0, 7.0))
    """
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def compare(rounds: Sequence[Round], candidate: str, baseline: str, tolerance: float = 0.15) -> Comparison:
    """Return how many times as fast `candidate` is as `baseline`, by seconds a unit.

    >>> rounds = [Round({"new": 1.0, "old": old}, {"new": 1, "old": 1}) for old in (2.0, 3.0, 10.0)]
    >>> found = compare(rounds, "new", "old")
    >>> found.ratio, found.low, found.high
    (3.0, 2.5, 6.5)
    """
    ours, theirs = per_unit(rounds, candidate), per_unit(rounds, baseline)
    low, high = quartiles([b / a for a, b in zip(ours, theirs, strict=True)])
    return Comparison(candidate, baseline, median(theirs) / median(ours), low, high, tolerance)


def point(x: float, values: Sequence[float]) -> Point:
    """Return median and quartiles of `values` as the place of a curve at `x`."""
    return Point(float(x), median(values), *quartiles(values))


def fitting(seconds: float, budget: float, least: int, most: int) -> int:
    """Return how many rounds of `seconds` each fit into `budget` seconds, from `least` to `most`.

    >>> fitting(4.0, 30.0, 3, 9), fitting(100.0, 30.0, 3, 9), fitting(0.0, 30.0, 3, 9)
    (7, 3, 9)
    """
    return most if seconds * most <= budget else max(least, int(budget / seconds))
