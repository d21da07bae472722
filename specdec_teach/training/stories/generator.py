"""Writes whole stories: an opening, the beats of a plot with interludes between them, a closing line.

Invariant: a story is a pure function of its seed.
Does not know: how many tokens a story will be; it aims at letters.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from specdec_teach.training.stories.facts import draw_fact
from specdec_teach.training.stories.grammar import Page
from specdec_teach.training.stories.plots import DROPPABLE, PLOTS
from specdec_teach.training.stories.scenery import LOOSE
from specdec_teach.training.stories.shared import CODAS, INTERLUDES, OPENINGS

CODA_SHARE = 0.5
INTERLUDE_SHARE = 0.35
SHORT_SHARE = 0.5
AT_HOME = ("cake", "birthday", "visitor", "neighbor", "tries", "riddle")
LONGEST = 1750


@dataclass(frozen=True, slots=True)
class Story:
    """One tale: its text, one `Mark` value per letter, and the name of its plot."""

    text: str
    marks: tuple[int, ...]
    plot: str


def write_story(seed: int) -> Story:
    """Write the story of this seed: one paragraph a line, no line break at the end."""
    rng = random.Random(seed)
    plot = rng.choice(sorted(PLOTS))
    page = Page(rng, draw_fact, LOOSE)
    if plot not in AT_HOME:
        page.told.add("way")
    chatty = rng.random() >= SHORT_SHARE
    dropped = None if chatty else rng.choice((None, *DROPPABLE.get(plot, ())))
    used: set[str] = set()
    _tell(page, OPENINGS, used)
    for at, beat in enumerate(PLOTS[plot]):
        if at == dropped:
            continue
        if at and chatty and len(page.text) < LONGEST - 700 and rng.random() < INTERLUDE_SHARE:
            _tell(page, INTERLUDES, used)
        _tell(page, beat, used)
    if rng.random() < (CODA_SHARE if chatty else CODA_SHARE / 2):
        _tell(page, CODAS, used)
    return Story(page.text, tuple(page.marks), plot)


def _tell(page: Page, templates: Sequence[str], used: set[str]) -> None:
    """Tell one of the paragraphs whose needs are met, or none."""
    fitting = [template for template in templates if template not in used and _fits(template, page.told)]
    if not fitting:
        return
    template = page.rng.choice(fitting)
    used.add(template)
    if page.text:
        page.write("\n")
    page.write(template.split(" >> ")[-1])


def _fits(template: str, told: set[str]) -> bool:
    needs, arrow, _ = template.partition(" >> ")
    if not arrow:
        return True
    return all((need[1:] not in told) if need[0] == "!" else (need in told) for need in needs.split())
