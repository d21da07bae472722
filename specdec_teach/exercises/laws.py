"""Exact laws of what the real engine emits, also with a rule that a learner wrote.

Invariant: a learner's rule decides two things only, the chance that a draft stands and what a correction is drawn from;
the rest is the engine's. Such a rule is never called lossless. It does not know any lesson.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from typing import final

import torch

from specdec_teach.drafters.base import Drafter, Proposal
from specdec_teach.engine import Engine
from specdec_teach.exact import exact_law
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow
from specdec_teach.sampling import Sampling
from specdec_teach.testing import TabularLM

__all__ = ["Chance", "Correction", "engine_with", "first_token", "model_of"]

Chance = Callable[[list[float], list[float], int], float]
Correction = Callable[[list[float], list[float], int], Items[float]]


def model_of(law: Items[float]) -> TabularLM:
    """Return a model that gives the next token the probabilities `law` [V], whatever came before.

    >>> model_of([0.5, 0.25, 0.25])(input_ids=torch.tensor([[0]])).logits.exp().tolist()
    [[[0.5, 0.25, 0.25]]]
    """
    return TabularLM(torch.tensor(law, dtype=torch.float64).log())


def first_token(engine: Engine, sampling: Sampling = Sampling()) -> list[float]:  # noqa: B008 (frozen)
    """Return the exact probability of each id as the first new token, every random choice enumerated.

    >>> from specdec_teach.drafters.model import ModelDrafter
    >>> engine = Engine(model_of([0.6, 0.3, 0.1]), drafter=ModelDrafter(model_of([0.2, 0.5, 0.3])), gamma=1)
    >>> [round(chance, 12) for chance in first_token(engine)]
    [0.6, 0.3, 0.1]
    """
    law = exact_law(engine, [0], 1, sampling)
    return [law.get((token,), 0.0) for token in range(engine.target_runner.vocab)]


@final
class _TwoFunctions:
    """A rule made of two functions of a row: the chance that the draft stands, and the weights of a correction."""

    name = "learner's"
    lossless = False
    by_number = True
    by_position = False
    branches = False

    def __init__(self, chance: Chance, correction: Correction) -> None:
        self._chance, self._correction = chance, correction

    def judge(self, proposal: Proposal, p_RV: torch.Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        rows, count = Rows(proposal, p_RV), len(proposal.tokens)
        accepted, law_V = 0, p_RV[0]
        uniforms: list[float | None] = []
        chances: list[float | None] = []
        while accepted < count:
            token, p = proposal.tokens[accepted], p_RV[accepted].tolist()
            q_V = rows.q_V(accepted)
            q = [float(other == token) for other in range(len(p))] if q_V is None else q_V.tolist()
            chances.append(self._chance(p, q, token))
            stands, u = noise.accepts(first + accepted, float(chances[-1] or 0.0), 1.0)
            uniforms.append(u)
            if not stands:
                law_V = torch.as_tensor(self._correction(p, q, token), dtype=p_RV.dtype)
                break
            accepted += 1
            law_V = p_RV[accepted]
        last = follow(noise, first + accepted, law_V, accepted)
        ones = (1.0,) * count
        return Verdict(accepted, last, law_V, rows.p, rows.q, tuple(uniforms), tuple(chances), ones)


def engine_with(target: object, drafter: Drafter, chance: Chance, correction: Correction, *, gamma: int = 1) -> Engine:
    """Return an engine whose rule is two functions (p, q, draft): the chance it stands, a correction's weights.

    `p` and `q` are the processed distributions of the row as lists; q is one-hot for a draft that was certain.
    """
    engine = Engine(target, drafter=drafter, gamma=gamma)
    engine.rule = _TwoFunctions(chance, correction)
    return engine
