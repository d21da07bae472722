"""What a planner counts, what it asks for, and that nothing of it outlives a request; costs are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import specdec_teach as sd
from specdec_kernels.errors import InvalidInput
from specdec_teach.costs import Costs
from specdec_teach.pacing import Fixed, Heuristic, Patience
from specdec_teach.planner import Planner, expected_tokens
from specdec_teach.trace import Seconds

FLAT = Costs({1: 1.0, 16: 1.0}, 0.05)
TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
FREE = sd.Sampling(temperature=0.8, seed=4, eos_token_id=None)


def engine_with(planner: Any, gamma: str = "auto", **more: Any) -> sd.Engine:
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=gamma, planner=planner, **more)


def cycles_of(result: sd.Result) -> list[Any]:
    assert result.trace is not None
    return [replace(cycle, seconds=Seconds(0.0, 0.0, 0.0, 0.0)) for cycle in result.trace.cycles]


@pytest.mark.parametrize(
    ("alpha", "c", "best", "speed"), [(0.8, 0.05, 8, 3.09), (0.7, 0.1, 4, 1.98), (0.5, 0.4, 1, 1.07)]
)
def test_the_best_gamma(alpha: float, c: float, best: int, speed: float) -> None:
    """Three cases worked out on paper, with v = 1."""
    planner = Planner(Costs({1: 1.0}, c), most=16)
    assert planner.best(alpha) == best
    assert expected_tokens(alpha, best) / (1 + best * c) == pytest.approx(speed, abs=0.005)


def test_a_draft_is_priced_by_its_length() -> None:
    """Four guesses that cost as much as one are worth making where four single steps would not be."""
    at_once, step = {1: 0.35, 4: 0.36}, 0.36 / 4
    assert Planner(Costs({1: 1.0}, step, at_once), most=4).best(0.5) == 4
    assert Planner(Costs({1: 1.0}, 0.36), most=4).best(0.5) == 1
    assert Planner(Costs({1: 1.0}, step, at_once), most=4).best(0.3) == 4


def test_drafts_that_cannot_pay() -> None:
    """α < c: γ = 0; and where even α = 1 would not pay, nothing is ever drafted."""
    assert Planner(Costs({1: 1.0}, 0.6)).best(0.5) == 0
    hopeless = Planner(Costs({1: 1.0}, 1.5), probe=1).start()
    for _ in range(50):
        assert hopeless.gamma == 0
        hopeless = hopeless.after(0, 0, False)


@pytest.mark.parametrize(
    ("drafted", "accepted", "cut", "hits", "misses"),
    [(4, 4, False, 4, 0), (4, 2, False, 2, 1), (4, 0, False, 0, 1), (4, 2, True, 2, 0), (4, 0, True, 0, 0)],
)
def test_the_censored_estimate(drafted: int, accepted: int, cut: bool, hits: int, misses: int) -> None:
    """k of K: k successes, one failure if k < K; what a stop cut counts for nothing."""
    after = Planner(FLAT, prior=(2.0, 1.0)).start().after(drafted, accepted, cut)
    assert (sum(after.hits), sum(after.misses)) == (hits, misses)
    assert after.alpha == pytest.approx((2 + hits) / (3 + hits + misses))


def test_the_estimate_finds_alpha() -> None:
    """Runs as frequent as α = .75 makes them: hits and misses stand 3 to 1; counting all drafts they would not."""
    estimate = Planner(FLAT, memory=1.0).start()
    for accepted, times in ((0, 64), (1, 48), (2, 36), (3, 27), (4, 81)):
        for _ in range(times):
            estimate = estimate.after(4, accepted, False)
    assert estimate.alpha == pytest.approx(0.75, abs=0.001)


def test_it_forgets_gently() -> None:
    start = Planner(FLAT, memory=0.5).start()
    assert sum(start.after(2, 2, False).after(1, 0, False).hits) == 1.0


def test_a_pause_without_drafts_and_its_probes() -> None:
    """After 3 idle cycles one draft; the wait doubles as they fail, up to 48; one that stands is followed up."""
    planner = Planner(Costs({1: 1.0}, 0.6), probe=3)
    outlook, asked = planner.start(), []
    for _ in range(240):
        gamma = outlook.gamma
        asked.append(gamma)
        outlook = outlook.after(gamma, 0, False)
    idle = "".join(map(str, asked)).split("1")
    assert [len(part) for part in idle if part][:7] == [3, 6, 12, 24, 48, 48, 48]
    while outlook.gamma == 0:
        outlook = outlook.after(0, 0, False)
    for _ in range(12):
        assert outlook.gamma > 0
        outlook = outlook.after(outlook.gamma, outlook.gamma, False)
    assert planner.best(outlook.alpha) > 0


def test_catching_up_is_counted_in_chunks() -> None:
    """A draft model that lags by two chunks costs two more steps before its first draft."""
    planner = Planner(Costs({1: 1.0}, 0.4), chunk=16)
    assert planner.best(0.6) == planner.best(0.6, 15) == 1
    assert planner.best(0.6, 32) == 0


def test_patience() -> None:
    """The draft ends where survival falls below what the next draft has to pay for."""
    patience = Patience((0.4, 0.7, 1.0), (0.6, 0.5))
    assert patience.goes_on([0.95])
    assert not patience.goes_on([0.2])
    assert patience.goes_on([0.95, 0.6])
    assert not patience.goes_on([0.6, 0.6])
    assert not patience.goes_on([1.0, 1.0, 1.0])
    planner = Planner(Costs({1: 1.0}, 0.6))
    assert (planner.start().gamma, planner.start().patience) == (1, None)
    sure = Planner(FLAT).start()
    for _ in range(20):
        sure = sure.after(2, 1, False, (0.95, 0.1))
    assert sure.patience is not None
    low, _, high = sure.patience.rates
    assert low < 0.2 < 0.9 < high


def test_confidence_is_what_the_draft_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engine and planner: drafts end early, each confidence is q of the token, and greedy text is the plain text."""
    seen: list[tuple[Any, ...]] = []
    honest = sd.ModelDrafter.propose

    def propose(self: Any, sequences: Any, counts: Any, hidden: Any = None) -> Any:
        found = honest(self, sequences, counts, hidden)
        seen.extend(found)
        return found

    monkeypatch.setattr(sd.ModelDrafter, "propose", propose)
    planner = Planner(Costs({1: 1.0, 9: 1.6}, 0.1))
    for how in (FREE, sd.Sampling(temperature=0, eos_token_id=None)):
        result = engine_with(planner).generate([1, 2, 3], how, max_new_tokens=60)
        assert any(0 < len(cycle.proposed) < cycle.gamma for cycle in cycles_of(result)[:-1])
    told = [proposal for proposal in seen if proposal.confidence]
    assert told
    for proposal in told:
        assert len(proposal.confidence) == len(proposal.tokens)
        if proposal.q_KV is not None:
            rows = zip(proposal.q_KV, proposal.tokens, strict=True)
            assert list(proposal.confidence) == pytest.approx([float(q_V[token]) for q_V, token in rows])


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_greedy_and_coupled_text_does_not_depend_on_gamma(rule: str) -> None:
    how = sd.Sampling(temperature=0, eos_token_id=None) if rule != "coupled" else FREE
    texts = []
    for planner in (Planner(FLAT), Planner(Costs({1: 1.0, 9: 1.5}, 0.5)), Heuristic()):
        engine = engine_with(planner, verify=rule)
        texts.append(engine.generate([1, 2, 3], how, max_new_tokens=40).tokens)
        plain = engine.generate([1, 2, 3], how, max_new_tokens=40, speculate=False).tokens
        assert texts[-1] == plain


