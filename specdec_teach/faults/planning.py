"""A planner that keeps what it learnt of one request for the next.

Invariant: within a request it does what the honest one does. It does not know drafters, rules or caches.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import final

from specdec_teach.engine import Engine
from specdec_teach.pacing import Heuristic, Outlook, Patience, Planning

__all__ = ["long_memory"]


def long_memory(engine: Engine) -> Engine:
    """Let γ begin where the last request left it, and go by the rule of thumb from there."""
    return engine.variant(pace="auto", planner=_Keeping(Heuristic(engine.gamma, engine.gamma)))


@final
@dataclass(frozen=True, slots=True)
class _Keeping:
    """`kept`: the last outlook of anybody, by the largest γ."""

    inner: Planning
    kept: dict[int, Outlook] = field(default_factory=dict)

    @property
    def name(self) -> str | None:
        return self.inner.name

    @property
    def most(self) -> int:
        return self.inner.most

    def start(self) -> Outlook:
        return _Kept(self.kept.get(self.most, self.inner.start()), self)

    def capped(self, most: int) -> Planning:
        return _Keeping(self.inner.capped(most), self.kept)


@final
@dataclass(frozen=True, slots=True)
class _Kept:
    now: Outlook
    owner: _Keeping = field(compare=False)

    @property
    def gamma(self) -> int:
        return self.now.gamma

    @property
    def patience(self) -> Patience | None:
        return self.now.patience

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Outlook:
        self.owner.kept[self.owner.most] = now = self.now.after(drafted, accepted, cut, confidence)
        return _Kept(now, self.owner)

    def reset(self) -> Outlook:
        return self
