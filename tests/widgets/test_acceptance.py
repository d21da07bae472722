"""The acceptance lab's Python half: what it counts, what it refuses, how it stops, what a notebook keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_widgets import RENDERER, pacing

pytest.importorskip("anywidget", reason="the lab needs the package anywidget")
from traitlets import TraitError

from specdec_widgets.acceptance import CHUNK, MOST, POINTS, AcceptanceLab

P, Q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop, as in a script, also where a browser's test has left one running."""
    monkeypatch.setattr(pacing, "running_loop", lambda: None)


class Engine:
    """Counts in turns, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.rules: list[str] = []

    def __call__(
        self, p: Sequence[float], q: Sequence[float], first: int, count: int, rule: str
    ) -> list[tuple[int, bool]]:
        self.asked.append((first, count))
        self.rules.append(rule)
        return [(number % len(p), number % 5 == 0) for number in range(first, first + count)]


def test_draws_are_counted_in_chunks_with_numbers_of_their_own() -> None:
    engine = Engine()
    lab = AcceptanceLab(P, Q, draws=engine)
    lab.request = {"do": "draw", "count": 50, "n": 1}
    assert lab.drawn["counts"] == [17, 17, 16]
    assert lab.drawn["stood"] == 10
    assert not lab.drawn["running"]
    assert engine.asked == [(0, CHUNK), (CHUNK, CHUNK), (2 * CHUNK, 50 - 2 * CHUNK)]
    n, off = lab.drawn["path"][-1]
    assert n == 50
    assert off == pytest.approx(0.34 - 0.3 + 0.32 - 0.1)
    lab.request = {"do": "draw", "count": 10, "n": 2}
    assert engine.asked[-1] == (50, 10)
    lab.lab = {**lab.lab, "p": [0.5, 0.4, 0.1]}
    assert lab.drawn == {"counts": [0, 0, 0], "stood": 0, "path": [], "running": False}
    lab.draw(5)
    assert engine.asked[-1] == (60, 5)
    lab.close()


def test_the_engine_draws_under_the_rule_that_was_chosen() -> None:
    engine = Engine()
    lab = AcceptanceLab(P, Q, draws=engine)
    lab.draw(5)
    lab.lab = {**lab.lab, "rule": "coupled"}
    assert sum(lab.drawn["counts"]) == 0, "draws of two rules are never added up"
    lab.draw(5)
    assert engine.rules == ["rejection", "coupled"]
    with pytest.raises((InvalidInput, TraitError), match="unknown rule 'block'; allowed: 'rejection', 'coupled'"):
        lab.lab = {**lab.lab, "rule": "block"}
    lab.close()


def test_the_path_stays_short() -> None:
    lab = AcceptanceLab(P, Q, draws=Engine())
    lab.draw(10_000)
    assert sum(lab.drawn["counts"]) == 10_000
    assert len(lab.drawn["path"]) <= POINTS
    assert lab.drawn["path"] == sorted(lab.drawn["path"], key=lambda at: at[0])
    lab.close()


def test_stop_is_heard_between_two_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "running_loop", asyncio.get_running_loop)

    async def run() -> int:
        lab = AcceptanceLab(P, Q, draws=Engine())
        lab.request = {"do": "draw", "count": MOST, "n": 1}
        assert lab.drawn["running"]
        while sum(lab.drawn["counts"]) < 3 * CHUNK:
            await asyncio.sleep(0.001)
        lab.request = {"do": "stop", "n": 2}
        n = sum(lab.drawn["counts"])
        assert not lab.drawn["running"]
        await asyncio.sleep(0.02)
        assert sum(lab.drawn["counts"]) == n
        lab.close()
        return n

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, run()).result() < MOST


def test_a_failing_engine_is_one_line_of_status() -> None:
    def broken(p: Sequence[float], q: Sequence[float], first: int, count: int, rule: str) -> list[tuple[int, bool]]:
        raise InvalidInput("no\nsuch law")

    lab = AcceptanceLab(P, Q, draws=broken)
    lab.draw(10)
    assert lab.status == "InvalidInput: no such law"
    assert not lab.drawn["running"]
    lab.close()


@pytest.mark.parametrize("count", [0, -1, MOST + 1, "9", True, 1.5])
def test_a_bad_count_is_refused(count: int) -> None:
    lab = AcceptanceLab(P, Q, draws=Engine())
    lab.draw(count)
    assert lab.status.startswith("InvalidInput: cannot draw")
    lab.close()


def test_what_is_no_law_is_refused_and_nothing_changes() -> None:
    with pytest.raises(InvalidInput, match="p ="):
        AcceptanceLab([0.5, 0.2], [0.5, 0.5])
    lab = AcceptanceLab(P, Q)
    with pytest.raises((InvalidInput, TraitError)):
        lab.lab = {**lab.lab, "q": [2.0, -1.0, 0.0]}
    assert lab.lab["q"] == Q
    lab.draw(3)
    assert "no engine" in lab.status
    lab.close()


def test_a_notebook_keeps_the_picture_and_the_laws_and_no_widget_stays() -> None:
    from ipywidgets.widgets.widget import _instances

    before, kept = len(_instances), set()
    for _ in range(50):
        lab = RENDERER.acceptance_lab(P, Q, labels=["by", "the", "fox"])
        assert isinstance(lab, AcceptanceLab)
        bundle = lab._repr_mimebundle_()
        assert bundle is not None
        kept.add((bundle[0]["text/plain"], bundle[0]["text/html"]))
        lab.close()
    assert len(_instances) == before
    ((text, html),) = kept
    assert "redraw" not in text
    assert "else draw from p: .44 .42 .14, off by .16; accepts .60" in text
    assert "accept if they agree: .60 .30 .10, exact; accepts .58" in text
    assert html.startswith("<img alt=")
