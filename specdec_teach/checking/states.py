"""The state of both caches after every cycle, against a fresh prefill of the same tokens.

A rejection forced at every draft, none forced, and every draft accepted (in a tree: an end at every node) × a verify
step inside a block, up to a block boundary and across one × a fresh request, one that was preempted, one that adopted
another's blocks × every layout of the cache × alone and beside rows of other lengths. Slots that nobody may read are
spoilt all the time.
Invariant: what is compared with is computed by one forward of the model from nothing. It does not know rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import cast, final

import torch

from specdec_kernels.errors import InvalidInput, SpecDecError
from specdec_teach import invariants, rounds
from specdec_teach.caches import KINDS, BlockPool, Cache
from specdec_teach.checking.oracle import Fresh, FreshDraft, tolerance_of
from specdec_teach.checking.report import STOPPED, Row
from specdec_teach.checking.steered import Pattern, Script, patterns, steered
from specdec_teach.drafters.base import Branching, features_of, most_nodes
from specdec_teach.engine import Engine
from specdec_teach.hf import ModelRunner
from specdec_teach.sampling import Sampling
from specdec_teach.stream import Stream

__all__ = ["PLACES", "STATES", "kinds_of", "states"]

PLACES = ("inside a block", "up to a boundary", "across a boundary")
STATES = ("fresh", "after preemption", "prefix reused")
LOOSE = ("recompute", "snapshot")
GROUPS = ("target cache", "next-step logits", "draft cache", "counters", "forced pattern", "invariants", "ownership")


@final
@dataclass(frozen=True, slots=True)
class _Bench:
    """What all cases of one engine share."""

    engine: Engine
    size: int
    script: Script
    target: Fresh
    draft_runner: ModelRunner | None
    draft: Fresh | None
    reader: FreshDraft | None

    @classmethod
    def of(cls, engine: Engine) -> _Bench:
        assert engine.drafter is not None
        runner, size = engine.target_runner, most_nodes(engine.drafter, engine.gamma) + 4
        length = 3 * size + 3 * (engine.gamma + 1)
        small = min(c for c in (runner.context, engine.drafter.context, length) if c is not None)
        if small < length:
            raise InvalidInput(
                f"the check needs a context of {length} tokens at gamma={engine.gamma} and a model has {small}; "
                "use a smaller gamma"
            )
        model = getattr(engine.drafter, "model", None)
        draft_runner = None if model is None else ModelRunner(model, "draft")
        vocab = runner.vocab if draft_runner is None else min(runner.vocab, draft_runner.vocab)
        soft = isinstance(engine.drafter, Branching)
        script = Script.of(length, vocab, getattr(engine.drafter, "shared", None), soft)
        draft = None if draft_runner is None else Fresh(draft_runner, _spelt(engine, script.ids))
        reader = FreshDraft(engine, script.ids) if features_of(engine.drafter) else None
        return cls(engine, size, script, Fresh(runner, script.ids), draft_runner, draft, reader)

    def start(self, place: int, state: str) -> int:
        """Return the prompt length that puts the first verify step where it should be."""
        base, width = (2 if state == STATES[2] else 1) * self.size, self.size - 3
        return base + (2, self.size - width + 1, self.size - 1)[place]


@final
@dataclass(slots=True)
class _Looks:
    """What was seen of one request: the largest differences, and the first thing that was wrong in each group."""

    worst: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def measure(self, group: str, delta: float, limit: float, where: str) -> None:
        self.worst[group] = max(delta, self.worst.get(group, 0.0))
        if not delta <= limit:
            self.wrong.setdefault(group, f"{delta:.2g} away from a fresh prefill: {where}")

    def claim(self, group: str, holds: bool, otherwise: str) -> None:
        self.worst.setdefault(group, math.nan)
        if not holds:
            self.wrong.setdefault(group, otherwise)

    def rows(self, case: str) -> Iterator[Row]:
        for group in (group for group in GROUPS if group in self.worst):
            worst = self.worst[group]
            yield Row(group, case, group not in self.wrong, None if math.isnan(worst) else worst,
                      self.wrong.get(group, ""))  # fmt: skip


def kinds_of(engine: Engine) -> tuple[str, ...]:
    """Return the layouts of the cache that the engine's target can use."""
    return KINDS if engine.target_runner.layout("contiguous") == "contiguous" else ("snapshot",)


