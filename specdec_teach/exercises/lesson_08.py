"""Lesson 08, "Where drafts come from": its judges, and a drafter that takes drafts back.

The judges compute every truth from arithmetic or by the engine's own planner. Invariant: a wrong answer is met with the
smallest case that shows it. It does not know the notebook.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, final

from torch import Tensor

from specdec_teach.costs import Costs
from specdec_teach.drafters.base import Proposal
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.planner import Planner
from specdec_teach.sequence import Sequence

__all__ = ["PRICES", "TakesBack", "estimate", "look_up", "shared_part"]

PRICES = Costs({1: 1.0, 2: 1.1, 3: 1.2, 4: 1.3, 5: 1.4, 9: 1.8}, 0.1)
"""The prices of the lesson, in forwards of the target over one position: made up, so that they are the same for all."""

_NEAR = 1e-6
_Cycle = tuple[int, int, bool]


@final
class TakesBack:
    """A draft model whose drafts are looked at again: from the first with q below `least` on they are taken back."""

    def __init__(self, inner: ModelDrafter, least: float) -> None:
        self._inner, self._least = inner, least

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        return [self._part(proposal) for proposal in self._inner.propose(sequences, counts)]

    def _part(self, proposal: Proposal) -> Proposal:
        q_KV = proposal.q_KV
        if q_KV is None:
            return proposal
        sure = [float(q_KV[row, token]) >= self._least for row, token in enumerate(proposal.tokens)]
        kept = sure.index(False) if False in sure else len(sure)
        return Proposal(proposal.tokens[:kept], q_KV[:kept] if kept else None)


def look_up(tokens: Items[int], count: int, longest: int = 3) -> list[int]:
    """Return at most `count` tokens that followed the longest end of `tokens`, the last time it stood in the text.

    >>> look_up([5, 6, 7, 8, 5, 6], 3)
    [7, 8, 5]
    """
    text = list(tokens)
    for size in range(min(longest, len(text) - 1), 0, -1):
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == text[-size:]:
                longer = list(text)
                for at in range(start + size, start + size + count):
                    longer.append(longer[at])
                return longer[len(text) :]
    return []


def shared_part(q: Items[float], shared: Items[int]) -> list[float]:
    """Return q over the shared ids alone, scaled to sum to 1.

    >>> shared_part([0.5, 0.25, 0.25], [0, 2])
    [0.6666666666666666, 0.0, 0.3333333333333333]
    """
    kept = [chance if token in shared else 0.0 for token, chance in enumerate(q)]
    return [chance / sum(kept) for chance in kept]


def estimate(cycles: Items[_Cycle], prior: tuple[float, float] = (1.0, 0.5)) -> float:
    """Return what the engine's planner makes of cycles (drafted, accepted, ended by a stop), nothing forgotten.

    >>> estimate([(4, 2, False)])
    0.6666666666666666
    """
    outlook = Planner(PRICES, prior=prior, memory=1.0).start()
    for drafted, accepted, cut in cycles:
        outlook = outlook.after(drafted, accepted, cut)
    return outlook.alpha


@exercise("08.1")
def _look_up(answer: Any) -> str:
    told: Items[tuple[list[int], int, str]] = (
        ([1, 2, 3, 1], 2, ""),
        ([1, 2, 3], 2, ": the end of the text may not match itself"),
        ([1, 2, 5, 1, 3, 1], 2, ": two places fit, and the later one counts"),
        ([1, 2, 7, 9, 2, 8, 1, 2], 1, ": a longer end that fits beats a later place"),
        ([4, 9, 1, 2, 3, 8, 9, 2, 3, 7, 1, 2, 3], 1, ": three tokens fit, look for three first"),
        ([5, 5], 4, ": where the passage runs into the end, go on with what you drafted"),
        ([], 3, ": there is no text"),
    )
    for tokens, count, why in told:
        found, right = ask(answer, list(tokens), count), look_up(tokens, count)
        if list(found) != right:
            raise NotYet(f"look_up({tokens}, {count}) should be {right}, not {found}{why}")
    text = [at * at % 7 for at in range(60)]
    if list(ask(answer, list(text), 8)) != look_up(text, 8):
        raise NotYet(f"on the squares modulo 7 it should give {look_up(text, 8)}")
    return "the longest end first, the latest place, and a loop goes on as a loop"


@exercise("08.2")
def _two_alphas(answer: Any) -> str:
    p, q = (0.6, 0.3, 0.1), (0.5, 0.4, 0.1)
    right = (sum(map(min, p, q)), p[q.index(max(q))])
    found = tuple(float(number) for number in answer)
    if len(found) != 2:
        raise NotYet(f"give two numbers, for the drawn draft and for the favourite, not {len(found)}")
    if abs(found[0] - right[0]) > _NEAR:
        raise NotYet(f"a drawn draft stands with chance Σ min(p, q), and that is not {found[0]:.4g}")
    if abs(found[1] - right[1]) > _NEAR:
        why = " The favourite was certain, so its q is 1, not 0.5" if abs(found[1] - 1.0) < _NEAR else ""
        raise NotYet(f"the favourite of q is token 0, and it does not stand with chance {found[1]:.4g}.{why}")
    return "0.9 for a drawn draft, 0.6 for the favourite: a full q is worth something"


@exercise("08.3")
def _shared(answer: Any) -> str:
    for q, shared in (([0.5, 0.25, 0.25], [0, 1, 2]), ([0.5, 0.25, 0.25], [0, 2]), ([0.1, 0.2, 0.3, 0.4], [1, 2])):
        found, right = ask(answer, list(q), list(shared)), shared_part(q, shared)
        call = f"shared_part({q}, {shared})"
        if len(found) != len(q):
            raise NotYet(f"{call} should give {len(q)} numbers, and yours gives {len(found)}")
        if max(abs(a - b) for a, b in zip(found, right, strict=True)) > _NEAR:
            why = "" if abs(sum(found) - 1.0) < _NEAR else f"; yours sums to {sum(found):.4g}"
            wanted = [round(chance, 4) for chance in right]
            raise NotYet(f"{call} should be {wanted}, not {[round(float(chance), 4) for chance in found]}{why}")
    return "what is left is the law that the drafts are really drawn from, so it may be reported as q"


@exercise("08.4")
def _estimate(answer: Any) -> str:
    told: Items[tuple[list[_Cycle], str]] = (
        ([], "the prior alone"),
        ([(4, 4, False)], "four stood and none fell"),
        ([(4, 2, False)], "two stood, one fell, and the fourth was never judged"),
        ([(4, 0, False)], "one fell; three were never judged"),
        ([(4, 2, True)], "two stood; the text ended, so nobody was refused"),
        ([(0, 0, False), (3, 1, False)], "a cycle without drafts says nothing"),
    )
    for cycles, why in told:
        found, right = float(ask(answer, list(cycles))), estimate(cycles)
        if abs(found - right) > _NEAR:
            raise NotYet(f"estimate({cycles}) should be {right:.4g}, not {found:.4g}: {why}")
    return "the same as the engine's planner, which forgets a little on top"


@exercise("08.5")
def _gammas(answer: Any) -> str:
    right = tuple(Planner(costs).best(alpha) for alpha, costs in ((0.6, PRICES), (0.08, Costs(PRICES.target, 0.0))))
    found = tuple(answer)
    if len(found) != 2:
        raise NotYet(f"give two numbers, for the heads and for the n-grams, not {len(found)}")
    if found[0] != right[0]:
        raise NotYet(f"γ = {found[0]} is not the best at α = 0.6 and c = 0.1: divide E(γ) by v(γ + 1) + γ·c for each γ")
    if found[1] != right[1]:
        raise NotYet(f"γ = {found[1]} is not the best at α = 0.08 and c = 0: the target's wider forward is on the bill")
    return f"{right[0]} for the heads; {right[1]} for the n-grams: drafts for nothing can still cost too much"
