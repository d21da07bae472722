"""The keys that the instructor's guide names, pressed on the pages of `make players`: each shows its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lessons.build import NOTEBOOKS
from lessons.players import MOMENTS, write_all

ROOT = ".specdec-player"
NAMES = {"→": "ArrowRight", "←": "ArrowLeft", "↑": "ArrowUp", "↓": "ArrowDown", "space": "Space"}
CHAPTER = re.compile(r"^### (\d\d) · .*?\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"^\*\*Keys\.\*\* (.*?)\n\n", re.MULTILINE | re.DOTALL)
PRESSED = re.compile(r'\*\*([^*]+)\*\*(?: ×(\d+))?(?: "([^"]+)")?')


class Press(NamedTuple):
    """A key, how often, and what must then stand on the page."""

    key: str
    times: int
    words: str


def presses(line: str) -> list[Press]:
    """Read the keys of one line.

    >>> presses('**Shift →** ×2 · **R** "is rejected"')
    [Press(key='Shift+ArrowRight', times=2, words=''), Press(key='r', times=1, words='is rejected')]
    """
    found = PRESSED.findall(" ".join(line.split()))
    return [Press(named(key), int(times or 1), words) for key, times, words in found]


def named(key: str) -> str:
    """The browser's name of a key as it is printed."""
    *held, last = key.split()
    return "+".join([*held, NAMES.get(last, last.lower() if len(last) == 1 else last)])


GUIDE = (NOTEBOOKS / "INSTRUCTOR.md").read_text(encoding="utf-8")
KEYS = {number: presses(line[1]) for number, text in CHAPTER.findall(GUIDE) if (line := LINE.search(text))}


@pytest.fixture(scope="module")
def pages(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("players")
    write_all(folder)
    return folder


def test_every_lesson_names_its_keys() -> None:
    assert list(KEYS) == [moment.name for moment in MOMENTS]
    assert all(sum(bool(press.words) for press in keys) >= 2 for keys in KEYS.values())


@pytest.mark.parametrize("number", KEYS)
def test_the_keys_show_what_the_guide_says(pages: Path, page: Any, recorded: Any, number: str) -> None:
    page.goto((pages / f"{number}.html").as_uri())
    page.wait_for_selector(f"{ROOT}[tabindex]")
    page.focus(ROOT)
    for press in KEYS[number]:
        before = " ".join(page.inner_text("main").split())
        for _ in range(press.times):
            page.keyboard.press(press.key)
        shown = " ".join(page.inner_text("main").split())
        assert press.words in shown, (press, shown)
        assert shown != before or press.key == "Tab", f"{press} does nothing"
    assert recorded.errors == []
