"""What sets the rules apart: block accepts more, coupled says the same text, the lossy ones are lossy and say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import specdec_teach as sd
from specdec_teach.exact import gumbel_joint
from specdec_teach.noise import CounterNoise, CoupledNoise, StreamId

from ..checks import (
    P4,
    Q4,
    chi_square,
    expected_tokens,
    flags_and_counts,
    greedy_equals_plain,
    logs,
    product_law,
    tabular,
)

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def near_engine(rule: Any, gamma: int = 4) -> sd.Engine:
    """A target and a draft near it."""
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=gamma, verify=rule)


def test_block_accepts_at_least_as_much_on_sixty_pairs() -> None:
    """Exact expectations on random pairs, V = 3 and 4, γ = 2 and 3: 3.1 % more tokens a cycle on the average."""
    generator = torch.Generator().manual_seed(1)
    gains = []
    for run in range(60):
        width, gamma = 3 + run % 2, 2 + run % 4 // 3
        p, q = (torch.randn(width, width, generator=generator, dtype=torch.float64) * 1.5 for _ in range(2))
        plain, block = (expected_tokens(tabular(p, q, gamma, "sample", rule)) for rule in ("rejection", "block"))
        gains.append(block / plain - 1)
    assert min(gains) > -1e-12
    assert sum(gain > 1e-6 for gain in gains) == 60
    assert [round(100 * gain, 1) for gain in (min(gains), sum(gains) / len(gains), max(gains))] == [0.0, 3.1, 12.3]


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_seeded_runs_follow_the_law_across_cycles(rule: str) -> None:
    """Three tokens, γ = 2, one seed a run."""
    right = product_law(lambda prefix: P4, (0,), 3)
    engine = tabular(logs(P4), logs(Q4), 2, "sample", rule)
    assert chi_square(engine, right, 3, 3000, lambda seed: sd.Sampling(seed=seed)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("reused", [False, True])
def test_a_number_used_twice_breaks_block_across_cycles(reused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """40,000 seeded runs, γ = 3: fresh numbers follow the law, numbers met again after a rejection do not.

    Enumeration with fresh choices cannot see this; only real numbers over several cycles can.
    """
    if reused:
        monkeypatch.setattr("specdec_teach.rules.block.Block.by_position", True)
        monkeypatch.setattr("specdec_teach.parts.CoupledNoise", CounterNoise)
    right = product_law(lambda prefix: P4, (0,), 3)
    engine = tabular(logs(P4), logs(Q4), 3, "sample", "block")
    value = chi_square(engine, right, 3, 40_000, lambda seed: sd.Sampling(seed=seed))
    assert value < 1e-6 if reused else value > 1e-3


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_greedy_and_counts_under_every_exact_rule(rule: str) -> None:
    """Speculation changes no greedy token, forced patterns included."""
    greedy_equals_plain(near_engine(rule), [[1, 2, 3], [9]])
    greedy_equals_plain(near_engine(rule), [[1, 2, 3]], reject_at=2)
    for seed in range(4):
        result = near_engine(rule).generate([1, 2], sd.Sampling(seed=seed), max_new_tokens=24)
        flags_and_counts(result)
        assert result.trace is not None
        assert result.trace.meta.lossless


@pytest.mark.parametrize("rule", ["rejection", "block", "synthetic"])
@pytest.mark.parametrize("position", range(5))
def test_forced_patterns_under_every_rule_that_judges_by_numbers(rule: str, position: int) -> None:
    """A rejection at each draft, and none: near, far and self drafts, sampled; with penalties, greedy."""
    drafts = (NEAR, TARGET, sd.testing.tiny_llama(seed=9), sd.testing.tiny_llama(noise=0.01))
    for seed, draft in enumerate(drafts):
        engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(draft), gamma=4, verify=rule)
        for sampling in (
            sd.Sampling(seed=seed),
            sd.Sampling(temperature=0, repetition_penalty=2.0, frequency_penalty=1.0),
        ):
            if rule == "synthetic" and sampling.greedy_now:
                continue
            result = engine.generate([1, 2], sampling, max_new_tokens=20, reject_at=position)
            assert result.trace is not None
            for cycle in result.trace.cycles:
                drafted = len(cycle.proposed)
                assert cycle.accepted == min(drafted, position - 1 if position else drafted)


def test_block_never_accepts_what_the_target_excludes() -> None:
    """A script with q = 0 behind an impossible draft does not make up for it."""
    target = sd.testing.TabularLM([0.0, 0.0, -torch.inf, -torch.inf])
    q = [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    engine = sd.Engine(target, drafter=sd.ScriptedDrafter([2, 1], q), gamma=2, verify="block")
    assert set(engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6).tokens) <= {0, 1}


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.7])
def test_coupled_says_the_same_with_and_without_speculation(temperature: float) -> None:
    """50 seeds at each temperature (200 in all), γ 1 … 6: identical text, sampled and argmax drafts."""
    plain = sd.Engine(TARGET, verify="coupled")
    for seed in range(50):
        sampling = sd.Sampling(temperature=temperature, seed=seed)
        engine = sd.Engine(
            TARGET,
            drafter=sd.ModelDrafter(NEAR, "argmax" if seed % 3 == 0 else "sample"),
            gamma=1 + seed % 6,
            verify="coupled",
        )
        fast = engine.generate([seed % 64, 5], sampling, max_new_tokens=16, trace=False)
        assert fast.tokens == plain.generate([seed % 64, 5], sampling, max_new_tokens=16, trace=False).tokens


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.7])
def test_coupled_in_full(temperature: float) -> None:
    """200 seeds for each γ from 1 to 6."""
    plain = sd.Engine(TARGET, verify="coupled")
    for seed in range(200):
        sampling = sd.Sampling(temperature=temperature, seed=seed)
        right = plain.generate([seed % 64, 5], sampling, max_new_tokens=12, trace=False).tokens
        for gamma in range(1, 7):
            engine = near_engine("coupled", gamma)
            assert engine.generate([seed % 64, 5], sampling, max_new_tokens=12, trace=False).tokens == right


def test_the_other_rules_do_not_promise_that() -> None:
    """Under the standard rule equal seeds give other texts with and without speculation, on some seed at least."""
    engine = near_engine("rejection")
    same = [
        engine.generate([1], sd.Sampling(seed=seed), max_new_tokens=16).tokens
        == engine.generate([1], sd.Sampling(seed=seed), max_new_tokens=16, speculate=False).tokens
        for seed in range(5)
    ]
    assert not all(same)


def test_coupled_noise_is_gumbel_and_shared() -> None:
    """The choice follows the weights; the joint law of two choices is the closed form."""
    p, q = torch.tensor(P4), torch.tensor(Q4)
    runs = 20_000
    counts = np.zeros((4, 4))
    for position in range(runs):
        noise = CoupledNoise(5)
        counts[noise.draw(StreamId.TOKEN, position, p), noise.draw(StreamId.DRAFT, position, q)] += 1
    right = np.array([[gumbel_joint(P4, Q4, a, b) for b in range(4)] for a in range(4)])
    assert right.sum(1) == pytest.approx(P4, abs=1e-15)
    assert right.sum(0) == pytest.approx(Q4, abs=1e-15)
    assert np.abs(counts / runs - right).max() < 5 * 0.5 / np.sqrt(runs)
    tv = 0.45
    assert (1 - tv) / (1 + tv) <= np.trace(right) <= 1 - tv


def test_acceptance_of_coupled_is_below_the_overlap_for_sampled_drafts() -> None:
    """Sharing noise costs acceptance against the standard rule, never below (1 − TV)/(1 + TV)."""
    coupled = expected_tokens(tabular(logs(P4), logs(Q4), 1, "sample", "coupled")) - 1
    standard = expected_tokens(tabular(logs(P4), logs(Q4), 1)) - 1
    assert standard == pytest.approx(0.55, abs=1e-12)
    assert 0.55 / 1.45 <= coupled < standard


LOSSY: list[tuple[Any, dict[int, float]]] = [
    # accept y iff p(y) ≥ .25, else draw from p: q on {0, 1}, and the rest of q's mass spread as p
    (sd.rules.Threshold(0.25), {0: 0.1 + 0.75 * 0.4, 1: 0.15 + 0.75 * 0.3, 2: 0.75 * 0.2, 3: 0.75 * 0.1}),
    # half of the drafts stand whatever they are
    (sd.rules.Synthetic(0.5), {0: 0.05 + 0.2, 1: 0.075 + 0.15, 2: 0.125 + 0.1, 3: 0.25 + 0.05}),
    # H(p) = 1.28, so the bar is min(.3, .9 · e^−1.28 = .25): tokens 0 and 1 stand
    (sd.rules.Typical(0.3, 0.9), {0: 0.1 + 0.75 * 0.4, 1: 0.15 + 0.75 * 0.3, 2: 0.75 * 0.2, 3: 0.75 * 0.1}),
]


@pytest.mark.parametrize(("rule", "law"), LOSSY, ids=lambda value: getattr(value, "name", ""))
def test_lossy_rules_do_what_they_say_and_say_that_they_are_lossy(rule: Any, law: dict[int, float]) -> None:
    """Their exact law, which is not p; the trace is marked; plain decoding with the same engine is not."""
    engine = tabular(logs(P4), logs(Q4), 1, "sample", rule)
    found = sd.exact_law(engine, [0], 1)
    assert {token: found[(token,)] for token in range(4)} == pytest.approx(law, abs=1e-12)
    result = engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6)
    assert result.trace is not None
    assert not result.trace.meta.lossless
    assert "not lossless" in result.trace.to_table()
    plain = engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6, speculate=False)
    assert plain.trace is not None
    assert plain.trace.meta.lossless


@pytest.mark.parametrize(
    "make", [lambda: sd.rules.Threshold(2.0), lambda: sd.rules.Typical(-1), lambda: sd.rules.Synthetic("x")]
)  # type: ignore[arg-type]
def test_parameters_are_checked(make: Any) -> None:
    """Numbers from 0 to 1."""
    with pytest.raises(sd.InvalidInput, match="from 0 to 1"):
        make()


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled", "typical", "threshold", "synthetic"])
def test_the_trace_says_what_the_last_token_was_drawn_from(rule: str) -> None:
    """A correction comes from the residual under the rules that have one, from p under the others; a bonus from p."""
    result = near_engine(rule).generate([1, 2], sd.Sampling(seed=5), max_new_tokens=24)
    assert result.trace is not None
    kinds = {(cycle.last_kind, cycle.last_from) for cycle in result.trace.cycles}
    correction = "residual" if rule in ("rejection", "block") else "p"
    assert kinds <= {("bonus", "p"), ("correction", correction)}
    assert ("correction", correction) in kinds


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_an_empty_residual_falls_back_to_p_and_is_counted(rule: str) -> None:
    """A q above p everywhere (not normalised) leaves nothing over: the token comes from p, and the count says so."""
    target = sd.testing.TabularLM([0.0, 0.0, 0.0, 0.0])
    engine = sd.Engine(target, drafter=sd.ScriptedDrafter([1] * 30, [0.9] * 4), gamma=1, verify=rule)
    result = engine.generate([0], sd.Sampling(seed=2), max_new_tokens=30)
    assert result.trace is not None
    corrections = [cycle for cycle in result.trace.cycles if cycle.last_kind == "correction"]
    assert corrections
    assert all(cycle.degenerate_residual and cycle.last_from == "p" for cycle in corrections)
    assert result.stats.degenerate == len(corrections)


def test_block_in_the_trace() -> None:
    """Its own chances and residuals: the draft that falls has u at or above its chance, and a scaled residual."""
    for seed in range(12):
        result = near_engine("block").generate([1, 2], sd.Sampling(seed=seed), max_new_tokens=30)
        assert result.trace is not None
        for cycle in result.trace.cycles:
            if cycle.last_kind == "correction":
                rejected = cycle.decisions[cycle.accepted]
                assert rejected.u is not None
                assert rejected.accept_probability is not None
                assert rejected.u >= rejected.accept_probability
                assert cycle.last_top is not None
                assert dict(cycle.last_top.tokens) == pytest.approx(dict(rejected.residual_top.tokens), abs=1e-5)
