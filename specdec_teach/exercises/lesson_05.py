"""Judges of lesson 05: both pointers, stale slots, the rewind, a step log; and meters for caches.

Invariant: every right answer is read off a trace of the real engine. It does not know the lesson's text.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any, cast, final
from unittest.mock import patch

import torch
from torch import Tensor

from specdec_teach.caches import BlockPool, Cache
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.pairs import load_pair
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence
from specdec_teach.testing import TabularLM
from specdec_teach.trace import Cycle

__all__ = ["Meter", "WritesOnce", "metered", "step_log", "with_cache"]

_VOCAB = 40


def with_cache(engine: Engine, around: Callable[[Any], Any]) -> Engine:
    """Return an engine like this one whose target caches are `around(honest cache)`; the honest one stays as it is."""
    honest = engine.parts.cache

    def make(kind: str, capacity: int, pool: BlockPool | None) -> Cache:
        return cast(Cache, around(honest(kind, capacity, pool)))

    return engine.variant(parts=replace(engine.parts, cache=make))


@final
class WritesOnce:
    """A broken cache: its pointer goes back as it should, and a slot keeps what was written to it first."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.first = inner, dict[int, list[Tensor]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> Any:
        """Let the honest cache write, old contents in place of new ones where there are some."""
        start = self.inner.pointer
        if layer in self.first and self.first[layer][0].shape[2] > start:
            old = [kept[:, :, start : start + keys.shape[2]] for kept in self.first[layer]]
            keys, values = (torch.cat([a, b[:, :, a.shape[2] :]], 2) for a, b in zip(old, (keys, values), strict=True))
        found = self.inner.write(layer, keys, values)
        if layer not in self.first or found[0].shape[2] > self.first[layer][0].shape[2]:
            self.first[layer] = [part.clone() for part in found]
        return found


@final
@dataclass(slots=True)
class Meter:
    """What a target's caches did, in slots: `read` by its forwards, of those `stale` and masked, and `copied`."""

    read: int = 0
    stale: int = 0
    copied: int = 0


@final
class _Metered:
    """A cache that counts what it does in its lowest layer."""

    def __init__(self, inner: Any, meter: Meter) -> None:
        self.inner, self.meter = inner, meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = self.inner.write(layer, keys, values)
        if layer == 0:
            self.meter.read += found[0].shape[2]
            self.meter.stale += found[0].shape[2] - self.inner.pointer - keys.shape[2]
        return found

    def rollback(self, to: int) -> int:
        before = getattr(self.inner, "settled", 0)
        back: int = self.inner.rollback(to)
        self.meter.copied += getattr(self.inner, "settled", 0) - before
        return back


def metered(engine: Engine) -> tuple[Engine, Meter]:
    """Return an engine like this one, and the meter that all of its target caches share."""
    meter = Meter()
    return with_cache(engine, lambda cache: _Metered(cache, meter)), meter


