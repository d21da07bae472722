"""Replayed drafts: what is left of a cycle at a smaller γ, what is recorded, and that a plan is priced as it should."""

from __future__ import annotations

import pytest

import specdec_teach as sd
from specdec_teach.bench.replay import Seen, Watching, replayed
from specdec_teach.costs import Costs
from specdec_teach.pacing import Fixed, Patience
from specdec_teach.planner import Planner

COSTS = Costs({1: 1.0, 2: 1.1, 9: 1.8}, 0.1, {1: 0.2, 8: 0.9})


@pytest.mark.parametrize(
    ("gamma", "drafted", "accepted"), [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 5, 2), (8, 5, 2)]
)
def test_a_shorter_draft(gamma: int, drafted: int, accepted: int) -> None:
    """The same drafts stand, as many as there are; more than were drafted there never are."""
    seen = Seen(5, 2, (0.9, 0.8, 0.7, 0.6, 0.5))
    assert seen.shortened(gamma, None) == Seen(drafted, accepted, seen.confidence[:drafted])


def test_patience_ends_a_replayed_draft() -> None:
    """As it would end a real one: behind the first draft that is too unsure, which is still made."""
    patience = Patience((0.1, 0.9, 1.0), (0.5,) * 7)
    assert Seen(5, 5, (0.95, 0.95, 0.2, 0.95, 0.95)).shortened(5, patience).drafted == 3
    assert Seen(5, 5, ()).shortened(5, patience).drafted == 5


def test_prices() -> None:
    """Tokens and seconds by hand; a text ends with the cycle that fills it."""
    made, spent = replayed([Seen(8, 2, ())], Fixed(4), COSTS, 30, seed=3)
    assert (made, spent) == (30, pytest.approx(10 * ((1.1 + 0.7 * 3 / 7) + (0.2 + 0.7 * 3 / 7))))
    assert replayed([Seen(8, 2, ())], Fixed(0), COSTS, 30, seed=3) == (30, 30.0)
    alone = [replayed([Seen(8, 0, ()), Seen(8, 8, ())], Fixed(8), COSTS, 9000, seed)[0] for seed in (1, 2)]
    assert all(9000 <= made < 9009 for made in alone)


def test_the_planner_follows_what_it_replays() -> None:
    """All stand: it goes to the largest γ. None stands: it stops; plain decoding is then hardly quicker."""
    planner = Planner(COSTS)
    best, found = (replayed([Seen(8, 8, ())], plan, COSTS, 900, 0) for plan in (Fixed(8), planner))
    assert found[1] / found[0] < 1.01 * best[1] / best[0]
    made, spent = replayed([Seen(8, 0, ())], planner, COSTS, 900, 0)
    assert made <= spent < 1.03 * made


@pytest.mark.parametrize("mode", ["sample", "argmax"])
def test_a_recording_is_what_the_engine_did(mode: str) -> None:
    """Counts of the request's own statistics, with the draft's probability of every token; the text is not touched."""
    target, near = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
    drafter = sd.ModelDrafter(near, mode)  # type: ignore[arg-type]
    sampling = sd.Sampling(temperature=0.8, seed=5, eos_token_id=None)
    engine = sd.Engine(target, drafter=drafter, gamma="auto", planner=Watching(3))
    stream = engine.open([3, 1, 4, 1, 5], sampling, max_new_tokens=30, trace=False)
    while stream.step():
        pass
    outlook, stats = stream.progress.outlook, stream.progress.stats
    assert isinstance(outlook, Watching)
    assert len(outlook.seen) == stats.cycles
    assert sum(cycle.drafted for cycle in outlook.seen) == stats.drafted
    assert sum(cycle.accepted for cycle in outlook.seen) == stats.accepted
    assert all(len(cycle.confidence) == cycle.drafted for cycle in outlook.seen)
    assert all(0.0 < chance <= 1.0 for cycle in outlook.seen for chance in cycle.confidence)
    plain = sd.Engine(target, drafter=drafter, gamma=3).generate([3, 1, 4, 1, 5], sampling, max_new_tokens=30)
    assert stream.sequence.tokens[5:] == list(plain.tokens)
