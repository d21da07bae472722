"""The story generator: repeatable, varied, clean, and honest about which letters tell a fact again."""

from __future__ import annotations

import re

import pytest

from specdec_teach.training.reader import count_names, find_mentions
from specdec_teach.training.stories import lexicon
from specdec_teach.training.stories.generator import Story, write_story
from specdec_teach.training.stories.grammar import Mark, parse
from specdec_teach.training.stories.plots import DROPPABLE, PLOTS
from specdec_teach.training.stories.scenery import LOOSE
from specdec_teach.training.stories.shared import CODAS, INTERLUDES, OPENINGS


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return [write_story(seed) for seed in range(2000)]


def test_a_seed_gives_one_story(stories: list[Story]) -> None:
    assert [write_story(seed) for seed in range(50)] == stories[:50]


def test_no_two_stories_are_alike(stories: list[Story]) -> None:
    assert len({story.text for story in stories}) == len(stories)
    assert {story.plot for story in stories} == PLOTS.keys()


def test_the_vocabulary_is_rich(stories: list[Story]) -> None:
    words = {word for story in stories for word in re.findall(r"[a-z]+", story.text.lower())}
    assert len(words) >= 1500


def test_the_text_is_clean(stories: list[Story]) -> None:
    for story in stories:
        assert story.text.isascii()
        assert not re.search(r"[{}\[\]|~<>]|  | \n|\n\n|\n$", story.text), story.text
        assert story.text.count('"') % 2 == 0, story.text
        for paragraph in story.text.split("\n"):
            assert re.match(r'"?[A-Z]', paragraph), paragraph
            assert re.search(r'[.!?]"?$', paragraph), paragraph
        assert not re.search(r"\b[Aa] (?=[aeiou])(?!one\b|uni)", story.text), story.text
        assert not re.search(r"\b[Aa]n (?![aeiouAEIOU])", story.text), story.text


def test_a_marked_letter_was_told_before(stories: list[Story]) -> None:
    again = 0
    for story in stories[:300]:
        assert len(story.marks) == len(story.text)
        for start, stop, mark in _spans(story):
            span = story.text[start:stop].lower()
            if mark in (Mark.AGAIN_FACT, Mark.AGAIN_NAME):
                again += 1
                stem = span[:3]  # plurals count as the same fact
                assert stem in story.text[:start].lower(), (span, story.text)
    assert again > 300 * 15


def test_names_are_marked_as_names(stories: list[Story]) -> None:
    people = {*lexicon.GIRLS, *lexicon.BOYS, *lexicon.RARE_GIRLS, *lexicon.RARE_BOYS, *lexicon.ELDERS}
    for story in stories[:300]:
        for start, stop, mark in _spans(story):
            if mark in (Mark.NEW_NAME, Mark.AGAIN_NAME):
                assert story.text[start:stop] in people


def test_the_reader_finds_no_wrong_names_in_good_stories(stories: list[Story]) -> None:
    counts = [count_names(story.text, 0) for story in stories[:300]]
    wrong, later = (sum(column) for column in zip(*counts, strict=True))
    assert later > 300 * 10
    assert wrong / later < 0.03


def test_the_reader_catches_a_swapped_name() -> None:
    text = "There was once a girl named Mira who loved plums. {} ate plums on Monday."
    assert count_names(text.format("Mira"), 0) == (0, 1)
    assert [mention.again for mention in find_mentions(text.format("Mira")) if mention.is_name] == [False, True]
    said = '"Look!" said {}. "Plums!" And {} laughed.'
    assert count_names("Mira ran home. " + said.format("Mira", "Mira"), 0)[0] == 0
    assert count_names("Mira ran home. " + said.format("Otto", "Mira"), 0)[0] == 1


def test_every_template_parses() -> None:
    templates = [*OPENINGS, *INTERLUDES, *CODAS, *(text for plot in PLOTS.values() for beat in plot for text in beat)]
    assert len(templates) > 250
    for template in templates:
        parse(template)
        assert set(re.findall(r"\{(?:[aA] )?~([a-z]+)", template)) <= LOOSE.keys()
    with pytest.raises(ValueError, match="unbalanced"):
        parse("one [two|three")
    with pytest.raises(ValueError, match="unbalanced"):
        parse("one] two")


def test_droppable_beats_exist() -> None:
    for plot, beats in DROPPABLE.items():
        assert all(0 < beat < len(PLOTS[plot]) - 1 for beat in beats)


def _spans(story: Story) -> list[tuple[int, int, int]]:
    """Runs of letters with the same mark other than PLAIN."""
    spans = []
    at = 0
    while at < len(story.marks):
        stop = at
        while stop < len(story.marks) and story.marks[stop] == story.marks[at]:
            stop += 1
        if story.marks[at] != Mark.PLAIN:
            spans.append((at, stop, story.marks[at]))
        at = stop
    return spans
