"""Who chooses the draft length of each cycle: protocols, a fixed γ, and the usual rule of thumb.

Invariant: an outlook is frozen, belongs to one request and follows from that request's past alone; whoever plans keeps
nothing of it. γ is settled before a token of the cycle is drawn, and a draft under way ends by what has been drafted
already, never by what would come next, and no drawn token is taken back. So each drafted token is judged against the q
that it was drawn from, and the law of the text stays the target's.
It does not know costs, models or rules.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from typing import Protocol, final

__all__ = ["LEVELS", "NAMES", "Fixed", "Heuristic", "Outlook", "Patience", "Planning", "level"]

NAMES = ("auto", "heuristic")
"""What may stand in the place of γ."""

_EDGES = (0.5, 0.9)
LEVELS = len(_EDGES) + 1
"""How many kinds of drafts are told apart by the probability that their own model gave them."""


def level(chance: float) -> int:
    """Return the kind of a draft to which its own model gave `chance`: 0 below .5, 1 below .9, else 2."""
    return sum(chance >= edge for edge in _EDGES)


class Outlook(Protocol):
    """What one request expects of its next cycle. Frozen and hashable: equal outlooks have equal futures."""

    @property
    def gamma(self) -> int:
        """The draft length to ask for."""

    @property
    def patience(self) -> Patience | None:
        """When to end a draft that is under way, None to draft all that was asked for."""

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Outlook:
        """Return the outlook after a cycle: what it drafted, how many stood, whether the text ended before the rest.

        `confidence`: the draft's own probability of each of its tokens, where it tells.
        """

    def reset(self) -> Outlook:
        """Return the outlook of a request that has not begun."""


class Planning(Protocol):
    """Chooses γ for requests. It keeps nothing of them itself."""

    @property
    def name(self) -> str | None:
        """How it is called in a trace, None where γ is fixed."""

    @property
    def most(self) -> int:
        """The largest γ it asks for."""

    def start(self) -> Outlook:
        """Return the outlook of a request that has not begun."""

    def capped(self, most: int) -> Planning:
        """Return a planning like this one that asks for no more than `most`."""


@final
@dataclass(frozen=True, slots=True)
class Fixed:
    """The same γ in every cycle: planning and outlook in one."""

    gamma: int
    patience: Patience | None = None
    name: None = None

    @property
    def most(self) -> int:
        """See `Planning`."""
        return self.gamma

    def start(self) -> Fixed:
        """See `Planning`."""
        return self

    def capped(self, most: int) -> Fixed:
        """See `Planning`."""
        return replace(self, gamma=min(self.gamma, most))

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Fixed:
        """See `Outlook`."""
        return self

    def reset(self) -> Fixed:
        """See `Outlook`."""
        return self


@final
@dataclass(frozen=True, slots=True)
class Patience:
    """Ends a draft when the next token is not worth its cost: where survival · gain < cost.

    `rates`: the chance of a draft to stand by the probability its own model gave it (below .5, below .9, above).
    Survival is their product over the tokens drafted so far: the chance that a further token will be looked at.
    `least`: for 1, 2, … tokens drafted so far, the survival below which the draft ends.

    >>> Patience((0.4, 0.7, 1.0), (0.5, 0.5)).goes_on([0.95]), Patience((0.4, 0.7, 1.0), (0.5, 0.5)).goes_on([0.3])
    (True, False)
    """

    rates: tuple[float, ...]
    least: tuple[float, ...]

    def goes_on(self, confidence: Items[float]) -> bool:
        """Return whether to draft another token behind those drafted so far; it reads nothing but what they are."""
        survival = 1.0
        for chance in confidence:
            survival *= self.rates[level(chance)]
        return len(confidence) <= len(self.least) and survival >= self.least[len(confidence) - 1]


@final
@dataclass(frozen=True, slots=True)
class Heuristic:
    """Two more after a cycle in which all γ drafts stood, one less after a rejection: `gamma="heuristic"`.

    It needs no costs and never stops drafting. `begin`: the first γ. `most`: the largest. For comparison.
    Source: the schedule "heuristic" of assisted generation in transformers.

    >>> Heuristic().start().after(4, 4, False).gamma, Heuristic().start().after(4, 3, False).gamma
    (6, 3)
    """

    begin: int = 4
    most: int = 16

    @property
    def name(self) -> str:
        """See `Planning`."""
        return "heuristic"

    def start(self) -> Steps:
        """See `Planning`."""
        return Steps(self, min(self.begin, self.most))

    def capped(self, most: int) -> Heuristic:
        """See `Planning`."""
        return self if most >= self.most else replace(self, most=most)


@final
@dataclass(frozen=True, slots=True)
class Steps:
    """Where the rule of thumb stands in one request."""

    rule: Heuristic
    gamma: int

    @property
    def patience(self) -> None:
        """It has none: all that is asked for is drafted."""

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Steps:
        """See `Outlook`."""
        if cut or accepted == drafted < self.gamma:
            return self
        gamma = min(self.gamma + 2, self.rule.most) if accepted == drafted else max(self.gamma - 1, 1)
        return replace(self, gamma=gamma)

    def reset(self) -> Steps:
        """See `Outlook`."""
        return self.rule.start()
