"""Reads a finished text the way a listener does: which words are facts, which were told before, which names are new.

Invariant: only the text is used, so that a model's text and the generator's are read alike.
Does not know: tokens and models.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from specdec_teach.training.stories import lexicon
from specdec_teach.training.stories.generator import write_story

NAMES = (*lexicon.GIRLS, *lexicon.BOYS, *lexicon.RARE_GIRLS, *lexicon.RARE_BOYS, *lexicon.ELDERS)
FACTS = (
    *lexicon.THINGS,
    *lexicon.BAGS,
    *lexicon.HUES,
    *lexicon.PLACES,
    *lexicon.OUTDOORS,
    *lexicon.BEASTS,
    *lexicon.FOODS,
    *lexicon.FOODS.values(),
    *lexicon.NUMBERS,
    *lexicon.TOWNS,
    *lexicon.JOBS,
    *lexicon.DAYS,
    *lexicon.VOWS,
    *lexicon.NOOKS,
    *lexicon.RHYMES,
    *lexicon.RIDDLES,
    *lexicon.RIDDLES.values(),
)
WORD = re.compile(r"[A-Za-z]+")
NAME_SET = frozenset(NAMES)
SMALL_NAMES = frozenset(name.lower() for name in NAMES)
FIRST_WORDS = frozenset(name.split()[0] for name in NAMES)
REFERENCE_STORIES = 3000
REFERENCE_SEED = 900_000_000


@dataclass(frozen=True, slots=True)
class Mention:
    """A name or fact found in a text: letters `start` to `stop`, and whether the same words stood there before."""

    text: str
    start: int
    stop: int
    is_name: bool
    again: bool


@lru_cache(maxsize=1)
def _phrases() -> dict[str, list[str]]:
    """All names and facts in small letters by their first word, longest first."""
    phrases: dict[str, list[str]] = {}
    for phrase in sorted({entry.lower() for entry in (*NAMES, *FACTS)}, key=len, reverse=True):
        phrases.setdefault(WORD.findall(phrase)[0], []).append(phrase)
    return phrases


def find_mentions(text: str) -> list[Mention]:
    """All names and facts of the lexicon in `text`, in order; names only where they are capitalised."""
    small = text.lower()
    seen: set[str] = set()
    mentions: list[Mention] = []
    stop = 0
    for hit in WORD.finditer(small):
        start = hit.start()
        if start < stop:
            continue
        for phrase in _phrases().get(hit.group(), ()):
            end = start + len(phrase)
            if small.startswith(phrase, start) and not small[end : end + 1].isalpha():
                words = text[start:end]
                is_name = words in NAME_SET
                if is_name or phrase not in SMALL_NAMES:
                    key = words if is_name else phrase
                    mentions.append(Mention(words, start, end, is_name, key in seen))
                    seen.add(key)
                stop = end
                break
    return mentions


def name_context(text: str, start: int) -> str:
    """The three words or signs in front of letter `start`, names replaced by a star."""
    before = re.findall(r"[A-Za-z']+|[^\sA-Za-z]", text[max(0, start - 80) : start])[-3:]
    return " ".join("*" if word in FIRST_WORDS else word.lower() for word in before)


@lru_cache(maxsize=1)
def introducing_contexts() -> frozenset[str]:
    """Contexts after which, in 3,000 reference stories, at least a quarter of the names are new to their story."""
    new: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for seed in range(REFERENCE_SEED, REFERENCE_SEED + REFERENCE_STORIES):
        text = write_story(seed).text
        for mention in find_mentions(text):
            if mention.is_name:
                context = name_context(text, mention.start)
                total[context] += 1
                new[context] += not mention.again
    return frozenset(context for context, count in total.items() if 4 * new[context] >= count)


def count_names(text: str, prompt_letters: int) -> tuple[int, int]:
    """(wrong, later) name mentions behind the prompt's letters.

    A later mention is a name that stood in the text before, or a wrong one; a wrong mention is a name that never
    stood there before, at a place where stories do not introduce anybody (`introducing_contexts`).
    """
    wrong = later = 0
    for mention in find_mentions(text):
        if not mention.is_name or mention.start < prompt_letters:
            continue
        if mention.again:
            later += 1
        elif name_context(text, mention.start) not in introducing_contexts():
            wrong += 1
            later += 1
    return wrong, later
