"""`sd.check`: honest engines pass, a wrong component fails, and what cannot be proven is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_kernels.errors import InvalidInput
from specdec_teach.caches import ContiguousCache, PagedCache
from specdec_teach.checking import SECTIONS, Row, states, tables
from specdec_teach.checking.oracle import Fresh
from specdec_teach.checking.states import PLACES
from specdec_teach.checking.steered import Script
from specdec_teach.hf import ModelRunner

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def engine_of(gamma: int = 3, mode: Any = "sample", **settings: Any) -> sd.Engine:
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR, mode), gamma=gamma, **settings)


def rows_of(engine: sd.Engine, kind: str) -> list[Row]:
    return list(states.states(engine, (kind,)))


def fails(rows: list[Row]) -> set[str]:
    """The groups that failed; not because something stopped."""
    return {row.group for row in rows if not row.ok and not row.detail.startswith("stopped")}


@pytest.mark.parametrize("verify", ["rejection", "block", "coupled"])
def test_the_honest_engine_passes(verify: str) -> None:
    sections = set(SECTIONS) - ({"chi-square"} if verify != "rejection" else set())
    report = sd.check(engine_of(2, verify=verify), sections)
    assert report.ok, report.failures[:3]
    assert {line.group for line in report.summary()} >= {
        "law, T = 1",
        "EOS",
        "target cache",
        "draft cache",
        "ownership",
    }


def test_certain_drafts_and_a_paged_cache_pass() -> None:
    report = sd.check(engine_of(2, "argmax", cache="paged", block_size=4), set(SECTIONS) - {"chi-square"})
    assert report.ok, report.failures[:3]


LOOKUP = {"ngram": sd.NgramDrafter(), "retrieval": sd.RetrievalDrafter([[at * 7 % 64 for at in range(300)]])}


@pytest.mark.parametrize("name", LOOKUP)
def test_drafters_without_a_model_pass(name: str) -> None:
    """Their own drafts in texts, laws and ends; the script's where it must be known what is rejected."""
    engine = sd.Engine(TARGET, drafter=LOOKUP[name], gamma=2)
    report = sd.check(engine, [*(set(SECTIONS) - {"states", "chi-square"})])
    assert report.ok, report.failures[:3]
    rows = [row for kind in ("contiguous", "paged") for row in rows_of(engine, kind)]
    assert not [row for row in rows if not row.ok]
    assert "self-draft 100 %" not in {line.group for line in report.summary()}


@pytest.mark.parametrize("name", LOOKUP)
def test_lookup_drafters_draft_where_an_end_is_put(name: str) -> None:
    """A drafter that drafted nothing would meet no end inside a block."""
    engine = sd.Engine(TARGET, drafter=LOOKUP[name], gamma=3)
    both = tables.over(engine, tables._chain(), tables._chain(), 3)
    result = both.generate(tables._ROUND, sd.Sampling(temperature=0, eos_token_id=6), max_new_tokens=15)
    assert result.trace is not None
    assert [cycle.proposed for cycle in result.trace.cycles] == [(0, 1, 2), (4, 5, 6)]


def test_every_case_is_there() -> None:
    """Each draft position, none forced and all accepted × three places × states × layouts × neighbours."""
    cases = {row.case for kind in ("contiguous", "paged") for row in rows_of(engine_of(2), kind)}
    for state, kinds in {"fresh": 2, "after preemption": 2, "prefix reused": 1}.items():
        for how in ("rejected at 1", "rejected at 2", "all accepted"):
            for place in PLACES:
                for company in ("alone", "with neighbours"):
                    found = [c for c in cases if c.endswith(f" · {state} · {how} · {place} · {company}")]
                    assert len(found) == kinds, (state, how, place, company)
    assert any("none forced" in case for case in cases)


def test_places_are_where_they_are_said_to_be() -> None:
    """The verify step of the first cycle, of γ + 1 tokens from the pointer on, against the check's own block size."""
    engine = engine_of(3)
    bench = states._Bench.of(engine)
    for state in ("fresh", "prefix reused"):
        starts = [bench.start(place, state) - 1 for place in range(3)]
        first, last = [s // bench.size for s in starts], [(s + 4 - 1) // bench.size for s in starts]
        assert first[0] == last[0]
        assert first[1] == last[1]
        assert (starts[1] + 4) % bench.size == 0
        assert (starts[0] + 4) % bench.size != 0
        assert first[2] < last[2]


def with_cache(make: Any) -> sd.Engine:
    engine = engine_of(2)
    return engine.variant(parts=replace(engine.parts, cache=make))


class _Drifting:
    """An honest cache whose contents drift."""

    def __init__(self, inner: Any, by: float) -> None:
        self.inner, self.by = inner, by

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, layer: int, keys: Any, values: Any) -> Any:
        return self.inner.write(layer, keys, values + self.by * (layer == 1))

    def fork(self) -> Any:
        return _Drifting(self.inner.fork(), self.by)


@pytest.mark.parametrize(("by", "seen"), [(1e-3, True), (1e-8, False)])
def test_values_that_are_off_are_seen(by: float, seen: bool) -> None:
    engine = with_cache(lambda kind, capacity, pool: _Drifting(ContiguousCache(capacity), by))
    assert ("target cache" in fails(rows_of(engine, "contiguous"))) is seen


class _Leaky:
    """A paged cache that keeps its last block when it is released."""

    def __init__(self, inner: PagedCache) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def release(self) -> None:
        if self.inner.table:
            self.inner.pool.hold(self.inner.table[-1])
        self.inner.release()

    def fork(self) -> Any:
        return self.inner.fork()


