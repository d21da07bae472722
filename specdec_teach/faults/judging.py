"""Verification rules with one mistake in them.

Invariant: a broken rule keeps the honest one's name, and what it writes into the verdict is what it did.
It does not know models or caches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, final

from torch import Tensor

from specdec_kernels.rejection import accept_probability, residual
from specdec_teach.drafters.base import Proposal
from specdec_teach.engine import Engine
from specdec_teach.noise import Noise, StreamId
from specdec_teach.rules import Rejection, Rule, Verdict
from specdec_teach.rules.base import Rows, follow
from specdec_teach.rules.kernel import ByKernel

__all__ = ["by_number", "count_the_ticks", "first_unverified", "redraw"]

Judging = Callable[[Rule, Proposal, Tensor, Noise, int], Verdict]


@final
@dataclass(frozen=True, slots=True)
class _Around:
    """`inner`, but for how it judges."""

    inner: Rule
    judging: Judging

    @property
    def name(self) -> str:
        """See `Rule.name`."""
        return self.inner.name

    @property
    def lossless(self) -> bool:
        """What the honest rule says of itself."""
        return self.inner.lossless

    @property
    def by_number(self) -> bool:
        """See `Rule.by_number`."""
        return self.inner.by_number

    @property
    def by_position(self) -> bool:
        """See `Rule.by_position`."""
        return self.inner.by_position

    @property
    def branches(self) -> bool:
        """The mistakes are made in chains."""
        return False

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        return self.judging(self.inner, proposal, p_RV, noise, first)


def by_number(engine: Engine) -> Rule:
    """Return the engine's rule, without a kernel, if it is exact and judges drafts by numbers; else Rejection."""
    rule = engine.rule.rule if isinstance(engine.rule, ByKernel) else engine.rule
    return rule if rule.lossless and rule.by_number else Rejection()


def redraw(engine: Engine) -> Engine:
    """After a rejection, draw from the target again."""
    return engine.variant(rule=_Around(by_number(engine), _redraw))


def count_the_ticks(engine: Engine) -> Engine:
    """Judge every draft, and keep as many as stand, wherever they stand."""
    return engine.variant(rule=_Around(Rejection(), _ticks))


def first_unverified(engine: Engine) -> Engine:
    """Judge the drafts from the second on."""
    return engine.variant(rule=_Around(Rejection(), _from_the_second))


@final
@dataclass(frozen=True, slots=True)
class _FromTarget:
    """A source whose last draw ignores the law it is given and takes the target's row."""

    inner: Noise
    p_RV: Tensor
    first: int

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        return self.inner.draw(stream, number, self.p_RV[number - self.first])

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        return self.inner.accepts(number, p, q)


def _redraw(inner: Rule, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
    verdict = inner.judge(proposal, p_RV, _FromTarget(noise, p_RV, first), first)
    return replace(verdict, law_V=p_RV[verdict.accepted], source="p", degenerate=False)


def _ticks(inner: Rule, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
    rows, count = Rows(proposal, p_RV), len(proposal.tokens)
    judged = [noise.accepts(first + row, *rows.at(row)) for row in range(count)]
    accepted = sum(stands for stands, _ in judged)
    law_V, source = p_RV[accepted], _P
    if accepted < count:
        rest_V, mass = residual(law_V, rows.q_V(accepted), rows.drafts_K[accepted])
        law_V, source = (rest_V, _RESIDUAL) if bool(mass > 0) else (law_V, _P)
    token = follow(noise, first + accepted, law_V, accepted)
    uniforms = tuple(u for _, u in judged)
    chances = tuple(None if u is None else accept_probability(*rows.at(row)) for row, u in enumerate(uniforms))
    empty = accepted < count and source == _P
    return Verdict(accepted, token, law_V, rows.p, rows.q, uniforms, chances, (1.0,) * count, source, empty)


_P: Literal["p", "residual"] = "p"
_RESIDUAL: Literal["p", "residual"] = "residual"


def _from_the_second(inner: Rule, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
    if not proposal.tokens:
        return inner.judge(proposal, p_RV, noise, first)
    rows = Rows(proposal, p_RV)
    rest = Proposal(proposal.tokens[1:], None if proposal.q_KV is None else proposal.q_KV[1:])
    tail = inner.judge(rest, p_RV[1:], noise, first + 1)
    return replace(
        tail,
        accepted=tail.accepted + 1,
        p=rows.p,
        q=rows.q,
        uniforms=(None, *tail.uniforms),
        chances=(None, *tail.chances),
        scales=(1.0, *tail.scales),
    )
