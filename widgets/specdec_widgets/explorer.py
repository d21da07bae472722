"""The cost explorer: predicted speed-up over γ and α as a plotly figure, with costs to change and measured points.

Invariant: one figure is open at a time; a new explorer closes the one before, and a change updates the figure in
place, in one message. plotly is loaded when an explorer is made. It times nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import ipywidgets

from specdec_kernels.errors import InvalidInput
from specdec_widgets.bundle import bundle
from specdec_widgets.console import Console, Field, told
from specdec_widgets.costs import ALPHAS, Ledger, Measured, surface_of, tokens_per_cycle

__all__ = ["CostExplorer"]

MOST, GAMMAS = 12, tuple(range(1, 13))
ROWS = ("as measured", "free: v = 1", "10 % each", "full price: v = γ + 1")
FONT = "system-ui, 'Segoe UI', Roboto, sans-serif"
SCALE = [[0, "#d55e00"], [0.2, "#ffffff"], [0.45, "#9ecae1"], [1, "#0072b2"]]
"""Colours from a speed-up of 0 to one of 5: white is 1."""


class CostExplorer(ipywidgets.VBox):  # type: ignore[misc]
    """A form for α, γ, c and v above the surface that they make."""

    _open: CostExplorer | None = None

    def __init__(self, ledger: Ledger, points: Sequence[Measured] = (), *, dark: bool = False) -> None:
        from plotly.graph_objects import FigureWidget

        if CostExplorer._open is not None:
            CostExplorer._open.close()
        self._ledger, self._points = ledger, tuple(points)
        alpha = median(p.alpha for p in points) if points else 0.7
        fields = [
            Field("alpha", "α, acceptance", "number", round(alpha, 2), low=0, high=1, step=0.01),
            Field("gamma", "γ, drafts a cycle", "number", max(1, ledger.best(alpha)), low=1, high=MOST),
            Field("c", "c, a draft step", "number", round(ledger.c, 3), low=0, high=2, step=0.001),
            Field("rows", "v, more rows", "choice", ROWS[0], ROWS),
        ]
        self.console = Console("Cost explorer", fields, auto=True)
        self.figure = FigureWidget(_figure(ledger, points, dark))
        self.figure._config = {"displayModeBar": False}  # nothing that a mouse alone could press
        super().__init__([self.console, self.figure])
        self.console.observe(self._hear, names="request")
        self.update()
        CostExplorer._open = self

    def update(self) -> None:
        """Draw the surface of the form's costs; a value that does not fit is told in the status."""
        try:
            chosen = self.console.settings()
        except InvalidInput as error:
            self.console.status = told(error)
            return
        ledger = self._changed(chosen)
        alpha, gamma = float(chosen["alpha"]), int(chosen["gamma"])
        gain, best = ledger.speed_up(alpha, gamma), ledger.best(alpha, MOST)
        with self.figure.batch_update():
            self.figure.data[0].z = self.figure.data[1].z = ledger.rows(GAMMAS)
            self.figure.data[2].x, self.figure.data[2].y = _ridge(ledger)
            self.figure.data[4].x, self.figure.data[4].y = [gamma], [alpha]
        advice = (
            "plain decoding is not beaten" if not best else f"best: γ = {best}, {ledger.speed_up(alpha, best):.2f} ×"
        )
        price, tokens = ledger.v(gamma + 1) + gamma * ledger.c, tokens_per_cycle(alpha, gamma)
        cost = f"E = {tokens:.2f} tokens for v + γ·c = {price:.2f} forwards"
        self.console.status = f"{cost}: {gain:.2f} × plain; {advice}"

    def _changed(self, chosen: Mapping[str, Any]) -> Ledger:
        """The measured costs with the form's changes."""
        one, rows = self._ledger.target[1], chosen["rows"]
        each = {ROWS[1]: 0.0, ROWS[2]: 0.1, ROWS[3]: 1.0}.get(rows)
        sizes = range(1, MOST + 2)
        target = self._ledger.target if each is None else {n: one * (1 + each * (n - 1)) for n in sizes}
        same = abs(chosen["c"] - self._ledger.c) < 5e-4
        return Ledger(target, self._ledger.draft if same else chosen["c"] * one)

    def _hear(self, change: Mapping[str, Any]) -> None:
        self.update()

    def close(self) -> None:
        """Free the form, the figure and all layouts."""
        if self.comm is not None:
            self.console.unobserve(self._hear, names="request")
            self.console.close()
            self.figure.close()
            self.layout.close()
        if CostExplorer._open is self:
            CostExplorer._open = None
        super().close()

    def __repr__(self) -> str:
        return "CostExplorer: " + repr(surface_of(self._ledger, self._points))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live view, and what a notebook keeps of it: the still of the measured surface and its table."""
        return bundle(super()._repr_mimebundle_(**kwargs), repr(self), surface_of(self._ledger, self._points).image)


def _ridge(ledger: Ledger) -> tuple[list[int], list[float]]:
    """The best γ of every α that pays."""
    found = [(ledger.best(alpha, MOST), alpha) for alpha in ALPHAS]
    paying = [(gamma, alpha) for gamma, alpha in found if gamma]
    return [gamma for gamma, _ in paying], [alpha for _, alpha in paying]


def _figure(ledger: Ledger, points: Sequence[Measured], dark: bool) -> dict[str, Any]:
    ground, ink, line = ("#15181c", "#e8eaed", "#3c4249") if dark else ("#ffffff", "#1d2126", "#d3d7dc")
    z = ledger.rows(GAMMAS)
    ridge = _ridge(ledger)
    predicted = [ledger.speed_up(p.alpha, p.gamma) for p in points]
    inks = ["#ffffff" if gain > 3 else "#1d2126" for gain in predicted]  # what reads on the surface
    axis = {
        "linecolor": line,
        "ticks": "outside",
        "tickcolor": line,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    surface = {
        "type": "heatmap", "x": list(GAMMAS), "y": list(ALPHAS), "z": z, "zmin": 0, "zmax": 5, "colorscale": SCALE,
        "colorbar": {"title": {"text": "× plain"}, "outlinewidth": 0, "thickness": 12}, "name": "predicted",
        "hovertemplate": "γ = %{x}, α = %{y:.2f}<br>predicted %{z:.2f} ×<extra></extra>",
    }  # fmt: skip
    even = {
        "type": "contour", "x": list(GAMMAS), "y": list(ALPHAS), "z": z, "showscale": False, "hoverinfo": "skip",
        "contours": {
            "start": 1, "end": 1, "size": 1, "coloring": "none", "showlabels": True, "labelfont": {"color": "#9c3f00"},
        },
        "line": {"color": "#9c3f00", "width": 2, "dash": "dash"}, "name": "break even",
    }  # fmt: skip
    best = {
        "type": "scatter", "x": ridge[0], "y": ridge[1], "mode": "lines+markers", "name": "best γ", "hoverinfo": "skip",
        "line": {"color": "#1d2126", "width": 1.5, "shape": "hv"},
        "marker": {"symbol": "star", "size": 8, "color": "#1d2126"},
    }  # fmt: skip
    runs = {
        "type": "scatter", "x": [p.gamma for p in points], "y": [p.alpha for p in points], "mode": "markers+text",
        "text": [f"{p.speed_up:.2f}" for p in points], "textposition": "bottom center", "name": "measured",
        "customdata": [[p.speed_up, q] for p, q in zip(points, predicted, strict=True)],
        "hovertemplate": "γ = %{x}, α = %{y:.2f}<br>measured %{customdata[0]:.2f} ×, "
        "predicted %{customdata[1]:.2f} ×<extra></extra>", "textfont": {"color": inks},
        "marker": {"symbol": "diamond", "size": 13, "color": "#e69f00", "line": {"color": "#1d2126", "width": 1.2}},
    }  # fmt: skip
    here = {
        "type": "scatter", "x": [1], "y": [0.5], "mode": "markers", "name": "α and γ above", "hoverinfo": "skip",
        "marker": {"symbol": "circle-open", "size": 20, "color": "#1d2126", "line": {"width": 2.5}},
    }  # fmt: skip
    layout = {
        "paper_bgcolor": ground, "plot_bgcolor": ground, "height": 430,
        "font": {"color": ink, "size": 13, "family": FONT},
        "margin": {"l": 60, "r": 20, "t": 46, "b": 50}, "legend": {
            "orientation": "h", "y": 1.13, "x": 0, "itemclick": False, "itemdoubleclick": False,
        },
        "xaxis": {**axis, "title": {"text": "γ, drafts a cycle"}, "dtick": 1}, "dragmode": False,
        "yaxis": {**axis, "title": {"text": "α, acceptance"}, "range": [-0.025, 1.025]},
    }  # fmt: skip
    return {"data": [surface, even, best, runs, here], "layout": layout}
