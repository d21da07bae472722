"""Judges of lesson 01: weight bytes, the floor per token, the border of memory-bound, guesses checked in one pass.

Invariant: how many guesses are kept is what the engine keeps; the rest is arithmetic done here from the given numbers.
It does not know the lesson's text.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from specdec_teach.drafters.scripted import ScriptedDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.sampling import Sampling
from specdec_teach.testing import TabularLM

__all__: list[str] = []

_VOCAB = 10


def _same(found: float, right: float) -> bool:
    return math.isclose(found, right, rel_tol=1e-6)


@exercise("01.1")
def _floor_by_hand(answer: Any) -> str:
    params, size, bandwidth = 8e9, 2, 50e9
    found = [float(number) for number in answer]
    if len(found) != 2:
        raise NotYet(f"two numbers are wanted, (gigabytes, seconds), and yours has {len(found)}")
    gigabytes, seconds = params * size / 1e9, params * size / bandwidth
    if not _same(found[0], gigabytes):
        why = ""
        if _same(found[0], params / 1e9):
            why = ": that is the number of weights, and each has 2 bytes"
        elif _same(found[0], params * size):
            why = ": that is in bytes; a GB is 10⁹ of them"
        elif _same(found[0], params * size / 8e9):
            why = ": the weights have 2 bytes each, not 2 bits"
        raise NotYet(f"the pass does not read {found[0]:.6g} GB{why or '; every weight is read once'}")
    if not _same(found[1], seconds):
        why = (
            "that is how many passes fit into a second"
            if _same(found[1], 1 / seconds)
            else "divide GB by GB per second"
        )
        raise NotYet(f"{gigabytes:g} GB at {bandwidth / 1e9:g} GB per second do not take {found[1]:.6g}: {why}")
    return f"{gigabytes:g} GB, so at most {1 / seconds:.1f} tokens a second, however fast the arithmetic"


@exercise("01.2")
def _floor(answer: Any) -> str:
    for params, size, bandwidth, tokens in (
        (8e9, 2.0, 50e9, 1.0),
        (8e9, 2.0, 4.8e12, 1.0),
        (7e9, 4.0, 1e11, 3.5),
        (70e9, 0.5, 1e12, 5.0),
    ):
        once = params * size / bandwidth
        found = float(ask(answer, params, size, bandwidth, tokens))
        if _same(found, once / tokens):
            continue
        why = ""
        if _same(found, once):
            why = f": that is the time of a pass, and it yields {tokens:g} tokens"
        elif _same(found, once * tokens):
            why = ": more tokens per pass mean less time for each"
        elif _same(found, tokens / once):
            why = ": that is tokens per second"
        elif _same(found, params / bandwidth / tokens):
            why = f": a weight has {size:g} bytes"
        call = f"seconds_per_token_floor({params:g}, {size:g}, {bandwidth:g}, {tokens:g})"
        raise NotYet(f"{call} should be {once / tokens:.6g}, not {found:.6g}{why}")
    return "bytes of the weights / bandwidth / tokens per pass"


@exercise("01.3")
def _free(answer: Any) -> str:
    for size, bandwidth, speed in ((2.0, 50e9, 500e9), (4.0, 50e9, 500e9), (2.0, 4.8e12, 989e12), (0.5, 1e12, 8e13)):
        right = size * speed / (2.0 * bandwidth)
        found = float(ask(answer, size, bandwidth, speed))
        if _same(found, right) or (math.floor(right) == found and found >= 1):
            continue
        why = ""
        if _same(found, speed / bandwidth):
            why = ": that is FLOPs per byte; a position brings 2 FLOPs per weight, and a weight has its bytes"
        elif _same(found, 2.0 * right):
            why = ": each weight takes two FLOPs per position, a multiplication and an addition"
        elif _same(found, speed / (2.0 * bandwidth)):
            why = f": a weight has {size:g} bytes, and while they are read the arithmetic has time"
        elif _same(found, 1.0 / right):
            why = ": upside down"
        read, compute = size / bandwidth, found * 2.0 / speed
        if not why:
            why = f": at your T a weight takes {read:.3g} to read and {compute:.3g} to compute with"
        raise NotYet(f"free_positions({size:g}, {bandwidth:g}, {speed:g}) should be {right:.6g}, not {found:.6g}{why}")
    return "bytes per weight × FLOPs per second / (2 × bandwidth)"


def _rows(prefix: tuple[int, ...]) -> list[float]:
    """After t comes t + 1, whatever stands before."""
    return [float(token == (prefix[-1] + 1) % _VOCAB) for token in range(_VOCAB)]


def _kept(committed: list[int], guesses: list[int]) -> int:
    """Return how many of `guesses` the engine accepts in one greedy cycle."""
    model = TabularLM(lambda prefix: torch.tensor(_rows(prefix)), vocab=_VOCAB)
    engine = Engine(model, drafter=ScriptedDrafter(guesses), gamma=len(guesses))
    return next(engine.stream(list(committed), Sampling.greedy(), max_new_tokens=len(guesses) + 1)).accepted


@exercise("01.4")
def _agreeing(answer: Any) -> str:
    for committed, guesses in (
        ([3], [4, 5, 6]),
        ([1, 2], [3, 9, 0, 1]),
        ([0, 1, 2], [5, 6, 7]),
        ([7], [8, 9, 3]),
        ([4, 5], [6]),
    ):
        passes: list[list[int]] = []

        def forward(tokens: list[int], passes: list[list[int]] = passes) -> Tensor:
            passes.append(list(tokens))
            return torch.tensor([_rows((token,)) for token in tokens])

        right, call = _kept(committed, guesses), f"agreeing(forward, {committed}, {guesses})"
        found = int(_ask(answer, forward, committed, guesses))
        favourites = [(token + 1) % _VOCAB for token in [committed[-1], *guesses]]
        if found != right:
            agree = [guess == favourite for guess, favourite in zip(guesses, favourites, strict=False)]
            why = f": the rows' favourites are {favourites}"
            if found == sum(agree):
                why = (
                    f": guess {right + 1} is not its row's favourite, and the rows behind it have read it. "
                    "That a later guess agrees is no proof"
                )
            elif found == right + 1:
                why = ": count the guesses that are kept, not the token that the target adds"
            elif found == 0 and guesses[0] == favourites[0]:
                why = ": the row of the last committed token judges the first guess"
            raise NotYet(f"{call} should be {right}, not {found}{why} (here the favourite after t is t + 1)")
        if len(passes) != 1:
            raise NotYet(f"{call} is right, and took {len(passes)} passes; one pass has all the rows")
    return "as many as the engine keeps, from one pass"


def _ask(answer: Any, forward: Any, committed: list[int], guesses: list[int]) -> Any:
    """Call the learner's function so that a message names `forward` and not its address."""
    forward.__qualname__ = "forward"
    return ask(answer, forward, list(committed), list(guesses))
