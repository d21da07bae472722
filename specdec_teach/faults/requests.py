"""The smaller parts of a request with one mistake in them: its noise, its end, its limits, its policy.

Invariant: each takes the place of one part of `specdec_teach.parts.Parts`. They do not know models, rules or caches.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Any, Literal, cast, final

import torch
from torch import Tensor

from specdec_teach.ending import Ending, Fed
from specdec_teach.engine import Engine
from specdec_teach.faults.judging import by_number
from specdec_teach.limits import Limits
from specdec_teach.noise import CounterNoise, CoupledNoise, Noise, StreamId
from specdec_teach.parts import Parts
from specdec_teach.policy import Policy, processed
from specdec_teach.rules import Rule
from specdec_teach.sampling import Sampling
from specdec_teach.tree import Parents

__all__ = ["blind_penalty", "end_of_block_only", "no_bonus", "one_vector", "overshoot"]


def _with(engine: Engine, **parts: Any) -> Engine:
    return engine.variant(parts=replace(engine.parts, **parts))


def one_vector(engine: Engine) -> Engine:
    """One noise vector for each draw number, met by the draft's draw and by the correction."""
    honest = engine.parts

    def make(rule: Rule, sampling: Sampling, seed: int) -> Noise:
        noise = honest.noise(rule, sampling, seed)
        return _OneVector(seed) if isinstance(noise, CounterNoise) else noise

    return _with(engine, noise=make).variant(rule=by_number(engine))


def end_of_block_only(engine: Engine) -> Engine:
    """Compare only the last token of a cycle with the end-of-sequence tokens."""
    honest: Parts = engine.parts
    return _with(engine, ending=lambda ending: cast(Ending, _LastOnly(honest.ending(ending))))


def no_bonus(engine: Engine) -> Engine:
    """Throw the bonus away."""
    honest, full = engine.parts, engine.gamma + 1
    return _with(engine, ending=lambda ending: cast(Ending, _Short(honest.ending(ending), full)))


def overshoot(engine: Engine) -> Engine:
    """Leave γ as it is at the end of the budget, and keep what comes."""
    honest, more = engine.parts, engine.gamma + 1
    return _with(engine, limits=lambda limits: cast(Limits, _Loose(honest.limits(limits), more)))


def blind_penalty(engine: Engine) -> Engine:
    """Let every row of a forward see the committed history, without the drafts before it."""
    honest = engine.parts
    return _with(engine, policy=lambda sampling, history: cast(Policy, _Blind(honest.policy(sampling, history))))


@final
class _OneVector:
    def __init__(self, seed: int) -> None:
        self.vector, self.counter = CoupledNoise(seed), CounterNoise(seed)

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        return self.vector.draw(stream, number, weights_V)

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        return self.counter.accepts(number, p, q)


@final
@dataclass(frozen=True, slots=True)
class _LastOnly:
    inner: Ending

    def feed(self, tokens: Items[int], *, last: bool = False) -> Fed:
        early = replace(self.inner, eos=frozenset()).feed(tokens[:-1])
        if early.reason is not None:
            return replace(early, after=cast(Ending, _LastOnly(self.inner)))
        late = replace(early.after, eos=self.inner.eos).feed(tokens[-1:], last=last)
        after = cast(Ending, _LastOnly(replace(late.after, eos=self.inner.eos)))
        return Fed(early.kept + late.kept, late.reason, early.piece + late.piece, after)


@final
@dataclass(frozen=True, slots=True)
class _Short:
    inner: Ending
    full: int

    def feed(self, tokens: Items[int], *, last: bool = False) -> Fed:
        kept = tokens[:-1] if len(tokens) == self.full > 1 else tokens
        fed = self.inner.feed(kept, last=last and kept is tokens)
        return replace(fed, after=cast(Ending, _Short(fed.after, self.full)))


@final
@dataclass(frozen=True, slots=True)
class _Loose:
    inner: Limits
    more: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def _wide(self) -> Limits:
        return replace(self.inner, max_new=self.inner.max_new + self.more)

    @property
    def capacity(self) -> int:
        return self._wide.capacity

    def finished(self, length: int) -> Literal["length", "context"] | None:
        return self.inner.finished(length)

    def gamma(self, asked: int, length: int) -> int:
        return self._wide.gamma(asked, length)


@final
@dataclass(frozen=True, slots=True)
class _Blind:
    inner: Policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def scores(
        self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int], parents: Parents | None = None
    ) -> Tensor:
        return torch.cat([self.inner.scores(row_1V, prefix, ()) for row_1V in torch.split(logits_RV, 1)])

    def rows(self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int] = ()) -> Tensor:
        return processed(self.scores(logits_RV, prefix, drafts), self.inner.sampling)
