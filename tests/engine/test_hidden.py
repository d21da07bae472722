"""The target's hidden states reach a drafter: each committed and computed position's own, once, and no other's.

The oracle is transformers: one forward over the whole text, from nothing, with `output_hidden_states`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import pytest
import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach.caches import KINDS
from specdec_teach.hf import ModelRunner
from specdec_teach.hidden import Hidden
from specdec_teach.sequence import Sequence as Request
from specdec_teach.stream import Stream

TARGET = sd.testing.tiny_llama(3, layers=3)
LAYERS = (0, 2, 3)
GREEDY = sd.Sampling(temperature=0, eos_token_id=None)
PROMPTS = ([5, 9, 2, 33, 7], [1, 2], [60], [11, 4, 4, 8, 15, 16, 23, 42, 1, 1, 2])


@final
class Reader:
    """Drafts a text it is told, wrongly now and then, and keeps every hidden state that it is handed."""

    name, model_name, revision, context, exact = "reader", None, None, None, True

    def __init__(self, layers: tuple[int, ...] = LAYERS, spoil: int = 3) -> None:
        self.features, self._spoil = layers, spoil
        self.texts: dict[int, list[int]] = {}
        self.read: dict[int, dict[int, Tensor]] = {}
        self.most = 0

    def check(self, vocab: int) -> None:
        pass

    def reset(self, sequence: Request, capacity: int) -> None:
        self.read[sequence.row] = {}

    def propose(self, sequences: Sequence[Request], counts: Sequence[int], hidden: Any = None) -> list[sd.Proposal]:
        return [self._propose(sequence, count) for sequence, count in zip(sequences, counts, strict=True)]

    def _propose(self, sequence: Request, count: int) -> sd.Proposal:
        states, length = sequence.hidden, len(sequence.tokens)
        assert states is not None
        assert states.stop == length - 1, f"{states.stop} positions have states, {length - 1} are computed"
        if length > 1:
            self.most = max(self.most, len(states.rows_RW))
            for at, row_W in enumerate(states.rows_RW):
                assert states.start + at not in self.read[sequence.row]
                self.read[sequence.row][states.start + at] = row_W
            states.drop(states.stop)
            assert not len(states.rows_RW)
        drafts = self.texts[sequence.row][length : length + count]
        if length % self._spoil == 0 and drafts:
            at = length % len(drafts)
            drafts = [*drafts[:at], (drafts[at] + 1) % sequence.vocab, *drafts[at + 1 :]]
        return sd.Proposal(tuple(drafts))

    def commit(self, sequence: Request) -> None:
        pass

    def pointer(self, sequence: Request) -> None:
        pass


def fresh(tokens: list[int]) -> Tensor:
    """What transformers says, `[T, 3 · N]`."""
    with torch.inference_mode():
        states = TARGET(input_ids=torch.tensor([tokens]), output_hidden_states=True).hidden_states
    return torch.cat([states[layer][0] for layer in LAYERS], dim=-1)


def text_of(prompt: list[int], count: int) -> list[int]:
    plain = sd.Engine(TARGET).generate(prompt, GREEDY, max_new_tokens=count, trace=False)
    return [*prompt, *plain.tokens]


def compare(reader: Reader, row: int, tokens: list[int]) -> None:
    right, read = fresh(tokens), reader.read[row]
    assert sorted(read) == list(range(len(read)))
    assert len(read) > len(tokens) - 8
    for at, row_W in read.items():
        torch.testing.assert_close(row_W, right[at], atol=1e-5, rtol=1e-5)


def run(decoder: str, cache: str, prompts: Sequence[list[int]] = PROMPTS, count: int = 21, **more: Any) -> Reader:
    reader = Reader()
    engine = sd.Engine(TARGET, drafter=reader, decoder=decoder, cache=cache, block_size=4, **more)
    reader.texts = {row: text_of(prompt, count) for row, prompt in enumerate(prompts)}
    results = engine.generate(list(prompts), GREEDY, max_new_tokens=count)
    for row, result in enumerate(results):
        tokens = [*prompts[row], *result.tokens]
        assert tokens == reader.texts[row]
        assert 0 < result.stats.accepted < result.stats.drafted
        compare(reader, row, tokens)
    return reader


@pytest.mark.parametrize("cache", KINDS)
@pytest.mark.parametrize("decoder", ["auto", "hf"])
def test_each_position_is_handed_over_once_in_a_ragged_batch(decoder: str, cache: str) -> None:
    reader = run(decoder, cache)
    assert reader.most <= max(map(len, PROMPTS))


@pytest.mark.parametrize("decoder", ["auto", "hf"])
def test_row_by_row_where_a_model_cannot_share_a_forward(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    init = ModelRunner.__init__

    def alone(self: ModelRunner, *given: Any, **more: Any) -> None:
        init(self, *given, **more)
        self.shares = False

    monkeypatch.setattr(ModelRunner, "__init__", alone)
    run(decoder, "contiguous")


@pytest.mark.parametrize("chunk", [1, 3, 64])
@pytest.mark.parametrize("blocks", [9, 100])
def test_in_chunks_after_preemption_and_beside_published_beginnings(chunk: int, blocks: int) -> None:
    """With 9 blocks requests lose theirs and begin again; equal prompts would be adopted by any other drafter."""
    reader = Reader()
    engine = sd.Engine(TARGET, drafter=reader, gamma=3, block_size=4)
    prompts = [[11, 4, 4, 8, 15, 16, 23, 42, 1, 1, 2]] * 2 + [[11, 4, 4, 8, 15, 16, 23, 42, 9]] + [[3, 1]]
    scheduler = sd.Scheduler(engine, max_batch=3, blocks=blocks, chunk=chunk)
    reader.texts = {row: text_of(prompt, 17) for row, prompt in enumerate(prompts)}
    requests = [scheduler.submit(prompt, GREEDY, max_new_tokens=17) for prompt in prompts]
    results = scheduler.run()
    for row, (request, result) in enumerate(zip(requests, results, strict=True)):
        assert request.state == "finished"
        assert [*prompts[row], *result.tokens] == reader.texts[row]
        assert result.trace is not None
        assert result.trace.prefill is not None
        assert result.trace.prefill.adopted == 0
        compare(reader, row, reader.texts[row])
    states = {row.state for step in scheduler.timeline().steps for row in step.rows}
    assert ("preempted" in states) == (blocks == 9)


def serve_again() -> sd.Result:
    """Serve one prompt three times, one after the other: twice to a reader, then plainly; return the plain result."""
    reader, prompt = Reader(), [11, 4, 4, 8, 15, 16, 23, 42, 1]
    engine = sd.Engine(TARGET, drafter=reader, gamma=3, block_size=4)
    scheduler = sd.Scheduler(engine, max_batch=1, blocks=40)
    reader.texts = dict.fromkeys(range(2), text_of(prompt, 9))
    for row in range(2):
        scheduler.submit(prompt, GREEDY, max_new_tokens=9)
        assert [*prompt, *scheduler.run()[0].tokens] == reader.texts[row]
        compare(reader, row, reader.texts[row])
    scheduler.submit(prompt, GREEDY, max_new_tokens=9, speculate=False)
    plain = scheduler.run()[0]
    assert [*prompt, *plain.tokens] == reader.texts[0]
    return plain


def test_only_a_request_that_reads_no_states_adopts_what_was_published() -> None:
    plain = serve_again()
    assert plain.trace is not None
    assert plain.trace.prefill is not None
    assert plain.trace.prefill.adopted == 8


def test_no_state_is_lost_or_doubled_when_a_cycle_is_interrupted() -> None:
    """An observer interrupts at every event of three cycles in turn; the stream goes on where it was."""
    prompt = list(PROMPTS[0])
    for stop in range(1, 22):
        reader, seen = Reader(), 0
        engine = sd.Engine(TARGET, drafter=reader)
        reader.texts = {0: text_of(prompt, 21)}
        stream = engine.stream(prompt, GREEDY, max_new_tokens=21)

        class Interrupts:
            def on_event(self, event: Any, at: int = stop) -> None:
                nonlocal seen
                seen += 1
                if seen == at:
                    raise KeyboardInterrupt

        engine.observers.append(Interrupts())
        stream.sequence.draft = None
        while stream.goes_on:
            try:
                stream.step()
            except KeyboardInterrupt:
                reader.read[0] = {at: row for at, row in reader.read.get(0, {}).items() if _seen(stream, at)}
        compare(reader, 0, reader.texts[0])


def _seen(stream: Stream, at: int) -> bool:
    assert stream.sequence.hidden is not None
    return at < stream.sequence.hidden.start


def test_an_interrupt_inside_a_forward_leaves_the_states_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the states' arrival and the pointer's move: what came in counts for nothing."""
    reader, prompt, calls = Reader(), list(PROMPTS[0]), 0
    engine = sd.Engine(TARGET, drafter=reader)
    reader.texts = {0: text_of(prompt, 21)}
    put = Hidden.put

    def interrupted(self: Hidden, at: int, rows: Tensor) -> None:
        nonlocal calls
        put(self, at, rows)
        calls += 1
        if calls % 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Hidden, "put", interrupted)
    stream = engine.stream(prompt, GREEDY, max_new_tokens=21)
    while stream.goes_on:
        try:
            stream.step()
        except KeyboardInterrupt:
            continue
    assert calls > 10
    compare(reader, 0, reader.texts[0])


