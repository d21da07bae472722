"""What the demo prints, told from the record of a cycle, and one real run."""

from __future__ import annotations

from dataclasses import replace

import pytest

import specdec_teach as sd
from specdec_teach.cli import demo, main

PIECES = {0: "zero", 1: " one", 2: "two\n"}


def test_every_fate_has_its_glyph(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    assert [decision.status for decision in cycle.decisions] == ["accepted", "rejected", "unused"]
    text = [line.plain for line in demo.lines(cycle, PIECES)]
    assert text[0].strip() == f"cycle 0 · γ=3 · committed 1 → {cycle.committed_after}"
    assert text[1].split() == ["✓␣one", "✗zero", "·zero", "↺two⏎"]
    assert "the target's likeliest" in text[2]
    assert "not the target's likeliest" in text[3]
    kv = cycle.target_kv
    assert text[-1].strip().startswith(f"computed  target C={kv.before} → {kv.written} ↩ {kv.after}")


def test_sampled_numbers_are_shown(result: sd.Result) -> None:
    assert result.trace is not None
    cycle = result.trace.cycles[0]
    first = replace(cycle.decisions[0], p=0.25, q=0.5, u=0.125, accept_probability=0.5, forced=True)
    text = [line.plain for line in demo.lines(replace(cycle, decisions=(first,)), PIECES)]
    assert text[2].strip() == "✓ ␣one  p=0.250 q=0.500 u=0.125 < 0.500  (forced)"


def test_the_demo_runs_on_the_embedded_pair(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--max-new-tokens", "12", "--reject-at", "2"]) == 0
    out = capsys.readouterr().out
    assert "cycle 0" in out
    assert "(forced)" in out
    assert "\x1b[" not in out
    assert "for each pass of the target" in out


def test_the_engine_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--prompt", ""]) == 2
    assert "the prompt is empty" in capsys.readouterr().err
