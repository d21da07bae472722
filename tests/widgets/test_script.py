"""The modules of the views under node: their own unit tests, fed with runs and with what Python says of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict, astuple, replace
from pathlib import Path

import pytest

from specdec_teach.timeline import Timeline
from specdec_teach.trace import Blocks, Trace
from specdec_widgets import laws, pool, serving, tiles, trees
from specdec_widgets.page import payload
from specdec_widgets.steps import steps
from specdec_widgets.words import blocks_sentence, labels, num, pace
from tests.widgets.test_laws import some_laws
from tests.widgets.test_trees import every_shape
from tests.widgets.timelines import TIMELINES
from tests.widgets.traces import CASES, build
from tests.widgets.trees import TREES

HERE = Path(__file__).parent
ODD = (
    Blocks(1, ()),
    Blocks(16, tuple(range(20)), copied=((3, 21), (4, 22))),
    Blocks(8, (5,), (5,), (6, 7), (5,), (5,)),
)


def committed(trace: Trace) -> list[int | None]:
    ids: list[int | None] = list(trace.prompt)
    if trace.cycles:
        ids += [None] * (trace.cycles[0].committed_before - len(ids))
    return ids + [token for cycle in trace.cycles for token in cycle.emitted]


def told(timeline: Timeline) -> dict[str, object]:
    """What Python says of every step."""
    size, shown, out = timeline.meta.block_size, pool.shown(timeline), []
    for step in range(len(timeline.steps)):
        blocks, row = pool.blocks_after(timeline, step)[:shown], pool.chosen(timeline, step)
        out.append(
            {
                "sentence": serving.sentence(timeline, step),
                "sums": asdict(serving.sums(timeline, step)),
                "blocks": [(b.id, b.owners, b.filled, b.written, b.published, b.evicted) for b in blocks],
                "words": [tiles.words(b, size) for b in blocks],
                "chosen": row.request if row else None,
                "where": pool.where(row, size) if row else "",
                "places": [astuple(place) for place in pool.places(timeline, step, row)] if row else [],
            }
        )
    return {"timeline": timeline.to_dict(), "steps": out, "shown": shown}


PACES: list[tuple[int, str | None, bool]] = [
    (gamma, planner, run) for gamma in (0, 3) for planner in (None, "auto", "heuristic") for run in (False, True)
]
"""γ, who chose it, and whether it is that of a whole run."""


def node() -> str:
    """Node's program: the one on the path, else the one that playwright brings for its own use."""
    found = shutil.which("node")
    if found is None:
        driver = pytest.importorskip("playwright._impl._driver", reason="no node: `apt-get install nodejs`")
        found = driver.compute_driver_executable()[0]
    return found


def node_test(name: str, variable: str, path: Path, data: object) -> None:
    """Run one file of node's tests with the data in a file that `variable` names."""
    path.write_text(json.dumps(data), encoding="utf-8")
    done = subprocess.run(
        [node(), "--test", str(HERE / "js" / name)],
        env={**os.environ, variable: str(path)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_timeline_module_under_node(tmp_path: Path) -> None:
    cases = {**TIMELINES, "crowd": replace(TIMELINES["crowd"], steps=TIMELINES["crowd"].steps[:60])}
    data = {name: told(timeline) for name, timeline in cases.items()}
    node_test("timeline.test.mjs", "SPECDEC_TIMELINES", tmp_path / "timelines.json", data)


def test_tree_module_under_node(tmp_path: Path) -> None:
    shapes = [*every_shape(3), *every_shape(5)[::7], tuple([-1] * 3 + [0, 0, 1, 1, 2, 2])]
    data = {
        "trees": {
            name: {"trace": trace.to_dict(), "sentence": trees.sentence(trace, trace.cycles[-1])}
            for name, trace in TREES.items()
        },
        "shapes": [{"parents": p, "places": trees.places(p), "mask": trees.mask(p)} for p in shapes],
        "plain": CASES["mixed"].to_dict(),
    }
    node_test("tree.test.mjs", "SPECDEC_TREES", tmp_path / "trees.json", data)


def test_lab_module_under_node(tmp_path: Path) -> None:
    cases = [*some_laws(40), ([1.0, 0.0], [0.0, 1.0]), ([0.5, 0.5], [0.5, 0.5]), ([0.6, 0.3, 0.1], [0.0, 1.0, 0.0])]
    data = [
        {
            "p": p, "q": q, "laws": laws.laws(p, q), "accepted": laws.accepted(p, q), "corrected": laws.corrected(p, q),
            "agreed": laws.agreed(p, q), "stands": laws.stands(p, q),
            "off": {key: laws.distance(law, p) for key, law in laws.laws(p, q).items()},
        }
        for p, q in cases
    ]  # fmt: skip
    told = {"cases": data, "rules": laws.RULES, "engine": laws.ENGINE}
    node_test("lab.test.mjs", "SPECDEC_LAWS", tmp_path / "laws.json", told)


def test_player_module_under_node(tmp_path: Path) -> None:
    cases = CASES
    numbers = [
        0.0,
        1.0,
        0.614,
        0.0042,
        0.005,
        0.00094,
        0.00096,
        0.0005,
        3.2e-6,
        0.999,
        0.0951,
        0.9996,
        0.99999,
        0.9999999,
        None,
    ]
    data = {
        "traces": {name: trace.to_dict() for name, trace in cases.items()},
        "steps": {name: list(steps(trace)) for name, trace in cases.items()},
        "labels": {name: labels(committed(trace), trace.pieces) for name, trace in cases.items()},
        "blocks": [blocks_sentence(c.blocks) for c in cases["paged"].cycles if c.blocks],
        "odd_blocks": [(asdict(blocks), blocks_sentence(blocks)) for blocks in ODD],
        "numbers": [(value, num(value)) for value in numbers],
        "paces": [(asked, pace(*asked)) for asked in PACES],
    }
    node_test("player.test.mjs", "SPECDEC_TRACES", tmp_path / "traces.json", data)


def test_compare_module_under_node(tmp_path: Path) -> None:
    honest = CASES["mixed"]
    pairs = {
        "broken": honest.compare(CASES["rejected_first"], ("honest", "broken")),
        "plain": honest.compare(CASES["plain"]),
        "same": honest.compare(honest),
        "gamma": honest.compare(build(["ar", "aa", "r-", "aa", "ar"], gamma=2)),
        "long": CASES["long"].compare(CASES["no_draft_cache"], ("long", "short")),
        "empty": honest.compare(CASES["empty"]),
        "hostile": CASES["hostile"].compare(CASES["eos_cut"]),
    }
    data = {name: {**payload(pair), "parting": pair.parting} for name, pair in pairs.items()}
    node_test("compare.test.mjs", "SPECDEC_PAIRS", tmp_path / "pairs.json", data)
