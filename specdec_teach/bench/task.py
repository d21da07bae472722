"""The work that every candidate gets: which prompts, how they are sampled, how much is generated.

Invariant: a candidate is a function from prompt ids and a seed to new ids, so all of them pay for the same thing, and
can be held against each other. It does not know who decodes, or who keeps the time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from specdec_teach.bench.race import Done, Work
from specdec_teach.bench.records import Candidate, Check

__all__ = ["COPY", "KINDS", "STORIES", "Decode", "Task", "agreement", "ids_of", "quiet", "work"]

Decode = Callable[[list[int], int], tuple[int, ...]]
"""Return the new ids for a prompt and a seed."""

STORIES = ("Once upon a time", "Mira had a red lantern and", "There was once a")
"""The first of the prompts that the embedded pair's card was measured with, so drafts fare as the card says."""

_PASSAGE = (
    "Ben had a red ball. He took the red ball to the park. Mia had a blue kite. She took the blue kite to the hill. "
    "They played until the sun went down. "
)
COPY = _PASSAGE + _PASSAGE + "Ben had a red ball."

_RIDDLE = '"What grows bigger the more you take away?"'
KINDS = {
    "story": STORIES[:2],
    "copying": (
        COPY,
        f"Near the mill sat a duck with a white locket. This was its riddle: {_RIDDLE} Tara said it over and over. "
        f"{_RIDDLE} She asked her friend: {_RIDDLE} She asked the miller:",
    ),
    "list": (
        "Mira had a red lantern. Ben had a blue kite. Tara had a green hat. Sam had a gray drum. Alex had a",
        "They packed three apples, two pies, four cakes, five eggs, three pears, two plums, four nuts,",
    ),
}
"""Prompts by what the text behind them is like: new, a repetition, or items of one form."""


@final
@dataclass(frozen=True, slots=True)
class Task:
    """New tokens for each prompt, and the temperature they are drawn at (0: greedy; no filter). Nothing ends a text."""

    tokens: int
    temperature: float


def ids_of(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of a prompt as the engine makes them."""
    return [int(token) for token in tokenizer(text).input_ids]


def work(decode: Decode, prompts: Sequence[list[int]]) -> Work:
    """Return the work of a round: every prompt once; a unit is a new token."""

    def act(seed: int) -> Done:
        return Done(sum(len(decode(ids, seed)) for ids in prompts))

    return act


def agreement(
    name: str, entries: Mapping[Candidate, Decode], prompts: Sequence[list[int]], dtype: str, reference: str
) -> Check:
    """Return whether all candidates, greedy ones, say the same as `reference` to every prompt, and where they do not.

    They must in float32. In narrower formats a wide and a narrow forward differ in their last bits, so a text may part
    where two tokens are nearly level.
    """
    said = {one.name: [decode(ids, 0) for ids in prompts] for one, decode in entries.items()}
    parted = []
    for other, texts in said.items():
        for number, (theirs, ours) in enumerate(zip(texts, said[reference], strict=True), 1):
            if theirs != ours:
                at = next((i for i, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), len(ours))
                parted.append(f"{other} parts from {reference} at new token {at} of prompt {number}")
                break
    if not parted:
        return Check(name, True, f"{len(said)} candidates, {len(prompts)} prompts: the same greedy tokens")
    legal = "" if dtype == "float32" else f" (legal in {dtype} where two tokens are nearly level)"
    return Check(name, False, "; ".join(parted) + legal)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the advice that libraries log about settings, which are chosen on purpose here, off the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
