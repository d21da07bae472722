"""Properties that hold for any models, any settings and any drafts (Hypothesis)."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach.policy import processed

from ..checks import flags_and_counts

WIDTH = 5
LOGIT = st.floats(-6, 6) | st.just(-float("inf"))
ROW = st.lists(LOGIT, min_size=WIDTH, max_size=WIDTH).filter(lambda row: max(row) > -float("inf"))
TABLE = st.lists(ROW, min_size=WIDTH, max_size=WIDTH)
SAMPLING = st.builds(
    sd.Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.9]),
    top_k=st.integers(0, WIDTH),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.2]),
    eos_token_id=st.sampled_from([None, 0, (1, 3)]),
    seed=st.integers(0, 2**64 - 1),
)
RULE = st.sampled_from(["rejection", "block", "coupled"])
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def make(target: Any, draft: Any, rule: str, gamma: int, mode: str) -> sd.Engine:
    """An engine over two tables."""
    drafter = sd.ModelDrafter(sd.testing.TabularLM(draft), mode)  # type: ignore[arg-type]
    return sd.Engine(sd.testing.TabularLM(target), drafter=drafter, gamma=gamma, verify=rule)


@MANY
@given(TABLE, TABLE, SAMPLING, RULE, st.integers(0, 4), st.sampled_from(["sample", "argmax"]), st.integers(1, 12))
def test_what_is_emitted_is_possible_and_counted(
    target: Any, draft: Any, sampling: sd.Sampling, rule: str, gamma: int, mode: str, cap: int
) -> None:
    """No id with p = 0, flags 1…10…0, counts that add up, nothing behind an end, the same again with neighbours."""
    engine = make(target, draft, rule, gamma, mode)
    result = engine.generate([2], sampling, max_new_tokens=cap)
    flags_and_counts(result)
    p_RV = processed(torch.tensor(target, dtype=torch.float64), sampling)
    last = 2
    for token in result.tokens:
        assert p_RV[last, token] > 0
        last = token
    ends = set(sampling.eos_ids)
    assert not ends & set(result.tokens[:-1])
    assert (result.finish_reason == "eos") == bool(ends & set(result.tokens[-1:]))
    assert len(result.tokens) <= cap
    rows = engine.generate([[4], [2], [0]], sampling, max_new_tokens=cap, trace=False)
    assert rows[1].tokens == result.tokens


@MANY
@given(TABLE, st.lists(st.integers(0, WIDTH - 1), max_size=12), SAMPLING, RULE, st.integers(1, 4))
def test_any_script_can_be_judged(target: Any, script: list[int], sampling: sd.Sampling, rule: str, gamma: int) -> None:
    """Certain drafts of any kind, impossible ones included; greedy text is the plain text."""
    engine = sd.Engine(sd.testing.TabularLM(target), drafter=sd.ScriptedDrafter(script), gamma=gamma, verify=rule)
    result = engine.generate([2], sampling, max_new_tokens=10)
    flags_and_counts(result)
    if sampling.greedy_now or rule == "coupled":
        assert result.tokens == engine.generate([2], sampling, max_new_tokens=10, speculate=False).tokens


@MANY
@given(TABLE, TABLE, SAMPLING, RULE, st.integers(1, 4), st.integers(0, 4))
def test_forced_patterns_happen(target: Any, draft: Any, sampling: sd.Sampling, rule: str, gamma: int, at: int) -> None:
    """Where the target has two possible tokens, any pattern can be forced under the rules that judge by a number."""
    p_RV = processed(torch.tensor(target, dtype=torch.float64), sampling)
    if at > gamma or rule == "coupled" or (not sampling.greedy_now and bool(((p_RV > 0).sum(-1) < 2).any())):
        return
    result = make(target, draft, rule, gamma, "sample").generate([2], sampling, max_new_tokens=12, reject_at=at)
    assert result.trace is not None
    for cycle in result.trace.cycles:
        if not cycle.stop_cut and cycle.last_kind != "none":
            drafted = len(cycle.proposed)
            assert cycle.accepted == min(drafted, at - 1 if at else drafted)
