"""Judges of lesson 02: which history, which row, one pass, and a whole greedy cycle.

Invariant: what is right comes from the real engine or from single passes of a small model, never a list of answers.
It does not know the lesson's text.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any

import torch
from torch import Tensor

from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.scripted import ScriptedDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.sampling import Sampling
from specdec_teach.testing import TabularLM

__all__: list[str] = []

_VOCAB = 12
_TEXTS: tuple[tuple[list[int], list[int]], ...] = (([7], [3]), ([5, 6], [1, 2]), ([0, 1, 2], [3, 4, 5]))


class _Counter:
    """Counts the passes through a model and keeps the prefixes that each was asked about."""

    def __init__(self) -> None:
        self.passes: list[list[tuple[int, ...]]] = []

    def model(self, answer: Any) -> TabularLM:
        """Return a model that answers `answer(prefix)` and is watched."""

        def watched(prefix: tuple[int, ...]) -> Tensor:
            self.passes[-1].append(prefix)
            return torch.as_tensor(answer(prefix), dtype=torch.float64)

        model = TabularLM(watched, vocab=_VOCAB)
        model.register_forward_pre_hook(lambda *_: self.passes.append([]))
        return model


def _mixed(prefix: tuple[int, ...]) -> list[float]:
    """Logits that depend on every token of the prefix and on its place."""
    mark = sum((place + 1) * (token + 1) for place, token in enumerate(prefix))
    return [float(mark * (token + 2) % 17) for token in range(_VOCAB)]


def _reads(committed: list[int], drafts: list[int]) -> list[tuple[int, ...]]:
    """Return the prefix behind each row of the engine's verifying pass."""
    counter = _Counter()
    engine = Engine(counter.model(_mixed), drafter=ScriptedDrafter(drafts), gamma=len(drafts))
    next(engine.stream(list(committed), Sampling.greedy(), max_new_tokens=len(drafts) + 1))
    return counter.passes[-1]


@exercise("02.1")
def _history(answer: Any) -> str:
    for committed, drafts in _TEXTS:
        for i, read in enumerate(_reads(committed, drafts)[:-1], start=1):
            found = list(ask(answer, list(committed), list(drafts), i))
            if found == list(read):
                continue
            why = "that is not what the engine's row had read"
            if found == committed + drafts[:i]:
                why = f"yours holds d{i} itself, and a row that has read d{i} judges the draft after it"
            elif found in (drafts[: i - 1], committed[:-1] + drafts[: i - 1]):
                why = "every committed token belongs to the history, the pending one too"
            elif found == committed:
                why = f"the drafts before d{i} belong to the history too"
            raise NotYet(f"history({committed}, {drafts}, {i}) should be {list(read)}, not {found}: {why}")
    return "the committed tokens and the drafts before d_i, for p_i and q_i alike"


@exercise("02.2")
def _rows(answer: Any) -> str:
    for committed, gamma in ((1, 1), (3, 2), (7, 4), (5, 0)):
        reads = _reads(list(range(committed)), list(range(gamma)))
        right = [(len(read) - 1, len(read)) for read in reads]
        found = [tuple(pair) for pair in ask(answer, committed, gamma)]
        if found == right:
            continue
        if len(found) != len(right):
            why = f"the pass over the pending token and γ = {gamma} drafts has {gamma + 1} rows, yours {len(found)}"
        elif found[0] == (committed, committed + 1):
            why = f"row 0 belongs to the pending token, and that is the text's last: position {committed - 1}"
        elif found[0][0] == found[0][1]:
            why = "a row reads one position and speaks of the next"
        else:
            row = next(row for row in range(len(right)) if found[row] != right[row])
            why = f"row {row} should be {right[row]}, not {found[row]}"
        raise NotYet(f"rows_of({committed}, {gamma}): {why}")
    return "row r reads position L - 1 + r and speaks of position L + r"


def _single(committed: list[int], drafts: list[int]) -> Tensor:
    """Return the rows of γ + 1 single passes."""
    model = TabularLM(_answer, vocab=_VOCAB)
    prefixes = [committed + drafts[:count] for count in range(len(drafts) + 1)]
    return torch.stack([model(input_ids=torch.tensor([prefix])).logits[0, -1] for prefix in prefixes])


