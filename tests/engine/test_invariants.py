"""The invariants of a run: an honest engine breaks none, and every one of them can be broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach import events
from specdec_teach.caches import KINDS
from specdec_teach.invariants import Watch, check, descriptions, names
from specdec_teach.trace import KV, Bar, Blocks, Cycle, Draws, Top

from ..checks import FILTER_P, FILTER_Q, logs, tabular

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
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


def honest(result: object) -> sd.Trace:
    """The trace of a result, in which nothing is broken."""
    assert isinstance(result, sd.Result)
    assert result.trace is not None
    assert check(result.trace) == []
    return result.trace


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
    drafter = sd.ScriptedDrafter(script, None if certain else logs([1.0] * WIDTH).exp() / WIDTH)
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


# Traces to break, and how.


def run(sampling: sd.Sampling, **extra: Any) -> sd.Trace:
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    return honest(engine.generate([1, 2, 3], sampling, **{"max_new_tokens": 40, **extra}))


SAMPLED = run(sd.Sampling(temperature=0.9, eos_token_id=None, seed=6))
GREEDY = run(sd.Sampling.greedy())


def find(trace: sd.Trace, wanted: Callable[[Cycle], bool]) -> int:
    """The index of the first cycle that has a successor and fits."""
    return next(cycle.index for cycle in trace.cycles[:-1] if wanted(cycle))


def edit(trace: sd.Trace, at: int, /, **changes: Any) -> sd.Trace:
    cycles = list(trace.cycles)
    cycles[at] = replace(cycles[at], **changes)
    return replace(trace, cycles=tuple(cycles))


def redecide(trace: sd.Trace, index: int, at: int, **changes: Any) -> sd.Trace:
    decisions = list(trace.cycles[index].decisions)
    decisions[at] = replace(decisions[at], **changes)
    return edit(trace, index, decisions=tuple(decisions))


def counted(trace: sd.Trace) -> sd.Trace:
    """All counts and pointers again, from what was emitted."""
    length, cycles = len(trace.prompt), []
    for cycle in trace.cycles:
        before, length = length, length + len(cycle.emitted)
        reach = before + len(cycle.proposed)
        cycles.append(
            replace(
                cycle,
                committed_before=before,
                committed_after=length,
                target_kv=KV(before - 1, reach, min(reach, length - 1)),
                draft_kv=KV(before - 1, reach - 1, min(reach - 1, length - 1)),
            )
        )
    return replace(trace, cycles=tuple(cycles))


def until(trace: sd.Trace, index: int) -> sd.Trace:
    """The run as it stood after a cycle."""
    return replace(trace, cycles=trace.cycles[: index + 1], finish_reason=None)


def paged(size: int = 4) -> sd.Trace:
    """The sampled run on a paged cache that publishes what is full."""
    cycles, done = [], 0
    for cycle in SAMPLED.cycles:
        computed = cycle.target_kv.after
        full = computed // size
        table = tuple(range(100, 100 + -(-computed // size)))
        cycles.append(replace(cycle, blocks=Blocks(size, table, published=table[done:full])))
        done = full
    return replace(SAMPLED, cycles=tuple(cycles), meta=replace(SAMPLED.meta, cache="paged"))


def reblock(**changes: Any) -> sd.Trace:
    """One cycle's blocks changed: the last one before the end."""
    trace = paged()
    at = len(trace.cycles) - 2
    old = trace.cycles[at].blocks
    assert old is not None
    return edit(trace, at, blocks=replace(old, **changes))


ALL = find(SAMPLED, lambda c: c.last_kind == "bonus" and len(c.proposed) == 4)
FELL = find(SAMPLED, lambda c: c.last_kind == "correction" and 0 < c.accepted < 3)
DOUBTED = find(SAMPLED, lambda c: any(d.accepted and d.p < 0.9 * d.q for d in c.decisions))
FELL_GREEDY = find(GREEDY, lambda c: c.last_kind == "correction" and c.accepted > 0)
END = len(SAMPLED.cycles) - 1