@torch.inference_mode()
def states(engine: Engine, kinds: tuple[str, ...] | None = None) -> Iterator[Row]:
    """Yield what both caches hold in every case; γ is the largest in all of them, whoever plans it otherwise."""
    engine = engine.variant(pace="fixed")
    bench = _Bench.of(engine)
    for kind in kinds_of(engine) if kinds is None else kinds:
        for state in STATES if kind == "paged" else STATES[:2]:
            for pattern in patterns(engine):
                yield from _cases(bench, kind, state, pattern)


def _cases(bench: _Bench, kind: str, state: str, pattern: Pattern) -> Iterator[Row]:
    """Run one pattern in all places, first alone and then all three at once."""
    places = range(len(PLACES)) if pattern.accepted is not None else range(2, len(PLACES))
    for together in [*((place,) for place in places), tuple(range(len(PLACES)))]:
        company = "alone" if len(together) == 1 else "with neighbours"
        cases = [" · ".join((kind, state, pattern.name, PLACES[place], company)) for place in together]
        looks = [_Looks() for _ in together]
        stopped = ""
        try:
            _run(bench, kind, state, pattern, together, looks)
        except (SpecDecError, RuntimeError, IndexError, KeyError, AssertionError) as error:
            stopped = f"{STOPPED}{error or type(error).__name__}"
        for case, look in zip(cases, looks, strict=True):
            yield from look.rows(case)
            if stopped:
                yield Row("runs to the end", case, False, None, stopped)


def _run(bench: _Bench, kind: str, state: str, pattern: Pattern, places: tuple[int, ...], looks: list[_Looks]) -> None:
    engine = bench.engine
    sure = pattern if pattern.accepted is not None else [*patterns(engine)][-2]
    assert engine.drafter is not None
    sent = engine.variant(drafter=steered(engine.drafter, bench.script, sure))
    pool = BlockPool(None, size=bench.size) if kind == "paged" else None
    natural = Sampling(seed=5, eos_token_id=None)
    how = natural if pattern.accepted is None else bench.script.sampling()

    def open_at(length: int, row: int, sampling: Sampling) -> Stream:
        left = len(bench.script.ids) - length
        who = engine if sampling is natural else sent
        return who.open(list(bench.script.ids[:length]), sampling, max_new_tokens=left, row=row, pool=pool, cache=kind)

    donors: list[Stream] = []
    if state == STATES[2]:
        donors = [open_at(2 * bench.size - 1 - (sure.accepted or 0), 0, bench.script.sampling())]
        rounds.run(donors)
        _spoil(donors, pool)
    streams = [open_at(bench.start(place, state), row, how) for row, place in enumerate(places)]
    for turn in range(2):
        if turn == 1 and state == STATES[1]:
            for stream in streams:
                stream.preempt()
        rounds.run(streams)
        for stream, look in zip(streams, looks, strict=True):
            _look(bench, stream, pattern, kind, look)
            if pool is not None:
                _count(pool, [*donors, *streams], look)
        _spoil([*donors, *streams], pool)
    limit = tolerance_of(engine.target_runner)
    for stream, look in zip(streams, looks, strict=True):
        tokens = stream.sequence.tokens
        right = bench.target if pattern.accepted is not None else Fresh(engine.target_runner, tokens)
        delta = right.step(engine.target_runner, stream.sequence.cache, tokens)
        look.measure("next-step logits", delta, limit, f"after {len(tokens)} tokens")
        trace = stream.trace()
        broken = invariants.check(trace)
        look.claim("invariants", not broken, f"{broken[0].name}: {broken[0].message}" if broken else "")
        if donors:
            adopted = 0 if trace.prefill is None else trace.prefill.adopted
            if bench.reader is None:
                look.claim("ownership", adopted > 0, "nothing of a published beginning was adopted")
            else:
                look.claim("ownership", adopted == 0, f"{adopted} tokens without hidden states were adopted")
    for donor in donors:
        rounds.run([donor])
        _look(bench, donor, sure, kind, looks[0])
    for stream in (*donors, *streams):
        stream.preempt()
    if pool is not None:
        looks[0].claim("ownership", pool.in_use == 0, f"{pool.in_use} blocks are held after everybody has left")


