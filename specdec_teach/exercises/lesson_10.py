"""Lesson 10, "The cost ledger": its judges, a clock that nobody waits for, and the best γ at given prices.

Invariant: what is right is counted in runs of the engine or enumerated from its rules; a clock here counts forwards and
reads no time. It does not know the notebook, nor what anything costs on a real machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from typing import Any, final

from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.exercises.laws import model_of
from specdec_teach.exercises.lesson_04 import expected_accepted
from specdec_teach.sampling import Sampling

__all__ = ["Clock", "best", "flags"]


@final
class Clock:
    """Counts what forwards would take on a machine with moods; nobody waits for it.

    `first`: what the very first run pays on top, in forwards. `hot_after`: how many forwards until the machine slows
    down; `slow`: how many times as long a forward takes from then on.

    >>> clock = Clock(first=5.0, hot_after=10.0, slow=3.0)
    >>> clock.run(4.0), clock.run(8.0)
    (9.0, 12.0)
    """

    __slots__ = ("_done", "_first", "_hot_after", "_slow")

    def __init__(self, *, first: float = 0.0, hot_after: float = math.inf, slow: float = 1.0) -> None:
        self._first, self._hot_after, self._slow, self._done = first, hot_after, slow, 0.0

    def run(self, forwards: float) -> float:
        """Return how long so many forwards take now."""
        cool = min(forwards, max(0.0, self._hot_after - self._done))
        took = self._first + cool + (forwards - cool) * self._slow
        self._done, self._first = self._done + forwards, 0.0
        return took


def best(alpha: float, c: float, v: Items[float]) -> int:
    """Return the γ of the highest speed-up, 0 if none is above 1; `v[γ]` is the price of a forward over γ + 1 rows.

    >>> best(0.8, 0.05, [1.0] * 13), best(0.7, 0.1, [1.0] * 13), best(0.5, 0.4, [1.0] * 13), best(0.3, 0.4, [1.0] * 13)
    (8, 4, 1, 0)
    """
    return max(range(len(v)), key=lambda gamma: _speed_up(alpha, c, v, gamma))


def flags(gamma: int, tokens: int, seed: int = 3) -> list[list[bool]]:
    """Return whether each draft of each cycle was accepted, in a run whose drafts stand with α = 0.6 everywhere.

    >>> flags(2, 6)
    [[True, False], [True, False], [True]]
    """
    engine = Engine(model_of([0.6, 0.3, 0.1]), drafter=ModelDrafter(model_of([0.2, 0.5, 0.3])), gamma=gamma)
    trace = engine.generate([0], Sampling(seed=seed), max_new_tokens=tokens).trace
    assert trace is not None
    return [[decision.accepted for decision in cycle.decisions] for cycle in trace.cycles]


def _tokens(alpha: float, gamma: int) -> float:
    return sum(alpha**power for power in range(gamma + 1))


def _speed_up(alpha: float, c: float, v: Items[float], gamma: int) -> float:
    return _tokens(alpha, gamma) / (v[gamma] + gamma * c) if gamma else 1.0


def _near(found: float, right: float, within: float = 0.006) -> bool:
    return abs(found - right) < within


@exercise("10.1")
def _estimate(answer: Any) -> str:
    told: Items[tuple[list[list[bool]], str]] = (
        ([[True, False, False, False]], "only two drafts were judged here, and one of them stood"),
        ([[False, True, False, True]], "nobody judged what stands behind the first rejection, whatever its flag says"),
        ([[True, True], [True, True]], "where all stand there is no rejection to count"),
        ([[True, True, False], [False, False, False], [True]], "three stood and two fell"),
        ([[], [False]], "a cycle without drafts judged nothing"),
    )
    for cycles, why in told:
        right = _judged(cycles)
        assert right is not None
        _estimated(answer, cycles, right, why)
    for gamma in (2, 6):
        cycles = flags(gamma, 400)
        right = _judged(cycles)
        assert right is not None
        _estimated(answer, cycles, right, "a draft behind a rejection says nothing about α")
    blanks: Items[list[list[bool]]] = ([], [[]])
    for nothing in blanks:
        try:
            found = answer(nothing)
        except ZeroDivisionError:
            raise NotYet(f"estimate_alpha({nothing}) divides by zero: no draft was judged, so return None") from None
        if found is not None:
            raise NotYet(
                f"estimate_alpha({nothing}) should be None, not {found}: nothing was judged, so nothing is known"
            )
    return f"with γ = 6 it finds {right:.2f} where α is 0.60; accepted / drafted would say {_naive(cycles):.2f}"


def _estimated(answer: Any, cycles: list[list[bool]], right: float, why: str) -> None:
    found = float(ask(answer, [list(cycle) for cycle in cycles]))
    if _near(found, right, 1e-9):
        return
    call = f"estimate_alpha({cycles})" if len(cycles) <= 3 else f"over {len(cycles)} cycles of the engine the estimate"
    if _near(found, _naive(cycles), 1e-9):
        why = f"that is accepted / drafted, with {_unjudged(cycles)} drafts in it that nobody judged"
    raise NotYet(f"{call} should be {right:.3g}, not {found:.3g}: {why}")


def _judged(cycles: Items[Items[bool]]) -> float | None:
    stood = fell = 0
    for cycle in cycles:
        kept = next((place for place, flag in enumerate(cycle) if not flag), len(cycle))
        stood, fell = stood + kept, fell + (kept < len(cycle))
    return stood / (stood + fell) if stood + fell else None


def _naive(cycles: Items[Items[bool]]) -> float:
    every = [flag for cycle in cycles for flag in cycle]
    return sum(every) / len(every)


def _unjudged(cycles: Items[Items[bool]]) -> int:
    return sum(len(cycle) - min(len(cycle), list(cycle).index(False) + 1) for cycle in cycles if False in cycle)


@exercise("10.2")
def _calculation(answer: Any) -> str:
    alpha, gamma, c = 0.8, 4, 0.05
    tokens = 1.0 + expected_accepted("rejection", [0.6, 0.4], [0.8, 0.2], gamma)  # their overlap is 0.8
    wanted = (tokens, tokens / (1.0 + gamma * c))
    found = tuple(float(number) for number in answer)
    if len(found) != 2:
        raise NotYet(f"give two numbers, tokens per cycle and speed-up, not {len(found)}")
    if not _near(found[0], wanted[0]):
        why = "add up 1, α, α², … up to αᵞ"
        if _near(found[0], tokens - 1.0):
            why = "those are the accepted drafts; every cycle adds one token more"
        elif _near(found[0], alpha * gamma + 1.0):
            why = "a draft counts only if all drafts before it stand, so its chance is a power of α"
        raise NotYet(f"{found[0]:.4g} tokens per cycle is not it: {why}")
    if not _near(found[1], wanted[1]):
        why = "divide by what the cycle costs, v + γ·c"
        if _near(found[1], tokens / (1.0 + c)):
            why = "there are γ draft steps in a cycle, not one"
        elif _near(found[1], tokens / (gamma * c)):
            why = "the target's forward is on the bill too"
        raise NotYet(f"{wanted[0]:.3f} tokens per cycle are right, {found[1]:.4g} times as fast is not: {why}")
    return f"{wanted[0]:.3f} tokens for {1.0 + gamma * c:.1f} forwards; the engine's rule, enumerated, says the same"


@exercise("10.3")
def _break_even(answer: Any) -> str:
    gamma, v = 2, 1.1
    tokens = 1.0 + expected_accepted("rejection", [0.6, 0.3, 0.1], [0.2, 0.5, 0.3], gamma)  # their overlap is 0.6
    right, found = (tokens - v) / gamma, float(answer)
    if not _near(found, right):
        why = f"at that price {tokens:.2f} tokens cost {v + gamma * found:.2f} forwards"
        if _near(found, (tokens - 1.0) / gamma):
            why += "; the target's forward costs v₃ = 1.1 here, not 1"
        elif _near(found, 0.6):
            why += "; α > c is the bound for v = 1 and one draft"
        elif _near(found, tokens - v):
            why += "; that is what all drafts of the cycle may cost together"
        raise NotYet(f"c = {found:.4g} is not where it starts to lose: {why}")
    return f"{tokens:.2f} tokens for {v} + 2 · {right:.2f} forwards: even, and dearer drafts lose"


@exercise("10.4")
def _gamma(answer: Any) -> str:
    flat = [1.0] * 13
    told: Items[tuple[float, float, list[float], str]] = (
        (0.8, 0.05, flat, ""),
        (0.7, 0.1, flat, ""),
        (0.5, 0.4, flat, ""),
        (0.3, 0.4, flat, ": α is below c, every γ loses, and 0 is plain decoding"),
        (0.8, 0.05, [1.0, 1.3, 1.6, 1.9, 2.2, 2.5], ": the rows are not free here, look at v"),
        (0.8, 0.05, [1.0, 1.9, 3.0, 4.1], ": every γ loses here, though α > c"),
        (0.9, 0.01, [1.0, 1.0, 1.0, 1.0], ": only γ up to 3 has a price"),
        (1.0, 0.1, flat, ": with α = 1 every draft stands, so more is better"),
    )
    for alpha, c, v, why in told:
        right = best(alpha, c, v)
        call = f"best_gamma({alpha}, {c}, {v if len(v) < 13 else '[1.0] * 13'})"
        if alpha == 1.0:
            _survives(answer, call, alpha, c, list(v))
        found = ask(answer, alpha, c, list(v))
        if found == right:
            continue
        if not isinstance(found, int):
            raise NotYet(f"{call} should be a whole number, not {found!r}")
        if found == right + 1:
            why += ". Does v[0] belong to γ = 0?"
        if 0 <= found < len(v):
            rates = " against ".join(f"{_speed_up(alpha, c, v, gamma):.3f}" for gamma in (found, right))
            why = f" ({rates}){why}"
        raise NotYet(f"{call} should be {right}, not {found}{why}")
    return "the highest speed-up, and 0 where none is above 1"


def _survives(answer: Any, call: str, *given: object) -> None:
    try:
        answer(*given)
    except ZeroDivisionError:
        raise NotYet(f"{call} divides by zero: at α = 1 use the sum 1 + α + … + αᵞ, which needs no division") from None
