"""After every one of a thousand cycles: pointers where they must be, caches as after a fresh prefill."""

from __future__ import annotations

import pytest

import specdec_teach as sd

from ..checks import pointers_and_caches

TARGET = sd.testing.tiny_llama(context=320)
DRAFTS = {
    "near": sd.testing.tiny_llama(noise=0.08, context=320),
    "far": sd.testing.tiny_llama(seed=9, context=320),
    "self": sd.testing.tiny_llama(context=320),
}


def test_a_thousand_random_cycles() -> None:
    """Near, far and self drafts, γ 1 … 7, greedy and sampled, until 1,000 cycles have been checked."""
    cycles, run = 0, 0
    while cycles < 1000:
        name = ("near", "far", "near", "self")[run % 4]
        engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(DRAFTS[name]), gamma=1 + run % 7)
        sampling = sd.Sampling.greedy() if run % 5 == 0 else sd.Sampling(temperature=0.9, seed=run)
        stream = engine.stream([run % 64, 3, 5 + run % 7][: 1 + run % 3], sampling, max_new_tokens=48)
        cycles += pointers_and_caches(stream, TARGET, DRAFTS[name])
        run += 1


@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("reject_at", range(7))
def test_a_rejection_at_every_position(reject_at: int, greedy: bool) -> None:
    """γ = 6: every draft accepted, or the first … sixth rejected in every cycle that is long enough."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=6)
    sampling = sd.Sampling.greedy() if greedy else sd.Sampling(seed=reject_at)
    stream = engine.stream([1, 2, 3], sampling, max_new_tokens=40, reject_at=reject_at)
    pointers_and_caches(stream, TARGET, DRAFTS["near"])
    for cycle in stream.trace().cycles:
        drafted = len(cycle.proposed)
        expected = min(drafted, reject_at - 1 if reject_at else drafted)
        assert cycle.accepted == expected
        assert cycle.last_kind == ("correction" if expected < drafted else "bonus")


def test_in_float64_nothing_is_left_to_rounding() -> None:
    """The same in double precision, to 1e-12: what differs then is a wrong slot, not the last bit."""
    target = sd.testing.tiny_llama(context=320).double()
    draft = sd.testing.tiny_llama(noise=0.08, context=320).double()
    for run in range(8):
        engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=1 + run)
        stream = engine.stream([run, 3], sd.Sampling(seed=run), max_new_tokens=40, reject_at=run if run % 2 else None)
        pointers_and_caches(stream, target, draft, tolerance=1e-12)


def test_self_draft_is_always_accepted_and_fed_two_tokens_after_it() -> None:
    """The target as its own draft: 100 %, sampled and greedy; after an all-accept the draft lacks two tokens."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(DRAFTS["self"]), gamma=4)
    for gamma in (1, 2, 4):
        for sampling in (sd.Sampling.greedy(), sd.Sampling(seed=gamma)):
            result = engine.generate([7, 8], sampling, max_new_tokens=21, gamma=gamma)
            assert result.stats.acceptance_rate == 1.0
            assert result.trace is not None
            for cycle in result.trace.cycles[1:]:
                assert cycle.draft_kv is not None
                assert cycle.draft_kv.before == cycle.committed_before - 2


def test_acceptance_does_not_decay() -> None:
    """Near draft, sampled: the first and the last quarter of the cycles accept about the same."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=4)
    early, late = [], []
    for seed in range(12):
        result = engine.generate([1, 2], sd.Sampling(seed=seed), max_new_tokens=80)
        assert result.trace is not None
        alphas = [d.alpha for cycle in result.trace.cycles for d in cycle.decisions if d.status != "unused"]
        quarter = len(alphas) // 4
        early += alphas[:quarter]
        late += alphas[-quarter:]
    assert sum(late) / len(late) > sum(early) / len(early) - 0.12


def test_unreachable_slots_are_never_read() -> None:
    """NaN in every slot at or past the pointer after each cycle changes nothing."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(DRAFTS["near"]), gamma=4)
    plain = engine.generate([1, 2], sd.Sampling(seed=5), max_new_tokens=40)
    stream = engine.stream([1, 2], sd.Sampling(seed=5), max_new_tokens=40)
    for _ in stream:
        stream.sequence.cache.poison()
        stream.sequence.draft.poison()  # type: ignore[union-attr]
    assert stream.result().tokens == plain.tokens
