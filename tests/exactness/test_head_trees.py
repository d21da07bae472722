"""With trees over heads the engine emits the target's own law: every random choice enumerated in float64 (< 1e-12).

Under coupled verification a tree's text is the plain text draw for draw (`tests.engine.test_head_trees`).
"""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd

from ..checks import same_law
from ..heads import FEATURES, head_for
from .test_heads import PROMPT, TARGET, own_law

HOW: dict[str, dict[str, Any]] = {
    "siblings": {"shape": (3,)},
    "fixed": {"shape": (2, 1)},
    "certain": {"shape": (2, 1), "mode": "top"},
    "by chance": {"budget": 4, "beam": 2, "depth": 2},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", ["head3", "medusa"])
def test_the_law_is_the_targets(kind: str, how: str) -> None:
    the_law(kind, HOW[how], sd.Sampling(eos_token_id=None), 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FEATURES)
def test_three_tokens(kind: str) -> None:
    """A second and a third cycle behind the path that was kept."""
    the_law(kind, HOW["fixed"], sd.Sampling(eos_token_id=None), 3)


@pytest.mark.parametrize("kind", ["head3", "medusa"])
def test_filters_and_a_temperature(kind: str) -> None:
    the_law(kind, HOW["fixed"], sd.Sampling(temperature=0.7, top_k=3, eos_token_id=None), 2)


def the_law(kind: str, how: dict[str, Any], sampling: sd.Sampling, count: int) -> None:
    drafter = sd.TreeDrafter(head_for(TARGET, kind), **how)
    law = sd.exact_law(sd.Engine(TARGET, drafter=drafter, gamma=2), PROMPT, count, sampling)
    same_law(law, own_law(sampling, count))
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["head3", "medusa"])
def test_another_q_than_was_drawn_from_breaks_the_law(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof can fail: a tree that reports another distribution than it drew from is seen."""
    drafter, sampling = sd.TreeDrafter(head_for(TARGET, kind), (2,)), sd.Sampling(eos_token_id=None)
    honest = drafter.propose

    def lies(sequences: Any, counts: Any, hidden: Any = None) -> list[sd.Proposal]:
        return [
            one if one.q_KV is None else sd.Proposal(one.tokens, one.q_KV.flip(-1), one.parents, one.reach)
            for one in honest(sequences, counts)
        ]

    monkeypatch.setattr(drafter, "propose", lies)
    with pytest.raises(AssertionError):
        same_law(sd.exact_law(sd.Engine(TARGET, drafter=drafter, gamma=1), PROMPT, 1, sampling), own_law(sampling, 1))