def _answer(prefix: tuple[int, ...]) -> Tensor:
    return torch.tensor(_mixed(prefix), dtype=torch.float64)


@exercise("02.3")
def _one_pass(answer: Any) -> str:
    for committed, drafts in _TEXTS:
        counter = _Counter()
        found = ask(answer, counter.model(_mixed), list(committed), list(drafts))
        call, right = f"verify_rows(model, {committed}, {drafts})", _single(committed, drafts)
        if not isinstance(found, Tensor):
            raise NotYet(f"{call} should be a tensor of {len(right)} rows, not a {type(found).__name__}")
        if found.shape != right.shape:
            hint = "without the batch dimension" if found.dim() == 3 else "one for the pending token and one a draft"
            raise NotYet(f"{call} should have shape {list(right.shape)}, not {list(found.shape)}: {hint}")
        wrong = next((row for row in range(len(right)) if not torch.allclose(found[row].double(), right[row])), None)
        if wrong is not None:
            read = (committed + drafts)[: len(committed) + wrong]
            raise NotYet(f"{call}: row {wrong} should be what the model says after {read}, and is not")
        if len(counter.passes) != 1:
            raise NotYet(f"{call}: the rows are right, but the model ran {len(counter.passes)} times; once is enough")
    return "one pass, the same rows as single passes"


@exercise("02.4")
def _redo(answer: Any) -> str:
    for gamma, j in ((1, 1), (2, 1), (4, 3), (4, 4)):
        drafts = [3] * gamma
        other = [*drafts[: j - 1], 4, *drafts[j:]]
        before, after = _single([1, 2], drafts), _single([1, 2], other)
        right = [row for row in range(gamma + 1) if not torch.equal(before[row], after[row])]
        found = list(ask(answer, gamma, j))
        if found == right:
            continue
        why = "compare the passes of the lesson"
        if j - 1 in found:
            why = f"row {j - 1} judges d{j} and has not read it, so it stays as it is"
        elif found and set(found) < set(right):
            why = f"row {right[-1]} has read d{j} too"
        raise NotYet(f"rows_to_redo({gamma}, {j}) should be {right}, not {found}: {why}")
    return "row j and all behind it"


def _counts(prefix: tuple[int, ...]) -> list[float]:
    """After t comes t + 1."""
    return [float(token == (prefix[-1] + 1) % _VOCAB) for token in range(_VOCAB)]


def _counts_badly(prefix: tuple[int, ...]) -> list[float]:
    """The same, but after 4 comes 0."""
    return [float(token == 0) for token in range(_VOCAB)] if prefix[-1] == 4 else _counts(prefix)


@exercise("02.5")
def _cycle(answer: Any) -> str:
    told: Items[tuple[str, list[int], int]] = (
        ("every draft stands", [0], 3),
        ("the first draft falls", [4], 2),
        ("the third draft falls", [2], 4),
    )
    for case, committed, gamma in told:
        drafter = ModelDrafter(TabularLM(lambda prefix: torch.tensor(_counts_badly(prefix)), vocab=_VOCAB))
        engine = Engine(TabularLM(lambda p: torch.tensor(_counts(p)), vocab=_VOCAB), drafter=drafter, gamma=gamma)
        right = list(next(engine.stream(list(committed), Sampling.greedy(), max_new_tokens=gamma + 1)).emitted)
        target, draft = _Counter(), _Counter()
        given = (target.model(_counts), draft.model(_counts_badly), list(committed), gamma)
        found = [int(token) for token in ask(answer, *given)]
        call = f"one_cycle(target, draft, {committed}, {gamma})"
        if found != right:
            why = ""
            if found == right[:-1]:
                why = "; one token more is due, from the row behind the last draft that stands"
            elif found[: len(right)] == right:
                why = "; nothing behind it can be known from this pass"
            elif found[: len(committed)] == committed and found[len(committed) :] == right:
                why = "; return the new tokens only"
            raise NotYet(f"{case}: {call} should be {right}, not {found}{why}")
        if (passes := len(target.passes)) != 1:
            raise NotYet(f"{case}: {call} is right, from {passes} passes through the target; one is enough")
        if (passes := len(draft.passes)) != gamma:
            raise NotYet(f"{case}: {call} runs the draft {passes} times; {gamma} drafts take {gamma} passes")
    return "the engine's own tokens, from one pass through the target"
