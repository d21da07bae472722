"""The runs of the bug hunt: what a broken engine is asked, and the first record that accuses it.

Every engine is asked the same calls in the same order, so that no setting points at a mistake: sampled ones, whose
records are checked alone, then one call twice, then greedy ones beside plain decoding. The last two need a second run,
which an invariant never has.
Invariant: an honest engine of 32 bits passes all of it; in 16 bits a tie may part greedy text from plain decoding.
A mistake that shows only in the law of many texts passes too. It does not know what is wrong with an engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Items
from dataclasses import replace

from specdec_teach import faults, invariants
from specdec_teach.engine import Engine
from specdec_teach.invariants import Violation
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Trace

__all__ = ["accused", "descriptions", "examine"]

TWICE, GREEDY = "same-twice", "greedy-as-plain"
Found = tuple[Trace, list[Violation]]


def descriptions() -> dict[str, str]:
    """Return what is checked, by name: the invariants of a record, and two comparisons with a second run."""
    return {
        **invariants.descriptions(),
        TWICE: "The same call made twice gives the same cycles.",
        GREEDY: "At temperature 0 the text is that of plain decoding, token for token.",
    }


def examine(engine: Engine, name: str, prompt: str | Items[int], tokens: int, seed: int) -> Found:
    """Return the first record of the broken engine `name` that accuses it, and how; else its first one and nothing.

    `engine`: the honest one that it is made of; `tokens`: new ones in the first call, later calls have three times as
    many. InvalidInput as `faults.inject` and `Engine.generate` say.
    """
    return accused(engine, faults.inject(engine, name), prompt, tokens, seed)


def accused(honest: Engine, engine: Engine, prompt: str | Items[int], tokens: int, seed: int) -> Found:
    """Return what `examine` does, for an engine that is there; `honest` decodes plainly for the comparisons."""
    first: Trace | None = None
    for trace, found in _records(honest, engine, prompt, tokens, seed):
        if found:
            return trace, found
        first = first or trace
    assert first is not None
    return first, []


def _records(honest: Engine, engine: Engine, prompt: str | Items[int], tokens: int, seed: int) -> Iterator[Found]:
    def run(sampling: Sampling, count: int, engine: Engine = engine, *, speculate: bool = True) -> Trace:
        trace = engine.generate(prompt, sampling, max_new_tokens=count, speculate=speculate).trace
        assert trace is not None
        return trace

    usual = Sampling(temperature=0.8, seed=seed)
    for sampling, count in (
        (usual, tokens), (Sampling(temperature=1.0, top_k=4, seed=seed), 3 * tokens), (usual, 3 * tokens),
    ):  # fmt: skip
        trace = run(sampling, count)
        yield trace, invariants.check(trace)
    once, again = run(usual, tokens), run(usual, tokens)
    yield again, _parted(again, once, TWICE, "the call before")
    greedy = Sampling(temperature=0.0)
    plain = run(greedy, 3 * tokens, honest, speculate=False)
    ends = [replace(greedy, eos_token_id=token) for token in _inner(plain)]
    # A token that has come once is far likelier then, so each draft hangs on the one before it.
    again_and_again = Sampling(temperature=0.0, presence_penalty=-20.0)
    for sampling, count in ((greedy, 3 * tokens), *((end, 3 * tokens) for end in ends), (again_and_again, tokens)):
        other = plain if sampling is greedy else run(sampling, count, honest, speculate=False)
        trace = run(sampling, count)
        yield trace, [*invariants.check(trace), *_parted(trace, other, GREEDY, "plain decoding")]


def _inner(plain: Trace) -> list[int]:
    """Three tokens of a text to end it at, none of them its first: by where each is met for the first time."""
    text = list(dict.fromkeys(_text(plain)))
    return sorted({text[len(text) * part // 4] for part in (1, 2, 3)}, key=text.index) if len(text) > 3 else []


def _text(trace: Trace) -> list[int]:
    return [token for cycle in trace.cycles for token in cycle.emitted]


def _parted(trace: Trace, other: Trace, name: str, whose: str) -> list[Violation]:
    """Say where the text of a run, or under `TWICE` its cycles, first differs from another run's."""
    cut = name == TWICE
    for at, cycle in enumerate(trace.cycles):
        if cut and (at >= len(other.cycles) or cycle.proposed != other.cycles[at].proposed):
            drafted = len(other.cycles[at].proposed) if at < len(other.cycles) else 0
            said = f"this cycle drafts {len(cycle.proposed)} tokens, and in {whose} it drafted {drafted}"
            return [Violation(name, cycle.index, f"{said}, or others")]
    mine, theirs = _text(trace), _text(other)
    if mine == theirs:
        return []
    at = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    here, there = (str(text[at]) if at < len(text) else "nothing" for text in (mine, theirs))
    start = trace.cycles[0].committed_before
    cycle_at = next((c.index for c in trace.cycles if c.committed_after - start > at), trace.cycles[-1].index)
    return [Violation(name, cycle_at, f"new token {at + 1} is {here}, and in {whose} {there}")]
