"""What the kernels are compared on: a pairwise set of shapes, rules and inputs, made from a seed."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

MOST_PROGRAMS = 90


@dataclass(frozen=True, slots=True)
class Case:
    """One comparison. `form` is the dtype of logits, or "p" for float32 probabilities."""

    rule: str
    batch: int
    length: int
    width: int
    ragged: bool
    one_hot: bool
    form: str
    splits: int
    strided: bool
    given: bool

    def __str__(self) -> str:
        flags = [name for name in ("ragged", "one_hot", "strided", "given") if getattr(self, name)]
        return "-".join([self.rule, f"{self.batch}x{self.length}x{self.width}", self.form, f"s{self.splits}", *flags])

    @property
    def valid(self) -> bool:
        """Coupled reads neither q nor u; and an interpreted program costs 10 ms."""
        if self.rule == "coupled" and (not self.one_hot or self.given):
            return False
        if self.ragged and (self.batch == 1 or self.length == 0):
            return False
        steps = 1 if self.rule == "rejection" else self.length + 1
        if self.form != "p":
            steps = self.length + 1 if self.one_hot else steps + 2 * self.length + 1
        return self.batch * steps * self.splits <= MOST_PROGRAMS

    @property
    def tile(self) -> int:
        """A tile that leaves some for every split, the last one cut."""
        return max(4, 1 << max(0, (self.width // self.splits).bit_length() - (1 if self.splits > 1 else 0)))


_VALUES: dict[str, tuple[Any, ...]] = {
    "rule": ("rejection", "block", "coupled"),
    "batch": (1, 3, 8),
    "length": (0, 1, 5, 7),
    "width": (5, 1000, 8193, 50257),
    "ragged": (False, True),
    "one_hot": (False, True),
    "form": ("p", "float32", "float16", "bfloat16"),
    "splits": (1, 2, 7),
    "strided": (False, True),
    "given": (False, True),
}


def grid() -> list[Case]:
    """Every valid case."""
    return [case for values in itertools.product(*_VALUES.values()) if (case := Case(*values)).valid]


def every() -> list[Case]:
    """Every valid shape, rule, dtype, kind of q and number of splits; strides and given uniforms take turns."""
    found: dict[tuple[Any, ...], list[Case]] = {}
    for case in grid():
        found.setdefault(tuple(getattr(case, field.name) for field in fields(case)[:-2]), []).append(case)
    return [cases[i % len(cases)] for i, cases in enumerate(found.values())]


def pairwise() -> list[Case]:
    """A small set in which every two values that can meet do meet: greedy, the same list each time."""
    pool = grid()
    random.Random(0).shuffle(pool)
    missing = {pair for case in pool for pair in _pairs(case)}
    chosen = []
    while missing:
        best = max(pool[:1500], key=lambda case: len(missing & _pairs(case)))
        if not missing & _pairs(best):
            best = next(case for case in pool if missing & _pairs(case))
        chosen.append(best)
        missing -= _pairs(best)
    return chosen


def _pairs(case: Case) -> set[tuple[int, Any, int, Any]]:
    values = [getattr(case, field.name) for field in fields(case)]
    return {(i, values[i], j, values[j]) for i, j in itertools.combinations(range(len(values)), 2)}


def tensors(case: Case, seed: int = 0) -> dict[str, Tensor | None]:
    """The tensors of a case: drafts from q, half of them likely to stand, rows behind the last draft full of NaN."""
    generator = torch.Generator().manual_seed(hash((case.batch, case.length, case.width, seed)) & 0xFFFF)
    batch, length, width = case.batch, case.length, case.width
    target = 2.0 * torch.randn(batch, length + 1, width, generator=generator)
    draft = target[:, :length] + 0.6 * torch.randn(batch, length, width, generator=generator)
    if case.form != "p" and width > 5:
        target[:, :, 3::5] = float("-inf")
        draft[:, :, 3::7] = float("-inf")
    drafts = draft.flatten(0, 1).argmax(-1).view(batch, length) if length else torch.zeros(batch, 0, dtype=torch.int64)
    if length and not case.one_hot:
        drafts = torch.multinomial(draft.flatten(0, 1).softmax(-1), 1, generator=generator).view(batch, length)
    temperature = torch.rand(batch, generator=generator) + 0.5
    if case.rule == "coupled" and length:
        drafts = target[:, :length].argmax(-1)
    if case.form == "p":
        target, draft = target.softmax(-1), draft.softmax(-1)
    else:
        target, draft = (x.to(getattr(torch, case.form)) for x in (target, draft))
    if case.ragged:
        for row in range(1, batch):
            size = (row * 2) % (length + 1)
            drafts[row, size:], draft[row, size:], target[row, size + 1 :] = -1, float("nan"), float("nan")
    if case.strided:
        target, draft = (x.transpose(0, 1).contiguous().transpose(0, 1) for x in (target, draft))
        wide = torch.full((batch, length, 2), 9)
        wide[..., 0] = drafts
        drafts = wide[..., 0]
    return {
        "drafts": drafts,
        "q": None if case.one_hot else draft,
        "p": target,
        "seeds": torch.randint(-(2**62), 2**62, (batch,), generator=generator),
        "positions": torch.randint(0, 2**40, (batch,), generator=generator),
        "uniforms": torch.rand(batch, length, generator=generator).clamp(1e-6, 1 - 1e-6) if case.given else None,
        "temperature": None if case.form == "p" else temperature,
    }
