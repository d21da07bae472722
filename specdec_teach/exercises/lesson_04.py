"""Lesson 04, "Why it is exact": its judges, its picture, and an enumeration that can remember random numbers.

The judges compute every truth from arithmetic or by the engine's own functions. Invariant: a wrong answer is met with
the smallest case that shows it, cases are tried in order of size. It does not know the notebook.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from collections.abc import Sequence as Items
from itertools import product
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels import rejection
from specdec_teach.drafters.base import Proposal
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.noise import StreamId
from specdec_teach.rules import Rule, rule_of

__all__ = ["expected_accepted", "picture", "rule_law"]

Known = tuple[int, float, float]
"""The draft that a position's draft number gives, and the interval where its acceptance number is known to lie."""

_TEXTBOOK = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
_FOUR = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5])
_PAIRS = [([1.0, 0.0], [0.0, 1.0]), ([0.5, 0.5], [0.75, 0.25]), _TEXTBOOK, _FOUR]
_NEAR = 1e-6


@final
class _KeptNoise:
    """Follows a script of choices through one verdict and narrows the interval of every number it is asked about."""

    __slots__ = ("_at", "chance", "known", "others", "script")

    def __init__(self, script: tuple[int, ...], known: dict[int, Known]) -> None:
        self.script = script
        self.known = dict(known)
        self.others: list[tuple[int, ...]] = []
        self.chance = 1.0
        self._at = 0

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        return self._choose((weights_V / weights_V.sum()).tolist())

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        token, low, high = self.known[number]
        edge = min(max(rejection.accept_probability(p, q), low), high)
        stands = self._choose([(high - edge) / (high - low), (edge - low) / (high - low)]) == 1
        self.known[number] = (token, low, edge) if stands else (token, edge, high)
        return stands, None

    def _choose(self, law: list[float]) -> int:
        if self._at == len(self.script):
            possible = [choice for choice, chance in enumerate(law) if chance > 0.0]
            self.others.extend((*self.script, choice) for choice in possible[1:])
            self.script = (*self.script, possible[0])
        choice = self.script[self._at]
        self._at += 1
        self.chance *= law[choice]
        return choice


def rule_law(
    rule: str, p: Items[float], q: Items[float], *, gamma: int, tokens: int, reuse: bool = False
) -> dict[tuple[int, ...], float]:
    """Return {first `tokens` tokens: probability} under the engine's rule, for models that always say `p` and `q`.

    `reuse`: random numbers belong to positions, so a position that is drafted again meets the numbers it met before;
    otherwise every draw is fresh. The rule is "rejection" or "block".

    >>> rule_law("rejection", [0.5, 0.5], [0.25, 0.75], gamma=1, tokens=1)
    {(0,): 0.5, (1,): 0.5}
    """
    judging = rule_of(rule)
    waiting: dict[tuple[tuple[int, ...], tuple[tuple[int, Known], ...]], float] = {((), ()): 1.0}
    law: dict[tuple[int, ...], float] = {}
    while waiting:
        text, kept = state = min(waiting, key=lambda key: len(key[0]))
        weight = waiting.pop(state)
        if len(text) >= tokens:
            law[text] = law.get(text, 0.0) + weight
            continue
        for chance, new, known in _cycle(judging, p, q, gamma, len(text), dict(kept)):
            longer = (text + new)[:tokens]
            ahead = tuple((at, known[at]) for at in sorted(known) if reuse and at >= len(longer))
            waiting[longer, ahead] = waiting.get((longer, ahead), 0.0) + weight * chance
    return dict(sorted(law.items()))


def expected_accepted(rule: str, p: Items[float], q: Items[float], gamma: int) -> float:
    """Return the exact expectation of how many of `gamma` drafts one cycle accepts.

    >>> round(expected_accepted("rejection", [0.6, 0.3, 0.1], [0.2, 0.5, 0.3], 1), 12)
    0.6
    """
    return sum(chance * (len(new) - 1) for chance, new, _ in _cycle(rule_of(rule), p, q, gamma, 0, {}))


