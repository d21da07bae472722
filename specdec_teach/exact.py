"""The exact law of what an engine emits: every random choice of the real engine, enumerated in float64.

A source of noise that branches takes the place of random numbers. Each cycle is run once for every way its choices can
fall; ways that leave the same committed tokens, readable caches and outlook on γ behind are merged before the next.
Invariant: the probabilities of all ways sum to 1. It knows streams and noise, and nothing about rules or drafters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from itertools import pairwise
from typing import cast, final

import torch
from torch import Tensor

from specdec_kernels import rejection
from specdec_kernels.errors import InvalidInput
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Branching
from specdec_teach.engine import Engine
from specdec_teach.noise import StreamId
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence
from specdec_teach.stream import Stream

__all__ = ["exact_law", "gumbel_joint"]


@final
class _BranchNoise:
    """Follows a script of choices, then takes the first possible one each time and remembers the others.

    `shared`: draft and target meet the same Gumbel noise at one number (coupled verification), so the target's choice
    has a law that depends on the draft's.
    """

    __slots__ = ("choices", "drafted", "others", "probability", "shared")

    def __init__(self, script: tuple[int, ...], shared: bool) -> None:
        self.choices = list(script)
        self.others: list[tuple[int, ...]] = []
        self.probability: list[float] = []
        self.shared = shared
        self.drafted: dict[int, tuple[int, list[float]]] = {}

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        weights = weights_V.to(torch.float64)
        law = (weights / weights.sum()).tolist()
        if self.shared and stream == StreamId.DRAFT:
            self.drafted[number] = (self._choose(law), law)
            return self.drafted[number][0]
        if self.shared and number in self.drafted:
            token, q = self.drafted[number]
            law = [gumbel_joint(law, q, other, token) / q[token] for other in range(len(law))]
        return self._choose(law)

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        yes = _measure(p, q)
        return self._choose([1.0 - yes, yes]) == 1, None

    def _choose(self, law: list[float]) -> int:
        at = len(self.probability)
        if at == len(self.choices):
            possible = [choice for choice, chance in enumerate(law) if chance > 0.0]
            self.others.extend((*self.choices, choice) for choice in possible[1:])
            self.choices.append(possible[0])
        choice = self.choices[at]
        self.probability.append(law[choice])
        return choice


def exact_law(
    engine: Engine,
    prompt_ids: Items[int],
    n_tokens: int,
    sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
) -> dict[tuple[int, ...], float]:
    """Return {first `n_tokens` new ids: probability} of what `engine` emits after `prompt_ids`.

    A text that ends sooner has a shorter key. The engine runs with max_new_tokens = n_tokens + γ, so that γ is never
    shrunk, and later tokens are summed out. Meant for vocabularies of a few tokens: the ways grow like V^γ, and like
    V^nodes with draft trees. InvalidInput for trees under coupled verification, whose drafts share one noise: that
    their text is the one with `speculate=False` is its proof.

    >>> from specdec_teach.testing import TabularLM
    >>> exact_law(Engine(TabularLM([0.0, 0.0])), [0], 1)
    {(0,): 0.5, (1,): 0.5}
    """
    if engine.rule.by_position and isinstance(engine.drafter, Branching) and not sampling.greedy_now:
        raise InvalidInput(
            f"the drafts of a tree share their noise under the rule {engine.rule.name} and cannot be enumerated one by "
            "one; compare the text with that of speculate=False, or use rejection"
        )
    start = engine.stream(list(prompt_ids), sampling, max_new_tokens=n_tokens + engine.gamma, trace=False)
    levels: dict[int, dict[object, tuple[Stream, float]]] = {0: {(): (start, 1.0)}}  # by the number of new tokens
    law: dict[tuple[int, ...], float] = {}
    while levels:
        for stream, weight in levels.pop(min(levels)).values():
            new = tuple(stream.sequence.new_tokens)
            if len(new) >= n_tokens or stream.finish_reason is not None:
                law[new[:n_tokens]] = law.get(new[:n_tokens], 0.0) + weight
                continue
            for chance, after in _one_cycle(stream):
                level = levels.setdefault(len(after.sequence.new_tokens), {})
                state = (*_state(after.sequence), after.progress.outlook)
                known = level.get(state)
                level[state] = (after, weight * chance) if known is None else (known[0], known[1] + weight * chance)
    return dict(sorted(law.items()))


def _one_cycle(stream: Stream) -> list[tuple[float, Stream]]:
    """Return every way the next cycle of `stream` can go, as (probability, stream after it)."""
    shared = stream.engine.rule.by_position and not stream.sequence.sampling.greedy_now
    scripts: list[tuple[int, ...]] = [()]
    ways = []
    while scripts:
        noise = _BranchNoise(scripts.pop(), shared)
        twin = stream.fork(noise)
        twin.step()
        scripts.extend(noise.others)
        chance = 1.0
        for factor in noise.probability:
            chance *= factor
        ways.append((chance, twin))
    return ways


def gumbel_joint(p: Items[float], q: Items[float], a: int, b: int) -> float:
    """Return the chance that one Gumbel noise makes `a` the choice under `p` and `b` the choice under `q`.

    With E_v independent exponentials, the choice is the smallest E_v / p_v. For a = b the chance is
    1 / Σ max(p_v / p_a, q_v / q_a); otherwise integrate over r = E_a / E_b, piece by piece, in closed form.

    >>> p, q = [.5, .3, .2], [.2, .2, .6]
    >>> round(sum(gumbel_joint(p, q, a, b) for a in range(3) for b in range(3)), 12)
    1.0
    """
    if p[a] <= 0.0 or q[b] <= 0.0:
        return 0.0
    if a == b:
        return 1.0 / sum(max(p_v / p[a], q_v / q[a]) for p_v, q_v in zip(p, q, strict=True))
    low, high = q[a] / q[b], p[a] / p[b] if p[b] > 0.0 else math.inf
    if low >= high:
        return 0.0
    others = [(p[v] / p[a], q[v] / q[b]) for v in range(len(p)) if v not in (a, b)]
    turns = sorted({y / x for x, y in others if x > 0.0 and low < y / x < high})
    edges = [low, *turns, high]
    total = 0.0
    for start, stop in pairwise(edges):
        middle = start + 1.0 if math.isinf(stop) else (start + stop) / 2
        slope = 1.0 + sum(x for x, y in others if x * middle > y)
        fixed = 1.0 + sum(y for x, y in others if x * middle <= y)
        far = 0.0 if math.isinf(stop) else 1.0 / (fixed + slope * stop)
        total += (1.0 / (fixed + slope * start) - far) / slope
    return total


def _measure(p: float, q: float) -> float:
    """Return how much of (0, 1) the rule's own predicate accepts: an interval from 0, found by bisection to 2⁻⁶⁰."""
    low, high = 0.0, 1.0
    if rejection.accepts(1.0 - 2.0**-53, p, q):
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rejection.accepts(middle, p, q) else (low, middle)
    return low


def _state(sequence: Sequence) -> tuple[object, ...]:
    """Return all that the future depends on: committed tokens, what both caches can read, and hidden states."""
    caches = [cast(Cache, one) for one in (sequence.cache, sequence.draft) if hasattr(one, "contents")]
    readable = tuple((cache.pointer, *(_bytes(keys) for keys, _ in cache.contents())) for cache in caches)
    hidden = sequence.hidden
    waiting = () if hidden is None or hidden.stop == hidden.start else (hidden.start, _bytes(hidden.rows_RW))
    return (tuple(sequence.tokens), readable, waiting)


def _bytes(values: Tensor) -> bytes:
    return values.contiguous().view(torch.uint8).numpy().tobytes()