def no_bonus(index: int, accepted: int = 4) -> sd.Trace:
    """A cycle that keeps some drafts, and no token after them."""
    cycle = SAMPLED.cycles[index]
    decisions = tuple(
        d if at < accepted else replace(d, accepted=False, status="cut") for at, d in enumerate(cycle.decisions)
    )
    gone = {"last": None, "last_kind": "none", "last_from": None, "last_top": None}
    cut = {"emitted": cycle.proposed[:accepted], "accepted": accepted, "stop_cut": 4 - accepted}
    return counted(edit(SAMPLED, index, decisions=decisions, **gone, **cut))


def ghost() -> sd.Trace:
    """The counter is rewound, the target's pointer is not."""
    kv = SAMPLED.cycles[FELL].target_kv
    return edit(SAMPLED, FELL, target_kv=replace(kv, after=kv.written))


def gap() -> sd.Trace:
    """One token between two cycles that nobody emitted."""
    trace = until(SAMPLED, 3)
    c = trace.cycles[3]
    up = {name: getattr(c, name) + 1 for name in ("committed_before", "committed_after")}
    kv, draft = c.target_kv, c.draft_kv
    assert draft is not None
    moved = {
        "target_kv": KV(kv.before + 1, kv.written + 1, kv.after + 1),
        "draft_kv": replace(draft, after=kv.after + 1),
    }
    return edit(trace, 3, **up, **moved)


def of(trace: sd.Trace, **changes: Any) -> sd.Trace:
    """Another meta."""
    return replace(trace, meta=replace(trace.meta, **changes))


def sampled_with(trace: sd.Trace, **changes: Any) -> sd.Trace:
    return of(trace, sampling={**trace.meta.sampling, **changes})


def redrawn() -> sd.Trace:
    """A correction that the residual cannot give: its bar says so."""
    cycle = SAMPLED.cycles[FELL]
    bars = tuple(
        Bar(b.token, b.p, b.q, 0.0) if b.token == cycle.last else b for b in cycle.decisions[cycle.accepted].bars
    )
    return redecide(SAMPLED, FELL, cycle.accepted, bars=bars)


def favourites() -> sd.Trace:
    """Every draft is said to be the likeliest of its q, in a run where q was far from sure."""
    trace = SAMPLED
    for cycle in SAMPLED.cycles:
        for at, d in enumerate(cycle.decisions):
            trace = redecide(trace, cycle.index, at, q_top=Top(((d.token, d.q),), 1.0 - d.q))
    return trace


def not_of_q() -> sd.Trace:
    """An accepted draft that q cannot give."""
    cycle = SAMPLED.cycles[ALL]
    top = Top(tuple(pair for pair in cycle.decisions[0].q_top.tokens if pair[0] != cycle.proposed[0])[:9], 0.1)
    return redecide(SAMPLED, ALL, 0, q=0.0, q_top=top, accept_probability=1.0)


def doubted(**changes: Any) -> sd.Trace:
    cycle = SAMPLED.cycles[DOUBTED]
    at = next(at for at, d in enumerate(cycle.decisions) if d.accepted and d.p < 0.9 * d.q)
    return redecide(SAMPLED, DOUBTED, at, **changes)


def reused() -> sd.Trace:
    """A draft judged with the u of another one, which gives the same verdict."""
    first, second = SAMPLED.cycles[ALL].decisions[:2]
    least = min(first.u or 1.0, second.u or 1.0)
    return redecide(redecide(SAMPLED, ALL, 0, u=least), ALL, 1, u=least)


def favourite_refused() -> sd.Trace:
    cycle = GREEDY.cycles[FELL_GREEDY]
    fallen = cycle.decisions[cycle.accepted]
    return redecide(GREEDY, FELL_GREEDY, cycle.accepted, p=1.0, p_top=Top(((fallen.token, 1.0),), 0.0), bars=())


def two_stand() -> tuple[Any, ...]:
    """The decisions of a cycle in which one draft more stands than was counted."""
    cycle = SAMPLED.cycles[FELL]
    stands: dict[str, Any] = {"accepted": True, "status": "accepted", "u": 1e-9}
    return tuple(replace(d, **stands) if at == cycle.accepted else d for at, d in enumerate(cycle.decisions))


