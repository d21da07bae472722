"""Streams: one cycle a step, safe to interrupt anywhere, never sharing anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach import events, recorder
from specdec_teach.caches.store import SlotStore

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
KINDS = (
    events.Prefilled,
    events.CycleStarted,
    events.Drafted,
    events.TargetRan,
    events.Verified,
    events.Committed,
    events.RolledBack,
    events.CycleFinished,
    events.Finished,
)


def engine() -> sd.Engine:
    """A target and a draft near it."""
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)


class Ear:
    """Remembers all events; raises KeyboardInterrupt at the n-th of a kind, once."""

    def __init__(self, kind: type | None = None, at: int = 1) -> None:
        self.heard: list[Any] = []
        self.kind, self.left = kind, at

    def on_event(self, event: Any) -> None:
        """See `Observer`."""
        self.heard.append(event)
        if self.kind is not None and isinstance(event, self.kind):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def strip(cycles: Any) -> list[Any]:
    """Cycles without their timing."""
    return [(c.index, c.proposed, c.emitted, c.decisions, c.target_kv, c.draft_kv, c.rng) for c in cycles]


def test_order_of_events() -> None:
    """Prefill, then seven events a cycle, then the end; they agree with the records."""
    subject, ear = engine(), Ear()
    subject.observers.append(ear)
    result = subject.generate([1, 2, 3], sd.Sampling(seed=2), max_new_tokens=20)
    kinds = [type(event) for event in ear.heard]
    assert kinds == [events.Prefilled, *list(KINDS[1:-1]) * result.stats.cycles, events.Finished]
    assert result.trace is not None
    finished = [event.cycle for event in ear.heard if isinstance(event, events.CycleFinished)]
    assert tuple(finished) == result.trace.cycles
    prefilled = ear.heard[0].prefill
    assert (prefilled.target, prefilled.draft) == (2, 2)


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("sampling", [sd.Sampling.greedy(), sd.Sampling(seed=11)], ids=["greedy", "sampled"])
def test_interrupted_at_every_event_and_resumed(sampling: sd.Sampling, kind: type, at: int) -> None:
    """The run goes on as if nothing had happened: same cycles, same text, nothing lost or doubled."""
    whole = engine().generate([1, 2, 3], sampling, max_new_tokens=24)
    assert whole.trace is not None
    subject = engine()
    if kind in (events.Prefilled, events.Finished):
        at = 1
    subject.observers.append(Ear(kind, at))
    stream = subject.stream([1, 2, 3], sampling, max_new_tokens=24)
    got, interrupts = [], 0
    while True:
        try:
            got.append(next(stream))
        except KeyboardInterrupt:
            interrupts += 1
        except StopIteration:
            break
    assert interrupts == 1
    assert strip(got) == strip(whole.trace.cycles)
    assert stream.result().tokens == whole.tokens
    assert strip(stream.trace().cycles) == strip(whole.trace.cycles)
    assert stream.result().stats.accepted == whole.stats.accepted


@pytest.mark.parametrize("decoder", ["compact", "hf"])
def test_an_interrupt_inside_a_forward(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind every one of the layers of a cycle, of target and draft: half-written slots are written again."""
    subject = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR, decoder=decoder), gamma=4, decoder=decoder)
    assert subject.target_runner.decoder == decoder
    whole = subject.generate([1, 2, 3], sd.Sampling(seed=4), max_new_tokens=24)
    honest, left = SlotStore.put, [0]

    def put(store: SlotStore, layer: int, slots: Any, keys: Any, values: Any) -> None:
        honest(store, layer, slots, keys, values)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(SlotStore, "put", put)
    for writes in range(1, 11):
        stream = subject.stream([1, 2, 3], sd.Sampling(seed=4), max_new_tokens=24)
        next(stream)
        left[0] = writes
        with pytest.raises(KeyboardInterrupt):
            next(stream)
        for _ in stream:
            pass
        assert stream.result().tokens == whole.tokens


