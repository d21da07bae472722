"""Views that call a real engine: the acceptance lab.

Invariant: a view gets functions and plain numbers; it never sees an engine, and draws no number itself.
It does not know how anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

from specdec_teach import views
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.laws import model_of
from specdec_teach.sampling import Sampling

__all__ = ["acceptance", "first_tokens"]


def acceptance(
    p: Items[float] = (0.6, 0.3, 0.1), q: Items[float] = (0.2, 0.5, 0.3), *, labels: Items[str] | None = None
) -> object:
    """Return the acceptance lab of two laws for a notebook: drag them, compare rules, let the engine draw.

    `p`: the target's probabilities, `q`: the draft's, both `[V]`. `labels`: names of the tokens.
    """
    return views.renderer().acceptance_lab(p, q, labels=labels, draws=first_tokens)


def first_tokens(p: Items[float], q: Items[float], first: int, count: int) -> list[int]:
    """Return the first token of `count` runs of an engine whose target has the law p and whose draft has q.

    The runs have the seeds `first`, `first + 1`, …; each is one cycle with γ = 1 under the rejection rule.

    >>> first_tokens([1.0, 0.0], [0.5, 0.5], 0, 3)
    [0, 0, 0]
    """
    engine = Engine(model_of(p), drafter=ModelDrafter(model_of(q)), gamma=1)
    seeds = [Sampling(seed=seed) for seed in range(first, first + count)]
    results = engine.generate([[0]] * count, seeds, max_new_tokens=2, trace=False)
    return [result.tokens[0] for result in results]
