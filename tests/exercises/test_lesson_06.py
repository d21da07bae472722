"""Lesson 06's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from specdec_teach.caches.pool import chain_key
from specdec_teach.exercises import judge

EXERCISES = ("06.1", "06.2", "06.3", "06.4", "06.5")
FUNCTIONS = ("06.2", "06.4", "06.5")


def stub(*given: Any) -> None:
    """Still to be written."""


def rollback(table: list[int], pointer: int, to: int, size: int) -> tuple[list[int], list[int]]:
    needed = (to + size - 1) // size
    return table[:needed], table[needed:]


def adopt(index: dict[bytes, int], tokens: list[int], size: int) -> list[int]:
    found, key = [], b""
    while len(found) < len(tokens) // size:
        key = chain_key(key, tokens[len(found) * size :][:size])
        if key not in index:
            break
        found.append(index[key])
    return found


def over_the_gap(index: dict[bytes, int], tokens: list[int], size: int) -> list[int]:
    found, key = [], b""
    for at in range(len(tokens) // size):
        key = chain_key(key, tokens[at * size :][:size])
        found += [index[key]] if key in index else []
    return found


def without_a_chain(index: dict[bytes, int], tokens: list[int], size: int) -> list[int]:
    keys = [chain_key(b"", tokens[at : at + size]) for at in range(0, len(tokens), size)]
    return [index[key] for key in keys if key in index]


def publish(committed: int, computed: int, size: int, already: int) -> list[int]:
    return list(range(already, min(committed, computed) // size))


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("blank", [..., None])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_stub_is_not_attempted(name: str) -> None:
    assert judge(name, stub).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("06.1", (9, 6, 8), "does not live in slot 9: 9 is the position"),
        ("06.1", (36, 6, 8), "its slots are 36 to 39; position 8 lives in the first"),
        ("06.1", (17, 6, 8), "position 9 is one of the positions 8 to 11"),
        ("06.1", (37, 5, 8), "with 20 tokens committed and γ = 4, 5 blocks are not what the pass needs"),
        ("06.1", (37, 7, 8), "the pointer gets to 24, not 25"),
        ("06.1", (37, 6, 7), "with 25 tokens committed and γ = 4, 7 blocks"),
        ("06.1", (37, 6), "three numbers are wanted, and there are 2"),
        ("06.1", 37, "wants something else"),
        ("06.1", (37.5, 6, 8), "whole numbers, and 37.5 is none"),
        (
            "06.2",
            lambda table, pointer, to, size: (table[: to // size], table[to // size :]),
            "14, 10, 4) should keep the table [7, 2, 9] and free [4], and yours keeps [7, 2] and "
            "frees [4, 9]: position 9 is still reachable, and it lives in block 9",
        ),
        ("06.2", lambda table, pointer, to, size: (table, []), "10 tokens need 3 of its blocks"),
        (
            "06.2",
            lambda table, pointer, to, size: (table[: to // size + 1], table[to // size + 1 :]),
            "14, 8, 4) should keep the table [7, 2] and free [4, 9], and yours keeps [7, 2, 9] and frees [4]: "
            "8 tokens fill 2 blocks of 4, and position 8 is not reachable",
        ),
        (
            "06.2",
            lambda table, pointer, to, size: (rollback(table, pointer, to, size)[0], []),
            "every block that leaves the table goes back",
        ),
        ("06.2", lambda table, pointer, to, size: table[:1], "should give two lists"),
        ("06.3", ["write"], "B has not done anything, and its seven tokens now read [10, 11, 12, 13, 14, 15, 26]"),
        ("06.3", ["take", "copy", "drop", "write"], "B has not done anything"),
        ("06.3", ["write", "take", "copy", "swap", "drop"], "B has not done anything"),
        ("06.3", ["take", "swap", "drop", "write"], "positions 4 and 5 live in the new block too"),
        ("06.3", ["take", "swap", "write", "copy", "drop"], "position 6 holds 16, not its new token 26"),
        ("06.3", ["take", "copy", "swap", "write"], "block 1 is held twice, and stands in one table"),
        ("06.3", ["take", "copy", "swap", "drop", "drop", "write"], "block 1 is free, and B still reads it"),
        ("06.3", ["copy", "take", "swap", "drop", "write"], "'copy' comes before 'take'"),
        ("06.3", ["take", "take", "copy", "swap", "drop", "write"], "one new block is enough"),
        ("06.3", ["drop", "drop", "drop"], "given back more often than it was held"),
        ("06.3", ["erase"], "there is no act 'erase'"),
        ("06.3", [], "A has not written its token"),
        ("06.4", without_a_chain, "should be [1, 2, 3, 4], and yours gives [1]: the key of a block is made of the key"),
        (
            "06.4",
            over_the_gap,
            "block 2 of them evicted; adopt(index, [10, 11, 12, 13, 14, 15, 16, 17], 2) should be [1]",
        ),
        ("06.4", over_the_gap, "yours gives [1, 3, 4]: it stops at the first block that is not there"),
        ("06.4", lambda index, tokens, size: [], 'the first key is chain_key(b"", …)'),
        (
            "06.4",
            lambda index, tokens, size: list(index.values()),
            "adopt(index, [10, 11, 12, 13, 14], 2) should be [1, 2]",
        ),
        ("06.4", lambda index, tokens, size: index[b""], "raises KeyError"),
        (
            "06.5",
            lambda committed, computed, size, already: list(range(already, committed // size)),
            "blocks_to_publish(8, 7, 4, 1) should be [], and yours gives [1]: position 7 is the pending token",
        ),
        (
            "06.5",
            lambda committed, computed, size, already: list(range(already, computed // size)),
            "blocks_to_publish(7, 11, 4, 1) should be [], and yours gives [1]: position 7 holds a draft that nobody",
        ),
        (
            "06.5",
            lambda committed, computed, size, already: list(range(already, -(-min(committed, computed) // size))),
            "blocks_to_publish(8, 7, 4, 1) should be [], and yours gives [1]",
        ),
        (
            "06.5",
            lambda committed, computed, size, already: list(range(min(committed, computed) // size)),
            "should be [1], and yours gives [0, 1]: block 0 is published already",
        ),
        ("06.5", lambda *given: [], "should be [1], and yours gives []: block 1 is full, committed and computed"),
        (
            "06.5",
            lambda committed, computed, size, already: publish(committed - 1, computed - 1, size, already),
            "blocks_to_publish(9, 8, 4, 1) should be [1], and yours gives []",
        ),
    ],
)
def test_usual_mistakes(name: str, answer: Any, says: str) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "wrong"
    assert says in outcome.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("06.1", (37, 6, 8)),
        ("06.1", [37, 6, 8]),
        ("06.2", rollback),
        ("06.3", ["take", "copy", "swap", "drop", "write"]),
        ("06.3", ("take", "swap", "copy", "write", "drop")),
        ("06.4", adopt),
        ("06.5", publish),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message


def test_the_right_orders_of_a_copy_on_write() -> None:
    """Take before copy and swap, both of them before the write; the drop anywhere, for B still holds the block."""
    for order in permutations(("take", "copy", "swap", "drop", "write")):
        at = {act: place for place, act in enumerate(order)}
        good = at["take"] < min(at["copy"], at["swap"]) and max(at["copy"], at["swap"]) < at["write"]
        assert (judge("06.3", list(order)).status == "right") == good, order
