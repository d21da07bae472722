"""Draws the facts of a story: heroes with their pronouns, things, colours, numbers, promises.

Invariant: within one story no two facts have the same text, and a hero's pronouns fit the name.
Does not know: the templates that ask for facts.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from specdec_teach.training.stories import lexicon
from specdec_teach.training.stories.grammar import Fact

RARE_NAME_SHARE = 0.2
CHILD_SHARE = 0.7
YOUNG_BEASTS = ("bear cub", "kitten", "piglet", "duckling", "lamb", "puppy", "gosling", "foal", "calf", "fawn")
SHE = {"he": "she", "him": "her", "his": "her", "He": "She", "His": "Her", "self": "herself"}
HE = {"he": "he", "him": "him", "his": "his", "He": "He", "His": "His", "self": "himself"}
NUMERALS = lexicon.words("one two three four five six seven eight nine ten eleven twelve")
ORDINALS = lexicon.words("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth")
POOLS: dict[str, Sequence[str]] = {
    "thing": lexicon.THINGS,
    "gift": lexicon.THINGS,
    "hue": lexicon.HUES,
    "place": lexicon.PLACES,
    "spot": (*lexicon.PLACES, *lexicon.OUTDOORS),
    "beast": lexicon.BEASTS,
    "food": tuple(lexicon.FOODS),
    "num": lexicon.NUMBERS,
    "town": lexicon.TOWNS,
    "job": lexicon.JOBS,
    "trait": lexicon.TRAITS,
    "day": lexicon.DAYS,
    "vow": lexicon.VOWS,
    "nook": lexicon.NOOKS,
    "bag": lexicon.BAGS,
    "baked": tuple(lexicon.BAKED),
    "rhyme": lexicon.RHYMES,
    "riddle": tuple(lexicon.RIDDLES.values()),
    "elder": tuple(lexicon.ELDERS),
}
NAME_KEYS = ("hero", "pal", "third")


def plural(noun: str) -> str:
    """The plural of a noun out of the lexicon's things."""
    if noun.endswith("f"):
        return noun[:-1] + "ves"
    return noun + ("es" if noun.endswith(("s", "x", "sh", "ch")) else "s")


def draw_fact(key: str, rng: random.Random, taken: Sequence[str]) -> Fact:
    """Draw the fact `key` (a kind with an optional digit, e.g. "place2"); KeyError for an unknown kind.

    "place" may be out of doors, "place2" and "place3" are buildings with a door.
    """
    kind = key.rstrip("0123456789")
    if kind in NAME_KEYS:
        return _draw_person(rng, taken)
    pool = POOLS["spot" if key == "place" else kind]
    text = rng.choice([entry for entry in pool if entry not in taken])
    return Fact(text, _forms(kind, text), is_name=kind == "elder")


def _draw_person(rng: random.Random, taken: Sequence[str]) -> Fact:
    girl = rng.random() < 0.5
    if rng.random() < RARE_NAME_SHARE:
        names = lexicon.RARE_GIRLS if girl else lexicon.RARE_BOYS
    else:
        names = lexicon.GIRLS if girl else lexicon.BOYS
    name = rng.choice([entry for entry in names if entry not in taken])
    kid = ("girl" if girl else "boy") if rng.random() < CHILD_SHARE else rng.choice(YOUNG_BEASTS)
    return Fact(name, {**(SHE if girl else HE), "kid": kid}, is_name=True)


def _forms(kind: str, text: str) -> Mapping[str, str]:
    if kind in ("thing", "gift"):
        return {"many": plural(text)}
    if kind in ("food", "baked"):
        return {"one": lexicon.FOODS[text]}
    if kind == "num":
        place = NUMERALS.index(text)
        return {"count": ", ".join(NUMERALS[: place + 1]), "nth": ORDINALS[place], "less": NUMERALS[place - 1]}
    if kind == "elder":
        return SHE if lexicon.ELDERS[text] == "she" else HE
    if kind == "riddle":
        return {"answer": next(answer for answer, question in lexicon.RIDDLES.items() if question == text)}
    return {}
