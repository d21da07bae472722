"""What an engine must get right, as functions that raise AssertionError: used by the tests and by the broken engines.

Every check compares the engine with something independent of it: arithmetic on the given p and q, a fresh forward of
the model, or another way to the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import specdec_teach as sd
from specdec_teach.caches.contiguous import ContiguousCache
from specdec_teach.engine import Engine
from specdec_teach.exact import _one_cycle
from specdec_teach.hf import ModelRunner
from specdec_teach.stream import Stream

TOLERANCE = 1e-12

P4, Q4 = (0.4, 0.3, 0.2, 0.1), (0.1, 0.15, 0.25, 0.5)
P3, Q3 = (0.6, 0.3, 0.1), (0.2, 0.5, 0.3)
FILTER_P, FILTER_Q = (0.4, 0.3, 0.2, 0.1), (0.1, 0.35, 0.3, 0.25)


def logs(probabilities: Sequence[float]) -> Tensor:
    """Logits whose softmax is `probabilities`, in float64."""
    return torch.tensor(probabilities, dtype=torch.float64).log()


def tabular(p: Any, q: Any, gamma: int, mode: str = "sample", verify: str = "rejection") -> Engine:
    """An engine over two tabular models."""
    target, draft = sd.testing.TabularLM(p), sd.testing.TabularLM(q)
    return sd.Engine(target, drafter=sd.ModelDrafter(draft, mode), gamma=gamma, verify=verify)  # type: ignore[arg-type]


def expected_tokens(engine: Engine) -> float:
    """The exact expectation of the first cycle's number of emitted tokens."""
    stream = engine.stream([0], sd.Sampling(), max_new_tokens=1 + engine.gamma, trace=False)
    return sum(chance * len(after.sequence.new_tokens) for chance, after in _one_cycle(stream))


def product_law(
    step: Callable[[tuple[int, ...]], Sequence[float]], prompt: tuple[int, ...], count: int
) -> dict[Any, float]:
    """The law of the first `count` tokens when each is drawn from `step(prefix)`: ancestral sampling, on paper."""
    law = {(): 1.0}
    for _ in range(count):
        law = {
            (*new, token): weight * chance
            for new, weight in law.items()
            for token, chance in enumerate(step((*prompt, *new)))
            if chance > 0
        }
    return law


def same_law(found: dict[Any, float], right: dict[Any, float], tolerance: float = TOLERANCE) -> None:
    """The two laws agree entry by entry."""
    worst = max(abs(found.get(key, 0.0) - right.get(key, 0.0)) for key in found.keys() | right.keys())
    assert worst < tolerance, f"the laws differ by {worst:.3g}"


def law_of_constant(
    p: Sequence[float], q: Sequence[float], sampling: sd.Sampling, right: Sequence[float], mode: str = "sample"
) -> None:
    """Three tokens from a target that always says p follow `right` each, independently (γ = 2)."""
    engine = tabular(logs(p), logs(q), 2, mode)
    same_law(sd.exact_law(engine, [0], 3, sampling), product_law(lambda prefix: right, (0,), 3))


def chi_square(
    engine: Engine, right: dict[Any, float], tokens: int, runs: int, sampling_for: Callable[[int], sd.Sampling]
) -> float:
    """The p-value of `runs` seeded runs of the engine against a law of the first `tokens` tokens."""
    texts = _texts(engine, [sampling_for(seed) for seed in range(runs)], tokens + engine.gamma)
    return _p_value([text[:tokens] for text in texts], right)


def chi_square_of_long_runs(engine: Engine, right: Sequence[float], runs: int = 60, length: int = 300) -> float:
    """The p-value of all tokens of some long seeded runs, for a target that says `right` everywhere (i.i.d. tokens)."""
    texts = _texts(engine, [sd.Sampling(seed=seed) for seed in range(runs)], length)
    return _p_value([token for text in texts for token in text], dict(enumerate(right)))


def _texts(engine: Engine, samplings: Sequence[sd.Sampling], length: int) -> list[tuple[int, ...]]:
    """One text for each sampling, a hundred rows at a time; that a row is what it is alone is tested elsewhere."""
    texts: list[tuple[int, ...]] = []
    for at in range(0, len(samplings), 100):
        some = list(samplings[at : at + 100])
        results = engine.generate([[0]] * len(some), some, max_new_tokens=length, trace=False)
        texts += [result.tokens for result in results]
    return texts


