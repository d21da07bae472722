"""The widget's Python half: what it sends, what it accepts, what it keeps in the notebook."""

from __future__ import annotations

import pytest

from specdec_teach.trace import Trace
from specdec_widgets import RENDERER
from specdec_widgets.steps import first_step, step_count, steps

pytest.importorskip("anywidget", reason="the notebook player needs the package anywidget")
from specdec_widgets.player import CyclePlayer
from tests.widgets.traces import CASES


@pytest.mark.parametrize("name", sorted(set(CASES) - {"long"}))
def test_step_stays_inside_the_run(name: str) -> None:
    player = CyclePlayer(CASES[name])
    player.step = 10**6
    assert player.step == step_count(CASES[name]) - 1
    player.step = -5
    assert player.step == 0
    player.close()


def test_the_whole_trace_is_one_trait() -> None:
    player = CyclePlayer(CASES["mixed"])
    assert player.trace == CASES["mixed"].to_dict()
    assert not player.can_rerun
    assert {"trace", "step", "status", "can_rerun", "request"} <= set(player.get_state())
    player.close()


def test_request_runs_the_engine_and_draws_its_trace_in_place() -> None:
    asked: list[int | None] = []

    def rerun(position: int | None) -> Trace:
        asked.append(position)
        return CASES["forced"]

    player = CyclePlayer(CASES["mixed"], rerun=rerun)
    assert player.can_rerun
    player.step = 30
    player.request = {"reject_at": 2, "cycle": 1, "n": 1}
    assert asked == [2]
    assert player.record is CASES["forced"]
    assert player.trace == CASES["forced"].to_dict()
    assert player.step == first_step(CASES["forced"], 1)
    assert player.status == ""
    player.request = {"reject_at": None, "n": 2}
    assert asked == [2, None]
    player.close()


def test_failing_engine_is_one_line_of_status_and_changes_nothing() -> None:
    def rerun(position: int | None) -> Trace:
        raise RuntimeError("no slots\nleft")

    player = CyclePlayer(CASES["mixed"], rerun=rerun)
    player.step = 9
    player.request = {"reject_at": 1, "n": 1}
    assert player.status == "RuntimeError: no slots left"
    assert player.record is CASES["mixed"]
    assert player.step == 9
    player.close()


@pytest.mark.parametrize("position", [-1, 5, "2", True, 1.0])
def test_bad_position_is_refused_before_the_engine_runs(position: int) -> None:
    player = CyclePlayer(CASES["mixed"], rerun=lambda _: pytest.fail("the engine ran"))
    player.reject_at(position)
    assert player.status.startswith("InvalidInput: cannot reject at")
    assert "1 to 4" in player.status
    player.close()


def test_without_an_engine_the_status_says_so() -> None:
    player = CyclePlayer(CASES["mixed"])
    player.reject_at(1)
    assert "no engine" in player.status
    player.close()


def test_notebook_keeps_a_still_and_a_stable_line() -> None:
    bundles = []
    for _ in range(2):
        player = RENDERER.show(CASES["forced"])
        assert isinstance(player, CyclePlayer)
        bundle = player._repr_mimebundle_()
        assert bundle is not None
        bundles.append({key: bundle[0][key] for key in ("text/plain", "text/html")})
        assert "application/vnd.jupyter.widget-view+json" in bundle[0]
        player.close()
    assert bundles[0] == bundles[1]
    assert bundles[0]["text/html"].startswith('<img alt="CyclePlayer: 2 cycles, ')
    assert "0x" not in bundles[0]["text/plain"]
    assert bundles[0]["text/plain"].endswith("forced, not lossless")


def test_empty_run_shows_its_line_alone() -> None:
    player = CyclePlayer(CASES["empty"])
    bundle = player._repr_mimebundle_()
    assert bundle is not None
    assert "text/html" not in bundle[0]
    assert bundle[0]["text/plain"] == "CyclePlayer: 0 cycles, 0 tokens"
    player.close()


def test_close_frees_the_widget() -> None:
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    player = CyclePlayer(CASES["mixed"])
    player.close()
    assert player.comm is None
    assert len(_instances) == before


def test_steps_name_every_stage_of_a_cycle() -> None:
    stages = [stage for cycle, stage in steps(CASES["mixed"]) if cycle == 0]
    assert stages == [
        "prefill",
        "start",
        "catchup",
        *["draft"] * 4,
        "target",
        *["verdict"] * 3,
        "last",
        "commit",
        "rewind",
    ]