def test_a_leaked_block_is_seen() -> None:
    engine = with_cache(lambda kind, capacity, pool: _Leaky(PagedCache(pool, capacity)))
    assert "ownership" in fails(rows_of(engine, "paged"))


class _Stale:
    """A cache that shows one slot past what it has computed."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, layer: int, keys: Any, values: Any) -> Any:
        all_k, all_v = self.inner.write(layer, keys, values)
        store_k = self.inner.store.layers[layer][0]
        stop = self.inner.pointer + keys.shape[2]
        all_k = all_k.clone()
        if stop < self.inner.capacity:
            all_k[:, :, 0] += 0.0 * store_k[:, :, stop]
        return all_k, all_v

    def fork(self) -> Any:
        return _Stale(self.inner.fork())


def test_a_slot_past_the_pointer_is_poison() -> None:
    """Reading it, even times 0, is seen: the slot holds NaN."""
    engine = with_cache(lambda kind, capacity, pool: _Stale(ContiguousCache(capacity)))
    rows = rows_of(engine, "contiguous")
    assert any(not row.ok for row in rows)


def test_a_prefill_that_is_not_the_same_is_far() -> None:
    runner = ModelRunner(TARGET, "target")
    fresh = Fresh(runner, [1, 2, 3, 4])
    cache = runner.new_cache(8)
    runner.forward(cache, [1, 2, 4], keep=0)
    delta, where = fresh.distance(cache)
    assert delta > 1e-3
    assert where.endswith("position 2")
    cache.rollback(2)
    assert fresh.distance(cache)[0] < 1e-6
    assert fresh.step(runner, cache, [1, 2, 3, 4]) < 1e-5
    cache.poison()
    cache.advance(1)
    assert fresh.distance(cache)[0] == float("inf")


def test_a_script_is_said_whatever_the_models_want() -> None:
    script = Script.of(20, 64)
    assert all(a != b for a, b in zip(script.ids, script.ids[1:], strict=False))
    result = engine_of().generate(list(script.ids[:5]), script.sampling(), max_new_tokens=12)
    assert result.tokens == script.ids[5:17]
    changed = script(torch.tensor([[1, 2]]), torch.tensor([[0.0, float("nan"), 1.0] + [0.0] * 61]))
    assert changed.isfinite().sum() == 1


def test_the_report_adds_up_and_can_be_saved(tmp_path: Path) -> None:
    rows = [Row("a", "one", True, 1e-9), Row("a", "two", False, float("inf"), "far"), Row("b", "three", True)]
    report = sd.Report.of(rows)
    assert not report.ok
    assert [(line.group, line.rows, line.failed) for line in report.summary()] == [("a", 2, 1), ("b", 1, 0)]
    plain = json.loads(report.save(tmp_path / "report.json").read_text())
    assert plain["rows"][1] == {"group": "a", "case": "two", "ok": False, "worst": "inf", "detail": "far"}
    assert sd.Report.of(rows[:1]).ok
    assert not sd.Report.of([]).ok, "a report of nothing proves nothing"
    with pytest.raises(InvalidInput, match="another path"):
        report.save(tmp_path / "missing" / "report.json")


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (sd.Engine(TARGET), "drafts nothing"),
        (engine_of(0), "drafts nothing"),
        (engine_of(verify="typical"), "lossy"),
        (sd.Engine(TARGET, drafter=sd.ScriptedDrafter([1], [1 / 64] * 64)), "does not draw"),
        (sd.Engine(sd.testing.tiny_llama(context=16), drafter=sd.ModelDrafter(NEAR)), "context"),
    ],
    ids=["no drafter", "gamma 0", "lossy", "untrue q", "short context"],
)
def test_what_cannot_be_proven_is_refused(engine: sd.Engine, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sd.check(engine, ["states"])


def test_an_unknown_section_is_refused() -> None:
    with pytest.raises(InvalidInput, match="laws"):
        sd.check(engine_of(), ["lawz"])


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sample", "argmax"])
@pytest.mark.parametrize("verify", ["rejection", "block", "coupled"])
def test_no_honest_engine_is_accused(verify: str, mode: str) -> None:
    report = sd.check(engine_of(4, mode, verify=verify, cache="paged"))
    assert report.ok, report.failures[:3]


@pytest.mark.slow
def test_the_embedded_pair_passes(pair: sd.Pair) -> None:
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
    report = sd.check(engine)
    assert report.ok, report.failures[:3]


@pytest.mark.parametrize(("behind", "told"), [(5e-5, "tie band: token 3 flips, "), (5e-3, "token 3 differs: ")])
def test_a_tie_is_named_and_a_wider_gap_is_no_tie(monkeypatch: pytest.MonkeyPatch, behind: float, told: str) -> None:
    """A target that always prefers token 0 by a little, and a run whose fourth token is the runner-up."""
    target = sd.testing.TabularLM(torch.tensor([2.0, 2.0 - behind, 0.0]))
    subject = sd.Engine(target, drafter=sd.ModelDrafter(target), gamma=2)
    honest = sd.Engine.generate

    def flips(self: sd.Engine, *given: Any, speculate: bool = True, **settings: Any) -> Any:
        result = honest(self, *given, speculate=speculate, **settings)
        return replace(result, tokens=(*result.tokens[:3], 1, *result.tokens[4:])) if speculate else result

    clean = [row for row in sd.check(subject, ["greedy"]).rows if row.group == "greedy == plain"]
    assert [(row.ok, row.detail) for row in clean] == [(True, "")] * 4
    monkeypatch.setattr(sd.Engine, "generate", flips)
    rows = [row for row in sd.check(subject, ["greedy"]).rows if row.group == "greedy == plain"]
    assert [row.ok for row in rows] == [behind < 1e-4] * 4
    assert all(row.detail.startswith(told) for row in rows), rows
