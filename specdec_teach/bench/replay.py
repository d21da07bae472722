"""Recorded drafts, priced and played again at any γ: what a planner would have asked for, and what it would have cost.

A recording is made at the largest γ, without ending a draft early, and says of each cycle how many drafts stood and
what the draft model gave each. Behind a shorter draft the same ones stand, as many as there are. A text is put together
from the cycles of one request in an order left to chance; every plan meets the same order, so they differ by what they
ask for and not by luck.
Invariant: nothing here is timed. It does not know models.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from random import Random
from typing import final

from specdec_teach.costs import Costs
from specdec_teach.pacing import LEVELS, Patience, Planning

__all__ = ["Seen", "Watching", "replayed"]


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """A cycle: how many tokens were drafted, how many of them stood, and the draft's own probability of each."""

    drafted: int
    accepted: int
    confidence: tuple[float, ...]

    def shortened(self, gamma: int, patience: Patience | None) -> Seen:
        """Return the same cycle with at most γ drafts, ended by `patience` where that ends it."""
        most = min(gamma, self.drafted)
        count = min(most, 1)
        while count < most and (patience is None or not self.confidence or patience.goes_on(self.confidence[:count])):
            count += 1
        return Seen(count, min(count, self.accepted), self.confidence[:count])


@final
@dataclass(frozen=True, slots=True)
class Watching:
    """Planning and outlook in one: asks for `gamma` drafts each time, ends none, and keeps what became of them."""

    gamma: int
    seen: tuple[Seen, ...] = ()
    name: None = None

    @property
    def most(self) -> int:
        """See `Planning`."""
        return self.gamma

    @property
    def patience(self) -> Patience:
        """One that never ends: a draft tells its probabilities where somebody wants to know them."""
        return Patience((1.0,) * LEVELS, (0.0,) * self.gamma)

    def start(self) -> Watching:
        """See `Planning`."""
        return self

    def capped(self, most: int) -> Watching:
        """See `Planning`."""
        return replace(self, gamma=min(self.gamma, most))

    def after(self, drafted: int, accepted: int, cut: bool, confidence: Items[float] = ()) -> Watching:
        """See `Outlook`; a cycle that the end of the text cut short tells nothing."""
        return self if cut else replace(self, seen=(*self.seen, Seen(drafted, accepted, tuple(confidence))))

    def reset(self) -> Watching:
        """See `Outlook`."""
        return replace(self, seen=())


def replayed(cycles: Items[Seen], planning: Planning, costs: Costs, tokens: int, seed: int) -> tuple[int, float]:
    """Return the tokens (at least so many) and seconds of a text out of `cycles`, as `planning` asks for drafts.

    >>> from specdec_teach.pacing import Fixed
    >>> cycles, costs = [Seen(4, 3, ())], Costs({1: 1.0, 5: 2.0}, 0.1)
    >>> replayed(cycles, Fixed(2), costs, 6, 0), replayed(cycles, Fixed(0), costs, 6, 0)
    ((6, 3.4), (6, 6.0))
    """
    chance, outlook, made, spent = Random(seed), planning.start(), 0, 0.0
    while made < tokens:
        cycle = chance.choice(cycles).shortened(outlook.gamma, outlook.patience)
        outlook = outlook.after(cycle.drafted, cycle.accepted, False, cycle.confidence)
        made += cycle.accepted + 1
        spent += costs.cycle(cycle.drafted)
    return made, spent
