"""Live mode and the bug hunt, Python half: what a form takes, how a run stops, what it tells and never tells."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach import faults, invariants
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.labs import hunt
from specdec_teach.testing import tiny_llama
from specdec_teach.trace import Trace

pytest.importorskip("anywidget", reason="live mode needs the package anywidget")
from specdec_widgets import pacing
from specdec_widgets.console import Field
from specdec_widgets.hunt import BugHunt, findings
from specdec_widgets.live import LivePlayer
from tests.widgets.traces import CASES

LONG, MIXED, ASKED = CASES["long"], CASES["mixed"], itertools.count(1)
FIELDS = [
    Field("prompt", "prompt", "text", "Once"), Field("gamma", "γ", "number", 4, low=0, high=16),
    Field("temperature", "temperature", "number", 0.8, high=5, step=0.1),
    Field("rule", "rule", "choice", "rejection", ("rejection", "block")),
    Field("cycles", "cycles", "number", 3, high=300),
]  # fmt: skip


@pytest.fixture(autouse=True)
def script(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop, as in a script, also where a browser's test has left one running."""
    monkeypatch.setattr(pacing, "running_loop", lambda: None)


def engine(settings: Mapping[str, Any]) -> Iterator[Callable[[], Trace]]:
    """Write as many cycles of a long run as are asked for; refuse a prompt and break at a temperature."""
    if not settings["prompt"]:
        raise InvalidInput("the prompt\nis empty")
    for count in range(1, settings["cycles"] + 1):
        if settings["temperature"] > 4:
            raise RuntimeError("too hot")
        yield lambda count=count: replace(LONG, cycles=LONG.cycles[:count])  # type: ignore[misc]


def ask(view: LivePlayer, **values: object) -> None:
    view.console.values = {**view.console.values, **values}
    view.console.request = {"do": "run", "n": next(ASKED)}


def test_the_first_run_is_there_at_once_and_a_form_makes_the_next() -> None:
    view = LivePlayer(engine, FIELDS)
    assert len(view.record.cycles) == 3
    assert view.console.status == "done: 3 cycles"
    ask(view, cycles=5)
    assert len(view.record.cycles) == len(view.player.trace["cycles"]) == 5
    assert view.console.status == "done: 5 cycles"
    assert not view.console.running
    view.close()


def test_an_error_is_one_line_and_changes_nothing_else() -> None:
    view = LivePlayer(engine, FIELDS)
    for values, said in (
        ({"prompt": ""}, "InvalidInput: the prompt is empty"), ({"temperature": 4.5}, "RuntimeError: too hot"),
        ({"gamma": 99}, "InvalidInput: γ cannot be '99'; give a number from 0 to 16"),
        ({"gamma": 1.5}, "InvalidInput: γ cannot be '1.5'"), ({"rule": "none"}, "InvalidInput: rule cannot be 'none'"),
        ({"temperature": None}, "InvalidInput: temperature cannot"), ({"gamma": True}, "InvalidInput: γ cannot"),
    ):  # fmt: skip
        ask(view, **{"prompt": "Once", "gamma": 4, "temperature": 0.8, "rule": "rejection", **values})
        assert view.console.status.startswith(said)
        assert len(view.record.cycles) == 3
        assert not view.console.running
    view.close()


def test_stop_acts_within_one_cycle_and_shows_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "running_loop", asyncio.get_running_loop)
    made: list[int] = []

    def slow(settings: Mapping[str, Any]) -> Iterator[Callable[[], Trace]]:
        for count, write in enumerate(engine(settings), 1):
            made.append(count)
            yield write

    async def run() -> None:
        view = LivePlayer(slow, FIELDS)
        made.clear()
        ask(view, cycles=300)
        while len(made) < 4:
            await asyncio.sleep(0.001)
        assert view.console.running
        view.console.request = {"do": "stop", "n": 1}
        at_stop = len(made)
        await asyncio.sleep(0.05)
        assert len(made) == at_stop < 300
        assert view.console.status == f"stopped: {at_stop} cycles"
        assert len(view.record.cycles) == at_stop
        ask(view, cycles=300)
        ask(view, cycles=2)
        while view.console.running:
            await asyncio.sleep(0.001)
        assert len(view.record.cycles) == 2
        view.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, run()).result()