def _p_value(keys: Sequence[Any], right: dict[Any, float]) -> float:
    counts = {key: 0 for key, chance in right.items() if chance > 0}
    for key in keys:
        assert key in counts, f"{key} is impossible under the target"
        counts[key] += 1
    expected = np.array([right[key] for key in counts])
    return float(stats.chisquare(list(counts.values()), expected / expected.sum() * len(keys)).pvalue)


def pointers_and_caches(stream: Stream, target: Any, draft: Any, tolerance: float = 1e-5) -> int:
    """After every cycle both pointers stand where they must, and both caches answer like a fresh prefill."""
    sequence = stream.sequence
    previous_all_accepted = False
    cycles = 0
    for cycle in stream:
        cycles += 1
        length, drafted = cycle.committed_after, len(cycle.proposed)
        assert cycle.committed_before + len(cycle.emitted) == length == len(sequence.tokens)
        assert cycle.target_kv.before == cycle.committed_before - 1
        assert cycle.target_kv.written == cycle.committed_before + drafted
        assert cycle.target_kv.after == length - 1 == sequence.cache.pointer
        if cycle.draft_kv is not None and drafted:
            assert cycle.draft_kv.before == cycle.committed_before - (2 if previous_all_accepted else 1)
            assert cycle.draft_kv.written == cycle.committed_before + drafted - 1
            all_accepted = cycle.accepted == drafted and cycle.last_kind == "bonus"
            assert cycle.draft_kv.after == length - (2 if all_accepted else 1)
            previous_all_accepted = all_accepted
        same_as_fresh(target, sequence.tokens, sequence.cache, tolerance)
        if isinstance(sequence.draft, ContiguousCache):
            same_as_fresh(draft, sequence.tokens, sequence.draft, tolerance)
    return cycles


def same_as_fresh(model: Any, tokens: Sequence[int], cache: ContiguousCache, tolerance: float) -> None:
    """Keys, values and the next-step logits of a cache equal those of a forward over the same tokens from nothing.

    `tolerance` is for keys, values, and logits of size 1; larger logits carry a proportional rounding error.
    """
    runner = ModelRunner(model, "target")
    pointer = cache.pointer
    fresh = runner.new_cache(len(tokens) + 1)
    with torch.inference_mode():
        wide = runner.forward(fresh, list(tokens), keep=1)
        fresh.rollback(pointer)
        for (keys, values), (fresh_keys, fresh_values) in zip(cache.contents(), fresh.contents(), strict=True):
            assert (keys - fresh_keys).abs().max() <= tolerance, "keys differ from a fresh prefill"
            assert (values - fresh_values).abs().max() <= tolerance, "values differ from a fresh prefill"
        twin = cache.fork()
        step = runner.forward(twin, list(tokens[pointer:]), keep=1)
    scale = max(1.0, wide.abs().max().item())
    assert (step - wide).abs().max() <= tolerance * scale, "next-step logits differ from a fresh prefill"


def greedy_equals_plain(engine: Engine, prompts: Sequence[Any], tokens: int = 24, **settings: Any) -> None:
    """Speculation changes no greedy token."""
    for prompt in prompts:
        fast = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=tokens, **settings)
        plain = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=tokens, speculate=False)
        assert fast.tokens == plain.tokens, f"{fast.tokens} against {plain.tokens}"


def _heat(result: sd.Result) -> float:
    assert result.trace is not None
    return float(result.trace.meta.sampling["temperature"])  # type: ignore[arg-type]


def flags_and_counts(result: sd.Result) -> None:
    """Flags are 1…10…0, and every count follows from the cycles."""
    assert result.trace is not None
    cycles = result.trace.cycles
    for cycle in cycles:
        flags = [decision.accepted for decision in cycle.decisions]
        assert flags == sorted(flags, reverse=True), f"flags {flags}"
        assert cycle.accepted == sum(flags)
        if result.trace.meta.verify == "rejection" and not sd.Sampling(temperature=_heat(result)).greedy_now:
            for decision in cycle.decisions[: cycle.accepted]:
                assert decision.u is not None, "a draft was accepted that nobody judged"
                assert decision.u * decision.q < decision.p
        assert cycle.emitted[: cycle.accepted] == cycle.proposed[: cycle.accepted]
        assert len(cycle.emitted) == cycle.accepted + (cycle.last_kind != "none")
    assert result.stats.drafted == sum(len(cycle.proposed) for cycle in cycles)
    assert result.stats.accepted == sum(cycle.accepted for cycle in cycles)
    assert result.stats.emitted == len(result.tokens) == sum(len(cycle.emitted) for cycle in cycles)
    without_last = sum(cycle.last_kind == "none" for cycle in cycles)
    assert result.stats.emitted == result.stats.accepted + len(cycles) - without_last
