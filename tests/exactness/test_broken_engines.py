"""The exam of the tests: every check above must fail on an engine that has the mistake it is there for.

Each broken engine swaps one function of the honest one. The honest engine passes every check (last test).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_teach.caches.contiguous import ContiguousCache

from ..checks import (
    FILTER_P,
    FILTER_Q,
    P3,
    P4,
    Q3,
    Q4,
    chi_square,
    chi_square_of_long_runs,
    flags_and_counts,
    greedy_equals_plain,
    law_of_constant,
    logs,
    pointers_and_caches,
    tabular,
)
from ..engine.test_ending import PLACES, test_stop_strings_wherever_they_fall
from .mistakes import (
    accept_if_likelier,
    argmax_with_soft_q,
    cap_from_the_wrong_base,
    count_the_ticks,
    draft_context_ignored,
    draft_hole,
    draft_trimmed_too_far,
    end_seen_at_the_end_only,
    first_unverified,
    greedy_in_one_place_only,
    loaded_dice,
    matcher_left_behind,
    not_strict,
    numbers_from_a_shared_generator,
    one_noise_vector,
    raw_q,
    redraw_from_p,
    stale_slots_kept,
    stop_seen_at_the_end_only,
)

Patch = pytest.MonkeyPatch
TARGET = sd.testing.tiny_llama()
NEAR = sd.testing.tiny_llama(noise=0.08)


def pair_engine(gamma: int = 4, draft: Any = NEAR) -> sd.Engine:
    """A target and a draft near it."""
    return sd.Engine(TARGET, drafter=sd.ModelDrafter(draft), gamma=gamma)


def law_check(mode: str = "sample") -> None:
    """Exact law on the crafted four-token case, where several mistakes cannot hide."""
    law_of_constant(P4, Q4, sd.Sampling(), P4, mode)


def law_check_textbook() -> None:
    """Exact law on the textbook case."""
    law_of_constant(P3, Q3, sd.Sampling(), P3)


def filter_check() -> None:
    """Exact law with top-k 2."""
    law_of_constant(FILTER_P, FILTER_Q, sd.Sampling(top_k=2), (4 / 7, 3 / 7, 0, 0))


def chi_check() -> None:
    """Chi-square of the engine with its real numbers: 3,600 tokens, enough for a coarse mistake."""
    assert chi_square_of_long_runs(tabular(logs(P4), logs(Q4), 2), P4, length=60) > 1e-3


def long_chi_check() -> None:
    """The same of 18,000 tokens, for a mistake of a few hundredths."""
    assert chi_square_of_long_runs(tabular(logs(P4), logs(Q4), 2), P4, runs=300, length=60) > 1e-3


def chi_check_with_filter() -> None:
    """Chi-square of the first token with top-k 2 on both sides."""
    engine = tabular(logs(FILTER_P), logs(FILTER_Q), 1)
    right = {(0,): 4 / 7, (1,): 3 / 7}
    assert chi_square(engine, right, 1, 1500, lambda seed: sd.Sampling(top_k=2, seed=seed)) > 1e-3


def strict_check() -> None:
    """Nothing that the target excludes, whatever is proposed with whatever q."""
    target = sd.testing.TabularLM([0.0, 0.0, -torch.inf])
    engine = sd.Engine(target, drafter=sd.ScriptedDrafter([2] * 9, [0.5, 0.5, 0.0]), gamma=2)
    assert 2 not in engine.generate([0], sd.Sampling(seed=1), max_new_tokens=6).tokens


def stop_check() -> None:
    """Stop strings wherever they fall in a block."""
    for tokens, stops in PLACES:
        for gamma in (1, 3, 5):
            test_stop_strings_wherever_they_fall(tokens, stops, gamma)


def grammar_check() -> None:
    """Greedy with a grammar and rejections: the plain text."""
    pair = sd.load_pair()
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4)
    sampling = sd.Sampling(temperature=0, grammar=sd.Grammar.regex(r" (one|two|three) (cats|dogs|birds)( and more)*\."))
    greedy = engine.generate("Mira counted", sampling, max_new_tokens=14, speculate=False)
    assert engine.generate("Mira counted", sampling, max_new_tokens=14, reject_at=2).tokens == greedy.tokens


def temperature_check() -> None:
    """A temperature of 1e-6 is greedy for both models: the target as its own draft never disagrees with plain text."""
    engine = pair_engine(4, TARGET)
    tiny, greedy = sd.Sampling(temperature=1e-6, seed=3), sd.Sampling.greedy()
    result = engine.generate([1, 2], tiny, max_new_tokens=16)
    assert result.tokens == engine.generate([1, 2], greedy, max_new_tokens=16, speculate=False).tokens
    assert result.trace is not None
    assert all(decision.u is None for cycle in result.trace.cycles for decision in cycle.decisions)


def context_check() -> None:
    """A draft of 16 positions beside a target of 32: all drafts fit where they are computed."""
    target, draft = sd.testing.tiny_llama(context=32), sd.testing.tiny_llama(context=16)
    stream_ = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=5).stream(
        [1] * 12, sd.Sampling.greedy(), max_new_tokens=15
    )
    for cycle in stream_:
        assert cycle.draft_kv is None or cycle.draft_kv.written <= 16
        assert len(cycle.proposed) <= max(0, 16 - cycle.committed_before + 1)


def greedy_check() -> None:
    """Greedy speculative == plain."""
    greedy_equals_plain(pair_engine(), [[1, 2, 3], [9]], reject_at=2)
    greedy_equals_plain(pair_engine(), [[1, 2, 3], [9], [17, 4]])


def pointer_check(draft: Any = NEAR) -> None:
    """Pointers and caches after every cycle, with rejections in some and none in others."""
    for settings in ({"reject_at": 2}, {"reject_at": 0}, {}):
        stream_ = pair_engine(4, draft).stream([1, 2, 3], sd.Sampling(seed=3), max_new_tokens=30, **settings)
        pointers_and_caches(stream_, TARGET, draft)


def eos_check() -> None:
    """An end token at every place of a self-drafted block."""
    engine = pair_engine(4, TARGET)
    whole = engine.generate([1, 2, 3], sd.Sampling.greedy(), max_new_tokens=16, speculate=False).tokens
    for place, token in enumerate(whole):
        if token not in whole[:place]:
            result = engine.generate([1, 2, 3], sd.Sampling(temperature=0, eos_token_id=token), max_new_tokens=16)
            assert result.tokens == whole[: place + 1]


def count_check() -> None:
    """Flags and counts."""
    for seed in range(6):
        flags_and_counts(pair_engine().generate([1, 2, 3], sd.Sampling(seed=seed), max_new_tokens=30))


def cap_check() -> None:
    """Never more than was asked for."""
    for cap in (1, 2, 5, 6):
        assert len(pair_engine(4, TARGET).generate([1], sd.Sampling.greedy(), max_new_tokens=cap).tokens) == cap


def second_call_check() -> None:
    """The same call again gives the same run."""
    engine = pair_engine()
    first, second = (engine.generate([1, 2], sd.Sampling(seed=8), max_new_tokens=24) for _ in range(2))
    assert first.tokens == second.tokens
    assert [c.proposed for c in first.trace.cycles] == [c.proposed for c in second.trace.cycles]  # type: ignore[union-attr]


EXAM: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (redraw_from_p, law_check),
    (redraw_from_p, law_check_textbook),
    (redraw_from_p, chi_check),
    (accept_if_likelier, law_check),
    (accept_if_likelier, law_check_textbook),
    (accept_if_likelier, chi_check),
    (argmax_with_soft_q, chi_check),
    (raw_q, filter_check),
    (raw_q, chi_check_with_filter),
    (not_strict, strict_check),
    (one_noise_vector, long_chi_check),
    (stop_seen_at_the_end_only, stop_check),
    (matcher_left_behind, grammar_check),
    (greedy_in_one_place_only, temperature_check),
    (draft_context_ignored, context_check),
    (loaded_dice, chi_check),
    (stale_slots_kept, pointer_check),
    (stale_slots_kept, greedy_check),
    (draft_hole, pointer_check),
    (draft_trimmed_too_far, pointer_check),
    (end_seen_at_the_end_only, eos_check),
    (count_the_ticks, greedy_check),
    (count_the_ticks, count_check),
    (first_unverified, count_check),
    (first_unverified, law_check),
    (first_unverified, greedy_check),
    (cap_from_the_wrong_base, cap_check),
    (numbers_from_a_shared_generator, second_call_check),
]


@pytest.mark.parametrize(("mistake", "check"), EXAM, ids=[f"{m.__name__}-{c.__name__}" for m, c in EXAM])
def test_a_mistake_is_caught(mistake: Callable[[Patch], None], check: Callable[[], None], monkeypatch: Patch) -> None:
    """The check fails by its own assertion; a crash would not count."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("check", list(dict.fromkeys(check for _, check in EXAM)), ids=lambda check: check.__name__)
def test_the_honest_engine_passes(check: Callable[[], None]) -> None:
    """No false alarm."""
    check()


def test_a_pointer_that_runs_ahead_is_refused_not_used(monkeypatch: Patch) -> None:
    """The correction or bonus taken as computed leaves nothing to feed: the run stops, it does not go wrong quietly."""
    honest = ContiguousCache.rollback
    monkeypatch.setattr(ContiguousCache, "rollback", lambda self, to: honest(self, min(self.pointer, to + 1)))
    with pytest.raises(sd.EngineFailure, match="has run ahead"):
        pair_engine().generate([1, 2, 3], sd.Sampling(seed=1), max_new_tokens=20, reject_at=1)
