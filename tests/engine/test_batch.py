"""Batches: every row is what it is alone, whoever its neighbours are."""

from __future__ import annotations

import itertools

import pytest

import specdec_teach as sd
from specdec_teach import rounds
from specdec_teach.caches import KINDS
from specdec_teach.stream import Stream

from ..checks import same_as_fresh
from .neighbours import (
    LOOSE,
    NEAR,
    RULES,
    TABLE,
    TARGET,
    Ask,
    alone,
    llama_engine,
    requests,
    same,
    table_engine,
    together,
)

GREEDY = sd.Sampling.greedy()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_over_tables_are_exactly_what_they_are_alone(kind: str, rule: str) -> None:
    """float64, the whole prefix read out of the cache: results and traces are equal, not only near."""
    engine, asks = table_engine(cache=kind, verify=rule), requests(7)
    for row, ask in zip(together(engine, asks), asks, strict=True):
        same(row, alone(engine, ask))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("decoder", ["auto", "hf"])
def test_rows_of_a_llama_are_what_they_are_alone(decoder: str, kind: str, rule: str) -> None:
    """float32: tokens, counts and pointers are equal, probabilities agree to the last bits of a wider product."""
    engine, asks = llama_engine(cache=kind, verify=rule, decoder=decoder), requests(64)
    for row, ask in zip(together(engine, asks), asks, strict=True):
        same(row, alone(engine, ask), LOOSE)


