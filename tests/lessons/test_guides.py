"""INSTRUCTOR, GLOSSARY and READING are true to the lessons: minutes, predictions, exam answers, words and links."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

import nbformat
import pytest

import specdec_teach as sd
from lessons.build import NOTEBOOKS, SOURCES, notebook_of, solution_of
from specdec_kernels import rejection
from specdec_teach import sight
from specdec_teach.exercises.laws import engine_with, first_token, model_of
from specdec_teach.exercises.lesson_04 import expected_accepted
from specdec_teach.exercises.lesson_10 import best
from tests.lessons.lint import glossary, misspelt

ROOT = NOTEBOOKS.parent
INSTRUCTOR = (NOTEBOOKS / "INSTRUCTOR.md").read_text(encoding="utf-8")
GUIDES = ("INSTRUCTOR.md", "GLOSSARY.md", "READING.md")
LESSONS = {path.name[:2]: path for path in sorted(SOURCES.glob("*.py"))}
CHAPTERS = dict(re.findall(r"^### (\d\d) · .*?\n(.*?)(?=^### |\Z)", INSTRUCTOR, re.MULTILINE | re.DOTALL))
ANSWERS = {
    name: "".join(text.split("*")[1:])
    for name, text in re.findall(r"^- \*\*(E\d\d\.\d)\*\* (.*?)(?=^- |^#|\Z)", INSTRUCTOR, re.MULTILINE | re.DOTALL)
}
each_lesson = pytest.mark.parametrize("number", LESSONS)
each_guide = pytest.mark.parametrize("name", GUIDES)

P, Q = [0.5, 0.3, 0.2], [0.25, 0.25, 0.5]
P4, Q4 = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]


def minutes(text: str, row: str) -> dict[str, int]:
    return {number: int(found) for number, found in re.findall(row, text, re.MULTILINE)}


@each_lesson
def test_the_minutes_are_the_same_everywhere(number: str) -> None:
    own = nbformat.read(notebook_of(LESSONS[number]), as_version=4).metadata.lesson.minutes
    readme = minutes((ROOT / "README.md").read_text(encoding="utf-8"), r"^\| \[(\d\d) [^|]*\| (\d+) \|")
    assert minutes(INSTRUCTOR, r"^\| (\d\d) \| (\d+) \|")[number] == own == readme[number]


def test_all_lessons_have_a_chapter() -> None:
    assert sorted(CHAPTERS) == [f"{number:02}" for number in range(14)]
    for number, text in CHAPTERS.items():
        for part in ("**Timing.**", "**Show.**", "**Discuss.**", "**Exam.**"):
            assert part in text, (number, part)
        assert number == "00" or f"| `{number}.p1` |" in text


@each_lesson
def test_the_timing_adds_up_to_the_minutes_of_the_lesson(number: str) -> None:
    own = nbformat.read(notebook_of(LESSONS[number]), as_version=4).metadata.lesson.minutes
    timing = re.findall(r"\*\*Timing\.\*\* (.*?)\n\n", CHAPTERS[number], re.DOTALL)
    assert sum(map(int, re.findall(r"(\d+) min\b", timing[0]))) == own


def engine_says(number: str) -> dict[str, str]:
    """Return what the solved notebook prints for each prediction; None where it was measured."""
    path = solution_of(LESSONS[number])
    if path is None:
        return {}
    said = {}
    for cell in nbformat.read(path, as_version=4).cells:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        for name, value in re.findall(r"✓ (\S+)  the engine says (.+); you were right", text):
            said[name] = "measured" if "nbval-ignore-output" in cell.metadata.get("tags", []) else f"`{value}`"
    return said


@each_lesson
def test_predictions_are_those_of_the_notebook(number: str) -> None:
    table = dict(re.findall(r"^\| `(\d\d\.\w+)` \| (.+?) \| ", CHAPTERS[number], re.MULTILINE))
    assert table == engine_says(number)


def test_predictions_that_are_named_have_a_line() -> None:
    lines = set(re.findall(r"^\| `(\d\d\.p\d+)` \|", INSTRUCTOR, re.MULTILINE))
    assert set(re.findall(r"\d\d\.p\d+", INSTRUCTOR)) == lines


@each_lesson
def test_exercises_that_are_named_exist(number: str) -> None:
    named = set(re.findall(rf"(?<![\w.])({number}\.\d)\b", re.sub(r"\*\*E\d\d\.\d\*\*", "", INSTRUCTOR)))
    source = LESSONS[number].read_text(encoding="utf-8")
    assert named <= set(re.findall(rf'"({number}\.\d)"', source))


def redraw(accept: Callable[[list[float], list[float], int], float]) -> list[float]:
    """Return the law of the engine on P and Q when corrections are drawn from p."""
    return first_token(engine_with(model_of(P), sd.ModelDrafter(model_of(Q)), accept, lambda p, q, draft: p))


def left(p: list[float], q: list[float]) -> list[float]:
    rest = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
    return [part / sum(rest) for part in rest]


def only(law: list[float], kept: set[int]) -> list[float]:
    rest = [chance if token in kept else 0.0 for token, chance in enumerate(law)]
    return [part / sum(rest) for part in rest]


def overlap(p: list[float], q: list[float]) -> float:
    return sum(map(min, p, q))


def digits(value: object) -> str:
    """Return numbers as the guide prints them: three decimals, no zeros behind."""
    if isinstance(value, list):
        return "[" + ", ".join(map(digits, value)) + "]"
    return f"{round(value, 3):,}".removesuffix(".0") if isinstance(value, float) else f"{value:,}"


def tokens(alpha: float, gamma: int) -> float:
    return sum(alpha**power for power in range(gamma + 1))


def pointers(L: int, gamma: int, accepted: int) -> list[int]:
    """Return the new length, the target's C at its highest and after, and the draft's."""
    new = L + accepted + 1
    target, draft = L + gamma, L + gamma - 1
    return [new, target, min(target, new - 1), draft, min(draft, new - 1)]


def block(ratios: list[float]) -> float:
    weight = 1.0
    for ratio in ratios:
        weight = min(1.0, weight * ratio)
    return weight


TREE = (-1, 0, 0, -1, 3)
EXAM: dict[str, Callable[[], list[object]]] = {
    "E00.1": lambda: [3, *pointers(20, 4, 2)[1:]],
    "E00.2": lambda: [5, *pointers(20, 4, 4)[1:], pointers(20, 4, 4)[0]],
    "E01.1": lambda: [140, round(140 / 3350 * 1000, 1), round(3350 / 140, 1)],
    "E01.2": lambda: [2 * 1e12 / (2 * 100e9), 0.5 * 1e12 / (2 * 100e9)],
    "E02.1": lambda: [5 + 1, 30 - 1 + 3, 30 + 3],
    "E02.2": lambda: list(range(2, 6)),
    "E02.3": lambda: [4, 6 - 4],
    "E03.1": lambda: [
        *(rejection.accept_probability(p, q) for p, q in zip(P, Q, strict=True)),
        overlap(P, Q),
        left(P, Q),
    ],
    "E03.2": lambda: [rejection.accept_probability(P[1], 1.0), left(P, [0.0, 1.0, 0.0])],
    "E03.3": lambda: [
        (p := only([0.5, 0.25, 0.15, 0.1], {0, 1})),
        (q := only([0.1, 0.3, 0.4, 0.2], {1, 2})),
        overlap(p, q),
    ],
    "E04.1": lambda: [redraw(lambda p, q, draft: rejection.accept_probability(p[draft], q[draft]))],
    "E04.2": lambda: [round(16 * 0.3 * 0.7 / 0.02**2)],
    "E04.3": lambda: [prod(min(1.0, ratio) for ratio in (0.5, 1.5, 1.2)), block([0.5, 1.5, 1.2])],
    "E04.4": lambda: [1 - overlap(P, Q), overlap(P, Q) / (2 - overlap(P, Q))],
    "E05.1": lambda: [*pointers(50, 6, 3), *range(53, 56), *range(53, 55)],
    "E05.2": lambda: [pointers(40, 4, 4)[4]],
    "E06.1": lambda: [(3, 8, 1)[6 // 4] * 4 + 6 % 4],
    "E06.2": lambda: [-(-(18 + 5) // 4), -(-(18 + 2) // 4), 1],
    "E06.3": lambda: list(range(2, min(13, 12) // 4)),
    "E07.1": lambda: [2**31 // 128_256],
    "E07.2": lambda: [round(2 * 4 * 128_256 / 1e6, 2), round(13 * 4 * 128_256 / 1e6, 2), 13 / 2],
    "E08.1": lambda: [overlap(P, Q), P[Q.index(max(Q))]],
    "E08.2": lambda: [only(P4, {0, 2})],
    "E08.3": lambda: [8 / 9.5, 7 / 12],
    "E09.1": lambda: [len(TREE) + 1, *sight.positions(20 + len(TREE), TREE)[19:]],
    "E09.2": lambda: [20 + 3, 20, 20 + 4, 21, 20 + 3 - 1],
    "E09.3": lambda: [(p := left(P4, Q4)), (q := only(Q4, {0, 1, 2})), rejection.accept_probability(p[2], q[2])],
    "E10.1": lambda: [
        round(tokens(0.75, 3), 2),
        f"{tokens(0.75, 3) / 1.3:.2f}",
        (gamma := best(0.75, 0.1, [1.0] * 13)),
        round(tokens(0.75, gamma) / (1 + 0.1 * gamma), 2),
    ],
    "E10.2": lambda: [(tokens(0.5, 3) - 1.2) / 3],
    "E10.3": lambda: [200 / 400, 200 / (200 + 80)],
    "E11.1": lambda: [2, 2, 4 - 2, '"eos"'],
    "E11.2": lambda: [4 - 4, 4 - 0, 4 - 2, *(pointers(L, 4, n)[2] for L, n in ((10, 4), (20, 0), (30, 2)))],
    "E12.1": lambda: [pointers(40, 4, 2)[2], 40 + 2, 2 + 1],
    "E12.3": lambda: [j for j in range(1, 5) if (9 + j) % 4 == 0] + [9 + 3, 9 + 3 - 1],
    "E13.1": lambda: [[p**2 / sum(other**2 for other in P) for p in P]],
    "E13.2": lambda: [law := redraw(lambda p, q, draft: float(p[draft] >= q[draft])), 1 - overlap(law, P)],
}


@pytest.mark.parametrize("name", EXAM)
def test_exam_answers_are_right(name: str) -> None:
    """The numbers of an answer stand in it, in this order."""
    rest = ANSWERS[name]
    for value in EXAM[name]():
        wanted = value if isinstance(value, str) else digits(value)
        found = re.search(rf"(?<![\d.,]){re.escape(wanted)}(?![\d]|[.,]\d)", rest)
        assert found, (name, wanted, ANSWERS[name])
        rest = rest[found.end() :]


def test_nearly_every_exam_question_is_computed() -> None:
    """Two ask for words: which rows are good (01.3), which tests see a fault (12.2)."""
    assert set(ANSWERS) - set(EXAM) == {"E01.3", "E12.2"}


def test_the_sums_agree_with_the_engine() -> None:
    """E and the block rule above are written out; the engine's rules, enumerated, must agree with them."""
    steady = first_token(engine_with(model_of(P), sd.ModelDrafter(model_of(Q)), lambda p, q, d: 1.0, lambda p, q, d: p))
    assert steady == pytest.approx(Q)
    assert 1 + expected_accepted("rejection", P, Q, 3) == pytest.approx(tokens(overlap(P, Q), 3))


