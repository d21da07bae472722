"""Drafts from the text itself: which place is chosen, what is never chosen, and that the output stays the target's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_teach as sd

from ..checks import P4, logs

TARGET = sd.testing.tiny_llama()


def slow_look_up(tokens: list[int], count: int, longest: int, shortest: int) -> list[int]:
    """The definition, read off the text by hand: longest first, then the latest place before the end itself."""
    for size in range(longest, shortest - 1, -1):
        for place in range(len(tokens) - 1, size - 1, -1):
            if size <= len(tokens) and tokens[place - size : place] == tokens[len(tokens) - size :]:
                whole = list(tokens)
                for at in range(place, place + count):
                    whole.append(whole[at])
                return whole[len(tokens) :]
    return []


def drafted(tokens: list[int], count: int, longest: int = 3, shortest: int = 1) -> list[int]:
    """What the drafter proposes behind a prompt."""
    script: list[list[int]] = []
    drafter = sd.NgramDrafter(longest, shortest)  # type: ignore[arg-type]
    engine = sd.Engine(TARGET, drafter=drafter, gamma=count)
    stream = engine.stream(tokens, sd.Sampling.greedy(), max_new_tokens=count + 1)
    script.append(list(next(stream).proposed))
    return script[0]


@pytest.mark.parametrize(
    ("tokens", "count", "right"),
    [
        ([1, 2, 3, 4, 1, 2], 3, [3, 4, 1]),
        ([1, 2, 9, 7, 2, 5, 1, 2], 2, [9, 7]),  # longest first: "1 2", though "2" stands later
        ([1, 2, 3, 1, 2, 4, 1, 2], 1, [4]),  # the latest of two equal matches
        ([7, 7, 7, 7], 4, [7, 7, 7, 7]),  # the end does not match itself, and a loop goes on
        ([1, 2, 1, 2, 1, 2], 5, [1, 2, 1, 2, 1]),
        ([0, 5, 7, 1, 5, 8, 0, 5], 1, [7]),  # id 0 is a token like any other: "0 5" is not "5"
        ([1, 2, 3, 4], 3, []),
        ([5], 3, []),
    ],
)
def test_places(tokens: list[int], count: int, right: list[int]) -> None:
    """Chosen by hand."""
    assert drafted(tokens, count) == right


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(0, 6), st.integers(1, 4), st.integers(1, 2))
def test_the_index_is_the_definition(tokens: list[int], count: int, longest: int, shortest: int) -> None:
    """Grown token by token, or all at once."""
    from specdec_teach.drafters.ngram import _Index

    longest = max(longest, shortest)
    right = slow_look_up(tokens, count, longest, shortest)
    grown, whole = _Index(longest, shortest), _Index(longest, shortest)
    for stop in range(1, len(tokens) + 1):
        grown.follow(tokens[:stop])
    whole.follow(tokens)
    assert grown.look_up(tokens, count) == whole.look_up(tokens, count) == grown.fork().look_up(tokens, count) == right


@pytest.mark.parametrize("cache", ["contiguous", "paged"])
def test_greedy_is_plain(cache: str) -> None:
    """Prompts that repeat themselves, so that drafts are made, kept and refused."""
    kept = refused = 0
    for start in range(12):
        prompt = [start, 3, 5, start, 3, 5, 8, start, 3]
        engine = sd.Engine(TARGET, drafter=sd.NgramDrafter(), gamma=4, cache=cache, debug=True)
        fast = engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=30)
        assert fast.tokens == engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=30, speculate=False).tokens
        kept += fast.stats.accepted
        refused += fast.stats.drafted - fast.stats.accepted
    assert kept > 20
    assert refused > 20


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_the_law_is_the_targets(rule: str) -> None:
    """Enumerated: drafts depend on the text drawn so far, and the law of three tokens does not."""
    lm = sd.testing.TabularLM(logs(P4))
    engine = sd.Engine(lm, drafter=sd.NgramDrafter(), gamma=2, verify=rule)
    law = sd.exact_law(engine, [0, 1, 0], 3)
    assert len(law) == 64
    for tokens, chance in law.items():
        right = P4[tokens[0]] * P4[tokens[1]] * P4[tokens[2]]
        assert abs(chance - right) < 1e-12


def test_two_requests_share_nothing() -> None:
    """What one prompt says is not drafted in another; the second call is like the first."""
    engine = sd.Engine(TARGET, drafter=sd.NgramDrafter(), gamma=3)
    alone = engine.generate([9, 1, 2, 3], sd.Sampling(seed=1), max_new_tokens=20)
    engine.generate([1, 2, 3, 60, 61, 62, 1, 2, 3], sd.Sampling(seed=2), max_new_tokens=20)
    again, _ = engine.generate(
        [[9, 1, 2, 3], [1, 2, 3, 60, 61]], [sd.Sampling(seed=1), sd.Sampling(seed=2)], max_new_tokens=20
    )
    assert alone.tokens == again.tokens
    assert [c.proposed for c in alone.trace.cycles] == [c.proposed for c in again.trace.cycles]  # type: ignore[union-attr]


def test_refusals() -> None:
    """Sizes that make no sense."""
    for longest, shortest in ((0, 0), (1, 2), (3, 0), (2.5, 1), ("3", 1), (True, True)):
        with pytest.raises(sd.InvalidInput, match="longest ≥ shortest ≥ 1"):
            sd.NgramDrafter(longest, shortest)  # type: ignore[arg-type]