@pytest.mark.parametrize("kind", ["contiguous", "paged", "masked"])
def test_rows_with_texts_stops_and_grammars(pair: sd.Pair, kind: str) -> None:
    """The embedded pair: prompts as text, stop strings inside a block, a grammar, an end token, logprobs."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, cache=kind)
    digits = sd.Grammar.regex(r" (one|two|three) (cats|dogs)( and more)*\.")
    asks = [
        Ask("Once upon a time", GREEDY, 16),
        Ask("Mira", sd.Sampling(seed=2, stop=("e", "."), logprobs=2), 16),
        Ask("Mira counted", sd.Sampling(temperature=0, grammar=digits), 12),
        Ask("A", sd.Sampling(seed=3, stop=("the ",), frequency_penalty=0.3), 20, 6),
        Ask("The dog and the cat", sd.Sampling(seed=4, grammar=digits, temperature=0.8), 12, 2),
    ]
    rows = together(engine, asks)
    for row, ask in zip(rows, asks, strict=True):
        same(row, alone(engine, ask), LOOSE)
    assert {row.finish_reason for row in rows} >= {"stop", "length"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_rows_does_not_matter(kind: str) -> None:
    engine, asks = table_engine(cache=kind), requests(7)
    first = together(engine, asks)
    for order in ([8, 0, 4, 2, 6, 1, 3, 7, 5], list(reversed(range(9)))):
        for row, at in zip(together(engine, [asks[at] for at in order]), order, strict=True):
            same(row, first[at])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_accept_none_two_and_four(kind: str) -> None:
    """Prompts of 1, 5 and 9 tokens whose drafts are right up to another place in each row: no common rollback fits."""
    prompts = [[3], [1, 2, 3, 4, 5], [(at * 7) % 64 for at in range(9)]]
    plain = [llama_engine().generate(p, GREEDY, max_new_tokens=40, speculate=False).tokens for p in prompts]

    kept = {0: 0, 1: 2, 2: 4}

    def script(committed: list[int], count: int) -> list[int]:
        row = next(at for at, prompt in enumerate(prompts) if committed[: len(prompt)] == prompt)
        start = len(committed) - len(prompts[row])
        ahead = plain[row][start : start + count]
        return [token if at < kept[row] else (token + 1) % 64 for at, token in enumerate(ahead)]

    engine = llama_engine(cache=kind)
    rows = engine.variant(drafter=sd.ScriptedDrafter(script)).generate(prompts, GREEDY, max_new_tokens=20)
    for row, right in enumerate(plain):
        assert rows[row].tokens == right[:20]
        assert rows[row].trace is not None
        full = [cycle for cycle in rows[row].trace.cycles if len(cycle.proposed) == 4]
        assert len(full) > 2
        assert {cycle.accepted for cycle in full} == {kept[row]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [GREEDY, sd.Sampling(seed=4)], ids=["greedy", "sampled"])
def test_forced_rejections_beside_rows_that_are_not_forced(kind: str, sampling: sd.Sampling) -> None:
    """Another place in each row, some rows free; the caches answer like a fresh prefill after every cycle."""
    engine, places = llama_engine(cache=kind), (1, None, 4, 0, 2, None)
    prompts = [[row + 1] * (1 + 3 * row) for row in range(len(places))]
    pool = engine.new_pool()
    streams = [
        engine.open(prompt, sampling, max_new_tokens=10, reject_at=at, row=row, pool=pool)
        for row, (prompt, at) in enumerate(zip(prompts, places, strict=True))
    ]
    while rounds.run([stream for stream in streams if stream.goes_on]):
        for stream in streams:
            if kind != "recompute":
                same_as_fresh(TARGET, stream.sequence.tokens, stream.sequence.cache, 1e-5)  # type: ignore[arg-type]
            same_as_fresh(NEAR, stream.sequence.tokens, stream.sequence.draft, 1e-5)  # type: ignore[arg-type]
    for stream, prompt, at in zip(streams, prompts, places, strict=True):
        same(stream.result(), engine.generate(prompt, sampling, max_new_tokens=10, reject_at=at), LOOSE)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_batch_whose_rows_are_all_forced(at: int) -> None:
    engine = table_engine()
    prompts = [[1], [2, 3, 4], [5] * 6]
    for row, prompt in zip(engine.generate(prompts, GREEDY, max_new_tokens=9, reject_at=at), prompts, strict=True):
        same(row, engine.generate(prompt, GREEDY, max_new_tokens=9, reject_at=at))


def test_a_row_whose_draft_is_full() -> None:
    """A draft of 16 positions beside a target of 40: one row leaves it, another never does, a third starts beyond."""
    target, draft = sd.testing.tiny_llama(context=40), sd.testing.tiny_llama(context=16, noise=0.05)
    engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=4)
    asks = [Ask([1] * 10, GREEDY, 20), Ask([2] * 3, sd.Sampling(seed=1), 9), Ask([3] * 25, GREEDY, 30), Ask([4] * 40)]
    rows = together(engine, asks)
    for row, ask in zip(rows, asks, strict=True):
        same(row, alone(engine, ask), LOOSE)
    assert [row.finish_reason for row in rows] == ["length", "length", "context", "context"]
    assert rows[2].stats.drafted == 0 < rows[0].stats.drafted


def test_seeds_alone_together_reordered_and_beside_an_aborted_row() -> None:
    """A row with a seed never changes; two without one differ; equal seeds are equal."""
    engine, prompt = llama_engine(), [1, 2, 3]
    asks = [Ask(prompt, sd.Sampling(seed=1)), Ask(prompt, sd.Sampling()), Ask(prompt, sd.Sampling(seed=2))]
    right = [alone(engine, ask) for ask in asks]
    for order in itertools.permutations(range(3)):
        for row, at in zip(together(engine, [asks[at] for at in order]), order, strict=True):
            if at != 1:
                same(row, right[at], LOOSE)
    free = together(engine, [asks[1]] * 3)
    assert len({row.tokens for row in free}) > 1
    twins = together(engine, [asks[0], asks[1], asks[0]])
    assert twins[0].tokens == twins[2].tokens
    for stop_after in (1, 2):
        streams = [engine.open(a.prompt, a.sampling, max_new_tokens=a.cap, row=r) for r, a in enumerate(asks)]
        for _ in range(stop_after):
            rounds.run(streams)
        del streams[1]
        while rounds.run([stream for stream in streams if stream.goes_on]):
            pass
        same(streams[0].result(), right[0], LOOSE)
        same(streams[1].result(), right[2], LOOSE)


def _open(engine: sd.Engine, asks: list[Ask]) -> list[Stream]:
    pool = engine.new_pool()
    return [
        engine.open(a.prompt, a.sampling, max_new_tokens=a.cap, gamma=a.gamma, row=row, pool=pool)
        for row, a in enumerate(asks)
    ]


def test_seconds_of_rows_add_up_to_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that moves by one at each look, no second is given to two rows, and few are given to none."""
    clock = itertools.count()
    monkeypatch.setattr("specdec_teach.rounds.perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr("specdec_teach.stream.perf_counter", lambda: float(next(clock)))
    asks = [Ask([1], GREEDY, 24), Ask([2, 3, 4], sd.Sampling(seed=3), 24), Ask([6] * 7, sd.Sampling(seed=4), 24)]
    rows = together(table_engine(), asks)
    spent = 0.0
    for row in rows:
        assert row.trace is not None
        assert row.trace.prefill is not None
        spent += row.trace.prefill.seconds
        for cycle in row.trace.cycles:
            parts = (cycle.seconds.draft, cycle.seconds.target, cycle.seconds.verify, cycle.seconds.other)
            assert min(parts) >= 0
            spent += sum(parts)
    wall = next(clock)
    assert 0.5 * wall < spent <= wall


def test_what_a_batch_refuses() -> None:
    """Settings that do not fit the rows, and prompts that cannot be, before anything runs."""
    engine = llama_engine(cache="paged", blocks=6)
    with pytest.raises(sd.InvalidInput, match="3 entries for a batch of 2"):
        engine.generate([[1], [2]], GREEDY, gamma=[1, 2, 3])
    with pytest.raises(sd.InvalidInput, match="can need 8 blocks"):
        engine.generate([[1] * 4, [2] * 4], GREEDY, max_new_tokens=12)
    with pytest.raises(sd.InvalidInput, match="is 64; the target's ids"):
        engine.generate([[1], [64]], GREEDY, max_new_tokens=4)


def test_tables_are_not_the_only_ones() -> None:
    """A target that drafts for itself accepts everything, in every row of a batch."""
    engine = sd.Engine(TABLE, drafter=sd.ModelDrafter(TABLE), gamma=3)
    for row in together(engine, [Ask([1], GREEDY, 13), Ask([2] * 6, GREEDY, 9), Ask([3] * 4, GREEDY, 21)]):
        assert row.stats.accepted == row.stats.drafted > 0
