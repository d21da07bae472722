"""Given texts, drafted at every position and priced: what a plan for γ would have made of them, and what it would cost.

Given the text, whether a draft stands is settled by numbers alone. The target's tokens are x, and a draft of x stands
with chance min(p, q)/p of x, whatever was drafted before; another never does. So a drafter is told the text, says at
each position what it gives the next tokens, and every plan replays the same texts in their own order, with the same
random numbers: plans differ by what they ask for and not by luck.
Invariant: nothing here is timed. It does not know models.
Source: Leviathan et al. 2023, algorithm 1, read from the token that was emitted back to the draft.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, final

from specdec_teach.bench.telling import Told
from specdec_teach.costs import Costs
from specdec_teach.pacing import LEVELS, Patience, Planning
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Decision

if TYPE_CHECKING:
    from specdec_teach.engine import Engine

__all__ = ["Place", "Watching", "recorded", "replayed"]


@final
@dataclass(frozen=True, slots=True)
class Place:
    """What a draft would be that begins at one position of a given text.

    `standing`: for its tokens in turn, the chance that each stands if those before it do. `told`: the probability that
    the draft model gives the text's token there, or its favourite where it proposes nothing else; `other`: to a token
    that it drafts where that one falls. Both are empty where the drafter tells none.
    """

    standing: tuple[float, ...]
    told: tuple[float, ...] = ()
    other: tuple[float, ...] = ()

    def draft(self, gamma: int, patience: Patience | None, u: Items[float]) -> tuple[int, int, tuple[float, ...]]:
        """Return how many tokens are drafted, how many stand, and the draft model's probability of each.

        At most γ, ended by `patience` where that ends it. `u`: a number in [0, 1) for each position of the text from
        here on. Behind a draft that falls the others count as told; they cost, and nobody looks at them.
        """
        most, stood, sure = min(gamma, len(self.standing)), 0, []
        for at in range(most):
            stands = stood == at and u[at] < self.standing[at]
            if self.told:
                sure.append(self.other[at] if stood == at and not stands else self.told[at])
            stood += stands
            if patience is not None and sure and at + 1 < most and not patience.goes_on(sure):
                return at + 1, stood, tuple(sure)
        return most, stood, tuple(sure)


@final
@dataclass(frozen=True, slots=True)
class Watching:
    """Planning and outlook in one: asks for `gamma` drafts each time, ends none, and keeps their probabilities."""

    gamma: int
    sure: tuple[float, ...] = ()
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
        """See `Outlook`."""
        return replace(self, sure=tuple(confidence))

    def reset(self) -> Watching:
        """See `Outlook`."""
        return replace(self, sure=())


def recorded(
    engine: Engine, prompt: list[int], text: Items[int], sampling: Sampling, gamma: int, chance: Random
) -> tuple[Place, ...]:
    """Return what drafts of γ tokens from each position of `text` would be, but for its last γ + 1 tokens.

    `text`: new tokens that the target drew under `sampling` behind `prompt`. `chance` draws the other tokens.
    """
    watching = engine.variant(planner=Watching(gamma), pace="auto", gamma=gamma)
    stream = watching.open(prompt, sampling, max_new_tokens=len(text), trace=False)
    stream.sequence.noise = Told(stream.sequence, [*prompt, *text])
    places = []
    for at in range(len(text) - gamma - 1):
        cycle = next(stream)
        outlook = stream.progress.outlook
        assert isinstance(outlook, Watching), "the engine keeps the outlook that its planner began"
        places.append(_place(cycle.decisions, text[at:], outlook.sure, chance))
    return tuple(places)


def _place(decisions: Items[Decision], text: Items[int], sure: tuple[float, ...], chance: Random) -> Place:
    """Read off a cycle's record what its draft was worth."""
    standing, other, same = [], [], True
    for at, (decision, token) in enumerate(zip(decisions, text, strict=False)):
        same = same and decision.token == token
        p, q = decision.p, decision.q
        assert p is not None, "the engine's own record knows every row"
        assert q is not None, "the engine's own record knows every row"
        standing.append(min(p, q) / p if same and p > 0.0 else 0.0)
        if sure:
            other.append(_other(decision, chance) if decision.token == token and q < 1.0 else sure[at])
    return Place(tuple(standing), sure, tuple(other))


def _other(decision: Decision, chance: Random) -> float:
    """Return q of a draft that falls, drawn from (q − p)₊; one that the record does not show is an unlikely one."""
    left = chance.random() * (1.0 - (decision.alpha or 0.0))
    for bar in decision.bars:
        left -= max(bar.q - bar.p, 0.0)
        if left < 0.0:
            return bar.q
    return 0.0


def replayed(text: Items[Place], planning: Planning, costs: Costs, tokens: int, chance: Random) -> tuple[int, float]:
    """Return the tokens (at least so many) and seconds of a recorded text, as `planning` asks for drafts.

    The numbers that decide belong to positions: every plan that is given the same `chance` meets the same.

    >>> from specdec_teach.pacing import Fixed
    >>> text, costs = [Place((1.0, 1.0, 1.0, 0.0))] * 6, Costs({1: 1.0, 5: 2.0}, 0.1)
    >>> [replayed(text, Fixed(gamma), costs, 6, Random(0)) for gamma in (2, 0)]
    [(6, 3.4), (6, 6.0)]
    """
    outlook, made, spent = planning.start(), 0, 0.0
    longest = max(len(place.standing) for place in text)
    u = [chance.random() for _ in range(len(text) + longest)]
    while made < tokens:
        drafted, stood, sure = text[made].draft(outlook.gamma, outlook.patience, u[made:])
        outlook = outlook.after(drafted, stood, False, sure)
        made += stood + 1
        spent += costs.cycle(drafted)
    return made, spent
