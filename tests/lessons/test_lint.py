"""The rules for a lesson: a good notebook passes all of them, and each fails on a notebook that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import nbformat
import pytest

from lessons.build import NOTEBOOKS
from tests.lessons.lint import ACRONYMS, RULES, glossary, misspelt, undefined

GOOD = """# 42 · A title

**5 minutes · easy · you need nothing. No GPU.**

After it you can

- read a slot.

The keys and values of a token fill a slot of the KV cache.
![A slot](https://example.org/slot.png) A control that must fail comes next, and then [lesson 00](00_start_here.ipynb).

### Exercise 42.1

<details><summary>Hint 1: where</summary>
a
</details>
<details><summary>Hint 2: how</summary>
b
</details>
<details><summary>Hint 3</summary>
c
</details>

## Try it yourself
## Honest limits
## Can you?

- [ ] one
- [ ] two
- [ ] three,
  on two lines
- [ ] four

## In 60 seconds

**Red flags**: none.

<details><summary>Why?</summary>
a
</details>
<details><summary>When?</summary>
b
</details>
<details><summary>Where, and how?</summary>
c
</details>

## Where to read more
"""
CODE = """predict("42.p1", 1, lambda: 1)
check("42.1", ...)"""
PRINTED = "a result, 42\n"


def notebook(text: str = GOOD, code: str = CODE, printed: str = PRINTED, data: Any = None, **lesson: int) -> Any:
    """A small lesson with three outputs."""
    cells = [nbformat.v4.new_markdown_cell(text)]
    for source in (code, "a = 1", "b = 2"):
        shown = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
        if data is not None:
            shown.append(nbformat.v4.new_output("display_data", data=data))
        cells.append(nbformat.v4.new_code_cell(source, outputs=shown))
    about = {"minutes": 5, "outputs": 3} | lesson
    return nbformat.v4.new_notebook(cells=cells, metadata={"lesson": about})


def without(*words: str) -> Any:
    text = GOOD
    for word in words:
        assert word in text
        text = text.replace(word, "")
    return notebook(text)


def instead(old: str, new: str) -> Any:
    assert old in GOOD
    return notebook(GOOD.replace(old, new))


PNG = {"image/png": "iVBORw0KGgo="}
BAD: list[tuple[str, str, Callable[[], Any]]] = [
    ("a_title_and_the_minutes", "2 titles", lambda: instead("## Honest limits", "# Honest limits")),
    ("a_title_and_the_minutes", "first line", lambda: instead("# 42 · A title", "# A title")),
    ("a_title_and_the_minutes", "6 minutes", lambda: notebook(minutes=6)),
    ("a_title_and_the_minutes", "easy", lambda: instead("easy", "trivial")),
    ("a_title_and_the_minutes", "you need", lambda: instead("you need nothing", "nothing")),
    ("all_parts", "no objectives", lambda: without("After it you can")),
    ("all_parts", "no a control", lambda: without("control", "must fail")),
    ("all_parts", "no try it yourself", lambda: without("## Try it yourself")),
    ("all_parts", "no honest limits", lambda: without("## Honest limits")),
    ("all_parts", "no a list to tick", lambda: without("- [ ] two")),
    ("all_parts", "no a recap", lambda: without("## In 60 seconds")),
    ("all_parts", "no red flags", lambda: without("**Red flags**")),
    ("all_parts", "no follow-up questions", lambda: instead("<summary>When?", "<summary>When")),
    ("all_parts", "no where to read more", lambda: without("## Where to read more")),
    ("exercises_with_hints", "nothing is predicted", lambda: notebook(code='check("42.1", ...)')),
    ("exercises_with_hints", "no exercise", lambda: notebook(code='predict("42.p1", 1, f)')),
    ("exercises_with_hints", "announced and not checked", lambda: notebook(code=CODE.replace("42.1", "42.2"))),
    ("exercises_with_hints", "checked and not announced", lambda: without("### Exercise 42.1")),
    ("exercises_with_hints", "['1', '3']", lambda: without("<summary>Hint 2: how</summary>")),
    ("enough_outputs", "4 are promised", lambda: notebook(outputs=4)),
    ("enough_outputs", "is the least", lambda: notebook(outputs=2)),
    ("enough_outputs", "0 compared", lambda: notebook(printed="\n")),
    ("nothing_that_changes", "1 ms", lambda: notebook(printed="took 1 ms")),
    ("nothing_that_changes", "3 seconds", lambda: notebook(printed="3 seconds")),
    ("nothing_that_changes", "12:34:56", lambda: notebook(printed="at 12:34:56")),
    ("nothing_that_changes", "0x7f00aa11bb22", lambda: notebook(printed="<f at 0x7f00aa11bb22>")),
    ("nothing_that_changes", "tqdm", lambda: notebook(code=CODE + "\nimport tqdm")),
    ("nothing_that_changes", "%pip", lambda: notebook(code=CODE + "\n%pip install a")),
    ("words_for_pictures", "no words", lambda: instead("![A slot]", "![ ]")),
    (
        "words_for_pictures",
        "no alt text",
        lambda: instead("![A slot](", '<img src="a">('),
    ),
    ("words_for_pictures", "no alt text", lambda: notebook(data={"text/html": '<img src="a" alt="">'})),
    ("words_for_pictures", "bare picture", lambda: notebook(data=PNG)),
    ("links_that_resolve", "no lesson", lambda: instead("00_start_here.ipynb", "00_start.ipynb")),
    ("links_that_resolve", "no lesson", lambda: instead("00_start_here.ipynb", "../README.md")),
    ("links_that_resolve", "no lesson", lambda: instead("00_start_here.ipynb", "http://example.org")),
    ("acronyms_explained", "CDF", lambda: instead("The keys", "A CDF rises. The keys")),
    ("acronyms_explained", "SSM", lambda: instead("comes next", "comes next, an SSM")),
    ("spelling", "seperate: separate", lambda: instead("fill a slot", "fill a seperate slot")),
    ("spelling", "twice: 'the the'", lambda: instead("fill a slot", "fill the the slot")),
    ("spelling", "twice", lambda: instead("fill a slot", "fill of\nof a slot")),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_good_lesson_passes(rule: Any) -> None:
    assert rule(notebook()) == []


@pytest.mark.parametrize(("name", "complaint", "make"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_lesson_fails(name: str, complaint: str, make: Callable[[], Any]) -> None:
    rule = next(rule for rule in RULES if rule.__name__ == name)
    assert any(complaint in found for found in rule(make())), rule(make())


def test_every_rule_is_shown_to_fail() -> None:
    assert {name for name, _, _ in BAD} == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize("short", ACRONYMS)
def test_an_acronym_is_explained_near_its_first_use_or_earlier(short: str) -> None:
    used = f"Here is a {short} at work."
    assert undefined(used, "05", {}) == [f"{short} is used and not explained"]
    assert undefined(f"# {short}", "05", {}) == []  # a heading announces it
    assert undefined(used, "05", {f"{short} cache": "04"}) == []
    assert undefined(used, "05", {f"{short} cache": "05"})  # the glossary sends readers to this very lesson


def test_a_line_that_ends_with_a_number_is_no_timing() -> None:
    rule = next(rule for rule in RULES if rule.__name__ == "nothing_that_changes")
    assert rule(notebook(printed="limits: 8\nsecond call: 8 steps, 3 stories")) == []


def test_an_explanation_may_be_too_far() -> None:
    meaning = "TV is the total variation."
    assert undefined(f"TV falls. {'So it goes. ' * 9}{meaning}", "05", {}) == []
    assert undefined(f"TV falls. {'So it goes. ' * 99}{meaning}", "05", {})


def test_code_and_addresses_are_not_spelt() -> None:
    assert misspelt("`teh the the` https://example.org/teh\n```\nteh\n```\n") == []
    assert misspelt("Had he had had a token, token 3.\n\nThree") == []


def test_the_glossary_is_read() -> None:
    words = glossary(NOTEBOOKS / "GLOSSARY.md")
    assert words["pending token"] == "00"
    assert all(re.fullmatch(r"\d\d", number) for number in words.values())
