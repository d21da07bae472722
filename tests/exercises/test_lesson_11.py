"""Lesson 11's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_teach.engine import Engine
from specdec_teach.exercises import judge
from specdec_teach.exercises.lesson_11 import crowd, recites, states
from specdec_teach.sampling import Sampling

RIGHT = {"a": "cycle", "b": "preempted", "c": "waiting", "d": "waiting"}


def stub(*given: Any) -> None:
    """Still to be written."""


def cut(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept = block[:remaining]
    if eos in kept:
        return kept[: kept.index(eos) + 1], "eos"
    return kept, "length" if len(block) >= remaining else None


def last_only(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept = block[:remaining]
    return kept, "eos" if kept[-1] == eos else "length" if len(kept) == remaining else None


def without_end(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept, reason = cut(block, eos, remaining)
    return (kept[:-1] if reason == "eos" else kept), reason


def length_first(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept, reason = cut(block, eos, remaining)
    return kept, "length" if len(kept) == remaining else reason


def ignores_limit(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept, reason = cut(block, eos, len(block) + 1)
    return kept, reason or ("length" if len(block) >= remaining else None)


def last_end(block: list[int], eos: int, remaining: int) -> tuple[list[int], str | None]:
    kept, reason = cut(block, eos, remaining)
    if reason != "eos":
        return kept, reason
    return block[: len(block) - block[::-1].index(eos)], reason


def show(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    text = held + piece
    if stop in text:
        return text[: text.index(stop)], "", True
    size = max((n for n in range(len(stop)) if text.endswith(stop[:n])), default=0)
    return text[: len(text) - size], text[len(text) - size :], False


def leaks(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    text = held + piece
    return (text[: text.index(stop)], "", True) if stop in text else (text, "", False)


def fixed_window(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    text, size = held + piece, len(stop) - 1
    return (text[: text.index(stop)], "", True) if stop in text else (text[:-size], text[-size:], False)


def forgets(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    return show("", piece, stop)


def starts_over(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    """Drop a beginning that failed, with all that could have begun inside it."""
    text = held + piece
    if held and not stop.startswith(text) and stop not in text:
        return text, "", False
    return show(held, piece, stop)


def hides_end(held: str, piece: str, stop: str) -> tuple[str, str, bool]:
    shown, kept, ended = show(held, piece, stop)
    return (shown, stop, True) if ended else (shown, kept, ended)


def rows(committed: list[int], drafts: list[int]) -> list[list[int]]:
    return [committed + drafts[:index] for index in range(len(drafts) + 1)]


@pytest.mark.parametrize("name", ["11.1", "11.2", "11.3", "11.4", "11.5"])
@pytest.mark.parametrize("blank", [..., None])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize("name", ["11.3", "11.4", "11.5"])
def test_a_stub_is_not_attempted(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("11.1", RIGHT | {"a": "preempted", "b": "cycle"}, "the oldest never gives way"),
        ("11.1", RIGHT | {"b": "cycle"}, "of those that run, b is the youngest"),
        ("11.1", RIGHT | {"c": "prefill"}, "not one block was free when it began"),
        ("11.1", RIGHT | {"d": "prefill"}, "nobody overtakes"),
        ("11.1", RIGHT | {"d": "runs"}, "d cannot do 'runs'"),
        ("11.1", {"a": "cycle"}, "say what each of a, b, c, d does"),
        ("11.1", 3, "wants something else"),
        ("11.2", (5, 4, 0, "eos"), "5 tokens are too many"),
        ("11.2", (2, 2, 3, "eos"), "2 tokens are too few"),
        ("11.2", (3, 4, 2, "eos"), "the drafts that were kept"),
        ("11.2", (3, 2, 2, "eos"), "the end token too"),
        ("11.2", (3, 3, 1, "eos"), "whatever their verdict, are cut: 5 − 3, not 1"),
        ("11.2", (3, 3, 2, "stop"), "the reason is 'eos'"),
        ("11.2", (3, 3, 2), "four answers are wanted"),
        ("11.3", last_only, "cut([4, 9, 2], eos=9, remaining=10) keeps [4, 9], not [4, 9, 2]"),
        ("11.3", without_end, "keeps [4, 9], not [4]: the end token itself is kept"),
        ("11.3", last_end, "cut([9, 4, 9], eos=9, remaining=10) keeps [9], not [9, 4, 9]"),
        ("11.3", length_first, "cut([4, 7, 9], eos=9, remaining=3) ends by 'eos', not 'length'"),
        ("11.3", ignores_limit, "cut([4, 7, 9], eos=9, remaining=2) keeps [4, 7], not [4, 7, 9]"),
        ("11.3", lambda block, eos, remaining: (cut(block, eos, remaining)[0], "eos"), "nothing has ended here"),
        ("11.3", lambda block, eos, remaining: cut(block, eos, remaining)[0], "returns two things"),
        ("11.4", leaks, "show('', 'one E', stop='END') should be ('one ', 'E', False), not ('one E', '', False)"),
        ("11.4", fixed_window, "no more is held back than what could begin the stop string"),
        ("11.4", forgets, "show('E', 'ND two', stop='END') should be ('', '', True)"),
        ("11.4", starts_over, "show('aa', 'a', stop='aab') should be ('a', 'aa', False)"),
        ("11.4", hides_end, "show what stands before it, hold nothing, and end"),
        ("11.4", lambda held, piece, stop: (held + piece, ""), "whether the text has ended"),
        ("11.4", lambda held, piece, stop: (*show(held, piece, stop)[:2], True), "no stop string is complete here"),
        ("11.5", lambda c, d: [c] * (len(d) + 1), "row 1 sees [1, 2, 3], not [1, 2]; the drafts before it are missing"),
        ("11.5", lambda c, d: rows(c, d)[:-1], "has 2 rows, one more than drafts, not 1"),
        ("11.5", lambda c, d: [*rows(c, d)[1:], c + d], "row 0 sees [1, 2], not [1, 2, 3]; it must not see what it is"),
        ("11.5", lambda c, d: rows(c, list(dict.fromkeys(d))), "rows([5, 5], [5, 5]) has 3 rows"),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [("11.1", RIGHT), ("11.2", (3, 3, 2, "eos")), ("11.3", cut), ("11.4", show), ("11.5", rows)],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_the_crowd_is_as_the_lesson_tells_it() -> None:
    assert states(crowd()) == {"a": "prefill", "b": "prefill", "c": "waiting", "d": "waiting"}
    before = crowd(9)
    assert [(len(r.cache.table), r.cache.pointer) for r in before.live] == [(3, 12), (4, 13), (0, 0), (0, 0)]
    assert before.blocks_in_use == before.pool.blocks == 7
    results = before.run()
    assert [len(result.tokens) for result in results] == [10, 9, 4, 3]


def test_a_reciter_says_its_line() -> None:
    engine = Engine(recites([3, 0, 2], after=2, vocab=5))
    assert engine.generate([1, 4], Sampling(seed=1), max_new_tokens=4).tokens == (3, 0, 2, 0)
