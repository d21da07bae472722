"""Expands story templates into text in which every letter carries a mark.

A template is plain English with three kinds of holes:

* ``[one|two|]``      - one of the alternatives, chosen at random, nesting allowed;
* ``{hero}``          - a fact of the story, drawn on first use and kept; ``{a hue}`` puts "a" or "an" in front,
  ``{hero.he}`` asks for one of its other forms (pronouns, plural, ...);
* ``{~sky}``          - a loose word out of a word list that nobody needs to remember.

Invariant: a letter is marked AGAIN only if its fact has already been told in the same story.
Does not know: which plots exist and what the word lists hold.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cache

HOLE = re.compile(r"\{(?P<article>[aA] )?(?P<loose>~)?(?P<key>[a-z]+[0-9]?)(?:\.(?P<form>[A-Za-z]+))?\}")
VOWELS = "aeiouAEIOU"


class Mark(IntEnum):
    """What a letter (or token) is to a reader who remembers the story so far."""

    PLAIN = 0
    NEW_FACT = 1
    AGAIN_FACT = 2
    NEW_NAME = 3
    AGAIN_NAME = 4


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a story tells once and may use again: a text, its other forms and whether it is a name."""

    text: str
    forms: Mapping[str, str] = field(default_factory=dict)
    is_name: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A parsed ``[a|b]``: each option is a sequence of literal strings and nested choices."""

    options: tuple[tuple[str | Choice, ...], ...]


Draw = Callable[[str, random.Random, Sequence[str]], Fact]


@cache
def parse(template: str) -> tuple[str | Choice, ...]:
    """Parse a template into literals and choices; ValueError if its brackets do not match."""
    body, end = _parse_options(template, 0)
    if end != len(template) or len(body) != 1:
        raise ValueError(f"unbalanced brackets in template: {template[:60]!r}")
    return body[0]


def _parse_options(text: str, at: int) -> tuple[tuple[tuple[str | Choice, ...], ...], int]:
    options: list[tuple[str | Choice, ...]] = []
    parts: list[str | Choice] = []
    start = at
    while at < len(text):
        sign = text[at]
        if sign not in "[|]":
            at += 1
            continue
        parts.append(text[start:at])
        if sign == "]":
            break
        if sign == "|":
            options.append(tuple(parts))
            parts = []
            at += 1
        else:
            inner, at = _parse_options(text, at + 1)
            if at >= len(text):
                raise ValueError(f"unbalanced brackets in template: {text[:60]!r}")
            parts.append(Choice(inner))
            at += 1
        start = at
    else:
        parts.append(text[start:])
    options.append(tuple(parts))
    return tuple(options), at


class Page:
    """The story being written: text, marks, the facts drawn so far and those already told."""

    def __init__(self, rng: random.Random, draw: Draw, loose: Mapping[str, Sequence[str]]) -> None:
        self.rng = rng
        self.draw = draw
        self.loose = loose
        self.facts: dict[str, Fact] = {}
        self.told: set[str] = set()
        self.text = ""
        self.marks: list[int] = []
        self._decks: dict[int, list[int]] = {}

    def fact(self, key: str) -> Fact:
        """The story's fact for `key`, drawn now if nobody asked before; no two facts share a text."""
        if key not in self.facts:
            taken = [fact.text for fact in self.facts.values()]
            self.facts[key] = self.draw(key, self.rng, taken)
        return self.facts[key]

    def write(self, template: str) -> None:
        """Expand a template at the end of the page."""
        self._write_parts(parse(template))

    def _write_parts(self, parts: tuple[str | Choice, ...]) -> None:
        for part in parts:
            if isinstance(part, Choice):
                self._write_parts(self.rng.choice(part.options))
            else:
                self._write_literal(part)

    def _write_literal(self, text: str) -> None:
        at = 0
        for hole in HOLE.finditer(text):
            self._put(text[at : hole.start()], Mark.PLAIN, quoted=False)
            self._fill(hole)
            at = hole.end()
        self._put(text[at:], Mark.PLAIN, quoted=False)

    def _fill(self, hole: re.Match[str]) -> None:
        key, form = hole["key"], hole["form"]
        if hole["loose"]:
            word, mark = self.rng.choice(self.loose[key]), Mark.PLAIN
        else:
            fact = self.fact(key)
            word = fact.text if form is None else fact.forms[form]
            mark = Mark.PLAIN
            if form in (None, "one", "many", "answer"):
                told = f"{key}.answer" if form == "answer" else key
                again = told in self.told
                self.told.add(told)
                if fact.is_name:
                    mark = Mark.AGAIN_NAME if again else Mark.NEW_NAME
                else:
                    mark = Mark.AGAIN_FACT if again else Mark.NEW_FACT
        if hole["article"]:
            article = "an " if word[0] in VOWELS else "a "
            self._put(article if hole["article"] == "a " else article.capitalize(), Mark.PLAIN)
        self._put(word, mark)

    def _put(self, text: str, mark: Mark, quoted: bool = True) -> None:
        if not text:
            return
        if text[0].islower() and self._starts_sentence(quoted):
            text = text[0].upper() + text[1:]
        self.text += text
        self.marks.extend([int(mark)] * len(text))

    def _starts_sentence(self, quoted: bool) -> bool:
        """Whether the next letter is a capital; after an opening quote only if `quoted`."""
        before = self.text.rstrip(" ")
        if not before or before.endswith(("\n", '\n"')):
            return True
        if before.endswith('"'):
            return (
                quoted
                and len(self.text) >= 3
                and self.text[-1] == '"'
                and self.text[-3:-1] in (". ", ", ", ": ", "? ", "! ", '" ')
            )
        return before[-1] in ".!?" and self.text.endswith(" ")
