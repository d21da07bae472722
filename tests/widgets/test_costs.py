"""The cost explorer: predictions against a simulation and known optima, the still, one open figure, what it tells."""

from __future__ import annotations

import random
from typing import Any
from xml.etree import ElementTree

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine
from specdec_teach.labs import costs, explorer, runs
from specdec_teach.probe import Costs
from specdec_teach.sampling import Sampling
from specdec_teach.testing import tiny_llama
from specdec_widgets import RENDERER
from specdec_widgets.costs import Ledger, Measured, surface_of, tokens_per_cycle
from tests.widgets.test_pictures import SVG, frame

pytest.importorskip("plotly", reason="the cost explorer needs the package plotly")

TARGET = {1: 0.0105, 2: 0.011, 3: 0.0113, 5: 0.012, 9: 0.014, 13: 0.017}
POINTS = [(1, 0.71, 1.35), (4, 0.70, 1.82), (8, 0.69, 1.5)]


@pytest.mark.parametrize(("alpha", "gamma"), [(0.3, 1), (0.7, 4), (0.9, 8)])
def test_tokens_per_cycle_is_what_counting_gives(alpha: float, gamma: int) -> None:
    rng, cycles, emitted = random.Random(1), 40_000, 0
    for _ in range(cycles):
        kept = 0
        while kept < gamma and rng.random() < alpha:
            kept += 1
        emitted += kept + 1
    assert tokens_per_cycle(alpha, gamma) == pytest.approx(emitted / cycles, rel=0.02)
    assert tokens_per_cycle(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha))


@pytest.mark.parametrize(
    ("alpha", "c", "best", "gain"), [(0.8, 0.05, 8, 3.09), (0.7, 0.1, 4, 1.98), (0.5, 0.4, 1, 1.07), (0.3, 0.4, 0, 1.0)]
)
def test_known_optima(alpha: float, c: float, best: int, gain: float) -> None:
    ledger = Ledger({1: 2.0}, 2.0 * c)
    assert ledger.best(alpha) == best
    assert ledger.speed_up(alpha, best) == pytest.approx(gain, abs=0.005)


def test_the_ledger_reads_costs_as_the_probe_does() -> None:
    known, ledger = Costs(TARGET, 0.0016), Ledger(TARGET, 0.0016)
    assert ledger.c == known.c
    for rows in range(1, 20):
        assert ledger.v(rows) == known.v(rows)
        plain = rows * TARGET[1]
        assert plain / known.cycle(rows - 1) == pytest.approx(ledger.speed_up(1.0, rows - 1))


@pytest.mark.parametrize("target", [{}, {2: 1.0}, {1: 0.0}, {1: -1.0}, {1: 1.0, 0: 1.0}])
def test_costs_without_a_plain_forward_are_refused(target: dict[int, float]) -> None:
    with pytest.raises(InvalidInput, match="seconds above 0"):
        Ledger(target, 0.1)


@pytest.mark.parametrize("points", [[], POINTS])
@pytest.mark.parametrize("dark", [False, True])
def test_the_still_holds_the_surface(points: list[Any], dark: bool) -> None:
    ledger = Ledger(TARGET, 0.0016)
    picture = surface_of(ledger, [Measured(*p) for p in points], dark=dark)
    frame(picture)
    words = [t.text or "" for t in ElementTree.fromstring(picture.svg).iter(SVG + "text")]
    assert f"{ledger.speed_up(0.5, 5):.2f}" in words
    for gamma, alpha, gain in points:
        assert f"◆ {gain:.2f}" in words
        predicted = f"{ledger.speed_up(alpha, gamma):.2f}"
        assert [str(gamma), f"{alpha:.2f}", predicted, f"{gain:.2f}"] in [
            row.split() for row in picture.table.splitlines()
        ]
    assert sum(word.startswith("★ ") and word[2:3].isdigit() for word in words) == sum(
        ledger.best(i / 10) > 0 for i in range(11)
    )


def test_one_figure_is_open_and_a_change_updates_it_in_place() -> None:
    from ipywidgets.widgets.widget import _instances

    before, kept, sizes = len(_instances), set(), set()
    for _ in range(50):
        view: Any = explorer(Costs(TARGET, 0.0016), POINTS)
        bundle = view._repr_mimebundle_()[0]
        kept.add((bundle["text/plain"], bundle["text/html"]))
        sizes.add(len(_instances))
    assert len(sizes) == len(kept) == 1
    figure = view.figure
    assert list(figure.data[3].x) == [gamma for gamma, _, _ in POINTS]
    sent: list[str] = []
    told = [name for name in figure.traits() if name.startswith("_py2js")]
    figure.observe(lambda change: sent.append(change["name"]) if change["new"] else None, names=told)
    view.console.values = {**view.console.values, "alpha": 0.7, "gamma": 4, "c": 0.1, "rows": "free: v = 1"}
    view.console.request = {"do": "run", "n": 1}
    assert sent == ["_py2js_update"], "one message for all that a change moves"
    assert view.figure is figure
    assert "1.98 × plain; best: γ = 4, 1.98 ×" in view.console.status
    assert figure.data[0].z[14][3] == pytest.approx(1.98, abs=0.005)
    view.console.values = {**view.console.values, "alpha": 3}
    view.console.request = {"do": "run", "n": 2}
    assert view.console.status.startswith("InvalidInput: α, acceptance cannot be '3'")
    view.close()
    assert len(_instances) == before


def test_runs_are_measured_with_the_real_engine() -> None:
    target, draft = tiny_llama(1, vocab=48), tiny_llama(1, vocab=48, noise=0.3)
    engine = Engine(target, drafter=ModelDrafter(draft), gamma=3)
    points = runs(engine, [1, 2, 3], (1, 3), Sampling(temperature=0.8, seed=3), 12, 2)
    assert [gamma for gamma, _, _ in points] == [1, 3]
    assert all(0 <= alpha <= 1 and gain > 0 for _, alpha, gain in points)
    with pytest.raises(InvalidInput, match="ModelDrafter"):
        costs(Engine(target, drafter=NgramDrafter()))


def test_the_renderer_makes_it_from_plain_numbers() -> None:
    view: Any = RENDERER.cost_explorer(TARGET, 0.0016, POINTS)
    assert repr(view).startswith("CostExplorer: A draft step costs c = 0.15 target forwards")
    view.close()
