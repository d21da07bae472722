"""What verification does to a law, worked out by running the reference on every draft and every cell of its numbers.

A rule uses numbers u₁ … u_K only through comparisons with thresholds. This module computes the thresholds from p and q
by the papers' formulas, cuts the cube of numbers at them, and runs the code under test once in each cell.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specdec_kernels import reference
from specdec_kernels.verify import verify_chain

Array = NDArray[np.float64]
EDGE = 1e-6


@dataclass(frozen=True)
class Models:
    """Conditional laws of a target and a draft: one row for each prefix of up to K tokens."""

    target: dict[tuple[int, ...], Array]
    draft: dict[tuple[int, ...], Array]
    width: int
    length: int
    one_hot: bool

    @classmethod
    def random(cls, seed: int, width: int, length: int, one_hot: bool = False, sharpness: float = 1.5) -> Models:
        rng = np.random.default_rng(seed)
        prefixes = [p for n in range(length + 1) for p in itertools.product(range(width), repeat=n)]
        target = {prefix: _softmax(sharpness * rng.normal(size=width)) for prefix in prefixes}
        if one_hot:
            draft = {prefix: np.eye(width)[rng.integers(width)] for prefix in prefixes}
        else:
            draft = {prefix: _softmax(sharpness * rng.normal(size=width)) for prefix in prefixes}
        return cls(target, draft, width, length, one_hot)

    @classmethod
    def constant(cls, p: list[float], q: list[float], length: int) -> Models:
        prefixes = [x for n in range(length + 1) for x in itertools.product(range(len(p)), repeat=n)]
        one_hot = max(q) == 1.0
        return cls({x: np.array(p) for x in prefixes}, {x: np.array(q) for x in prefixes}, len(p), length, one_hot)

    def blocks(self) -> list[tuple[tuple[int, ...], float]]:
        """Every draft of K tokens and its probability."""
        found = []
        for block in itertools.product(range(self.width), repeat=self.length):
            chance = float(np.prod([self.draft[block[:i]][block[i]] for i in range(self.length)]))
            if chance > 0:
                found.append((block, chance))
        return found

    def rows(self, blocks: list[tuple[int, ...]]) -> tuple[Tensor, Tensor | None, Tensor]:
        """Tokens, q and p of a batch of drafts, in float64."""
        p = np.array([[self.target[b[:i]] for i in range(self.length + 1)] for b in blocks])
        q = np.array([[self.draft[b[:i]] for i in range(self.length)] for b in blocks])
        return torch.tensor(blocks), None if self.one_hot else torch.tensor(q), torch.tensor(p)


def thresholds(models: Models, block: tuple[int, ...], rule: str) -> list[float]:
    """For each draft the number below which the rule says yes, by the papers' formulas."""
    ratios = [models.target[block[:i]][block[i]] / models.draft[block[:i]][block[i]] for i in range(len(block))]
    if rule == "rejection":
        return [min(1.0, ratio) for ratio in ratios]
    weight, found = 1.0, []
    for i, ratio in enumerate(ratios, 1):
        weight = min(1.0, weight * ratio)
        if i == len(block):
            found.append(weight)
        else:
            rest = np.maximum(weight * models.target[block[:i]] - models.draft[block[:i]], 0.0).sum()
            found.append(rest / (rest + 1.0 - weight) if rest + 1.0 - weight > 0 else 0.0)
    return found


def outcomes(models: Models, rule: str) -> list[tuple[tuple[int, ...], int, float, Array]]:
    """Every (draft, accepted, probability, law of the token that follows), from the code under test.

    Each cell is run in its middle and close to its walls: a wrong threshold changes an answer there.
    """
    cells: list[tuple[tuple[int, ...], float, list[list[float]]]] = []
    for block, chance in models.blocks():
        sides = []
        for wall in thresholds(models, block, rule):
            low = [(wall, [wall / 2, wall - EDGE, EDGE / 2])] if wall > EDGE else []
            high = [(1 - wall, [(1 + wall) / 2, wall + EDGE, 1 - EDGE / 2])] if wall < 1 - EDGE else []
            sides.append(low + high)
        for cell in itertools.product(*sides):
            measure = float(np.prod([side[0] for side in cell]))
            cells.append((block, chance * measure, [[side[1][j] for side in cell] for j in range(3)]))
    answers = [_run(models, [c[0] for c in cells], [c[2][j] for c in cells], rule) for j in range(3)]
    for accepted, law in answers[1:]:
        assert torch.equal(accepted, answers[0][0]), "an answer changes inside a cell: a threshold is not the paper's"
        torch.testing.assert_close(law, answers[0][1], rtol=0, atol=0)
    accepted, law = answers[0]
    return [(c[0], int(n), c[1], row) for c, n, row in zip(cells, accepted, law.numpy(), strict=True)]


def emitted_law(models: Models, rule: str) -> dict[tuple[int, ...], float]:
    """The law of the first K + 1 tokens: those that one cycle emits, then the target's own."""
    law: dict[tuple[int, ...], float] = {}
    for block, accepted, chance, follows in outcomes(models, rule):
        for token in range(models.width):
            if chance * follows[token] > 0:
                prefix = (*block[:accepted], token)
                law[prefix] = law.get(prefix, 0.0) + chance * float(follows[token])
    return _continued(models, law)


def target_law(models: Models) -> dict[tuple[int, ...], float]:
    """The law of the target's first K + 1 tokens."""
    return _continued(models, {(): 1.0})


def expected_accepted(models: Models, rule: str) -> float:
    """The expected number of accepted drafts, exactly."""
    return sum(chance * accepted for _, accepted, chance, _ in outcomes(models, rule))


def _continued(models: Models, law: dict[tuple[int, ...], float]) -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for prefix, chance in law.items():
        for rest in itertools.product(range(models.width), repeat=models.length + 1 - len(prefix)):
            tokens = prefix + rest
            steps = [models.target[tokens[:i]][tokens[i]] for i in range(len(prefix), len(tokens))]
            found[tokens] = found.get(tokens, 0.0) + chance * float(np.prod(steps))
    return found


def _run(models: Models, blocks: list[tuple[int, ...]], numbers: list[list[float]], rule: str) -> tuple[Tensor, Tensor]:
    """Accepted counts from the public function, and the normalised weights that its draw is given."""
    drafts, q, p = models.rows(blocks)
    zeros = torch.zeros(len(blocks), dtype=torch.int64)
    uniforms = torch.tensor(numbers, dtype=torch.float32)
    caught: list[tuple[Tensor, Tensor]] = []
    draw = reference.race.draw

    def spy(rest_BV: Tensor, p_BV: Tensor, times_BV: Tensor) -> tuple[Tensor, Tensor]:
        caught.append((rest_BV, p_BV))
        return draw(rest_BV, p_BV, times_BV)

    reference.race.draw = spy  # type: ignore[attr-defined]
    try:
        verdict = verify_chain(drafts, q, p, seeds=zeros, positions=zeros, uniforms=uniforms, rule=rule)
    finally:
        reference.race.draw = draw  # type: ignore[attr-defined]
    [(rest, row)] = caught
    weights = torch.where((rest > 0).any(-1, keepdim=True), rest, row)
    return verdict.accepted, weights / weights.sum(-1, keepdim=True)


def _softmax(x: Array) -> Array:
    weights = np.exp(x - x.max())
    return np.asarray(weights / weights.sum())