@pytest.mark.parametrize("gamma", ["auto", "heuristic"])
def test_a_second_call_gives_the_same_trace(gamma: str) -> None:
    """Nothing is left of the first, or of another in between; with given costs γ is settled by the past."""
    engine = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)), gamma)
    first = cycles_of(engine.generate([1, 2, 3], FREE, max_new_tokens=50))
    engine.generate([5, 4], sd.Sampling(seed=9, eos_token_id=None), max_new_tokens=30)
    assert cycles_of(engine.generate([1, 2, 3], FREE, max_new_tokens=50)) == first
    assert len({cycle.gamma for cycle in first}) > 1


def test_reset_forgets() -> None:
    for planning in (Planner(FLAT), Heuristic(), Fixed(3)):
        start = planning.start()
        assert start.after(2, 0, False).after(0, 0, False).reset() == start


@pytest.mark.parametrize(("gamma", "planner"), [("auto", "auto"), ("heuristic", "heuristic"), (3, None)])
def test_a_timeline_says_who_planned(gamma: Any, planner: str | None) -> None:
    """And each row what was asked for in its cycle; the run's own γ is the largest."""
    engine = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)), gamma)
    scheduler = sd.Scheduler(engine, blocks=64)
    for seed in (1, 2):
        scheduler.submit([seed, 2, 3], replace(FREE, seed=seed), max_new_tokens=24)
    scheduler.run()
    timeline = scheduler.timeline()
    asked = {row.gamma for step in timeline.steps for row in step.rows if row.cycle is not None}
    assert (timeline.meta.planner, timeline.meta.gamma) == (planner, engine.gamma)
    assert max(asked) <= timeline.meta.gamma
    assert type(timeline).from_dict(timeline.to_dict()) == timeline


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
def test_rows_of_a_batch_plan_for_themselves(cache: str) -> None:
    """Each row has the cycles that it has alone; one may plan and another have a fixed γ."""
    engine = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)), "auto", cache=cache)
    prompts, hows = [[1, 2, 3], [7, 8], [5]], [FREE, replace(FREE, seed=5), replace(FREE, seed=6)]
    gammas: list[Any] = [None, 2, "heuristic"]
    rows = engine.generate(prompts, hows, max_new_tokens=30, gamma=gammas)
    for row, (prompt, how, gamma) in zip(rows, zip(prompts, hows, gammas, strict=True), strict=True):
        alone = engine.generate(prompt, how, max_new_tokens=30, gamma=gamma)
        assert row.tokens == alone.tokens
        assert [c.gamma for c in cycles_of(row)] == [c.gamma for c in cycles_of(alone)]
        assert row.trace is not None
        assert row.trace.meta.planner == {None: "auto", 2: None}.get(gamma, gamma)
    assert {c.gamma for c in cycles_of(rows[1])[:-1]} == {2}