def test_the_words_of_the_glossary_are_met_where_it_says() -> None:
    words = glossary()
    assert len(words) > 60
    for word, number in words.items():
        if number not in LESSONS:
            continue
        text = re.sub(r"\n# |\s+", " ", LESSONS[number].read_text(encoding="utf-8")).lower()
        for part in word.lower().split(", "):
            stem = re.sub(r"(?:ion|ed|s)$", "", part)
            assert stem in text or part.split()[0] in text, f"lesson {number} does not say {part!r}"


MUST = {
    "processed distribution",
    "γ",
    "target",
    "draft",
    "cycle",
    "committed",
    "computed",
    "pending token",
    "correction",
    "bonus",
}
EMPHASIS = {"committed and computed", "moved together"}


def defined(text: str) -> set[str]:
    """Return the words that a lesson introduces: in bold, behind *is*, *are* or *called*, at the end of a clause."""
    text = re.sub(r"\n# ", " ", text)
    return set(re.findall(r"\b(?:is|are|called)(?: an?| the)? \*\*([a-zA-Z][a-z -]+)\*\*[.,:;]", text))


def test_a_lesson_introduces_a_word() -> None:
    assert defined("# It is called the **roof\n# line**. This is **one** thing.") == {"roof line"}


@each_lesson
def test_the_glossary_has_the_words_that_lessons_introduce(number: str) -> None:
    words = {part for word in glossary() for part in word.split(", ")}
    missing = (MUST | defined(LESSONS[number].read_text(encoding="utf-8"))) - words - EMPHASIS
    assert not missing, f"explain {sorted(missing)} in lessons/GLOSSARY.md"


@each_guide
def test_links_resolve(name: str) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", (NOTEBOOKS / name).read_text(encoding="utf-8"))
    assert targets or name == "GLOSSARY.md"
    for target in targets:
        assert target.startswith("https://arxiv.org/abs/") or (NOTEBOOKS / target.partition("#")[0]).exists(), target


def test_links_of_the_docs_resolve() -> None:
    for path in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            assert "://" in target or (path.parent / target.partition("#")[0]).exists(), (path.name, target)


def test_no_frequent_misspelling() -> None:
    for path in [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *NOTEBOOKS.glob("*.md")]:
        assert misspelt(path.read_text(encoding="utf-8")) == [], path.name


def test_the_readme_names_the_guides() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"(lessons/{name})" in text for name in GUIDES)