def judged_behind() -> sd.Trace:
    """A draft behind a rejection that was judged all the same."""
    rng = SAMPLED.cycles[FELL].rng
    return edit(redecide(SAMPLED, FELL, -1, u=0.5), FELL, rng=replace(rng, accept=(rng.accept[0], rng.accept[1] + 1)))


def hole() -> sd.Trace:
    """After an all-accept the draft's pointer moves on without a forward."""
    kv = SAMPLED.cycles[ALL].draft_kv
    assert kv is not None
    return edit(SAMPLED, ALL, draft_kv=replace(kv, after=kv.written + 1))


def drafted(**changes: int) -> sd.Trace:
    kv = SAMPLED.cycles[FELL].draft_kv
    assert kv is not None
    return edit(SAMPLED, FELL, draft_kv=replace(kv, **changes))


def third(**changes: Any) -> sd.Trace:
    return edit(SAMPLED, 2, **changes)


def token_in_the_middle() -> int:
    """A token that was emitted inside a cycle and is not the run's last one."""
    final = SAMPLED.cycles[-1].emitted[-1]
    return next(t for c in SAMPLED.cycles for t in c.emitted[:-1] if t != final)


LAST = SAMPLED.cycles[END]
AFTER = SAMPLED.cycles[FELL].committed_after
OWNED = tuple(range(100, 112))