def _cycle(
    rule: Rule, p: Items[float], q: Items[float], gamma: int, start: int, known: dict[int, Known]
) -> Iterator[tuple[float, tuple[int, ...], dict[int, Known]]]:
    """Yield every way a cycle at position `start` can go: its chance, its tokens, and what is known afterwards."""
    p_RV = torch.tensor([list(p)] * (gamma + 1), dtype=torch.float64)
    q_KV = torch.tensor([list(q)] * gamma, dtype=torch.float64)
    fresh = [(token, 0.0, 1.0) for token, chance in enumerate(q) if chance > 0.0]
    positions = range(start, start + gamma)
    for drafts in product(*([known[at]] if at in known else fresh for at in positions)):
        met = dict(zip(positions, drafts, strict=True))
        weight = math.prod(q[draft[0]] for at, draft in met.items() if at not in known)
        proposal = Proposal(tuple(draft[0] for draft in drafts), q_KV)
        scripts: list[tuple[int, ...]] = [()]
        while scripts:
            noise = _KeptNoise(scripts.pop(), met)
            verdict = rule.judge(proposal, p_RV, noise, start)
            scripts.extend(noise.others)
            yield weight * noise.chance, (*proposal.tokens[: verdict.accepted], verdict.token), noise.known


@final
class _Picture:
    """A still for a notebook: an image with words for those who do not see it."""

    __slots__ = ("_html", "_words")

    def __init__(self, html: str, words: str) -> None:
        self._html, self._words = html, words

    def __repr__(self) -> str:
        return self._words

    def _repr_html_(self) -> str:
        return self._html


def picture(p: Items[float], q: Items[float]) -> object:
    """Return a bar for each token: the part that comes as an accepted draft below, the part from corrections above.

    >>> picture([0.6, 0.4], [0.2, 0.8])
    bars: token 0 = 0.200 accepted + 0.400 corrected; token 1 = 0.400 accepted + 0.000 corrected
    """
    tall, wide, bars, says = 180, 84, [], []
    scale = tall / max(*p, *q)
    for token, (target, draft) in enumerate(zip(p, q, strict=True)):
        kept, rest, left = min(target, draft), max(target - draft, 0.0), 40 + wide * token
        top, middle, ghost = (30 + tall - scale * value for value in (target, kept, draft))
        bars.append(
            f'<rect x="{left}" y="{middle:.1f}" width="44" height="{scale * kept:.1f}" fill="#009e73"/>'
            f'<rect x="{left}" y="{top:.1f}" width="44" height="{scale * rest:.1f}" fill="#0072b2"/>'
            f'<rect x="{left - 5}" y="{ghost:.1f}" width="54" height="{scale * draft:.1f}" fill="none" '
            f'stroke="#4a5568" stroke-dasharray="4 3"/>'
            f'<text x="{left + 22}" y="{46 + tall}" text-anchor="middle">token {token}</text>'
        )
        says.append(f"token {token} = {kept:.3f} accepted + {rest:.3f} corrected")
    words = "bars: " + "; ".join(says)
    width = max(60 + wide * len(p), 400)
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall + 60}" '
        f'width="{width}" height="{tall + 60}" font-family="sans-serif" font-size="13">'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        '<text x="20" y="16">green: accepted drafts · blue: corrections · dashed: q</text>'
        f"{''.join(bars)}</svg>"
    )
    data = base64.b64encode(svg.encode()).decode()
    html = f'<img alt="{words}" style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{data}">'
    return _Picture(html, words)


def _rest(p: Items[float], q: Items[float]) -> list[float]:
    """Return the law of the correction, by the engine's own function."""
    rest_V, mass = rejection.residual(_row(p), _row(q), torch.tensor(0))
    return [float(value) for value in rest_V / mass]


def _row(values: Items[float]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.float64)


def _numbers(answer: Any, count: int, call: str) -> list[float]:
    try:
        found = [float(value) for value in answer]
    except (TypeError, ValueError):
        raise NotYet(f"{call} should give {count} numbers, and yours gives {answer!r}") from None
    if len(found) != count:
        raise NotYet(f"{call} should give {count} numbers, and yours gives {len(found)}")
    return found


def _same(found: Items[float], right: Items[float]) -> bool:
    return all(abs(a - b) < _NEAR for a, b in zip(found, right, strict=True))


def _show(values: Items[float]) -> str:
    return "[" + ", ".join(f"{round(value, 4) + 0.0:g}" for value in values) + "]"


@exercise("04.1")
def _residual(answer: Any) -> str:
    for p, q in _PAIRS:
        call = f"residual({_show(p)}, {_show(q)})"
        found, right = _numbers(ask(answer, list(p), list(q)), len(p), call), _rest(p, q)
        if not _same(found, right):
            raise NotYet(f"{call} should be {_show(right)}, and yours gives {_show(found)}")
    return "these are the corrections that the engine draws from"


def _honest(p: float, q: float) -> float:
    return rejection.accept_probability(p, q)


def _always(p: float, q: float) -> float:
    return 1.0


def _never(p: float, q: float) -> float:
    return 0.0


