"""What a rejection costs the cache, by context length and by how many tokens are rejected.

Only the rollback itself is timed; the tokens are put back between two of them. Beside the seconds stands what can be
counted: tensor operations during a rollback, blocks given back, and slots that a later forward still reads although
they are stale. Invariant: the counts are the same on every machine. It does not know models.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from specdec_teach.bench import race
from specdec_teach.bench.figures import per_unit, point
from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Count, Curve, Race, Report
from specdec_teach.bench.setting import Options, Say, report
from specdec_teach.caches import BlockPool, Cache, new_cache

__all__ = ["counts", "run"]

_LAYOUTS = ("contiguous", "paged", "masked")
_CONTEXTS = (128, 512, 2048, 8192)
_REJECTED = (1, 4, 16, 64)
_LAYERS, _HEADS, _SIZE, _BLOCK = 2, 2, 16, 16
_TURNS = 500


@final
class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensor operations that happen while it is on."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


def run(options: Options, say: Say) -> Report:
    """Race rollbacks over context lengths, and over numbers of rejected tokens."""
    contexts = _CONTEXTS[:2] if options.quick else _CONTEXTS
    rejected = _REJECTED[:2] if options.quick else _REJECTED
    caches = {(layout, length): _filled(layout, length) for layout in _LAYOUTS for length in contexts}
    found = [
        Count(f"{layout}, {length} tokens, {back} rejected", counts(caches[layout, length], back))
        for layout, length in caches
        for back in rejected
    ]
    races: list[Race] = []
    for layout in _LAYOUTS:
        say(f"rollback: {layout}")
        by_length = {f"{length} tokens": _work(caches[layout, length], rejected[1]) for length in contexts}
        races.append(_race(f"{layout}: context", by_length, options))
        by_count = {f"{back} rejected": _work(caches[layout, contexts[1]], back) for back in rejected}
        races.append(_race(f"{layout}: rejected", by_count, options))
    curves = [
        _curve("rollback by context", f"tokens in the cache ({rejected[1]} rejected)", contexts, races[0::2], "tokens"),
        _curve("rollback by rejected tokens", f"tokens rejected ({contexts[1]} in the cache)", rejected, races[1::2]),
    ]
    return report("rollback", options, None, races, curves=curves, counts=found)


def counts(cache: Cache, rejected: int) -> dict[str, int]:
    """Return what a rollback by `rejected` tokens does; the cache is as before afterwards, its tokens put back.

    `operations`: of torch. `blocks`: given back. `stale`: slots behind the pointer that the next forward reads.
    """
    length, before = cache.pointer, cache.blocks()
    cache.mark()
    with _Operations() as operations:
        cache.rollback(length - rejected)
    after = cache.blocks()
    freed = 0 if before is None or after is None else len(after.freed)
    stale = cache.span(1) - (cache.pointer + 1)
    _put_back(cache, rejected)
    return {"operations": operations.seen, "blocks": freed, "stale": stale}


def _filled(layout: str, length: int) -> Cache:
    """Return a cache of `length` computed tokens."""
    pool = BlockPool(-(-length // _BLOCK), size=_BLOCK) if layout == "paged" else None
    cache = new_cache(layout, length, pool)
    cache.reserve(length)
    new = torch.zeros(1, _HEADS, length, _SIZE)
    for layer in range(_LAYERS):
        cache.write(layer, new, new)
    cache.advance(length)
    return cache


def _put_back(cache: Cache, count: int) -> None:
    cache.reserve(count)
    cache.advance(count)
    cache.mark()


def _work(cache: Cache, rejected: int) -> Work:
    """Return the work of a round: many rollbacks by that many tokens, timed alone."""
    kept = cache.pointer - rejected

    def act(seed: int) -> Done:
        spent = 0.0
        for _ in range(_TURNS):
            start = perf_counter()
            cache.rollback(kept)
            spent += perf_counter() - start
            _put_back(cache, rejected)
        return Done(_TURNS, spent)

    return act


def _race(name: str, works: dict[str, Work], options: Options) -> Race:
    first, *others = works
    entries = {Candidate(one, "ours"): work for one, work in works.items()}
    return race.run(name, "rollback", entries, {first: tuple(others)}, options.pace(4.0), tolerance=0.5)


def _curve(name: str, x: str, places: tuple[int, ...], races: list[Race], unit: str = "rejected") -> Curve:
    series = {
        one.name.partition(":")[0]: tuple(
            point(at, [1e6 * seconds for seconds in per_unit(one.rounds, f"{at} {unit}")]) for at in places
        )
        for one in races
    }
    return Curve(name, x, "µs", series, log=True)
