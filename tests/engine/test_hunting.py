"""The bug hunt's calls: an honest engine passes them, sixteen broken ones do not, and two hide in the law of texts."""

from __future__ import annotations

import pytest

import specdec_teach as sd
from specdec_teach import faults, hunting, invariants

LAW_ALONE = {"engine_i", "engine_q"}
COMPARED = {"engine_d": "greedy-as-plain", "engine_f": "greedy-as-plain", "engine_h": "greedy-as-plain",
            "engine_r": "same-twice"}  # fmt: skip


@pytest.fixture(scope="module")
def honest() -> sd.Engine:
    pair = sd.load_pair()
    return sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)


def test_an_honest_engine_passes_and_its_first_record_is_shown(honest: sd.Engine) -> None:
    trace, found = hunting.accused(honest, honest, "Once upon a time", 24, 7)
    assert found == []
    usual = honest.generate("Once upon a time", sd.Sampling(temperature=0.8, seed=7), max_new_tokens=24).trace
    assert usual is not None
    assert [c.emitted for c in trace.cycles] == [c.emitted for c in usual.cycles]


@pytest.mark.parametrize("name", faults.names())
def test_a_broken_engine_is_accused_where_a_record_can_tell(honest: sd.Engine, name: str) -> None:
    trace, found = hunting.examine(honest, name, "Once upon a time", 32, 7)
    assert bool(found) == (name not in LAW_ALONE)
    said = {v.name for v in found}
    assert said <= hunting.descriptions().keys()
    alone = invariants.check(trace)
    assert found[: len(alone)] == alone
    assert [v.name for v in found[len(alone) :]] == ([COMPARED[name]] if name in COMPARED else [])
    assert {v.cycle for v in found} <= {None, *(c.index for c in trace.cycles)}
    for word in (faults.describe(name).title, faults.describe(name).thought):
        assert all(word.lower() not in v.message.lower() for v in found)
