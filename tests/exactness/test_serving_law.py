"""The law of what is emitted does not depend on the cache, on a γ that shrinks, or on a preemption (float64)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.caches import KINDS
from specdec_teach.policy import processed
from specdec_teach.stream import Stream

from ..checks import P4, Q4, _p_value, logs, product_law, same_law, tabular
from ..engine.neighbours import shrunk
from .test_law import chain_law, random_table

RULES = ("rejection", "block", "coupled")
CHAIN, CHAIN_DRAFT = random_table(1, 3), random_table(2, 3)
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "contiguous"])
def test_every_cache_has_the_law_of_the_contiguous_one(kind: str, rule: str) -> None:
    """Both are the target's own, and each other's to the last bit but rounding."""
    sampling = sd.Sampling(temperature=0.8, top_p=0.9)
    first = tabular(CHAIN, CHAIN_DRAFT, 2, verify=rule)
    found = sd.exact_law(first.variant(cache=kind, block_size=2), [0, 1], 3, sampling)
    same_law(found, sd.exact_law(first, [0, 1], 3, sampling), 1e-15)
    rows = processed(CHAIN, sampling).tolist()
    same_law(found, product_law(lambda prefix: rows[prefix[-1]], (0, 1), 3))


@pytest.mark.parametrize(
    "fits",
    [lambda length: length % 3, lambda length: 1, lambda length: 2 - length % 2],
    ids=["by length", "one", "by parity"],
)
@pytest.mark.parametrize("rule", RULES)
def test_a_gamma_that_shrinks_keeps_the_law(rule: str, fits: Callable[[int], int], monkeypatch: Patch) -> None:
    """By enumeration: what fits is known before a cycle draws anything, so any rule about it does."""
    honest, gammas = Stream.plan, set[int]()

    def plan(self: Stream) -> Any:
        self.fits = fits(len(self.sequence.tokens))
        plan = honest(self)
        gammas.add(plan.gamma)
        return plan

    monkeypatch.setattr(Stream, "plan", plan)
    found = sd.exact_law(tabular(CHAIN, CHAIN_DRAFT, 3, verify=rule), [0], 3)
    same_law(found, chain_law(CHAIN, sd.Sampling(), 3))
    assert min(gammas) < 3
    assert gammas <= {fits(length) for length in range(1, 8)} | {0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_preemptions_keep_the_law(rule: str, kind: str, monkeypatch: Patch) -> None:
    """Both caches are lost before every other cycle and computed again."""
    honest, lost = Stream.rewind, [0]

    def rewind(self: Stream) -> None:
        if len(self.sequence.tokens) % 2 and self._prefill is not None and self.sequence.draft is not None:
            self.preempt()
            lost[0] += 1
        honest(self)

    monkeypatch.setattr(Stream, "rewind", rewind)
    engine = tabular(CHAIN, CHAIN_DRAFT, 2, verify=rule).variant(cache=kind, block_size=2)
    same_law(sd.exact_law(engine, [0], 3), chain_law(CHAIN, sd.Sampling(), 3))
    assert lost[0] > 5


@pytest.mark.parametrize("rule", RULES)
def test_a_pool_that_is_always_short(rule: str) -> None:
    """Seeded requests side by side in a pool that is too small for their drafts: χ² of the first five tokens each."""
    engine = tabular(logs(P4), logs(Q4), 4, verify=rule).variant(block_size=2)
    scheduler = sd.Scheduler(engine, max_batch=4, blocks=8, keep=0)
    got = [scheduler.submit([0], sd.Sampling(seed=seed), max_new_tokens=6) for seed in range(500)]
    scheduler.run()
    assert sum(any(shrunk(request, 4)) for request in got) > 200
    tokens = [token for request in got for token in request.result.tokens]
    texts = [request.result.tokens for request in got]
    pairs = [pair for text in texts for pair in zip(text[::2], text[1::2], strict=True)]
    assert _p_value(tokens, dict(enumerate(P4))) > 1e-3
    right = {(a, b): p * q for a, p in enumerate(P4) for b, q in enumerate(P4)}
    assert _p_value(pairs, right) > 1e-3
