"""The table of all plots by name, with the beats that a short telling may leave out.

Invariant: every plot is a sequence of beats; a beat is a set of paragraphs of which one is told.
Does not know: how often a plot is chosen.
"""

from __future__ import annotations

from specdec_teach.training.stories import plots_duty, plots_home, plots_search, plots_skill, plots_travel

Plot = tuple[tuple[str, ...], ...]

PLOTS: dict[str, Plot] = {
    "lost": plots_search.LOST,
    "found": plots_search.FOUND,
    "secret": plots_search.SECRET,
    "promise": plots_duty.PROMISE,
    "errand": plots_duty.ERRAND,
    "helper": plots_duty.HELPER,
    "journey": plots_travel.JOURNEY,
    "trade": plots_travel.TRADE,
    "letter": plots_travel.LETTER,
    "visitor": plots_travel.VISITOR,
    "contest": plots_skill.CONTEST,
    "tries": plots_skill.TRIES,
    "riddle": plots_skill.RIDDLE,
    "birthday": plots_home.BIRTHDAY,
    "cake": plots_home.CAKE,
    "neighbor": plots_home.NEIGHBOR,
}

DROPPABLE: dict[str, tuple[int, ...]] = {
    "lost": (2,),
    "found": (2,),
    "secret": (2,),
    "promise": (3,),
    "errand": (2, 3),
    "journey": (2, 3),
    "trade": (3,),
    "visitor": (1, 2),
    "contest": (2,),
    "tries": (3,),
    "riddle": (3,),
    "birthday": (3,),
    "cake": (2, 3),
    "neighbor": (1, 2),
}
