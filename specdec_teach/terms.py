"""The terms of a request: whether its text follows the target, and how its record describes it.

Invariant: nothing here changes an engine or a request. It does not know how a cycle goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from specdec_teach.drafters.base import Branching, Drafter, features_of
from specdec_teach.rules import Rule
from specdec_teach.rules.kernel import ByKernel
from specdec_teach.sampling import Sampling
from specdec_teach.trace import SCHEMA_VERSION, Meta

if TYPE_CHECKING:
    from specdec_teach.engine import Engine

__all__ = ["describe", "why_lossy"]


def why_lossy(rule: Rule, drafter: Drafter | None, reject_at: int | None) -> str:
    """Say why a run does not follow the target."""
    if not rule.lossless:
        why = f"the rule {rule.name} does not follow the target; use rejection, block or coupled"
    elif reject_at is not None:
        why = f"reject_at={reject_at} forces a pattern that is no sample; leave it out"
    else:
        name = drafter.name if drafter is not None else "none"
        why = f"the drafter {name} does not draw from the q it reports; use another, or one-hot drafts"
    return f"lossless=True was asked for, and {why}"


def describe(
    engine: Engine,
    sampling: Sampling,
    *,
    gamma: int,
    planner: str | None,
    seed: int,
    max_new_tokens: int,
    drafter: Drafter | None,
    reject_at: int | None,
    cache: str,
    eos: frozenset[int],
) -> Meta:
    """Return the head of a request's record."""
    target, rule = engine.target_runner, engine.rule
    names, revisions = {"target": target.name}, {"target": target.revision}
    if drafter is not None and drafter.model_name is not None:
        names["draft"], revisions["draft"] = drafter.model_name, drafter.revision or "unknown"
    return Meta(
        schema_version=SCHEMA_VERSION,
        models=names,
        revisions=revisions,
        drafter=drafter.name if drafter is not None else None,
        dtype=target.dtype,
        decoder=target.decoder,
        vocab=target.vocab,
        sampling=sampling.to_plain(),
        gamma=gamma,
        verify=rule.name,
        cache=cache,
        seed=seed,
        speculate=drafter is not None,
        max_new_tokens=max_new_tokens,
        lossless=drafter is None or _is_lossless(rule, drafter, sampling, reject_at),
        forced=reject_at,
        backend=rule.backend if isinstance(rule, ByKernel) else "torch",
        eos=tuple(sorted(eos)),
        planner=planner,
        features=features_of(drafter) if drafter is not None else (),
        trees=isinstance(drafter, Branching),
    )


def _is_lossless(rule: Rule, drafter: Drafter, sampling: Sampling, reject_at: int | None) -> bool:
    """Whether the emitted text follows the target: greedy and coupled text does so whatever is drafted."""
    whatever = sampling.greedy_now or rule.by_position
    return rule.lossless and (whatever or (drafter.exact and reject_at is None))
