"""The invariants of a run: an honest engine breaks none, and every one of them can be broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach import events
from specdec_teach.caches import KINDS
from specdec_teach.invariants import Watch, check, descriptions, names
from specdec_teach.trace import Cycle

from ..checks import FILTER_P, FILTER_Q, logs, tabular
from .broken import BROKEN
from .records import GREEDY, NEAR, SAMPLED, TARGET, counted, edit, honest, of, paged, run, sampled_with, until

RULES = ["rejection", "block", "coupled", "typical", "threshold", "synthetic"]
SAMPLINGS = [
    sd.Sampling.greedy(),
    sd.Sampling(seed=3),
    sd.Sampling(temperature=0.7, top_k=5, seed=4),
    sd.Sampling(temperature=1.4, top_p=0.8, min_p=0.05, seed=5),
    sd.Sampling(repetition_penalty=1.3, no_repeat_ngram_size=2, eos_token_id=(9, 17), min_new_tokens=4, seed=6),
]
WIDTH = 5
LOGIT = st.floats(-6, 6) | st.just(-float("inf"))
ROW = st.lists(LOGIT, min_size=WIDTH, max_size=WIDTH).filter(lambda row: max(row) > -float("inf"))
TABLE = st.lists(ROW, min_size=WIDTH, max_size=WIDTH)
SETTINGS = st.builds(
    sd.Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.9]),
    top_k=st.integers(0, WIDTH),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.2]),
    eos_token_id=st.sampled_from([None, 0, (1, 3)]),
    seed=st.integers(0, 2**64 - 1),
)
MANY = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def watched(engine: sd.Engine) -> sd.Engine:
    """An engine that stops at the first broken invariant."""
    engine.observers.append(Watch())
    return engine


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_an_honest_run_breaks_nothing(rule: str, sampling: sd.Sampling) -> None:
    """Every rule and every kind of settings; plain, with few cycles kept, capped, and at a full context."""
    engine = watched(sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4, verify=rule))
    ways: list[dict[str, Any]] = [{}, {"speculate": False}, {"trace": 3}, {"gamma": 1}]
    for extra in (*ways, {"max_new_tokens": 1}, {"max_new_tokens": 0}):
        honest(engine.generate([1, 2, 3], sampling, **{"max_new_tokens": 30, **extra}))
    certain = watched(sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR, "argmax"), gamma=3, verify=rule))
    honest(certain.generate([1], sampling, max_new_tokens=30))
    small = sd.Engine(
        sd.testing.tiny_llama(context=24),
        drafter=sd.ModelDrafter(sd.testing.tiny_llama(noise=0.1, context=16)),
        verify=rule,
    )
    honest(watched(small).generate([1, 2, 3], sampling, max_new_tokens=40))


@pytest.mark.parametrize("cache", KINDS)
def test_every_cache_breaks_nothing(cache: str) -> None:
    """Alone and in a batch of rows of other lengths and settings."""
    engine = watched(sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4, cache=cache))
    for sampling in SAMPLINGS:
        honest(engine.generate(range(1, 40), sampling, max_new_tokens=30))
    for row in engine.generate([[1], [1, 2, 3], [4] * 30], SAMPLINGS[:3], max_new_tokens=[30, 7, 20]):
        honest(row)


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_forced_run_breaks_nothing(rule: str, at: int, sampling: sd.Sampling) -> None:
    engine = watched(sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=3, verify=rule))
    honest(engine.generate([1, 2, 3], sampling, max_new_tokens=24, reject_at=at))


@MANY
@given(TABLE, TABLE, SETTINGS, st.sampled_from(RULES), st.integers(0, 4), st.sampled_from(["sample", "argmax"]))
def test_any_models_break_nothing(
    target: Any, draft: Any, sampling: sd.Sampling, rule: str, gamma: int, mode: str
) -> None:
    """Impossible tokens, ties, empty residuals, ends anywhere."""
    honest(watched(tabular(target, draft, gamma, mode, rule)).generate([2], sampling, max_new_tokens=12))


@MANY
@given(TABLE, st.lists(st.integers(0, WIDTH - 1), max_size=12), ROW, SETTINGS, st.sampled_from(RULES), st.booleans())
def test_any_script_breaks_nothing(
    target: Any, script: list[int], q: Any, sampling: sd.Sampling, rule: str, certain: bool
) -> None:
    drafter = sd.ScriptedDrafter(script, None if certain else torch.tensor(q, dtype=torch.float64).softmax(-1))
    engine = watched(sd.Engine(sd.testing.TabularLM(target), drafter=drafter, gamma=3, verify=rule))
    honest(engine.generate([2], sampling, max_new_tokens=10))


def test_the_embedded_pair_breaks_nothing(pair: sd.Pair) -> None:
    """With its tokenizer: an end that only the tokenizer names, and stop strings."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=5)
    reasons = set()
    for seed in range(4):
        for stop in ((), (" the",), (".",)):
            sampling = sd.Sampling(temperature=0.6, seed=seed, stop=stop)
            trace = honest(engine.generate("Once upon a time", sampling, max_new_tokens=400))
            reasons.add(trace.finish_reason)
    assert {"eos", "stop"} <= reasons


