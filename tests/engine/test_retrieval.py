"""Drafts from other texts: which continuation is chosen, what is forgotten, what is refused, and that texts stay right.

The oracle reads the documented order off the texts by hand, place by place.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach.drafters.passages import MOST

from ..checks import P4, greedy_equals_plain, logs

TARGET = sd.testing.tiny_llama()
GREEDY = sd.Sampling.greedy()


def slow_look_up(texts: list[list[int]], tokens: list[int], count: int, longest: int, shortest: int) -> list[int]:
    """The definition: longest end first; then, token by token, the most frequent one, of equals the last to stand."""
    for size in range(min(longest, len(tokens)), shortest - 1, -1):
        end = tokens[len(tokens) - size :]
        places = [
            (number, at)
            for number, text in enumerate(texts)
            for at in range(size, len(text))
            if text[at - size : at] == end
        ]
        if not places:
            continue
        drafts: list[int] = []
        while len(drafts) < count and places:
            said = [texts[number][at] for number, at in places]
            best = max(range(len(places)), key=lambda one: (said.count(said[one]), places[one]))
            drafts.append(said[best])
            places = [(n, at + 1) for (n, at), token in zip(places, said, strict=True) if token == said[best]]
            places = [(n, at) for n, at in places if at < len(texts[n])]
        return drafts
    return []


@pytest.mark.parametrize(
    ("texts", "tokens", "right"),
    [
        ([[1, 2, 3, 4]], [9, 1, 2], [3, 4]),  # to the end of the text, no further
        ([[7, 2, 5, 5], [1, 2, 6]], [1, 2], [6]),  # longest first: "1 2", though another stands behind "2" as well
        ([[1, 2, 3, 4, 5, 6], [3, 4, 5, 8], [3, 4, 5, 8]], [1, 2, 3, 4, 5], [6]),  # the whole of it
        ([[2, 5], [2, 5], [2, 6]], [2], [5]),  # the most frequent, though another is later
        ([[2, 5], [2, 6]], [2], [6]),  # of equally frequent ones the last
        ([[2, 5, 1], [2, 5, 3], [2, 6], [8, 5, 1], [8, 5, 1]], [2], [5, 3]),  # others' "5 1" does not count
        ([[1, 2], [2]], [1, 2], []),  # the end of a text is no beginning of the next
        ([], [1, 2], []),
        ([[], [5]], [5], []),
    ],
)
def test_places(texts: list[list[int]], tokens: list[int], right: list[int]) -> None:
    """Chosen by hand."""
    assert sd.RetrievalDrafter(texts).look_up(tokens, 4) == right


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1), max_size=12), max_size=5),
    st.lists(st.integers(0, 2), min_size=1, max_size=9),
    st.integers(0, 5),
    st.integers(1, 6),
    st.integers(1, 2),
)
def test_the_suffix_array_is_the_definition(
    texts: list[list[int]], tokens: list[int], count: int, longest: int, shortest: int
) -> None:
    longest = max(longest, shortest)
    right = slow_look_up(texts, tokens, count, longest, shortest)
    whole = sd.RetrievalDrafter(texts, longest=longest, shortest=shortest)
    grown = sd.RetrievalDrafter(longest=longest, shortest=shortest)
    for text in texts:
        grown.remember(text)
        grown.look_up(tokens, count)
    assert whole.look_up(tokens, count) == grown.look_up(tokens, count) == right


def test_a_loop_deeper_than_the_array_is_sorted() -> None:
    """Places that agree in more tokens than were compared are told apart when drafts get there."""
    texts = [[3, *[1] * 20, tail] for tail in (6, 5, 6)]
    assert sd.RetrievalDrafter(texts, longest=2).look_up([3, 1], 40) == [*[1] * 19, 6]


def test_the_last_places_are_counted_where_there_are_too_many() -> None:
    drafter = sd.RetrievalDrafter([[2, 5, 9] * 6000, [2, 6, 9] * (MOST // 2 + 1)])
    assert drafter.look_up([2], 2) == [6, 9]
    assert len(drafter._view().passages.behind([2], 1)) == MOST
    assert sd.RetrievalDrafter([[2, 5, 9] * 6000, [2, 6, 9] * (MOST // 2 - 1)]).look_up([2], 1) == [5]


def test_the_oldest_is_forgotten_first() -> None:
    """Whole texts, the corpus among them; what is too long by itself keeps its end."""
    drafter = sd.RetrievalDrafter([[1, 2, 3, 4]], max_tokens=10)
    drafter.remember([5, 6, 7])
    drafter.remember([8, 9, 10])
    assert drafter.held == 10
    assert drafter.look_up([2], 1) == [3]
    drafter.remember([11])
    assert drafter.held == 7
    assert drafter.look_up([2], 1) == []
    assert drafter.look_up([5], 2) == [6, 7]
    drafter.remember(range(100))
    assert drafter.held == 10
    assert drafter.look_up([95], 9) == [96, 97, 98, 99]
    assert drafter.look_up([88], 1) == []
    drafter.forget()
    assert (drafter.held, drafter.look_up([95], 2)) == (0, [])


def test_a_million_tokens_over_the_bound_leave_no_more_than_the_bound() -> None:
    drafter = sd.RetrievalDrafter(max_tokens=1000)
    drafter.remember(*(np.arange(start, start + 1000) % 50 for start in range(0, 1_000_000, 1000)))
    assert drafter.held == 1000
    drafter.remember(np.full(1_000_000, 3))
    assert drafter.held == 1000
    assert len(drafter._view().passages) == 1002
    assert drafter.look_up([3], 5) == [3] * 5


def test_results_and_texts_are_remembered(pair: sd.Pair) -> None:
    """The new tokens of a result; a text goes through the tokenizer."""
    drafter = sd.RetrievalDrafter(["The cat sat on the mat."], tokenizer=pair.tokenizer)
    ids = pair.tokenizer("The cat sat on the mat.").input_ids
    assert drafter.look_up(ids[:3], len(ids)) == ids[3:]
    engine = sd.Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer)
    result = engine.generate("Once upon a time", GREEDY, max_new_tokens=20)
    drafter.remember(result)
    assert drafter.held == len(ids) + 20
    again = engine.generate("Once upon a time", GREEDY, max_new_tokens=20)
    assert again.tokens == result.tokens
    assert again.stats.accepted > result.stats.accepted


def test_a_call_that_is_made_again_drafts_the_same() -> None:
    """Outputs are remembered when the caller says so; a request in flight keeps the texts that it began with."""
    engine = sd.Engine(TARGET, drafter=(drafter := sd.RetrievalDrafter([list(range(64))])), gamma=3)
    first = engine.generate([9, 1, 2], sd.Sampling(seed=1), max_new_tokens=20)
    engine.generate([5, 6, 7], sd.Sampling(seed=2), max_new_tokens=20)
    second = engine.generate([9, 1, 2], sd.Sampling(seed=1), max_new_tokens=20)
    stream = engine.stream([9, 1, 2], sd.Sampling(seed=1), max_new_tokens=20)
    cycles = [next(stream)]
    drafter.remember([63 - at for at in range(64)], [9, 1, 2, 40, 41])
    cycles += list(stream)
    assert first.trace is not None
    assert second.trace is not None
    proposed = [cycle.proposed for cycle in first.trace.cycles]
    assert proposed == [c.proposed for c in second.trace.cycles] == [c.proposed for c in cycles]
    third = engine.generate([9, 1, 2], sd.Sampling(seed=1), max_new_tokens=20)
    assert third.trace is not None
    assert third.trace.cycles[0].proposed == (40, 41)


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_the_law_is_the_targets(rule: str) -> None:
    """Enumerated, with drafts that the target likes more and less."""
    lm = sd.testing.TabularLM(logs(P4))
    drafter = sd.RetrievalDrafter([[0, 1, 2, 3, 0, 3, 3], [1, 2, 2, 0, 1]])
    engine = sd.Engine(lm, drafter=drafter, gamma=2, verify=rule)
    law = sd.exact_law(engine, [0, 1], 3)
    assert len(law) == 64
    for tokens, chance in law.items():
        assert abs(chance - P4[tokens[0]] * P4[tokens[1]] * P4[tokens[2]]) < 1e-12


@pytest.mark.parametrize("cache", ["contiguous", "paged", "masked", "selective", "recompute"])
def test_greedy_is_plain(cache: str) -> None:
    """Alone and in a batch, with drafts kept and refused."""
    plain = sd.Engine(TARGET)
    texts = [list(plain.generate([start, 3, 5], GREEDY, max_new_tokens=30).tokens) for start in (1, 2)]
    texts.append([at * 7 % 64 for at in range(200)])
    engine = sd.Engine(TARGET, drafter=sd.RetrievalDrafter(texts), gamma=4, cache=cache, debug=True)
    prompts = [[start, 3, 5] for start in range(6)]
    greedy_equals_plain(engine, prompts[:2])
    together = engine.generate(prompts, GREEDY, max_new_tokens=30)
    alone = [plain.generate(prompt, GREEDY, max_new_tokens=30).tokens for prompt in prompts]
    assert [row.tokens for row in together] == alone
    assert sum(row.stats.accepted for row in together) > 20
    assert sum(row.stats.drafted - row.stats.accepted for row in together) > 20


def test_refusals() -> None:
    """What cannot be used is named, and nothing of it is kept."""
    for longest, shortest in ((0, 0), (1, 2), (3, 0), (2.5, 1), ("3", 1)):
        with pytest.raises(sd.InvalidInput, match="longest ≥ shortest ≥ 1"):
            sd.RetrievalDrafter(longest=longest, shortest=shortest)  # type: ignore[arg-type]
    with pytest.raises(sd.InvalidInput, match="max_tokens=0"):
        sd.RetrievalDrafter(max_tokens=0)
    with pytest.raises(sd.InvalidInput, match="give a list of texts"):
        sd.RetrievalDrafter("one text")
    for nothing in (None, 5):
        with pytest.raises(sd.InvalidInput, match=f"the corpus is a {type(nothing).__name__}; give a list of texts"):
            sd.RetrievalDrafter(nothing)  # type: ignore[arg-type]
    with pytest.raises(sd.InvalidInput, match="no tokenizer"):
        sd.RetrievalDrafter(["a text"])
    drafter = sd.RetrievalDrafter([[1, 2, 3]])
    for wrong in ([1, -1], [1.5], [True], [2**31], 7, None, [[1]], torch.tensor([0.5])):
        with pytest.raises(sd.InvalidInput, match="from 0 on"):
            drafter.remember([4, 5], wrong)  # type: ignore[arg-type]
    assert drafter.held == 3
    with pytest.raises(sd.InvalidInput, match="holds token 64; the target's ids are 0 to 63"):
        sd.Engine(TARGET, drafter=sd.RetrievalDrafter([[1, 64]]))
    sd.Engine(TARGET, drafter=drafter)
    with pytest.raises(sd.InvalidInput, match="holds token 64"):
        drafter.remember([2, 9], [64])
    drafter.remember([8, 8])
    assert (drafter.held, drafter.look_up([2], 1)) == (5, [3])


def test_tensors_and_arrays_are_ids() -> None:
    drafter = sd.RetrievalDrafter([torch.tensor([1, 2, 3]), np.array([2, 4]), range(5)])  # type: ignore[list-item]
    assert drafter.look_up([1, 2], 1) == [3]
    assert drafter.held == 10