@pytest.mark.parametrize("rule", ["rejection", "coupled"])
def test_an_interrupt_at_any_line(rule: str) -> None:
    """KeyboardInterrupt at every 23rd line that the engine runs: tokens, text and counts as without it."""
    subject = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=3, verify=rule)
    sampling = sd.Sampling(seed=4, logprobs=2)
    whole = subject.generate([1, 2, 3], sampling, max_new_tokens=7)
    lines = _run_with_interrupt(subject, sampling, None)[1]
    assert lines > 400
    for at in range(1, lines, 23):
        result, _ = _run_with_interrupt(subject, sampling, at)
        assert result.tokens == whole.tokens, at
        assert result.stats.accepted == whole.stats.accepted
        assert result.stats.emitted == len(result.tokens)
        assert result.logprobs is not None
        assert len(result.logprobs) == len(result.tokens)
        assert result.trace is not None
        assert [c.emitted for c in result.trace.cycles] == [c.emitted for c in whole.trace.cycles]  # type: ignore[union-attr]


def _run_with_interrupt(subject: sd.Engine, sampling: sd.Sampling, at: int | None) -> tuple[sd.Result, int]:
    """Run a stream to its end, with a KeyboardInterrupt at the n-th line of the package; check what there is then."""
    seen = 0
    folder = str(Path(sd.__file__).parent)

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(folder):
            return None
        if event == "line":
            seen += 1
            if seen == at:
                raise KeyboardInterrupt
        return trace

    stream = subject.stream([1, 2, 3], sampling, max_new_tokens=7)
    before = sys.gettrace()
    going = True
    while going:
        try:
            sys.settrace(trace)
            try:
                next(stream)
            finally:
                sys.settrace(before)
        except StopIteration:
            going = False
        except KeyboardInterrupt:
            so_far = stream.result()
            assert so_far.stats.emitted == len(so_far.tokens) == len(so_far.logprobs or ())
            assert so_far.trace is not None
            assert sum(len(cycle.emitted) for cycle in so_far.trace.cycles) == len(so_far.tokens)
    return stream.result(), seen


def test_records_are_kept_only_when_asked_for() -> None:
    """stream(trace=False) yields cycles and keeps none; observers hear them all the same."""
    subject = engine()
    stream = subject.stream([1, 2, 3], sd.Sampling(seed=2), max_new_tokens=20, trace=False)
    assert len(list(stream)) > 2
    assert stream.result().trace is None
    assert stream.trace().cycles == ()
    ear = Ear()
    subject.observers.append(ear)
    result = subject.generate([1, 2, 3], sd.Sampling(seed=2), max_new_tokens=20, trace=False)
    assert result.trace is None
    assert sum(isinstance(event, events.CycleFinished) for event in ear.heard) == result.stats.cycles


def test_abandoned_streams_leave_nothing_behind() -> None:
    """A stream that was dropped, and one that runs beside it, do not change another."""
    subject = engine()
    alone = subject.generate([1, 2, 3], sd.Sampling(seed=4), max_new_tokens=24).tokens
    dropped = subject.stream([9, 9], sd.Sampling(seed=1), max_new_tokens=24)
    next(dropped)
    first, second = (subject.stream([1, 2, 3], sd.Sampling(seed=4), max_new_tokens=24) for _ in range(2))
    other = subject.stream([5], sd.Sampling(seed=9), max_new_tokens=24)
    for _ in range(3):
        next(first), next(other), next(second)
    del other, dropped
    assert [first, second] != []
    for stream in (second, first):
        for _ in stream:
            pass
        assert stream.result().tokens == alone


def test_seeds() -> None:
    """A seeded request is the same alone, in a batch, reordered; unseeded ones differ; γ may change it."""
    subject = engine()
    a, b, c = sd.Sampling(seed=1), sd.Sampling(), sd.Sampling(seed=2)
    prompt = [1, 2, 3]
    alone = [subject.generate(prompt, s, max_new_tokens=20).tokens for s in (a, c)]
    together = subject.generate([prompt, prompt, prompt], [a, b, c], max_new_tokens=20)
    reordered = subject.generate([prompt, prompt], [c, a], max_new_tokens=20)
    assert [together[0].tokens, together[2].tokens] == alone == [reordered[1].tokens, reordered[0].tokens]
    unseeded = {subject.generate(prompt, b, max_new_tokens=20).tokens for _ in range(3)}
    assert len(unseeded) == 3


