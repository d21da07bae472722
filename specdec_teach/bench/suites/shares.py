"""How much of a cycle lies outside the two models' forwards, and where it goes.

Each runner's forwards are clocked where they enter and leave, prefill left out; what is outside is drafting's own work,
the verification and all bookkeeping. Invariant: parts of one round come from the same run, so they add up to it.
It does not know what a forward does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

from specdec_teach.bench.figures import compare
from specdec_teach.bench.records import Candidate, Race, Report, Round
from specdec_teach.bench.setting import Options, Say, load, new_engine, report, sampling
from specdec_teach.bench.task import STORIES, ids_of
from specdec_teach.drafters.ngram import NgramDrafter
from specdec_teach.engine import Engine
from specdec_teach.hf import ModelRunner

__all__ = ["run"]

_PARTS = ("forwards", "target forwards", "draft forwards", "verify", "the rest")


@final
@dataclass(slots=True)
class _Spent:
    """Seconds inside the forwards of one runner."""

    seconds: float = 0.0


def run(options: Options, say: Say) -> Report:
    """Run cycles and say where their seconds go, greedy and sampled."""
    pair = load(options)
    tokens = 24 if options.quick else 96
    engine = new_engine(options, pair, drafter=NgramDrafter() if pair.draft is None else None)
    ids = ids_of(pair.tokenizer, STORIES[0])
    races = []
    for name, heat in (("greedy", 0.0), ("T=0.8", 0.8)):
        say(f"shares: {name}")
        count = options.rounds or (3 if options.quick else 9)
        rounds = [_round(engine, ids, heat, seed, tokens) for seed in range(count + 1)][1:]
        cycle = Candidate("cycle", "ours", f"gamma={engine.gamma}", engine.gamma)
        found = compare(rounds, "cycle", "forwards", 0.05)  # the share of a cycle that is forwards: 1 would be ideal
        candidates = (cycle, *(Candidate(part, "ours") for part in _PARTS))
        races.append(Race(name, "cycle", candidates, tuple(rounds), (found,)))
    return report("shares", options, pair, races, tokens=tokens)


def _round(engine: Engine, ids: list[int], heat: float, seed: int, tokens: int) -> Round:
    """Run one request behind its first cycle, which holds the prefill."""
    stream = engine.stream(ids, sampling(heat, seed), max_new_tokens=tokens, trace=False)
    stream.step()
    before = stream.progress.stats
    with _clocked(engine.target_runner) as target, _clocked(getattr(engine.drafter, "_runner", None)) as draft:
        start = perf_counter()
        while stream.step():
            pass
        whole = perf_counter() - start
    stats = stream.progress.stats
    verify = stats.seconds.verify - before.seconds.verify
    inside = target.seconds + draft.seconds
    seconds = {
        "cycle": whole,
        "forwards": inside,
        "target forwards": target.seconds,
        "draft forwards": draft.seconds,
        "verify": verify,
        "the rest": max(0.0, whole - inside - verify),
    }
    return Round(seconds, dict.fromkeys(seconds, stats.cycles - before.cycles))


@contextmanager
def _clocked(runner: ModelRunner | None) -> Iterator[_Spent]:
    """Clock every forward of a runner for a while; without one, nothing is ever spent."""
    spent = _Spent()
    if runner is None:
        yield spent
        return
    honest = runner.forward_rows

    def forward_rows(*args: Any) -> Any:
        start = perf_counter()
        try:
            return honest(*args)
        finally:
            spent.seconds += perf_counter() - start

    vars(runner)["forward_rows"] = forward_rows
    try:
        yield spent
    finally:
        del vars(runner)["forward_rows"]