def _look(bench: _Bench, stream: Stream, pattern: Pattern, kind: str, look: _Looks) -> None:
    """Compare one request's caches and counters with what they must be after a cycle."""
    sequence, engine = stream.sequence, bench.engine
    tokens, accepted, cycle = sequence.tokens, pattern.accepted, stream.trace().cycles[-1]
    pointer = sequence.cache.pointer
    right = pointer == len(tokens) - 1 if kind not in LOOSE else pointer <= len(tokens) - 1
    look.claim("counters", right, f"{pointer} tokens are computed and {len(tokens)} committed; the last is pending")
    length = cycle.committed_before + len(cycle.emitted)
    look.claim("counters", length == len(tokens), f"{len(tokens)} tokens are committed, the trace counts {length}")
    if accepted is not None:
        look.claim(
            "forced pattern",
            cycle.accepted == accepted and len(cycle.emitted) == accepted + 1,
            f"{cycle.accepted} drafts were accepted and {len(cycle.emitted)} tokens emitted; {accepted} stand",
        )
        same = tuple(tokens) == bench.script.ids[: len(tokens)]
        look.claim("forced pattern", same, "the text is not the one that the processor leaves possible")
    target = bench.target if accepted is not None else Fresh(engine.target_runner, tokens)
    look.measure("target cache", *_limited(target, sequence.cache, engine.target_runner))
    if bench.reader is not None:
        reader = bench.reader if accepted is not None else FreshDraft(engine, tokens)
        delta, where = reader.distance(sequence)
        look.measure("draft cache", delta, tolerance_of(engine.target_runner), where)
    if sequence.draft is not None and bench.draft is not None and bench.draft_runner is not None:
        draft = bench.draft if accepted is not None else Fresh(bench.draft_runner, _spelt(engine, tokens))
        cache = cast(Cache, getattr(sequence.draft, "cache", sequence.draft))
        drafted = stream.draft_pointer() or 0
        if drafted > len(tokens) - 1:
            look.claim("draft cache", False, f"the draft has computed {drafted} of {len(tokens)} tokens")
        else:
            look.measure("draft cache", *_limited(draft, cache, bench.draft_runner))


def _spelt(engine: Engine, tokens: Items[int]) -> Items[int]:
    """Return the ids that the draft model reads for tokens of the target."""
    spell: Callable[[Items[int]], Items[int]] = getattr(engine.drafter, "spell", list)
    return spell(tokens)


def _limited(right: Fresh, cache: Cache, runner: ModelRunner) -> tuple[float, float, str]:
    delta, where = right.distance(cache)
    return delta, tolerance_of(runner), where


def _count(pool: BlockPool, streams: list[Stream], look: _Looks) -> None:
    """Compare who holds each block with the tables."""
    tables = [cast(tuple[int, ...], stream.sequence.cache.table) for stream in streams]  # type: ignore[attr-defined]
    held = [sum(table.count(block) for table in tables) for block in range(pool.blocks)]
    wrong = next((block for block in range(pool.blocks) if held[block] != pool.holders[block]), None)
    look.claim(
        "ownership",
        wrong is None,
        "" if wrong is None else f"block {wrong} stands in {held[wrong]} tables and has {pool.holders[wrong]} holders",
    )


def _spoil(streams: list[Stream], pool: BlockPool | None) -> None:
    """Overwrite whatever must not be read."""
    for stream in streams:
        stream.sequence.cache.poison()
        if hasattr(stream.sequence.draft, "poison"):
            cast(Cache, stream.sequence.draft).poison()
    if pool is not None:
        pool.poison()