def test_batches_take_lists() -> None:
    """Rows with their own sampling, cap and γ; each as if alone."""
    subject = engine()
    prompts = [[1], [1, 2, 3, 4, 5], [7] * 9]
    sampling = [sd.Sampling.greedy(), sd.Sampling(seed=1), sd.Sampling.greedy()]
    rows = subject.generate(prompts, sampling, max_new_tokens=[4, 9, 16], gamma=[0, 2, None])
    for prompt, settings, cap, gamma, row in zip(prompts, sampling, [4, 9, 16], [0, 2, None], rows, strict=True):
        assert row.tokens == subject.generate(prompt, settings, max_new_tokens=cap, gamma=gamma).tokens
        assert len(row.tokens) == cap
    scripts = [[1] * 20, [2] * 20]
    told = sd.Engine(TARGET, drafter=sd.ScriptedDrafter(scripts), gamma=2)
    for row, token in zip(told.generate([[1], [2]], sd.Sampling.greedy(), max_new_tokens=6), (1, 2), strict=True):
        assert row.trace is not None
        assert set(row.trace.cycles[0].proposed) == {token}


def test_nothing_is_built_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """trace=False and no observer: no record, no event."""

    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a record was built")

    expected = engine().generate([1, 2], sd.Sampling(seed=3), max_new_tokens=12).tokens
    for name in ("working.Cycle", "recorder.measure", "working.Pending", "stream.Run"):
        monkeypatch.setattr(f"specdec_teach.{name}", never)
    for kind in KINDS:
        monkeypatch.setattr(f"specdec_teach.events.{kind.__name__}", never)
    assert engine().generate([1, 2], sd.Sampling(seed=3), max_new_tokens=12, trace=False).tokens == expected


def test_the_second_call_is_like_the_first() -> None:
    """Nothing is learnt from call to call, and the models' own settings stay untouched."""
    subject = engine()
    before = (TARGET.generation_config.to_dict(), TARGET.config.to_dict(), NEAR.generation_config.to_dict())
    runs = [subject.generate([1, 2], sd.Sampling(seed=8), max_new_tokens=24) for _ in range(2)]
    assert strip(runs[0].trace.cycles) == strip(runs[1].trace.cycles)  # type: ignore[union-attr]
    assert before == (TARGET.generation_config.to_dict(), TARGET.config.to_dict(), NEAR.generation_config.to_dict())


def test_text_streams_in_pieces(pair: sd.Pair) -> None:
    """Cycle.text joins to the whole text, the end-of-sequence token is in tokens and not in the text."""
    subject = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    for seed in range(3):
        stream = subject.stream("Once upon a time", sd.Sampling(temperature=0.8, seed=seed), max_new_tokens=400)
        text = "".join(cycle.text for cycle in stream)
        result = stream.result()
        assert text == result.text
        eos = pair.tokenizer.eos_token_id
        assert pair.tokenizer.eos_token not in text
        if result.finish_reason == "eos":
            assert result.tokens[-1] == eos
        assert result.text == pair.tokenizer.decode([t for t in result.tokens if t != eos])


def test_a_cycle_is_read_late_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks: no tensor is read while the run lasts. Room for none: all but the newest are, with equal records."""
    read: list[int] = []
    original = recorder.measure

    def counted(*args: Any) -> Any:
        read.append(1)
        return original(*args)

    monkeypatch.setattr(recorder, "measure", counted)
    late = engine().generate([1, 2], sd.Sampling(seed=3), max_new_tokens=24)
    assert not read
    assert late.trace is not None
    assert late.trace is late.trace
    assert len(read) == len(late.trace.cycles) > 4
    monkeypatch.setattr(recorder, "_ROOM", 0)
    read.clear()
    early = engine().generate([1, 2], sd.Sampling(seed=3), max_new_tokens=24)
    assert len(read) == early.stats.cycles - 1
    assert early.trace is not None
    assert strip(early.trace.cycles) == strip(late.trace.cycles)
    monkeypatch.setattr(recorder, "_ROOM", 2048)
    read.clear()
    engine().generate([1, 2], sd.Sampling(seed=3), max_new_tokens=24, trace=1)
    assert not read, "what nobody holds any more is never read"
