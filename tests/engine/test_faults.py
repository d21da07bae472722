"""The broken engines: they run, they are found out, the honest engine is left alone, and the table is in step."""

from __future__ import annotations

from pathlib import Path

import pytest

import specdec_teach as sd
from specdec_kernels.errors import InvalidInput
from specdec_teach import faults
from specdec_teach.checking import SECTIONS
from specdec_teach.faults import matrix

from ..checks import P4, Q4, logs, tabular

NAMES = faults.names()
TABLE = faults.kill_matrix()
QUICK = ("ends", "caps", "penalties", "self-draft", "second call", matrix.INVARIANTS)
TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def near_engine() -> sd.Engine:
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_engine_runs(name: str) -> None:
    """A crash would be no lesson: every layout of the cache, sampled and greedy, with and without a forced pattern."""
    settings = (sd.Sampling(seed=2, top_k=3, frequency_penalty=0.5), sd.Sampling.greedy())
    for engine in (near_engine(), tabular(logs(P4), logs(Q4), 2)):
        honest = engine.generate([1, 2], settings[0], max_new_tokens=3)
        for kind in ("contiguous", "masked", "paged", "selective", "recompute"):
            broken = faults.inject(engine.variant(cache=kind), name)
            for sampling, forced in zip((*settings, settings[0]), (None, 1, 0), strict=True):
                result = broken.generate([1, 2], sampling, max_new_tokens=12, reject_at=forced)
                assert result.trace is not None
                assert len(result.tokens) >= 12 or result.finish_reason is None
                assert result.trace.meta.drafter == "model"
                assert result.trace.meta.lossless == (forced is None or sampling.greedy_now)
        assert engine.generate([1, 2], settings[0], max_new_tokens=3).tokens == honest.tokens


@pytest.mark.parametrize("name", NAMES)
def test_a_broken_engine_runs_on_the_embedded_pair(name: str, pair: sd.Pair) -> None:
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=3)
    rows = faults.inject(engine, name).generate(["Once upon", "Mira"], sd.Sampling(seed=3), max_new_tokens=6)
    assert all(len(row.tokens) >= 6 for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_broken_engine_is_seen_by_something(name: str) -> None:
    assert any(TABLE["engines"][name].values())
    assert faults.describe(name).killed_by


def test_the_honest_engine_is_accused_of_nothing() -> None:
    assert not any(TABLE["engines"]["honest"].values())


def test_no_single_test_sees_half_of_them() -> None:
    """What the bug lab is about."""
    for test in TABLE["tests"]:
        assert sum(TABLE["engines"][name][test] for name in NAMES) <= len(NAMES) // 2, test


def test_the_table_knows_every_engine_and_every_test() -> None:
    assert list(TABLE["engines"]) == ["honest", *NAMES]
    assert TABLE["tests"] == matrix.TESTS
    assert all(list(column) == list(matrix.TESTS) for column in TABLE["engines"].values())
    assert {*matrix.GROUPS, "runs"} == {*SECTIONS}


def test_the_page_is_the_table() -> None:
    assert (Path(__file__).resolve().parents[2] / "docs" / "kill-matrix.md").read_text(
        encoding="utf-8"
    ) == matrix.markdown(TABLE)


@pytest.mark.parametrize("name", ["honest", *NAMES])
def test_the_table_is_in_step(name: str) -> None:
    """The quick sections, made anew."""
    engine = matrix.subject() if name == "honest" else faults.inject(matrix.subject(), name)
    column = TABLE["engines"][name]
    for test, seen in matrix.made(engine, QUICK).items():
        assert seen == column[test], test


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_column_is_in_step(name: str) -> None:
    engine = faults.inject(matrix.subject(), name)
    assert matrix.made(engine, [*matrix.GROUPS, matrix.INVARIANTS]) == TABLE["engines"][name]


@pytest.mark.slow
def test_no_honest_engine_is_accused() -> None:
    for engine in matrix.honest_engines():
        found = matrix.made(engine, [*matrix.GROUPS, matrix.INVARIANTS])
        assert not [test for test, seen in found.items() if seen]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    for ask in (lambda: faults.inject(near_engine(), "engine_aa"), lambda: faults.describe("engine_aa")):
        with pytest.raises(InvalidInput, match="engine_a"):
            ask()


def test_what_cannot_be_broken_is_refused() -> None:
    with pytest.raises(InvalidInput, match="drafter"):
        faults.inject(sd.Engine(TARGET), NAMES[0])
    scripted = sd.Engine(TARGET, drafter=sd.ScriptedDrafter([1, 2]))
    with pytest.raises(InvalidInput, match="ModelDrafter"):
        faults.inject(scripted, "engine_c")
    assert faults.inject(scripted, "engine_a").generate([1], sd.Sampling.greedy(), max_new_tokens=4).tokens


def test_names_say_nothing() -> None:
    assert all(name == f"engine_{chr(ord('a') + at)}" for at, name in enumerate(NAMES))


@pytest.mark.parametrize("verify", ["block", "coupled"])
def test_a_mistake_brings_its_rule_along(verify: str) -> None:
    """Redrawing shows under a rule that has a residual; numbers by position show under block."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4, verify=verify)
    assert faults.inject(engine, "engine_b").rule.name == ("block" if verify == "block" else "rejection")
    assert faults.inject(engine, "engine_p").rule.name == "block"
    assert faults.inject(engine, "engine_j").cache == "paged"
    assert engine.rule.name == verify
