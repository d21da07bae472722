"""Lesson 09's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.exercises import judge
from specdec_teach.exercises.laws import first_token, model_of
from specdec_teach.exercises.lesson_09 import against_p

P, Q = [0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5]


def stub(*given: Any) -> None:
    """Still to be written."""


def mask(parents: tuple[int, ...]) -> list[list[int]]:
    rows = [[1] + [0] * len(parents)]
    for node, parent in enumerate(parents):
        row = list(rows[parent + 1])
        row[node + 1] = 1
        rows.append(row)
    return rows


def causal(parents: tuple[int, ...]) -> list[list[int]]:
    width = len(parents) + 1
    return [[int(column <= row) for column in range(width)] for row in range(width)]


def parent_alone(parents: tuple[int, ...]) -> list[list[int]]:
    rows = [[0] * (len(parents) + 1) for _ in range(len(parents) + 1)]
    for row in range(len(parents) + 1):
        rows[row][row] = 1
        if row:
            rows[row][parents[row - 1] + 1] = 1
    return rows


def everything(parents: tuple[int, ...]) -> list[list[int]]:
    return [[1] * (len(parents) + 1)] * (len(parents) + 1)


def not_itself(parents: tuple[int, ...]) -> list[list[int]]:
    return [
        [seen * (row != column) for column, seen in enumerate(line)] for row, line in enumerate(mask(parents))
    ]  # fmt: skip


def law(p: Any, q: Any, drafts: Any, *, fresh: bool = False, stale: bool = False, last: bool = True) -> list[float]:
    found, reached, target = [0.0] * len(p), 1.0, p
    rest = p
    for draft in drafts:
        stands = min(1.0, p[draft] / q[draft])
        found[draft] += reached * stands
        reached *= 1 - stands
        parts = [max(a - b, 0.0) for a, b in zip(p, q, strict=True)]
        rest = [part / sum(parts) for part in parts] if sum(parts) > 0 else p
        p = target if fresh else rest
        q = [0.0 if token == draft else part for token, part in enumerate(q)]
        q = q if stale else [part / sum(q) for part in q]
    return [a + reached * b * last for a, b in zip(found, rest, strict=True)]


def moves(length: int, path: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(length + node, length + at) for at, node in enumerate(path) if node != at]


RIGHT = (7, [11, 12, 12, 13, 13, 13, 14])


@pytest.mark.parametrize("name", ["09.1", "09.2", "09.3", "09.4"])
@pytest.mark.parametrize("blank", [..., None])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize("name", ["09.2", "09.3", "09.4"])
def test_a_stub_is_not_attempted(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("09.1", (6, RIGHT[1]), "6 is the number of drafts, and the pending token is read as well"),
        ("09.1", (4, RIGHT[1]), "this pass does not read 4 tokens"),
        ("09.1", (7, list(range(11, 18))), "these are slots: nodes 0 and 1 are siblings, and both stand at 12"),
        ("09.1", (7, [12, 13, 13, 14, 14, 14, 15]), "12 tokens are committed, so the pending one stands at 11"),
        ("09.1", (7, [11, 12, 12, 13, 13, 13, 13]), "node 5 is not at 13: its parent, 3, is one position before it"),
        ("09.1", (7, [0, 1, 1, 2, 2, 2, 3]), "the last of 12 committed ones and does not stand at 0"),
        ("09.1", (7, [12, 12, 13, 13, 13, 14]), "7 positions are wanted, the pending token's first, not 6"),
        ("09.1", 7, "wants something else"),
        ("09.2", causal, "tree_mask((-1, -1)), row 2: node 1 must not see node 0, which is not above it"),
        ("09.2", parent_alone, "node 1 must see the pending token, which stands on its path"),
        ("09.2", not_itself, "every token sees itself"),
        ("09.2", everything, "the pending token must not see node 0"),
        ("09.2", lambda parents: [row[1:] for row in mask(parents)[1:]], "should give 2 lists of 2 numbers"),
        ("09.3", lambda p, q, d: p, "p is what comes on average over all draws"),
        ("09.3", lambda p, q, d: law(p, q, d, fresh=True), "meets what was left, not p itself"),
        ("09.3", lambda p, q, d: law(p, q, d, stale=True), "so its q is scaled up again"),
        ("09.3", lambda p, q, d: law(p, q, d, last=False), "yours sums to 0.600; a sibling stands, or the last"),
        ("09.3", lambda p, q, d: [1.0], "should give 3 numbers, one for each token, not 1"),
        ("09.3", lambda p, q, d: 1 / 0, "raises ZeroDivisionError"),
        ("09.4", lambda L, path: list(reversed(moves(L, path))), "the pairs are right and their order is not"),
        ("09.4", lambda L, path: moves(L - 1, path), "the pending token lies in slot 6 and stays, so node 0 lies in"),
        ("09.4", lambda L, path: [(L + n, L + i) for i, n in enumerate(path)], "(7, 7) moves nothing; leave it out"),
        ("09.4", lambda L, path: [], "slot 7 holds what was in slot 7, and the engine's cache holds what was"),
        ("09.4", lambda L, path: [(L + 99, L)], "moves(7, (1, 4)): the pass has written slots up to 13"),
        ("09.4", lambda L, path: path, "wants something else"),
    ],
)  # fmt: skip
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(("name", "answer"), [("09.1", RIGHT), ("09.2", mask), ("09.3", law), ("09.4", moves)])
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_the_law_of_given_siblings_averages_to_the_target() -> None:
    """Over all ordered draws without replacement."""
    found = [0.0] * 4
    for first in range(4):
        for second in set(range(4)) - {first}:
            chance = Q[first] * Q[second] / (1 - Q[first])
            found = [a + chance * b for a, b in zip(found, law(P, Q, [first, second]), strict=True)]
    assert found == pytest.approx(P, abs=1e-12)


def test_the_broken_rule_is_what_it_says() -> None:
    """Two siblings, each against p itself, then the residual of the last: by sums over all draws."""
    drafter = sd.TreeDrafter(sd.ModelDrafter(model_of(Q)), (2,))
    engine = sd.Engine(model_of(P), drafter=drafter, gamma=1)
    expected = [0.0] * 4
    for first in range(4):
        for second in set(range(4)) - {first}:
            chance = Q[first] * Q[second] / (1 - Q[first])
            again = law(P, Q, [first, second], fresh=True)
            expected = [a + chance * b for a, b in zip(expected, again, strict=True)]
    broken = first_token(against_p(engine))
    assert broken == pytest.approx(expected, abs=1e-12)
    assert max(abs(a - b) for a, b in zip(broken, P, strict=True)) > 0.05
    assert first_token(engine) == pytest.approx(P, abs=1e-12)