@exercise("04.2")
def _law(answer: Any) -> str:
    rules = [("a rule that accepts everything", _always), ("a rule that accepts nothing", _never)]
    rules += [("the honest rule", _honest)]
    for name, accept in rules:
        for p, q in _PAIRS[1:]:
            stands = [q[y] * accept(p[y], q[y]) for y in range(len(p))]
            right = [kept + (1.0 - sum(stands)) * again for kept, again in zip(stands, _rest(p, q), strict=True)]
            call = f"law({_show(p)}, {_show(q)}, …)"
            found = _numbers(ask(answer, list(p), list(q), accept, _rest), len(p), call)
            if not _same(found, right):
                raise NotYet(f"with {name}, {call} should be {_show(right)}, and yours gives {_show(found)}")
    return "the honest rule gives p, and you can now ask any rule what it gives"


@exercise("04.3")
def _case(answer: Any) -> str:
    p, q = (_numbers(row, 3, "each of p and q") for row in answer)
    for name, row in (("p", p), ("q", q)):
        if min(row) < 0.0 or abs(sum(row) - 1.0) > _NEAR:
            raise NotYet(f"{name} = {_show(row)} is not a distribution: no entry below 0, and a sum of 1")
    over = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    beta = sum(over)
    if beta < _NEAR:
        raise NotYet("here p = q: no draft is ever rejected, so no mistake in the correction can show")
    rest = [value / beta for value in over]
    if sum(value > _NEAR for value in rest) == 1:
        raise NotYet(f"the residual is {_show(rest)}: only one token can be drawn, and the mistake draws the same one")
    best = rest.index(max(rest))
    law = [min(a, b) + beta * (token == best) for token, (a, b) in enumerate(zip(p, q, strict=True))]
    token = max(range(3), key=lambda t: abs(law[t] - p[t]))
    if abs(law[token] - p[token]) < 0.1 - _NEAR:
        raise NotYet(
            f"the residual is {_show(rest)}, the right kind; but the worst token, {token}, comes with "
            f"{law[token]:.3f} instead of {p[token]:.3f}, and 0.1 is wanted"
        )
    return f"the mistake gives {_show(law)} instead of {_show(p)}"


@exercise("04.4")
def _runs(answer: Any) -> str:
    for p, bias, z in ((0.5, 0.1, 2.0), (0.1, 0.1, 1.0), (0.5, 0.05, 2.0), (0.5, 0.1, 4.0), (0.4, 0.025, 4.0)):
        right = z * z * p * (1.0 - p) / (bias * bias)
        found = float(ask(answer, p, bias, z))
        if not right - _NEAR <= found <= math.ceil(right - _NEAR) + 1:
            raise NotYet(
                f"runs_needed({p}, {bias}, {z}) should be {math.ceil(right - _NEAR)}, and yours gives {found:.6g}: "
                f"after that many runs the standard error is {bias / z:.4g}"
            )
    return "half the bias costs four times the runs"


@exercise("04.5")
def _twice(answer: Any) -> str:
    p, q = _FOUR
    first = _rest(p, q)[0]
    passes = rejection.accept_probability(p[3], q[3])
    reused = (first - passes) / (1.0 - passes)
    fresh_said, reused_said = _numbers(answer, 2, "the answer")
    if abs(fresh_said - first) > 0.002:
        raise NotYet(f"a fresh number knows nothing of the draft: the residual is {_show(_rest(p, q))}")
    if abs(reused_said - first) < 0.002:
        raise NotYet(
            f"u = 0.1 would draw token 0, but it never gets there: it accepts the draft. Which u below {first:.3f} "
            "are left after a rejection?"
        )
    if abs(reused_said - (first - passes)) < 0.002:
        raise NotYet(f"{first - passes:.3f} of all u reject the draft and draw token 0; divide by all that reject it")
    if abs(reused_said - reused) > 0.002:
        raise NotYet(
            f"u = 0.5 rejects the draft, since 0.5 · {q[3]} ≥ {p[3]}. List the u that do, then those below 2/3"
        )
    return f"{first:.3f} against {reused:.3f}: a number that rejects is a large number"


@exercise("04.6")
def _whole(answer: Any) -> str:
    for ratios in ([0.5], [2.0], [0.5, 2.0], [2.0, 0.5], [0.5, 3.0, 0.5], [0.25, 2.0, 2.0]):
        weight = 1.0
        for ratio in ratios:
            weight = min(1.0, weight * ratio)
        right = [math.prod(min(1.0, ratio) for ratio in ratios), weight]
        call = f"whole_block({_show(ratios)})"
        found = _numbers(ask(answer, list(ratios)), 2, call)
        if not _same(found, right):
            raise NotYet(f"{call} should be ({right[0]:g}, {right[1]:g}), and yours gives ({found[0]:g}, {found[1]:g})")
    return "block never keeps the whole block less often"