BROKEN: list[tuple[str, str, Callable[[], sd.Trace]]] = [
    ("counters", "a cycle is missing", lambda: edit(SAMPLED, END, index=END + 1)),
    ("counters", "a token that nobody emitted", gap),
    ("gamma", "more drafts than asked for", lambda: edit(SAMPLED, ALL, gamma=3)),
    ("gamma", "asked for more than the run's γ", lambda: edit(SAMPLED, ALL, gamma=5)),
    ("vocabulary", "ids past the vocabulary", lambda: of(SAMPLED, vocab=max(max(c.emitted) for c in SAMPLED.cycles))),
    ("vocabulary", "an id past it in the prompt", lambda: replace(SAMPLED, prompt=(1, 2, 64))),
    ("flags", "accepted behind a rejection", lambda: redecide(SAMPLED, FELL, -1, accepted=True)),
    ("flags", "cut in the middle of the text", lambda: redecide(SAMPLED, FELL, -1, status="cut")),
    ("flags", "one more counted than kept", lambda: edit(SAMPLED, FELL, decisions=two_stand())),
    ("flags", "a decision about another token", lambda: redecide(SAMPLED, ALL, 0, position=2)),
    ("acceptance", "u does not fit", lambda: doubted(u=0.9999999)),
    ("acceptance", "nobody judged it", lambda: doubted(u=None)),
    ("acceptance", "another probability", lambda: doubted(accept_probability=1.0)),
    ("acceptance", "an impossible overlap", lambda: doubted(alpha=1.1)),
    ("acceptance", "an overlap less than what is shown", lambda: redecide(SAMPLED, ALL, 0, alpha=0.0)),
    ("acceptance", "judged behind a rejection", judged_behind),
    ("acceptance", "greedy refuses the favourite", favourite_refused),
    ("residual", "a correction from p", lambda: edit(SAMPLED, FELL, last_from="p")),
    ("residual", "a bonus from a residual", lambda: edit(SAMPLED, ALL, last_from="residual")),
    ("residual", "a bonus after an empty residual", lambda: edit(SAMPLED, ALL, degenerate_residual=True)),
    ("residual", "a token that the residual lacks", redrawn),
    ("residual", "a token that its row lacks", lambda: edit(SAMPLED, ALL, last_top=Top(((99, 1.0),), 0.0))),
    ("emitted", "the bonus is dropped", lambda: replace(no_bonus(ALL), finish_reason="stop")),
    ("emitted", "the bonus is dropped at last", lambda: until(no_bonus(ALL), ALL)),
    ("emitted", "a correction without its name", lambda: edit(SAMPLED, FELL, last_kind="none")),
    ("emitted", "drafts cut without an end", lambda: edit(SAMPLED, ALL, stop_cut=1)),
    ("emitted", "another token than the one drawn",
     lambda: edit(SAMPLED, ALL, emitted=(*SAMPLED.cycles[ALL].emitted[:-1], 5 + (SAMPLED.cycles[ALL].last == 5)))),
    ("emitted", "another draft than the accepted one",
     lambda: edit(SAMPLED, ALL, emitted=(63 - SAMPLED.cycles[ALL].emitted[0], *SAMPLED.cycles[ALL].emitted[1:]))),
    ("nothing-after-stop", "a cycle after a cut one", lambda: no_bonus(ALL, 3)),
    ("nothing-after-stop", "tokens behind the end",
     lambda: of(SAMPLED, eos=(token_in_the_middle(),))),
    ("nothing-after-stop", "an end that was passed before", lambda: eos_twice()),
    ("nothing-after-stop", "an end that is none",
     lambda: of(replace(SAMPLED, finish_reason="eos"), eos=(63,))),
    ("nothing-after-stop", "more than allowed", lambda: of(SAMPLED, max_new_tokens=39)),
    ("nothing-after-stop", "less than the length", lambda: of(SAMPLED, max_new_tokens=41)),
    ("computed-behind-committed", "the pointer is not rewound", ghost),
    ("computed-behind-committed", "the last token counts as computed",
     lambda: third(target_kv=replace(SAMPLED.cycles[2].target_kv, after=SAMPLED.cycles[2].committed_after))),
    ("computed-behind-committed", "rewound too far",
     lambda: edit(SAMPLED, FELL, target_kv=replace(SAMPLED.cycles[FELL].target_kv, after=AFTER - 2))),
    ("computed-behind-committed", "a row too few",
     lambda: third(target_kv=replace(SAMPLED.cycles[2].target_kv, written=SAMPLED.cycles[2].committed_before))),
    ("computed-behind-committed", "prefill of the whole prompt",
     lambda: replace(SAMPLED, prefill=replace(SAMPLED.prefill, target=3))),  # type: ignore[type-var]
    ("draft-lag", "rewound by one too many", lambda: drafted(after=AFTER - 2)),
    ("draft-lag", "a draft counts as computed that was only sampled", hole),
    ("draft-lag", "not rewound", lambda: drafted(after=AFTER)),
    ("drawn-from-q", "q cannot give it", not_of_q),
    ("drawn-from-q", "a certain drafter with doubts", lambda: of(SAMPLED, drafter="model-argmax")),
    ("drawn-from-q", "always the favourite", favourites),
    ("rows", "p of another row", lambda: redecide(SAMPLED, FELL, -1, p=SAMPLED.cycles[FELL].decisions[-1].p + 0.01)),
    ("rows", "q without the filter", lambda: sampled_with(SAMPLED, top_k=2)),
    ("rows", "q without the floor", lambda: sampled_with(SAMPLED, min_p=0.9)),
    ("draw-numbers", "numbers used again", lambda: third(rng=SAMPLED.cycles[1].rng)),
    ("draw-numbers", "one u for two drafts", reused),
    ("draw-numbers", "greedy leaves something to chance",
     lambda: edit(GREEDY, 2, rng=Draws((0, 0), (0, 0), (7, 1)))),
    ("blocks", "a block twice", lambda: reblock(owned=(*OWNED, 100))),
    ("blocks", "given back and kept", lambda: reblock(freed=(100,))),
    ("blocks", "shared and not owned", lambda: reblock(shared=(7,))),
    ("blocks", "too few", lambda: reblock(owned=(100,), published=())),
    ("published-committed", "published before it was full", lambda: reblock(published=(111,), owned=OWNED)),
    ("published-committed", "published and not owned", lambda: reblock(published=(7,))),
]  # fmt: skip


def eos_twice() -> sd.Trace:
    """What ended the text stands in it already."""
    final = SAMPLED.cycles[-1].emitted[-1]
    at = next(c.index for c in SAMPLED.cycles if c.index > 0 and c.last_kind == "bonus")
    cycle = SAMPLED.cycles[at]
    told = edit(SAMPLED, at, last=final, emitted=(*cycle.emitted[:-1], final), last_top=Top(((final, 1.0),), 0.0))
    return replace(told, finish_reason="eos")


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
