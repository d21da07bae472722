"""How costs grow: with the context, with γ, with the size of a batch and with the vocabulary.

All places of a curve take turns in one race. Invariant: whatever one curve varies, everything else is held.
It does not know why anything grows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from specdec_teach.bench import ours, race
from specdec_teach.bench.figures import compare, per_unit, point
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Curve, Point, Race, Report
from specdec_teach.bench.setting import Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.suites.verify import race_over
from specdec_teach.bench.task import STORIES, Task, ids_of, work
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine
from specdec_teach.hf import ModelRunner
from specdec_teach.pairs import Pair

__all__ = ["run"]

_CONTEXTS = (16, 64, 128, 256, 448, 1024)
_GAMMAS = (1, 2, 3, 4, 6, 8, 12)
_BATCHES = (1, 2, 4, 8)
_VOCABS = (1_000, 8_000, 32_000, 151_936)
_POSITIONS = (1, 2, 3, 5, 8, 16)
_BEFORE, _TURNS = 64, 8
_HEAT = 0.8


def run(options: Options, say: Say) -> Report:
    """Draw the curves."""
    pair = load(options)
    engine = new_engine(options, pair, drafter=NgramDrafter() if pair.draft is None else None)
    races, curves = [], []
    for name, draw in (("positions", _positions), ("context", _context), ("γ", _gamma), ("batch", _batch)):
        say(f"growth: {name}")
        found, curve = draw(options, pair, engine)
        races += found
        curves.append(curve)
    say("growth: vocabulary")
    found, curve = _vocabulary(options)
    return report("growth", options, pair, [*races, *found], curves=[*curves, curve], tokens=_tokens(options))


def _tokens(options: Options) -> int:
    return 8 if options.quick else 24


def _some(places: Sequence[int], options: Options) -> list[int]:
    return list(places[:2] if options.quick else places)


def _positions(options: Options, pair: Pair, engine: Engine) -> tuple[list[Race], Curve]:
    """Return v(T): what a target forward over T positions costs beside one over a single position."""
    places = _some(_POSITIONS, options)
    entries = {Candidate(f"{at} positions", "ours"): _forward(engine.target_runner, at) for at in places}
    found = race.run("positions", "forward", entries, {}, options.pace(10.0))
    costs = [compare(found.rounds, f"{places[0]} positions", f"{at} positions") for at in places]
    series = {"target": tuple(Point(at, v.ratio, v.low, v.high) for at, v in zip(places, costs, strict=True))}
    return [found], Curve("a forward by its positions", "positions T", "v(T), forwards over one position", series)


def _forward(runner: ModelRunner, count: int) -> Work:
    """Return the work of forwards over `count` tokens behind 64 others, each taken back."""
    ids = [at % runner.vocab for at in range(_BEFORE + count)]
    cache = runner.new_cache(len(ids))

    def act(seed: int) -> Done:
        if cache.pointer < _BEFORE:
            runner.forward(cache, ids[:_BEFORE], 0)
        start = perf_counter()
        for _ in range(_TURNS):
            runner.forward(cache, ids[_BEFORE:], count)
            cache.rollback(_BEFORE)
        return Done(_TURNS, perf_counter() - start)

    return act


def _context(options: Options, pair: Pair, engine: Engine) -> tuple[list[Race], Curve]:
    """Return seconds a token behind prompts of several lengths."""
    tokens = _tokens(options)
    limits = [limit for limit in (engine.target_runner.context, getattr(engine.drafter, "context", None)) if limit]
    places = [at for at in _some(_CONTEXTS, options) if at + tokens <= min(limits, default=_CONTEXTS[-1] + tokens)]
    start = ids_of(pair.tokenizer, STORIES[0])
    told = engine.generate(start, sampling(_HEAT, 0), max_new_tokens=max(places), trace=False).tokens
    works: dict[tuple[str, int], Work] = {}
    for at in places:
        prompt = [*start, *told][:at]  # a text that the target wrote itself, as later tokens will be
        for kind, speculate in (("plain", False), ("speculative", True)):
            works[kind, at] = _behind(engine, prompt, tokens, speculate)
    found, series = _grid("context", "token", works, options, 12.0)
    return [found], Curve("a token by its context", "tokens of the prompt", "ms a token, prefill left out", series)


def _behind(engine: Engine, prompt: list[int], tokens: int, speculate: bool) -> Work:
    """Return the work of a request whose prefill, and first cycle, are not counted."""

    def act(seed: int) -> Done:
        stream = engine.stream(prompt, sampling(_HEAT, seed), max_new_tokens=tokens, speculate=speculate, trace=False)
        stream.step()
        before, start = stream.progress.stats.emitted, perf_counter()
        while stream.step():
            pass
        return Done(stream.progress.stats.emitted - before, perf_counter() - start)

    return act


def _gamma(options: Options, pair: Pair, engine: Engine) -> tuple[list[Race], Curve]:
    """Return how many times as fast as plain decoding each γ is."""
    task, places = Task(_tokens(options), _HEAT), _some(_GAMMAS, options)
    prompts = [ids_of(pair.tokenizer, text) for text in STORIES]
    entries = {ours.candidate(g): work(ours.decode(engine, task, g), prompts) for g in (0, *places)}
    names = tuple(ours.candidate(gamma).name for gamma in places)
    found = race.run("γ", "token", entries, {"plain": names}, options.pace(20.0))
    points = tuple(Point(at, c.ratio, c.low, c.high) for at, c in zip(places, found.comparisons, strict=True))
    return [found], Curve("speed by γ", "γ", "times as fast as plain decoding", {"speculative": points})


def _batch(options: Options, pair: Pair, engine: Engine) -> tuple[list[Race], Curve]:
    """Return what a token costs when several requests share each forward."""
    tokens = _tokens(options)
    texts = [ids_of(pair.tokenizer, text) for text in STORIES]
    works: dict[tuple[str, int], Work] = {}
    for rows in _some(_BATCHES, options):
        prompts = [texts[at % len(texts)] for at in range(rows)]
        for kind, speculate in (("plain", False), ("speculative", True)):
            works[kind, rows] = _together(engine, prompts, tokens, speculate)
    found, series = _grid("batch", "token", works, options, 15.0)
    return [found], Curve("a token by the size of its batch", "requests at once", "ms a token", series)


def _together(engine: Engine, prompts: list[list[int]], tokens: int, speculate: bool) -> Work:
    def act(seed: int) -> Done:
        how = [sampling(_HEAT, seed + row) for row in range(len(prompts))]
        results = engine.generate(prompts, how, max_new_tokens=tokens, speculate=speculate, trace=False)
        return Done(sum(len(result.tokens) for result in results))

    return act


def _vocabulary(options: Options) -> tuple[list[Race], Curve]:
    """Return what the softmax and the verification cost by the size of the vocabulary."""
    places = _some(_VOCABS, options)
    races = [race_over(vocab, options.pace(5.0), 5)[0] for vocab in places]
    series = {
        one.name: tuple(
            point(at, [1e3 * s for s in per_unit(found.rounds, one.name)])
            for at, found in zip(places, races, strict=True)
        )
        for one in races[0].candidates
    }
    return races, Curve("judging by the vocabulary", "tokens in the vocabulary", "ms a call", series, log=True)


def _grid(
    name: str, unit: str, works: Mapping[tuple[str, int], Work], options: Options, budget: float
) -> tuple[Race, dict[str, tuple[Point, ...]]]:
    """Race (kind, place) pairs; return the race and, for each kind, milliseconds a unit by place."""
    entries = {Candidate(f"{kind}, {at}", "ours"): act for (kind, at), act in works.items()}
    places = list(dict.fromkeys(at for _, at in works))
    against = {f"plain, {at}": (f"speculative, {at}",) for at in places}
    found = race.run(name, unit, entries, against, options.pace(budget), tolerance=0.25)
    series = {
        kind: tuple(point(at, [1e3 * s for s in per_unit(found.rounds, f"{kind}, {at}")]) for at in places)
        for kind in dict.fromkeys(kind for kind, _ in works)
    }
    return found, series