def test_it_needs_no_torch(tmp_path: Path) -> None:
    path = SAMPLED.save(tmp_path / "run.json")
    code = (
        "import sys; sys.modules['torch'] = None; import specdec_teach as sd;"
        f"print(sd.invariants.check(sd.Trace.load({str(path)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(("name", "what", "breaking"), BROKEN, ids=lambda item: item if isinstance(item, str) else "")
def test_an_edit_breaks_exactly_one(name: str, what: str, breaking: Callable[[], sd.Trace]) -> None:
    """Each edit of an honest trace shows under its own name, in the check and in the watch."""
    trace = breaking()
    found = check(trace)
    assert {violation.name for violation in found} == {name}, found
    assert all(violation.message[-1] not in " ." and "\n" not in violation.message for violation in found)
    if trace.prefill == SAMPLED.prefill and trace.prompt == SAMPLED.prompt and trace.finish_reason is not None:
        with pytest.raises(sd.EngineFailure, match=f"the invariant {name} is broken"):
            play(trace)


def play(trace: sd.Trace) -> None:
    """Tell a watch what an engine would have told it."""
    watch = Watch()
    watch.expect(trace.meta, len(trace.prompt))
    assert trace.prefill is not None
    watch.on_event(events.Prefilled(trace.prefill))
    for cycle in trace.cycles:
        watch.on_event(events.CycleFinished(Written(cycle)))  # type: ignore[arg-type]
    if trace.finish_reason is not None:
        watch.on_event(events.Finished(trace.finish_reason))


class Written:
    """A record that is written out."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle

    def cycle(self) -> Cycle:
        return self._cycle


def test_the_unbroken_ones_are_clean() -> None:
    """What the edits start from is honest, and so is the way they are counted and played."""
    for trace in (SAMPLED, GREEDY, paged(), counted(SAMPLED), until(SAMPLED, 3), of(SAMPLED, cache="paged")):
        assert check(trace) == []
        play(trace)


def test_every_invariant_can_be_broken() -> None:
    assert {name for name, _, _ in BROKEN} == set(names()) == set(descriptions())
    assert all(text.endswith(".") and "\n" not in text for text in descriptions().values())


def test_a_cache_that_cannot_rewind_may_go_back_further() -> None:
    """Recomputing caches start again from 0; that is an error elsewhere."""
    cycles = tuple(replace(c, target_kv=replace(c.target_kv, before=0, after=0)) for c in SAMPLED.cycles)
    trace = replace(SAMPLED, cycles=cycles)
    assert check(of(trace, cache="recompute")) == []
    assert {violation.name for violation in check(trace)} == {"computed-behind-committed"}


def test_kept_cycles_are_judged_without_the_others() -> None:
    """`trace=n` keeps the last n; they are clean, and an edit in them is found."""
    kept = run(sd.Sampling(temperature=0.9, seed=6), trace=3)
    assert kept.dropped > 0
    assert len(kept.cycles) == 3
    assert {v.name for v in check(edit(kept, 1, gamma=9))} == {"gamma"}
    assert {v.name for v in check(replace(kept, dropped=0))} == {"counters"}


def test_raw_q_shows_where_a_filter_is_on() -> None:
    """Top-k on both sides of the crafted case keeps two tokens; a trace that shows more was not filtered."""
    engine = tabular(logs(FILTER_P), logs(FILTER_Q), 3)
    assert len(honest(engine.generate([0], sd.Sampling(top_k=2, seed=1))).cycles) > 3
    trace = honest(engine.generate([0], sd.Sampling(seed=1)))
    assert {v.name for v in check(sampled_with(trace, top_k=2))} == {"rows"}


def test_a_watch_without_what_to_expect() -> None:
    """Claims about the record alone hold without a meta; a second request begins anew; nothing follows an end."""
    watch = Watch()
    prefilled = events.Prefilled(SAMPLED.prefill)  # type: ignore[arg-type]
    told = [events.CycleFinished(Written(cycle)) for cycle in SAMPLED.cycles]  # type: ignore[arg-type]
    ended = events.Finished("length")
    for _ in range(2):
        heard: list[events.Event] = [prefilled, prefilled, *told, told[-1], ended, ended]
        for event in heard:
            watch.on_event(event)
    with pytest.raises(sd.EngineFailure, match="after the text has ended"):
        watch.on_event(told[0])
    fresh = Watch()
    fresh.on_event(prefilled)
    fresh.on_event(told[0])
    for _ in range(2):
        with pytest.raises(sd.EngineFailure, match="counters is broken in cycle 2"):
            fresh.on_event(told[2])


def test_rows_of_a_batch_are_watched_apart() -> None:
    """Events that name their row reach that row's record."""
    watch = Watch()
    for cycle, other in zip(SAMPLED.cycles, GREEDY.cycles, strict=False):
        for row, one in ((0, cycle), (3, other)):
            watch.on_event(events.CycleFinished(Written(one), row))  # type: ignore[arg-type]


def test_a_watch_survives_interrupts() -> None:
    """Closing events that come again are no second cycle."""

    class Interrupt:
        left = 2

        def on_event(self, event: events.Event) -> None:
            if isinstance(event, (events.CycleFinished, events.Prefilled, events.Finished)) and self.left:
                self.left -= 1
                raise KeyboardInterrupt

    engine = watched(sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=3))
    engine.observers.append(Interrupt())
    stream = engine.stream([1, 2, 3], sd.Sampling(seed=1), max_new_tokens=12)
    seen = interrupts = 0
    while True:
        try:
            next(stream)
            seen += 1
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 2
    assert seen == stream.result().stats.cycles
