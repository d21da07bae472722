"""What an engine refuses because its parts do not go together.

Invariant: a refusal says what was given, what is allowed and what to do; nothing is changed. It does not know how a
cycle goes.
"""

from __future__ import annotations

from specdec_kernels.errors import InvalidInput
from specdec_teach.asking import count
from specdec_teach.drafters.base import Branching, Drafter
from specdec_teach.hf import ModelRunner
from specdec_teach.rules import Rule
from specdec_teach.sampling import Sampling

__all__ = ["can_branch", "can_draft", "can_force"]

_ASKED = ("check", "reset", "propose", "commit", "pointer")


def can_draft(drafter: object) -> None:
    """Refuse what is no drafter: a name, a model by itself, a class that nobody has called."""
    if not isinstance(drafter, type) and all(callable(getattr(drafter, name, None)) for name in _ASKED):
        return
    given = f"the class {drafter.__name__}" if isinstance(drafter, type) else f"a {type(drafter).__name__}"
    raise InvalidInput(
        f"drafter= is {given}; give a drafter, such as ModelDrafter(model), NgramDrafter() or one of drafters_for(pair)"
    )


def can_branch(drafter: Drafter | None, rule: Rule, target: ModelRunner) -> None:
    """Refuse a drafter of trees under a rule, or over a target, that takes chains alone."""
    if not isinstance(drafter, Branching):
        return
    if not rule.branches:
        raise InvalidInput(
            f"the rule {rule.name} judges chains of drafts and the drafter {drafter.name} grows trees; "
            "use rejection or coupled, or a drafter of chains"
        )
    if not target.branches:
        raise InvalidInput(
            f"the drafter {drafter.name} grows trees and {type(target.model).__name__} cannot be told the shape of one "
            "(its forward takes no positions, keeps a state, or does not follow a mask); use a drafter of chains"
        )


def can_force(drafter: Drafter | None, reject_at: object, gamma: int, rule: Rule, sampling: Sampling) -> None:
    """Refuse a forced rejection that cannot happen."""
    at = count("reject_at", reject_at, 0, "the draft to reject, from 1, or 0 to accept all")
    if isinstance(drafter, Branching):
        raise InvalidInput(f"reject_at={at} names a draft of a chain and {drafter.name} grows trees; leave it out")
    if gamma == 0 or at > gamma:
        raise InvalidInput(f"reject_at={at} cannot happen with {gamma} drafts a cycle; raise gamma")
    if not (rule.by_number or sampling.greedy_now):
        raise InvalidInput(f"reject_at={at} cannot be forced under the rule {rule.name}; use rejection or block")