def _shifted(self: Hidden, at: int, rows: Tensor, put: Callable[..., None] = Hidden.put) -> None:
    put(self, at, rows.roll(1, 0))


MISTAKES: dict[str, tuple[type, str, Callable[..., None]]] = {
    "each state is handed over for the next position": (Hidden, "put", _shifted),
    "states of rejected drafts are kept": (Request, "trim", lambda self: None),
    "what was read is handed over again": (Hidden, "drop", lambda self, to: None),
    "states before a preemption are kept": (Hidden, "clear", lambda self: None),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, wrong = MISTAKES[name]
    monkeypatch.setattr(kind, method, wrong)

    def both() -> None:
        run("auto", "contiguous")
        test_in_chunks_after_preemption_and_beside_published_beginnings(3, 9)

    with pytest.raises((AssertionError, sd.EngineFailure)):
        both()


def test_adopting_for_a_reader_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks hold keys and values only: whoever takes them over for a reader lacks states."""

    def adopts(self: Stream) -> None:
        if self.sequence.cache.pointer == 0:
            self._adopted = self.sequence.cache.adopt(self.sequence.tokens[:-1])

    monkeypatch.setattr(Stream, "rewind", adopts)
    with pytest.raises((AssertionError, sd.EngineFailure)):
        serve_again()


def test_a_drafter_that_reads_nothing_costs_nothing() -> None:
    engine = sd.Engine(TARGET, drafter=sd.NgramDrafter())
    stream = engine.stream([1, 2, 3], GREEDY, max_new_tokens=4)
    stream.finish()
    assert stream.sequence.hidden is None


def test_layers_that_are_not_there_are_refused() -> None:
    with pytest.raises(sd.InvalidInput, match="reads hidden state 4 and the target has 0 to 3"):
        sd.Engine(TARGET, drafter=Reader((4,)))
    silent = sd.testing.TabularLM([0.0, 1.0])
    with pytest.raises(sd.EngineFailure, match="hands out no hidden states"):
        sd.Engine(silent, drafter=Reader((1,))).generate([0, 1], GREEDY)
