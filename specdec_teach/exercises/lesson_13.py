"""Lesson 13, "What lossless means": its judges, and a model with rounded weights.

Invariant: the laws that answers are held against are enumerated from the engine or worked out from their definition;
a wrong answer is met with the smallest case that shows it. It does not know the notebook.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import Any

import torch
from torch import nn

from specdec_kernels.errors import InvalidInput
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.exercises.laws import engine_with, first_token, model_of

__all__ = ["rounded"]

_TEXTBOOK = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
_JUDGED = [0.4, 0.2, 0.2, 0.2]
_CLAIMS = (
    (False, "the runs spend their random numbers differently; the law is the same, not the text"),
    (True, "every draft falls, every correction is the target's own; only work was wasted"),
    (False, "what is drawn from is the processed distribution, here the softmax cut at 0.9 and scaled"),
    (True, "the target that verifies is the one that is followed"),
    (True, "in float32 only a gap below about 0.0001 can flip"),
    (False, "look at the gap of the two best tokens there: inside the band, rounding explains it"),
    (False, "a small bound accepts more: with a bound of 0 no draft falls, and the draft model's law comes out"),
    (False, "many laws share one score; the two need not be equal"),
    (True, "the noise belongs to positions, so every token is the target's own choice"),
    (False, "with a poor draft each pass reads more rows and still brings one token"),
)


def rounded(model: Any, bits: int) -> Any:
    """Return a copy of `model` whose linear maps have weights of `bits` bits, with a scale for each output.

    Only the weights are rounded, arithmetic stays as it is. InvalidInput: fewer than 2 or more than 16 bits.

    >>> rounded(nn.Linear(2, 1, bias=False), 2).weight.abs().max() > 0
    tensor(True)
    """
    if not isinstance(bits, int) or not 2 <= bits <= 16:
        raise InvalidInput(f"bits={bits!r}; give a whole number from 2 to 16")
    twin, most = copy.deepcopy(model), 2 ** (bits - 1) - 1
    for part in twin.modules():
        if isinstance(part, nn.Linear):
            weight_OI = part.weight.detach()
            scale = weight_OI.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(weight_OI.dtype).tiny) / most
            part.weight = nn.Parameter((weight_OI / scale).round() * scale, requires_grad=False)
    return twin


def _distance(a: Items[float], b: Items[float]) -> float:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / 2


def _score(law: Items[float], p: Items[float]) -> float:
    return sum(a * math.log(b) for a, b in zip(law, p, strict=True))


def _show(values: Items[float]) -> str:
    return "[" + ", ".join(f"{round(value, 4) + 0.0:g}" for value in values) + "]"


def _numbers(answer: Any, count: int, what: str) -> list[float]:
    found = [float(value) for value in answer]
    if len(found) != count:
        raise NotYet(f"{what} should have {count} numbers, not {len(found)}")
    return found


@exercise("13.1")
def _flip(answer: Any) -> str:
    told: Items[tuple[list[int], list[int], list[float], float, str]] = (
        ([5, 6], [5, 6], [1.0, 0.0], 0.1, "the texts are equal, whatever the gaps are"),
        ([5, 6], [5, 7], [0.0, 1.0], 0.1, "the gap counts where the texts part, and there it is wide"),
        ([5, 6], [5, 7], [1.0, 0.05], 0.1, "at the first difference the two best tokens are nearly equal"),
        ([5], [6], [0.1], 0.1, "a gap as wide as the band is outside it"),
        ([5, 6, 7], [5, 8, 9], [1.0, 0.05, 2.0], 0.1, "behind the first flip the prefixes differ, so nothing is told"),
        ([5, 6, 7], [5, 8, 9], [1.0, 2.0, 0.05], 0.1, "a tie later on does not excuse the first difference"),
        ([5, 6, 7], [5, 6], [1.0, 1.0, 0.0], 0.1, "no token was exchanged, the text just ends: no tie does that"),
        ([5, 6], [5, 6, 7], [1.0, 0.0], 0.1, "no token was exchanged, the text just goes on: no tie does that"),
    )
    ask(answer, [5], [6], [1.0], 0.1)  # a stub says nothing here, and None would be wrong
    boxed = _boxed(answer)
    for a, b, gaps, band, why in told:
        right = _first_flip(a, b, gaps, band)
        (found,) = ask(boxed, list(a), list(b), list(gaps), band)
        if isinstance(found, (tuple, list)):
            found = tuple(found)
        if found != right:
            raise NotYet(f"first_flip({a}, {b}, {gaps}, {band}) should be {right}, not {found!r}: {why}")
    return "the first difference alone is judged, and by the gap that stood there"


def _boxed(answer: Callable[..., Any]) -> Callable[..., tuple[Any]]:
    """Return the function with its answer in a tuple, since here None is an answer too."""

    @functools.wraps(answer)
    def boxed(*given: Any) -> tuple[Any]:
        return (answer(*given),)

    return boxed


def _first_flip(a: list[int], b: list[int], gaps: list[float], band: float) -> tuple[int, str] | None:
    differ = [at for at in range(min(len(a), len(b))) if a[at] != b[at]]
    if differ:
        return differ[0], "tie" if gaps[differ[0]] < band else "bug"
    return None if len(a) == len(b) else (min(len(a), len(b)), "bug")


@exercise("13.2")
def _price(answer: Any) -> str:
    p, q = _TEXTBOOK
    engine = engine_with(model_of(p), ModelDrafter(model_of(q)), lambda p, q, d: float(p[d] >= q[d]), lambda p, q, d: p)
    right = first_token(engine)
    law, tv = answer
    found, said = _numbers(law, 3, "the law"), float(tv)
    if abs(sum(found) - 1.0) > 0.002:
        raise NotYet(f"{_show(found)} sums to {sum(found):.3g}: where does a draft's chance go when it falls?")
    if _distance(found, right) > 0.002:
        why = ""
        if _distance(found, p) < 0.002:
            why = ": that is p, the law of an exact rule"
        elif abs(found[0] - 1.0) < 0.002:
            why = ": with this rule a draft that falls is drawn again from p, and p has three tokens"
        elif _distance(found, [0.44, 0.42, 0.14]) < 0.002:
            why = ": that is u · q < p and then p; here a draft with p below q never stands"
        raise NotYet(f"the engine does not emit {_show(found)}{why}. Which drafts stand, and how often does one fall?")
    price = _distance(right, p)
    if abs(said - 2 * price) < 0.002:
        raise NotYet(
            f"the law is right; {said:g} counts every difference twice, once where it is gained, once where lost"
        )
    if abs(said - price) > 0.002:
        raise NotYet(f"the law is right; its TV is not {said:g}: half of {' + '.join(_parts(right, p))}")
    return f"{_show(right)} and {price:.2f}: the token that the target likes best comes too often"


def _parts(law: Items[float], p: Items[float]) -> list[str]:
    return [f"|{a:.2f} − {b:.1f}|" for a, b in zip(law, p, strict=True)]


@exercise("13.3")
def _fooled(answer: Any) -> str:
    law = _numbers(answer, 4, "the law")
    if min(law) < 0.0 or abs(sum(law) - 1.0) > 1e-6:
        raise NotYet(f"{_show(law)} is not a distribution: no entry below 0, and a sum of 1")
    score, wanted, tv = _score(law, _JUDGED), _score(_JUDGED, _JUDGED), _distance(law, _JUDGED)
    if abs(score - wanted) > 1e-6:
        more = "often" if law[0] > _JUDGED[0] else "seldom"
        raise NotYet(
            f"its score is {score:.4f} and p's is {wanted:.4f}: it says token 0 too {more}, and the judge sees it"
        )
    if tv < 0.3 - 1e-9:
        raise NotYet(f"the judge is fooled, but the TV is {tv:.3g}, and 0.3 is wanted")
    return f"score {score:.4f} for both laws, and a TV of {tv:.2f}"


@exercise("13.4")
def _claims(answer: Any) -> str:
    said = list(answer)
    if len(said) != len(_CLAIMS):
        raise NotYet(f"there are {len(_CLAIMS)} claims, and you give {len(said)} answers")
    for number, (given, (right, why)) in enumerate(zip(said, _CLAIMS, strict=True), 1):
        if not isinstance(given, bool):
            raise NotYet(f"claim {number}: give True or False, not {given!r}")
        if given != right:
            raise NotYet(f"claim {number} is {str(right).lower()}: {why}")
    return "four promises that hold, and six that nobody made"
