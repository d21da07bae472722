"""A γ that follows from the past, and a draft that ends by what it holds, keep the target's law (float64, < 1e-12).

And the neighbours of that rule that do not: a drawn token taken back for its value, a look at the draws to come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach import faults
from specdec_teach.costs import Costs
from specdec_teach.drafters.base import Proposal
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.pacing import Fixed, Heuristic, Patience, Planning
from specdec_teach.planner import Planner
from specdec_teach.stream import Stream
from specdec_teach.working import Plan

from ..checks import P4, Q4, logs, product_law, same_law, tabular
from .test_law import chain_law, random_table

RULES = ("rejection", "block", "coupled")
TARGET, DRAFT = random_table(1, 3), random_table(2, 3)
CHEAP, DEAR = Costs({1: 1.0, 2: 1.05, 3: 1.35}, 0.1), Costs({1: 1.0, 9: 1.1}, 0.55)
JUMPY = {"most": 2, "prior": (0.6, 0.4), "memory": 0.2, "probe": 1}
PLANNINGS: dict[str, Planning] = {
    "cheap drafts": Planner(CHEAP, **JUMPY),  # type: ignore[arg-type]
    "dear drafts": Planner(DEAR, **JUMPY),  # type: ignore[arg-type]
    "rule of thumb": Heuristic(begin=1, most=2),
    "patience alone": Fixed(3, Patience((0.1, 0.6, 1.0), (0.5, 0.5))),
}


class Seen:
    """What the cycles of an enumeration were asked for, and what they drafted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.short = set[int](), 0
        honest = Stream.told

        def told(stream: Stream, plan: Plan, proposal: Proposal) -> None:
            self.asked.add(plan.gamma)
            self.short += len(proposal.tokens) < plan.gamma
            honest(stream, plan, proposal)

        monkeypatch.setattr(Stream, "told", told)


def planned(planning: Planning, rule: str = "rejection", mode: str = "sample") -> sd.Engine:
    engine = tabular(TARGET, DRAFT, 0, mode, rule)
    return engine.variant(planner=planning, pace="auto", gamma=planning.most)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7, "top_p": 0.8}], ids=str)
@pytest.mark.parametrize("mode", ["sample", "argmax"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PLANNINGS)
def test_a_planned_gamma_keeps_the_law(
    name: str, rule: str, mode: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tokens deep on a chain, with two γs on the way, or drafts that end early."""
    seen, sampling = Seen(monkeypatch), sd.Sampling(**settings)
    law = sd.exact_law(planned(PLANNINGS[name], rule, mode), [0], 3, sampling)
    same_law(law, chain_law(TARGET, sampling, 3))
    assert len(seen.asked) > 1 or name == "patience alone"
    assert (0 in seen.asked) == (name == "dear drafts")
    assert (seen.short > 0) == (name == "patience alone")


def test_the_rule_of_merging_is_needed() -> None:
    """The same committed tokens and caches with another outlook have another future: so it is part of the key."""
    engine = planned(PLANNINGS["cheap drafts"])
    one, other = (engine.stream([0], max_new_tokens=9) for _ in range(2))
    other.progress = replace(other.progress, outlook=other.progress.outlook.after(1, 1, False))
    assert one.sequence.tokens == other.sequence.tokens
    assert one.progress.outlook != other.progress.outlook
    assert one.next_gamma() != other.next_gamma()


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_taking_a_drawn_draft_back_is_not_exact(rule: str) -> None:
    """The trap beside early stopping: the residual counts on drafts that were taken back."""
    broken = faults.inject(tabular(logs(P4), logs(Q4), 2, verify=rule), "engine_q")
    law = sd.exact_law(broken, [0], 1)
    assert abs(law[(0,)] - P4[0]) > 0.01
    with pytest.raises(AssertionError):
        same_law(law, product_law(lambda prefix: P4, (0,), 1))


def test_ending_a_draft_by_the_next_token_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patience that reads one token ahead ends the draft before a token that was drawn already."""
    honest = ModelDrafter.propose

    def propose(self: ModelDrafter, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
        found = honest(self, sequences, counts, hidden)
        out = []
        for proposal in found:
            assert proposal.q_KV is not None
            likely = [bool(q_V[t] == q_V.max()) for q_V, t in zip(proposal.q_KV, proposal.tokens, strict=True)]
            kept = next((row for row, fine in enumerate(likely) if not fine), len(likely))
            out.append(Proposal(proposal.tokens[:kept], proposal.q_KV[:kept] if kept else None))
        return out

    monkeypatch.setattr(ModelDrafter, "propose", propose)
    with pytest.raises(AssertionError, match="differ"):
        same_law(sd.exact_law(tabular(logs(P4), logs(Q4), 2), [0], 1), product_law(lambda prefix: P4, (0,), 1))


def test_a_long_draft_with_patience_is_the_law_of_a_short_one() -> None:
    """Where the first token decides whether there is a second, both lengths happen in one law."""
    planning = Planner(CHEAP, most=2, prior=(3.0, 1.0))
    engine = tabular(logs(P4), logs(Q4), 0)
    law = sd.exact_law(engine.variant(planner=planning, pace="auto", gamma=2), [0], 3)
    same_law(law, product_law(lambda prefix: P4, (0,), 3))
