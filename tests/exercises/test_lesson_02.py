"""Lesson 02's judges: blank is not attempted, usual mistakes get the case that shows them, solutions are right."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from specdec_teach.exercises import judge

EXERCISES = ("02.1", "02.2", "02.3", "02.4", "02.5")


def stub(*given: Any) -> None:
    """Still to be written."""


def verify_rows(model: Any, committed: list[int], drafts: list[int]) -> Any:
    return model(input_ids=torch.tensor([committed + drafts])).logits[0, len(committed) - 1 :]


def draft_tokens(draft: Any, committed: list[int], gamma: int) -> list[int]:
    drafts: list[int] = []
    while len(drafts) < gamma:
        drafts.append(int(draft(input_ids=torch.tensor([committed + drafts])).logits[0, -1].argmax()))
    return drafts


def one_cycle(target: Any, draft: Any, committed: list[int], gamma: int) -> list[int]:
    drafts = draft_tokens(draft, committed, gamma)
    best = verify_rows(target, committed, drafts).argmax(-1).tolist()
    kept = next((k for k in range(gamma) if drafts[k] != best[k]), gamma)
    return [*drafts[:kept], best[kept]]


def any_match(target: Any, draft: Any, committed: list[int], gamma: int) -> list[int]:
    drafts = draft_tokens(draft, committed, gamma)
    best = verify_rows(target, committed, drafts).argmax(-1).tolist()
    kept = sum(d == b for d, b in zip(drafts, best, strict=False))
    return [*drafts[:kept], best[kept]]


def correction_and_bonus(target: Any, draft: Any, committed: list[int], gamma: int) -> list[int]:
    drafts = draft_tokens(draft, committed, gamma)
    best = verify_rows(target, committed, drafts).argmax(-1).tolist()
    kept = next((k for k in range(gamma) if drafts[k] != best[k]), gamma)
    return [*drafts[:kept], best[kept], best[-1]] if kept < gamma else [*drafts, best[-1]]


def no_last(*given: Any) -> list[int]:
    return one_cycle(*given)[:-1]


def whole_text(target: Any, draft: Any, committed: list[int], gamma: int) -> list[int]:
    return committed + one_cycle(target, draft, committed, gamma)


def narrow_rows(model: Any, committed: list[int], drafts: list[int]) -> Any:
    prefixes = [committed + drafts[:n] for n in range(len(drafts) + 1)]
    return torch.stack([model(input_ids=torch.tensor([prefix])).logits[0, -1] for prefix in prefixes])


def plain_decoding(target: Any, draft: Any, committed: list[int], gamma: int) -> list[int]:
    right = one_cycle(target, draft, committed, gamma)
    return draft_tokens(target, committed, len(right))


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("blank", [..., None, stub])
def test_blank_is_not_attempted(name: str, blank: Any) -> None:
    assert judge(name, blank).status == "not attempted"


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("02.1", lambda c, d, i: c + d[:i], "history([7], [3], 1) should be [7], not [7, 3]: yours holds d1 itself"),
        ("02.1", lambda c, d, i: d[: i - 1], "every committed token belongs to the history"),
        ("02.1", lambda c, d, i: c[:-1] + d[: i - 1], "the pending one too"),
        ("02.1", lambda c, d, i: c, "history([5, 6], [1, 2], 2) should be [5, 6, 1], not [5, 6]: the drafts before d2"),
        ("02.1", lambda c, d, i: [0], "not what the engine's row had read"),
        ("02.1", [0], "a function is wanted here"),
        ("02.2", lambda n, g: [(n - 1 + r, n + r) for r in range(g)], "rows_of(1, 1): the pass over the pending token"),
        ("02.2", lambda n, g: [(n + r, n + r + 1) for r in range(g + 1)], "row 0 belongs to the pending token"),
        ("02.2", lambda n, g: [(n + r, n + r) for r in range(g + 1)], "reads one position and speaks of the next"),
        ("02.2", lambda n, g: [(n - 1, n + r) for r in range(g + 1)], "row 1 should be (1, 2), not (0, 2)"),
        ("02.2", lambda n, g: [3] * (g + 1), "this exercise wants something else"),
        ("02.3", lambda m, c, d: verify_rows(m, c, d)[1:], "shape [2, 12], not [1, 12]: one for the pending"),
        ("02.3", lambda m, c, d: verify_rows(m, c, d)[None], "without the batch dimension"),
        ("02.3", lambda m, c, d: verify_rows(m, c, d).roll(1, 0), "row 0 should be what the model says after [7]"),
        ("02.3", lambda m, c, d: verify_rows(m, c, d).tolist(), "not a list"),
        ("02.3", narrow_rows, "the model ran 2 times; once is enough"),
        ("02.4", lambda g, j: list(range(j - 1, g + 1)), "row 0 judges d1 and has not read it"),
        ("02.4", lambda g, j: [j], "rows_to_redo(2, 1) should be [1, 2], not [1]: row 2 has read d1 too"),
        ("02.4", lambda g, j: [], "rows_to_redo(1, 1) should be [1], not []"),
        ("02.5", no_last, "one token more is due, from the row behind the last draft that stands"),
        ("02.5", correction_and_bonus, "the first draft falls: one_cycle(target, draft, [4], 2) should be [5]"),
        ("02.5", any_match, "the first draft falls"),
        ("02.5", whole_text, "return the new tokens only"),
        ("02.5", plain_decoding, "5 passes through the target; one is enough"),
        (
            "02.5",
            lambda t, d, c, g: one_cycle(t, d, c, g) if draft_tokens(d, c, 1) else [],
            "every draft stands: one_cycle(target, draft, [0], 3) runs the draft 4 times; 3 drafts take 3 passes",
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
        ("02.1", lambda c, d, i: c + d[: i - 1]),
        ("02.2", lambda n, g: [(n - 1 + r, n + r) for r in range(g + 1)]),
        ("02.2", lambda n, g: [[n - 1 + r, n + r] for r in range(g + 1)]),
        ("02.3", verify_rows),
        ("02.4", lambda g, j: range(j, g + 1)),
        ("02.5", one_cycle),
    ],
)
def test_solutions(name: str, answer: Any) -> None:
    outcome = judge(name, answer)
    assert outcome.status == "right", outcome.message
