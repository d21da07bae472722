"""The record of a run: it says what happened, survives a round trip, and refuses what is not one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import specdec_teach as sd
from specdec_teach.noise import CounterNoise, StreamId
from specdec_teach.schema import schema

from ..checks import flags_and_counts, logs, tabular

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def run(**settings: Any) -> sd.Result:
    """One sampled run."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    result = engine.generate([1, 2, 3], sd.Sampling(temperature=0.9, seed=6), **{"max_new_tokens": 40, **settings})
    assert isinstance(result, sd.Result)
    return result


def trace_of(result: sd.Result) -> sd.Trace:
    """Its trace, which must be there."""
    assert result.trace is not None
    return result.trace


def test_round_trip(tmp_path: Path) -> None:
    """Saved and loaded, a trace is equal to itself, and fits the schema that ships with the package."""
    trace = trace_of(run())
    path = trace.save(tmp_path / "run.json")
    assert sd.Trace.load(path) == trace
    shipped = json.loads((Path(sd.__file__).parent / "trace.schema.json").read_text(encoding="utf-8"))
    assert shipped == json.loads(json.dumps(schema()))
    jsonschema.Draft202012Validator.check_schema(shipped)
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), shipped)


def test_loading_needs_no_torch(tmp_path: Path) -> None:
    """A trace can be read, and printed as a table, where torch is not installed."""
    path = trace_of(run()).save(tmp_path / "run.json")
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None; import specdec_teach as sd;"
        f"print(len(sd.Trace.load({str(path)!r}).to_table()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 500


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["meta"].update(schema_version=99), "schema version 1 .found 99"),
        (lambda d: d.pop("prompt"), "trace.prompt"),
        (
            lambda d: d["cycles"][1].update(accepted="two"),
            r"trace.cycles\[1\].accepted is 'two'; expected a whole number",
        ),
        (lambda d: d["cycles"][0]["decisions"][0].update(status="maybe"), "expected one of"),
        (lambda d: d["cycles"][0].update(extra=1), "no field of that name in Cycle"),
        (lambda d: d["pieces"].update(x="y"), "a token id was expected"),
        (lambda d: d["cycles"][0]["rng"].update(draft=[1]), "expected 2 items"),
        (lambda d: d["cycles"][0].update(degenerate_residual=0), "expected bool"),
    ],
)
def test_damaged_traces_are_refused_by_field(change: Any, says: str) -> None:
    """The message names the field."""
    plain = json.loads(json.dumps(trace_of(run(max_new_tokens=12)).to_dict()))
    change(plain)
    with pytest.raises(sd.InvalidInput, match=says):
        sd.Trace.from_dict(plain)


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    """Missing, not JSON, JSON of something else."""
    with pytest.raises(sd.InvalidInput, match="cannot read"):
        sd.Trace.load(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("Once upon a time")
    with pytest.raises(sd.InvalidInput, match="is not JSON"):
        sd.Trace.load(tmp_path / "text.json")
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(sd.InvalidInput, match="not a trace"):
        sd.Trace.load(tmp_path / "list.json")
    with pytest.raises(sd.InvalidInput, match="cannot write"):
        trace_of(run(max_new_tokens=2)).save(tmp_path / "no" / "folder.json")


def test_every_number_is_consistent() -> None:
    """p, q, u, α, the tops and the bars tell one story in every decision."""
    result = run()
    flags_and_counts(result)
    for cycle in trace_of(result).cycles:
        for decision in cycle.decisions:
            bars = {bar.token: bar for bar in decision.bars}
            assert bars[decision.token].p == pytest.approx(decision.p)
            assert bars[decision.token].q == pytest.approx(decision.q)
            for top in (decision.p_top, decision.q_top, decision.residual_top):
                assert len(top.tokens) <= 16
                assert [v for _, v in top.tokens] == sorted((v for _, v in top.tokens), reverse=True)
                assert sum(v for _, v in top.tokens) + top.rest == pytest.approx(1.0, abs=1e-5)
            if decision.u is not None:
                assert decision.accept_probability == pytest.approx(min(1.0, decision.p / decision.q))
                assert (decision.status == "accepted") == (decision.u * decision.q < decision.p)
            else:
                assert decision.status in ("unused", "cut")
            assert 0.0 <= decision.alpha <= 1.0
        if cycle.last_kind == "correction":
            rejected = cycle.decisions[cycle.accepted]
            assert rejected.status == "rejected"
            assert cycle.last_top == rejected.residual_top
            assert cycle.last in {bar.token for bar in rejected.bars}
            assert cycle.last != rejected.token
        assert [d.position for d in cycle.decisions] == list(range(1, len(cycle.proposed) + 1))


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_draw_numbers_are_used_once(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No (stream, number) is drawn twice, thrown-away drafts included; the trace says exactly what was drawn."""
    drawn: list[tuple[str, int]] = []
    draw, accepts = CounterNoise.draw, CounterNoise.accepts

    def watched_draw(self: CounterNoise, stream: StreamId, number: int, weights: Any) -> int:
        drawn.append((stream.name.lower(), number))
        return draw(self, stream, number, weights)

    def watched_accepts(self: CounterNoise, number: int, p: float, q: float) -> Any:
        drawn.append(("accept", number))
        return accepts(self, number, p, q)

    monkeypatch.setattr(CounterNoise, "draw", watched_draw)
    monkeypatch.setattr(CounterNoise, "accepts", watched_accepts)
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4, verify=rule)
    result = engine.generate([1, 2, 3], sd.Sampling(temperature=0.9, seed=6), max_new_tokens=40)
    told = [
        (stream, first + i)
        for cycle in trace_of(result).cycles
        for stream in ("draft", "accept", "token")
        for first, count in [getattr(cycle.rng, stream)]
        for i in range(count)
    ]
    assert len(drawn) == len(set(drawn)) > 60
    assert sorted(drawn) == sorted(told)


def test_keeping_only_the_last_cycles_and_none_at_all() -> None:
    """trace=n keeps n, trace=False keeps nothing; tokens and counts are the same."""
    whole, last, none = run(), run(trace=3), run(trace=False)
    assert [c.index for c in trace_of(last).cycles] == [c.index for c in trace_of(whole).cycles][-3:]
    assert trace_of(last).dropped == whole.stats.cycles - 3
    assert none.trace is None
    assert whole.tokens == last.tokens == none.tokens
    assert whole.stats.accepted == none.stats.accepted
    assert none.stats.seconds.target > 0


def test_meta_says_how_the_run_was_made() -> None:
    """Models, settings, seed; forced and scripted-with-q runs are not lossless."""
    meta = trace_of(run()).meta
    assert (meta.gamma, meta.seed, meta.verify, meta.cache, meta.lossless, meta.forced) == (
        4,
        6,
        "rejection",
        "contiguous",
        True,
        None,
    )
    assert meta.sampling["temperature"] == 0.9
    assert meta.dtype == "float32"
    fresh = sd.Engine(TARGET).generate([1], sd.Sampling(), max_new_tokens=2)
    again = sd.Engine(TARGET).generate([1], sd.Sampling(seed=trace_of(fresh).meta.seed), max_new_tokens=2)
    assert fresh.tokens == again.tokens
    assert trace_of(fresh).meta.drafter is None
    assert not trace_of(run(reject_at=1)).meta.lossless
    assert trace_of(run(reject_at=1)).meta.forced == 1
    told = sd.Engine(TARGET, drafter=sd.ScriptedDrafter([1] * 9, [1 / 64] * 64))
    assert not trace_of(told.generate([1], max_new_tokens=4)).meta.lossless
    sure = sd.Engine(TARGET, drafter=sd.ScriptedDrafter([1] * 9))
    assert trace_of(sure.generate([1], max_new_tokens=4)).meta.lossless


def test_one_hot_drafts_report_a_one_hot_q() -> None:
    """mode="argmax": the reported q is [0, 1, 0], and α = p(draft) = .3."""
    engine = tabular(logs((0.6, 0.3, 0.1)), logs((0.2, 0.5, 0.3)), 1, "argmax")
    trace = trace_of(engine.generate([0], sd.Sampling(seed=2), max_new_tokens=9))
    for decision in (d for c in trace.cycles for d in c.decisions):
        assert decision.token == 1
        assert decision.q_top.tokens == ((1, 1.0),)
        assert decision.alpha == pytest.approx(0.3)


def test_table_is_plain_text() -> None:
    """A line a cycle, a line a decision, the totals; no timing."""
    trace = trace_of(run(max_new_tokens=12))
    table = trace.to_table()
    assert table == trace.to_table()
    for cycle in trace.cycles:
        assert f"cycle {cycle.index}" in table
    assert "acceptance rate" in table
