"""Turns, medians, ratios and spreads, on a clock that stands still but for what a candidate is said to take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specdec_teach import probe
from specdec_teach.bench import race
from specdec_teach.bench.figures import compare, fitting, per_unit, point, quartiles
from specdec_teach.bench.race import Done, Pace
from specdec_teach.bench.records import Candidate
from tests.bench.reports import rounds

A, B, C = (Candidate(name, "ours") for name in "abc")


class Clock:
    """Moves by what a candidate is said to take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls = 0.0, ""
        monkeypatch.setattr(probe, "perf_counter", lambda: self.now)

    def taking(self, name: str, seconds: Callable[[int], float], units: int = 1, own: float | None = None) -> race.Work:
        def act(seed: int) -> Done:
            self.now += seconds(seed)
            self.calls += name
            return Done(units, own)

        return act


def test_everybody_runs_once_a_round_and_the_order_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    entries = {one: clock.taking(one.name, lambda seed: 1.0) for one in (A, B, C)}
    found = race.run("r", "call", entries, {}, Pace(3, warm_up=1))
    assert clock.calls == "abc" + "abc" + "bca" + "cab"
    assert [set(one.seconds) for one in found.rounds] == [{"a", "b", "c"}] * 3


def test_warm_up_is_thrown_away_and_seeds_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = race.run("r", "call", {A: clock.taking("a", lambda seed: 100.0 - seed)}, {}, Pace(3, warm_up=2))
    assert [one.seconds["a"] for one in found.rounds] == [98.0, 97.0, 96.0]


def test_who_times_itself_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    entries = {A: clock.taking("a", lambda s: 5.0, own=2.0), B: clock.taking("b", lambda s: 4.0, units=2)}
    found = race.run("r", "call", entries, {"b": ("a", "nobody")}, Pace(2))
    assert per_unit(found.rounds, "a") == per_unit(found.rounds, "b") == [2.0, 2.0]
    assert [(one.candidate, one.baseline, one.ratio) for one in found.comparisons] == [("a", "b", 1.0)]


@pytest.mark.parametrize(("budget", "count"), [(1000.0, 9), (20.0, 5), (1.0, 3)])
def test_rounds_fit_the_time(budget: float, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    found = race.run("r", "call", {A: clock.taking("a", lambda s: 4.0)}, {}, Pace(None, 1, budget))
    assert len(found.rounds) == count


def test_a_ratio_is_of_medians_and_a_spread_of_rounds() -> None:
    """A machine that is slow in one round, or in all of them, changes nothing."""
    found = compare(rounds({"new": [1, 1, 1, 9, 1], "old": [2, 3, 2, 18, 2]}), "new", "old")
    assert (found.ratio, found.low, found.high) == (2.0, 2.0, 2.0)
    slower = [2.0, 2.5, 3.0, 4.0, 8.0]
    drifting = compare(rounds({"new": slower, "old": [3 * each for each in slower]}), "new", "old")
    assert (drifting.ratio, drifting.low, drifting.high) == pytest.approx((3.0, 3.0, 3.0))
    assert drifting.steady
    # the means would say (1 + 1 + 10) / (2 + 2 + 2)
    assert compare(rounds({"new": [2, 2, 2], "old": [1, 1, 10]}), "new", "old").ratio == 0.5


def test_units_count() -> None:
    """Twice the tokens in the same time is twice as fast."""
    both = rounds({"new": [1.0], "old": [1.0]})
    mixed = [type(both[0])(both[0].seconds, {"new": 4, "old": 2})]
    assert compare(mixed, "new", "old").ratio == 2.0


def test_a_changed_machine_is_noticed() -> None:
    """Most rounds say 1, the medians 5: some rounds were run on another machine, so to say."""
    found = compare(rounds({"new": [1, 10, 2], "old": [1, 10, 10]}), "new", "old")
    assert (found.ratio, found.low, found.high) == (5.0, 1.0, 3.0)
    assert not found.steady


def test_quartiles_against_numpy() -> None:
    import numpy as np

    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]
    assert quartiles(values) == pytest.approx(np.quantile(values, [0.25, 0.75]))
    assert point(7, values).median == pytest.approx(np.median(values))


def test_fitting_never_leaves_its_bounds() -> None:
    for seconds in (0.0, 0.1, 1.0, 50.0):
        for budget in (0.0, 1.0, 10.0):
            assert 3 <= fitting(seconds, budget, 3, 9) <= 9
