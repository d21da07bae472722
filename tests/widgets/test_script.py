"""The player's module under node: its own unit tests, fed with traces, steps and labels from Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from specdec_teach.trace import Trace
from specdec_widgets.steps import steps
from specdec_widgets.words import labels, num
from tests.widgets.traces import CASES

HERE = Path(__file__).parent


def committed(trace: Trace) -> list[int | None]:
    ids: list[int | None] = list(trace.prompt)
    if trace.cycles:
        ids += [None] * (trace.cycles[0].committed_before - len(ids))
    return ids + [token for cycle in trace.cycles for token in cycle.emitted]


def test_module_under_node(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing: the player's unit tests did NOT run; on Debian: apt-get install nodejs")
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
    data = tmp_path / "traces.json"
    data.write_text(
        json.dumps(
            {
                "traces": {name: trace.to_dict() for name, trace in cases.items()},
                "steps": {name: list(steps(trace)) for name, trace in cases.items()},
                "labels": {name: labels(committed(trace), trace.pieces) for name, trace in cases.items()},
                "numbers": [(value, num(value)) for value in numbers],
            }
        ),
        encoding="utf-8",
    )
    done = subprocess.run(
        [node, "--test", str(HERE / "js" / "player.test.mjs")],
        env={**os.environ, "SPECDEC_TRACES": str(data)}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
