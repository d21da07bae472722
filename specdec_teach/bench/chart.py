"""A report as pictures: a PNG or SVG by matplotlib, or one HTML file by plotly that needs no network.

Invariant: every bar and line is a median of the report, every whisker and band its quartiles. It does not know how the
report was made; the libraries are loaded when a chart is written.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from specdec_kernels.errors import InvalidInput
from specdec_teach.bench.figures import per_unit, point
from specdec_teach.bench.records import Candidate, Curve, Point, Race, Report

__all__ = ["SUFFIXES", "check", "write"]

SUFFIXES = (".png", ".svg", ".html")
_COLOURS = {"ours": "#0072B2", "transformers": "#E69F00", "flashspec": "#009E73", "torch": "#999999"}
_LINES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = "osD^vPX"


def write(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write the chart in the format that the name of `path` ends with and return the path; InvalidInput otherwise."""
    target = check(path)
    try:
        if target.suffix == ".html":
            target.write_text(_page(report), encoding="utf-8")
        else:
            _picture(report, target)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {target}: {error.strerror}; choose a folder that exists and is yours"
        ) from None
    return target


def check(path: str | os.PathLike[str]) -> Path:
    """Return `path` if it names a format that can be written; else raise InvalidInput."""
    target = Path(path)
    if target.suffix not in SUFFIXES:
        raise InvalidInput(f"no chart can be written as {target.name}; give a name that ends in {', '.join(SUFFIXES)}")
    return target


def _parts(report: Report) -> list[Race | Curve]:
    """Return what is drawn: the curves where there are any, else each race as bars."""
    return list(report.curves) if report.curves else list(report.races)


def _bars(race: Race) -> list[tuple[Candidate, Point, str]]:
    """Return for each candidate its seconds a unit in milliseconds, and what it is compared with."""
    told: dict[str, list[str]] = {}
    for pair in race.comparisons:
        told.setdefault(pair.candidate, []).append(f"{pair.ratio:.2f} × {pair.baseline}")
    found = []
    for at, one in enumerate(race.candidates):
        times = [1e3 * seconds for seconds in per_unit(race.rounds, one.name)]
        found.append((one, point(at, times), ", ".join(told.get(one.name, []))))
    return found


def _caption(report: Report) -> str:
    meta, machine = report.meta, report.machine
    models = " and ".join(name for name in (meta.target, meta.draft) if name)
    return (
        f"{meta.suite} · {models + ', ' if models else ''}{meta.dtype} · {machine.processor}, {machine.threads} "
        f"thread(s), torch {machine.torch}, transformers {machine.transformers} · medians, quartiles"
    )


def _picture(report: Report, path: Path) -> None:
    from matplotlib.figure import Figure

    parts = _parts(report)
    heights = [1.0 + 0.32 * len(part.candidates) if isinstance(part, Race) else 3.6 for part in parts]
    figure = Figure(figsize=(9.0, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for part, axis in zip(parts, axes, strict=True):
        axis.set_title(part.name, loc="left", fontsize=10)
        if isinstance(part, Race):
            _draw_bars(axis, part)
        else:
            _draw_lines(axis, part)
        axis.tick_params(labelsize=8)
    figure.suptitle(_caption(report), fontsize=7, x=0.01, ha="left")
    figure.savefig(path, dpi=144)


def _draw_bars(axis: Any, race: Race) -> None:
    bars = _bars(race)
    for one, place, text in bars:
        error = [[max(0.0, place.median - place.low)], [max(0.0, place.high - place.median)]]
        axis.barh(place.x, place.median, xerr=error, color=_COLOURS[one.source], ecolor="#555555", capsize=2)
        axis.text(place.high, place.x, f"  {text}", va="center", fontsize=6)
    axis.set_yticks([place.x for _, place, _ in bars], [one.name for one, _, _ in bars])
    axis.invert_yaxis()
    axis.set_xlim(0, 1.6 * max(place.high for _, place, _ in bars))
    axis.set_xlabel(f"ms a {race.unit}: less is faster", fontsize=8)


def _draw_lines(axis: Any, curve: Curve) -> None:
    for number, (name, points) in enumerate(curve.series.items()):
        colour, marker = _LINES[number % len(_LINES)], _MARKERS[number % len(_MARKERS)]
        x = [place.x for place in points]
        axis.plot(x, [place.median for place in points], marker=marker, markersize=4, color=colour, label=name)
        axis.fill_between(
            x, [place.low for place in points], [place.high for place in points], color=colour, alpha=0.2, linewidth=0
        )
    if curve.log:
        axis.set_xscale("log")
        places = sorted({place.x for points in curve.series.values() for place in points})
        axis.set_xticks(places, [f"{at:,.0f}" for at in places])
        axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_xlabel(curve.x, fontsize=8)
    axis.set_ylabel(curve.y, fontsize=8)
    axis.legend(fontsize=7)


def _page(report: Report) -> str:
    from plotly.graph_objects import Bar, Scatter
    from plotly.subplots import make_subplots

    parts = _parts(report)
    figure = make_subplots(rows=len(parts), cols=1, subplot_titles=[part.name for part in parts])
    for row, part in enumerate(parts, 1):
        if isinstance(part, Race):
            bars = _bars(part)
            error = {
                "array": [place.high - place.median for _, place, _ in bars],
                "arrayminus": [place.median - place.low for _, place, _ in bars],
            }
            bar = Bar(
                x=[place.median for _, place, _ in bars],
                y=[one.name for one, _, _ in bars],
                text=[text for _, _, text in bars],
                customdata=[one.detail for one, _, _ in bars],
                hovertemplate="%{y}: %{x:.3f} ms<br>%{customdata}<br>%{text}<extra></extra>",
                error_x=error,
                orientation="h",
                showlegend=False,
                marker_color=[_COLOURS[one.source] for one, _, _ in bars],
            )
            figure.add_trace(bar, row=row, col=1)
            figure.update_xaxes(title_text=f"ms a {part.unit}: less is faster", row=row, col=1)
            figure.update_yaxes(autorange="reversed", row=row, col=1)
            continue
        for number, (name, points) in enumerate(part.series.items()):
            error = {
                "array": [place.high - place.median for place in points],
                "arrayminus": [place.median - place.low for place in points],
            }
            line = Scatter(
                x=[place.x for place in points],
                y=[place.median for place in points],
                error_y=error,
                name=f"{part.name}: {name}",
                line_color=_LINES[number % len(_LINES)],
            )
            figure.add_trace(line, row=row, col=1)
        figure.update_xaxes(title_text=part.x, type="log" if part.log else "linear", row=row, col=1)
        figure.update_yaxes(title_text=part.y, rangemode="tozero", row=row, col=1)
    figure.update_layout(height=380 * len(parts), title={"text": _caption(report), "font": {"size": 11}})
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page