def test_a_scheduler_plans_too() -> None:
    engine = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)))
    scheduler = sd.Scheduler(engine, max_batch=2, blocks=32)
    requests = [scheduler.submit([at, 3], replace(FREE, seed=at), max_new_tokens=30) for at in (1, 2, 3)]
    results = scheduler.run()
    for request, result, at in zip(requests, results, (1, 2, 3), strict=True):
        alone = engine.generate([at, 3], replace(FREE, seed=at), max_new_tokens=30)
        assert result.tokens == alone.tokens
        assert [c.gamma for c in request.trace.cycles] == [c.gamma for c in cycles_of(alone)]


def test_an_interrupted_stream_plans_as_if_nothing_happened() -> None:
    """The outlook is replaced with the cycle it follows from, once."""
    engine = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)))
    whole = cycles_of(engine.generate([1, 2, 3], FREE, max_new_tokens=40))

    class Tearing:
        def __init__(self) -> None:
            self.heard = 0

        def on_event(self, event: object) -> None:
            self.heard += 1
            if self.heard % 5 == 3 and self.heard < 80:
                raise KeyboardInterrupt

    torn = engine_with(Planner(Costs({1: 1.0, 9: 1.3}, 0.1)))
    torn.observers.append(Tearing())
    stream = torn.stream([1, 2, 3], FREE, max_new_tokens=40)
    while stream.goes_on:
        try:
            stream.step()
        except KeyboardInterrupt:
            continue
    assert [c.gamma for c in stream.trace().cycles] == [c.gamma for c in whole]
    assert [c.emitted for c in stream.trace().cycles] == [c.emitted for c in whole]


def test_what_the_record_says() -> None:
    engine = engine_with(Planner(FLAT, most=5))
    trace = engine.generate([1, 2], FREE, max_new_tokens=12).trace
    assert trace is not None
    assert (engine.gamma, trace.meta.gamma, trace.meta.planner) == (5, 5, "auto")
    assert "γ≤5 (auto)" in trace.to_table()
    assert all(cycle.gamma <= 5 for cycle in trace.cycles)
    plain = engine.generate([1, 2], FREE, max_new_tokens=4, speculate=False).trace
    assert plain is not None
    assert (plain.meta.gamma, plain.meta.planner) == (0, None)
    forced = engine.generate([1, 2], FREE, max_new_tokens=12, reject_at=2).trace
    assert forced is not None
    assert forced.meta.planner is None


def test_a_variant_with_another_gamma_is_capped() -> None:
    engine = engine_with(Planner(FLAT)).variant(gamma=2)
    assert max(c.gamma for c in cycles_of(engine.generate([1, 2], FREE, max_new_tokens=20))) == 2


def test_costs_are_measured_once_and_not_for_a_fixed_gamma(monkeypatch: pytest.MonkeyPatch) -> None:
    from specdec_teach import probe

    calls: list[sd.Engine] = []
    honest = probe.cycles

    def cycles(engine: sd.Engine) -> Costs:
        calls.append(engine)
        return honest(engine, rounds=1)

    monkeypatch.setattr(probe, "cycles", cycles)
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR))
    engine.generate([1], FREE, max_new_tokens=4)
    engine.generate([1], FREE, max_new_tokens=4, speculate=False, gamma="auto")
    assert not calls
    for _ in range(2):
        engine.generate([1], FREE, max_new_tokens=4, gamma="auto")
    assert calls == [engine]
    assert engine.costs().target.keys() == {1, 2, 3, 5, 9}
    assert list(engine.costs().target.values()) == sorted(engine.costs().target.values())
    assert engine.variant(drafter=sd.NgramDrafter()).costs() is not engine.costs()


@pytest.mark.parametrize("gamma", ["atuo", -1, 2.5])
def test_refusals(gamma: Any) -> None:
    with pytest.raises(InvalidInput, match="auto"):
        sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=gamma)
    for wrong in ({"most": -1}, {"probe": 0}, {"prior": (0.0, 1.0)}, {"memory": 0.0}, {"chunk": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            Planner(FLAT, **wrong)  # type: ignore[arg-type]


def test_the_check_passes_an_engine_that_plans() -> None:
    """Ends, caps, the second call and ordinary runs with γ as it is planned."""
    report = sd.check(engine_with(Planner(FLAT, most=4)), ["ends", "caps", "second call", "runs", "self-draft"])
    assert report.ok, report.failures[:1]