def test_the_player_is_redrawn_a_few_times_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    view, clock, drawn = LivePlayer(engine, FIELDS), [0.0], []

    def now() -> float:
        clock[0] += 0.01
        return clock[0]

    monkeypatch.setattr("specdec_widgets.live.monotonic", now)
    view.player.observe(lambda change: drawn.append(len(change["new"]["cycles"])), names="trace")
    ask(view, cycles=200)
    assert drawn[-1] == 200
    assert 2 < len(drawn) < 10
    view.close()


@dataclass(frozen=True)
class Claim:
    name: str
    cycle: int | None
    message: str


def test_findings_tell_which_where_and_what() -> None:
    found = [Claim("b", 3, "first"), Claim("b", 5, "second"), Claim("b", 3, "again"), Claim("c", None, "</b>\u202e")]
    rows = findings(found, {"a": "A.", "b": "B.", "c": "C."})["rows"]
    assert [(r["name"], r["broken"], r["where"], r["first"], r["message"]) for r in rows] == [
        ("b", True, "cycles 3 and 5", 3, "first"), ("c", True, "the run as a whole", None, "</b>⟨202E⟩"),
        ("a", False, "", None, ""),
    ]  # fmt: skip
    assert "proves little" in findings([], {"a": "A."})["note"]
    many = findings([Claim("a", i, "m") for i in range(30)], {"a": "A."})["rows"][0]
    assert many["where"].endswith("6 and 7 and 22 more")


def test_the_bug_hunt_holds_no_answer() -> None:
    target = tiny_llama(1, vocab=48)
    honest = Engine(target, drafter=ModelDrafter(tiny_llama(1, vocab=48, noise=0.4)), gamma=3)
    view = hunt(honest, [1, 2, 3], max_new_tokens=12)
    assert isinstance(view, BugHunt)
    broken: dict[str, Any] = {}
    for name in faults.names():
        view.console.values = {"engine": name}
        view.console.request = {"do": "run", "n": name}
        assert view.console.status.startswith(f"{name}: ")
        trace = view.record
        wanted = {v.name for v in invariants.check(trace)}
        shown = {r["name"] for r in view.console.findings["rows"] if r["broken"]}
        assert shown - {"same-twice", "greedy-as-plain"} == wanted
        bundle = view._repr_mimebundle_()
        assert bundle is not None
        kept = json.dumps([view.console.get_state(), view.player.get_state(), bundle[0]], default=str).lower()
        answer = faults.describe(name)
        for secret in (answer.title, answer.thought, answer.symptom):
            assert secret.lower() not in kept
        places = [r["first"] for r in view.console.findings["rows"] if r["broken"] and r["first"] is not None]
        if places:
            broken[name] = places[0]
    name, first = broken.popitem()
    view.console.values = {"engine": name}
    view.console.request = {"do": "run", "n": "again"}
    view.console.request = {"do": "cycle", "cycle": first, "n": 1}
    view.console.values = {"engine": "no_such"}
    view.console.request = {"do": "run", "n": 2}
    assert view.console.status.startswith("InvalidInput: engine cannot be 'no_such'")
    view.close()


def test_fifty_runs_of_a_cell_leave_no_widget() -> None:
    from ipywidgets.widgets.widget import _instances

    before, kept = len(_instances), set()
    for _ in range(50):
        for view in (LivePlayer(engine, FIELDS), BugHunt(lambda name: (MIXED, []), ["engine_a"], {"a": "A."})):
            bundle = view._repr_mimebundle_()
            assert bundle is not None
            kept.add((bundle[0]["text/plain"], bundle[0]["text/html"]))
            view.close()
    assert len(_instances) == before
    assert len(kept) == 2
    assert all(html.startswith("<img alt=") and "0x" not in text for text, html in kept)


def test_nothing_to_choose_and_nothing_to_run_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one name"):
        BugHunt(lambda name: (LONG, []), [], {})
    with pytest.raises(InvalidInput, match="no cycle"):
        LivePlayer(lambda settings: iter(()), FIELDS)
