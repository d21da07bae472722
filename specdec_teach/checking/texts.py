"""What the engine's own models say: greedy text against plain text, the target as its own draft, one call twice.

Invariant: each is compared with another way to the same answer through the engine's own cache, rule and drafter.
It does not know tables or expected laws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specdec_teach import invariants
from specdec_teach.branches import depth
from specdec_teach.checking.oracle import tolerance_of
from specdec_teach.checking.report import TIE, Row
from specdec_teach.checking.steered import Script
from specdec_teach.checking.tables import guarded
from specdec_teach.drafters.base import Branching
from specdec_teach.engine import Engine
from specdec_teach.result import Result
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Cycle, Seconds

__all__ = ["ORDINARY", "greedy", "runs", "second_call", "self_draft"]

_TIMELESS = Seconds(0.0, 0.0, 0.0, 0.0)
_GREEDY = Sampling(temperature=0, eos_token_id=None)
_AT_1 = Sampling(seed=2, eos_token_id=None)


def greedy(engine: Engine) -> Iterator[Row]:
    """Compare greedy text with plain greedy decoding, with and without penalties, also where a rejection is forced."""
    plain = replace(_GREEDY, logprobs=2)
    counted = replace(plain, repetition_penalty=1.5, frequency_penalty=0.5)
    for group, sampling in (("greedy == plain", plain), ("greedy == plain, penalty", counted)):
        for length in (3, 9):
            prompt = _prompt(engine, length)
            oracle = engine.generate(prompt, sampling, max_new_tokens=20, speculate=False)
            for at in (None,) if isinstance(engine.drafter, Branching) else (None, 1):

                def look(
                    ids: list[int] = prompt, how: Sampling = sampling, right: Result = oracle, forced: int | None = at
                ) -> tuple[bool, None, str]:
                    found = engine.generate(ids, how, max_new_tokens=20, reject_at=forced)
                    return _same(engine, found, right)

                forced = "as it comes" if at is None else f"rejected at {at}"
                yield guarded(group, f"prompt of {length} tokens, {forced}", look)


def _same(engine: Engine, found: Result, right: Result) -> tuple[bool, None, str]:
    """Whether two greedy texts agree, but for a token that was a tie, which is named."""
    if found.tokens == right.tokens:
        return True, None, ""
    pairs = enumerate(zip(found.tokens, right.tokens, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(found.tokens), len(right.tokens)))
    if at < min(len(found.tokens), len(right.tokens)):
        best = sorted(right.logprobs[at].values(), reverse=True) if right.logprobs else [0.0, -1.0]
        gap, band = best[0] - best[1], 10 * tolerance_of(engine.target_runner)
        if gap < band:
            return True, None, f"{TIE}token {at} flips, the two best are {gap:.2g} apart, less than {band:.2g}"
    return False, None, f"token {at} differs: {found.tokens[at : at + 3]} and plainly {right.tokens[at : at + 3]}"


def self_draft(engine: Engine) -> Iterator[Row]:
    """Let the target draft for itself: nothing it proposes may be refused."""
    again = getattr(engine.drafter, "over", None)
    if again is None or getattr(engine.drafter, "model", None) is None:
        return
    both = engine.variant(drafter=again(engine.target_runner.model))
    exact = tolerance_of(engine.target_runner) <= 1e-5
    drawn = [("T = 1", _AT_1)] if getattr(engine.drafter, "mode", "sample") == "sample" else []
    for name, sampling in (("greedy", _GREEDY), *drawn):  # a certain draft is refused with chance 1 − p

        def look(how: Sampling = sampling) -> tuple[bool, None, str]:
            trace = both.generate(_prompt(engine, 5), how, max_new_tokens=24).trace
            assert trace is not None
            kept, asked = sum(cycle.accepted for cycle in trace.cycles), sum(map(depth, trace.cycles))
            fallen = sum(cycle.last_kind == "correction" for cycle in trace.cycles)
            fine = fallen == 0 if exact else kept >= 0.8 * asked
            return fine, None, f"{kept} of {asked} drafts below each other stood; {fallen} cycles ended by a correction"

        yield guarded("self-draft 100 %", name, look)


def second_call(engine: Engine) -> Iterator[Row]:
    """Make one call twice: all records must be the same, but for the time they took."""
    for name, sampling in (("greedy", _GREEDY), ("T = 0.8", replace(_AT_1, temperature=0.8, seed=4))):

        def look(how: Sampling = sampling) -> tuple[bool, None, str]:
            first, second = (engine.generate(_prompt(engine, 6), how, max_new_tokens=20) for _ in range(2))
            pairs = zip(_timeless(first), _timeless(second), strict=False)
            at = next((at for at, (a, b) in enumerate(pairs) if a != b), None)
            same = at is None and first.tokens == second.tokens
            return same, None, f"cycle {at} differs; {first.tokens} and then {second.tokens}"

        yield guarded("second call", name, look)


def runs(engine: Engine) -> Iterator[Row]:
    """Look through the records of ordinary runs for broken invariants."""
    for name, sampling in ORDINARY.items():

        def look(how: Sampling = sampling) -> tuple[bool, None, str]:
            trace = engine.generate(_prompt(engine, 4), how, max_new_tokens=18).trace
            broken = [] if trace is None else invariants.check(trace)
            return not broken, None, f"{broken[0].name}: {broken[0].message}" if broken else ""

        yield guarded("invariants", f"an ordinary run, {name}", look)


ORDINARY = {
    "greedy": _GREEDY,
    "T = 1": _AT_1,
    "T = 0.8, top-k 4, penalties": replace(_AT_1, temperature=0.8, top_k=4, frequency_penalty=0.5, seed=9),
}
"""The settings of ordinary runs."""


def _timeless(result: Result) -> list[Cycle]:
    return [] if result.trace is None else [replace(cycle, seconds=_TIMELESS) for cycle in result.trace.cycles]


def _prompt(engine: Engine, length: int) -> list[int]:
    return list(Script.of(length, engine.target_runner.vocab).ids)