def step_log() -> tuple[Cycle, ...]:
    """Return the cycles of a run of the story pair by an engine with a mistake in its draft cache."""
    pair = load_pair()
    engine = Engine(pair.target, drafter=ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
    with patch.object(ModelDrafter, "commit", _counts_the_last_draft):
        trace = engine.generate("Mira had a red lantern and", Sampling.greedy(), max_new_tokens=28).trace
    assert trace is not None
    return trace.cycles


def _counts_the_last_draft(self: ModelDrafter, sequence: Sequence) -> None:
    """Rewind the draft, and count its last draft as computed although it was only drawn."""
    cache, settled = cast(Cache, sequence.draft), len(sequence.tokens) - 1
    cache.rollback(min(cache.pointer, settled))
    cache.advance(settled - cache.pointer)


def _engine(gamma: int) -> Engine:
    """An engine whose two models agree: after t comes t + 1."""
    after_VV = torch.eye(_VOCAB).roll(1, 1) * 9.0
    return Engine(TabularLM(after_VV), drafter=ModelDrafter(TabularLM(after_VV)), gamma=gamma)


def _cycle(length: int, gamma: int, reject_at: int, eos: int | None = None) -> Cycle:
    """Return the first cycle after a prompt of `length` tokens."""
    sampling = Sampling(temperature=0.0, eos_token_id=eos)
    stream = _engine(gamma).stream(list(range(length)), sampling, max_new_tokens=gamma + 2, reject_at=reject_at)
    return next(stream)


def _pointers(cycle: Cycle) -> tuple[int, int]:
    """Return where the target's pointer and the draft's stand after a cycle."""
    assert cycle.draft_kv is not None
    return cycle.target_kv.after, cycle.draft_kv.after


def _whole(answer: Any, count: int, call: str) -> list[int]:
    try:
        found = [int(number) for number in answer]
    except (TypeError, ValueError):
        raise NotYet(f"{call} should give {count} whole numbers, not {answer!r}") from None
    if len(found) != count:
        raise NotYet(f"{call} should give {count} whole numbers, not {len(found)}")
    return found


@exercise("05.1")
def _both_cases(answer: Any) -> str:
    cases = list(answer)
    if len(cases) != 2:
        raise NotYet(f"two lists of four numbers are wanted, one for each case; this has {len(cases)} parts")
    for name, reject_at, given in zip(("third draft falls", "all five stand"), (3, 0), cases, strict=True):
        cycle = _cycle(20, 5, reject_at)
        target, draft, now = cycle.target_kv, cycle.draft_kv, cycle.committed_after
        assert draft is not None
        places = ("target, highest", "target, after", "draft, highest", "draft, after")
        right = (target.written, target.after, draft.written, draft.after)
        for place, wanted, found in zip(places, right, _whole(given, 4, name), strict=True):
            if found == wanted:
                continue
            why = ""
            if place == "target, highest":
                why = ": it reads the pending token and every draft, and nothing else"
            elif place == "draft, highest":
                why = ": the draft draws its last draft and never reads it"
            elif found == now:
                why = f": {now} tokens are committed, and the last of them has been read by nobody"
            elif place == "draft, after" and reject_at == 0:
                why = ": a rewind cannot raise a pointer above the highest it had"
            raise NotYet(f"{name}: {place} is not {found}{why}")
    return "both pointers, in both cases, as in the engine's trace"


@exercise("05.2")
def _stale(answer: Any) -> str:
    for length, gamma, j in ((7, 4, 3), (7, 4, 1), (5, 3, 3), (6, 1, 1), (9, 6, 2)):
        cycle = _cycle(length, gamma, j)
        target, draft = cycle.target_kv, cycle.draft_kv
        assert draft is not None
        right = [list(range(kv.after, kv.written)) for kv in (target, draft)]
        call = f"stale_slots({length}, {gamma}, {j})"
        given = ask(answer, length, gamma, j)
        try:
            found = [sorted(int(slot) for slot in slots) for slots in given]
        except (TypeError, ValueError):
            found = []
        if len(found) != 2:
            raise NotYet(f"{call} should give two lists, the target's slots and the draft's, not {given!r}")
        if found == right:
            continue
        who = "target" if found[0] != right[0] else "draft"
        mine, wanted = (found[0], right[0]) if who == "target" else (found[1], right[1])
        why = ""
        if mine == wanted[1:]:
            why = f": d{j} itself lies in slot {length - 1 + j}, and it was rejected"
        elif who == "draft" and mine == right[0]:
            why = f": the draft never read d{gamma}, so its slot was not written"
        elif mine == [slot + 1 for slot in wanted]:
            why = ": slots count from 0, so the pending token lies in slot L − 1"
        raise NotYet(f"{call}: the {who}'s stale slots are {wanted}, not {mine}{why}")
    return "from the rejected draft on, as far as each model has read"


_CASES: tuple[tuple[str, int, int, int, int | None], ...] = (
    ("the third of four drafts falls", 7, 4, 3, None),
    ("the first of four drafts falls", 7, 4, 1, None),
    ("the last of four drafts falls", 7, 4, 4, None),
    ("all four drafts stand", 7, 4, 0, None),
    ("the only draft stands", 5, 1, 0, None),
    ("the text ends with the second of four drafts", 7, 4, 0, 8),
    ("the text ends with the last of four drafts", 7, 4, 0, 10),
    ("the text ends with the bonus", 7, 4, 0, 11),
    ("the text ends with the first of six drafts", 9, 6, 0, 9),
)


@exercise("05.3")
def _rewind(answer: Any) -> str:
    for case, length, gamma, reject_at, eos in _CASES:
        cycle = _cycle(length, gamma, reject_at, eos)
        given = (cycle.committed_before, len(cycle.proposed), len(cycle.emitted))
        right, now = _pointers(cycle), cycle.committed_after
        call = f"rewind({', '.join(map(str, given))})"
        found = tuple(_whole(ask(answer, *given), 2, call))
        if found == right:
            continue
        why = f"the engine's pointers are {right}, yours {found}"
        if found[0] == now:
            why += f"; {now} tokens are committed, and no model has read the last"
        elif found[0] == right[0] and found[1] > right[1] and reject_at == 0 and eos is None:
            why += f"; the draft read up to d{given[1] - 1} and cannot hold d{given[1]}"
        elif found[0] == right[0] and found[1] < right[1] and eos is not None:
            why += "; the text ended among the drafts, nothing followed them, and the draft has read enough"
        raise NotYet(f"{case}: {call}: {why}")
    return f"the engine's own pointers in {len(_CASES)} kinds of cycle"


@exercise("05.4")
def _log(answer: Any) -> str:
    wrong, written = next(
        (cycle.index, cycle.draft_kv.written)
        for cycle in step_log()
        if cycle.draft_kv is not None and cycle.draft_kv.after > cycle.draft_kv.written
    )
    parts: Items[Any] = list(answer)
    if len(parts) != 3:
        raise NotYet(f"a cycle, a model and a slot are wanted, not {len(parts)} things")
    index, who, slot = int(parts[0]), str(parts[1]), int(parts[2])
    if who == "target":
        raise NotYet("the target's pointer never rises in a rewind, and always ends at L′ − 1")
    if who != "draft":
        raise NotYet(f"the model is 'target' or 'draft', not {who!r}")
    if index != wrong:
        why = "this comes from an earlier one" if index > wrong else "both its pointers go where the rule says"
        raise NotYet(f"cycle {index} is not where it begins: {why}")
    if slot != written:
        why = "one of them" if slot < written else "not the first that is not"
        raise NotYet(
            f"the draft got as far as C = {written}: the slots below that are written, and slot {slot} is {why}"
        )
    return f"the draft counts slot {slot} as computed and never wrote it: its last draft was drawn, not read"
