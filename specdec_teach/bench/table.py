"""A report as tables in a terminal. Invariant: every figure comes from the report; it does not know how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from specdec_teach.bench.figures import per_unit, quartiles
from specdec_teach.bench.records import Comparison, Curve, Fare, Race, Report

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["tables"]

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def tables(report: Report) -> Iterator[RenderableType]:
    """Yield what there is to print, from the machine to the notes."""
    from rich.text import Text

    meta, machine = report.meta, report.machine
    models = " and ".join(name for name in (meta.target, meta.draft) if name) or "no models"
    load = "" if machine.load is None else f", load {machine.load:.1f}"
    yield Text(
        f"{meta.suite}: {models}, {meta.dtype}, decoder {meta.decoder}\n"
        f"{machine.processor}, {machine.cores} core(s), {machine.threads} thread(s){load}; {machine.system}, "
        f"Python {machine.python}, torch {machine.torch}, transformers {machine.transformers}"
    )
    for check in report.checks:
        yield Text(f"{'✓' if check.holds else '✗'} {check.name}: {check.detail}", style="" if check.holds else "red")
    for race in report.races:
        yield _seconds(race)
        if race.comparisons:
            yield _ratios(race)
    for curve in report.curves:
        yield _curve(curve)
    if report.counts:
        yield _counts(report)
    for kind in dict.fromkeys(fare.race for fare in report.fares):
        yield _fares(kind, [fare for fare in report.fares if fare.race == kind])
    if any(not one.steady for race in report.races for one in race.comparisons):
        yield Text("? The ratio of the medians lies outside the quartiles of single rounds: the machine was busy with")
        yield Text("  something else in some of them. Run again when it is quiet, or with more --rounds.")
    for note in report.notes:
        yield Text(f"· {note}")


def _seconds(race: Race) -> Table:
    table = _table(f"{race.name} · {len(race.rounds)} rounds", "candidate", "median", "quartiles", f"{race.unit}s/s")
    for one in race.candidates:
        times = per_unit(race.rounds, one.name)
        middle, (low, high) = median(times), quartiles(times)
        rate = f"{1.0 / middle:,.1f}" if middle > 0 else "–"
        table.add_row(one.name, f"{_time(middle)} a {race.unit}", f"{_time(low)} … {_time(high)}", rate)
    return table


def _ratios(race: Race) -> Table:
    table = _table("", "candidate", "beside", "× as fast", "quartiles of the rounds")
    for one in race.comparisons:
        mark = "" if one.steady else " ?"
        table.add_row(one.candidate, one.baseline, f"{_ratio(one)}{mark}", f"{one.low:.3g} … {one.high:.3g}")
    return table


def _ratio(one: Comparison) -> str:
    return f"{one.ratio:.3f}" if one.ratio < 10 else f"{one.ratio:.1f}"


def _curve(curve: Curve) -> Table:
    table = _table(f"{curve.name} · {curve.y}", curve.x, *curve.series)
    places = sorted({point.x for points in curve.series.values() for point in points})
    for at in places:
        found = [next((p.median for p in points if p.x == at), None) for points in curve.series.values()]
        table.add_row(f"{at:,.0f}", *("" if value is None else f"{value:.3g}" for value in found))
    return table


def _counts(report: Report) -> Table:
    names = list(dict.fromkeys(name for count in report.counts for name in count.values))
    table = _table("counted, not timed", "what", *names)
    for count in report.counts:
        table.add_row(count.name, *(str(count.values.get(name, "")) for name in names))
    return table


def _fares(kind: str, fares: list[Fare]) -> Table:
    names = ("drafter", "γ", "α", "tokens a target forward", "share of drafting", "µs of it a cycle", "× plain")
    table = _table(f"{kind}: who drafts", *names)
    for one in sorted(fares, key=lambda one: -one.ratio):
        alpha = "–" if one.alpha is None else f"{one.alpha:.3f}"
        cost = f"{one.draft_share:.1%}", f"{one.microseconds:,.0f}"
        gamma = "auto" if one.gamma is None else str(one.gamma)
        table.add_row(one.drafter, gamma, alpha, f"{one.tokens_per_forward:.2f}", *cost, f"{one.ratio:.2f}")
    return table


def _table(title: str, first: str, *others: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE)
    table.add_column(first)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _time(seconds: float) -> str:
    """Return a time with a unit that suits it.

    >>> _time(0.00123), _time(2.0), _time(0.0)
    ('1.23 ms', '2 s', '0 ns')
    """
    scale, unit = next((pair for pair in _SCALES if seconds >= pair[0]), _SCALES[-1])
    return f"{seconds / scale:.3g} {unit}"
