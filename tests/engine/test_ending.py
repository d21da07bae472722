"""Stop strings and streaming: cut in token order, never shown, the same as plain decoding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_teach as sd
from specdec_teach.ending import Ending
from specdec_teach.text import TextStream

WORDS = ["a", "b", "ab", "x", "xaby", "c", " ", "bc", "é"]


class Words:
    """A tokenizer of nine pieces; id 9 ends the text."""

    eos_token_id = 9

    def decode(self, token_ids: Any) -> str:
        """Join the pieces."""
        return "".join(WORDS[token] for token in token_ids)

    def convert_ids_to_tokens(self, ids: Any) -> list[str | None]:
        """Give the pieces."""
        return [WORDS[token] if token < 9 else None for token in ids]


def script(tokens: list[int]) -> Any:
    """A target that says `tokens` after a prompt of one, surely, and then 5 for ever."""
    import torch

    def logits(prefix: tuple[int, ...]) -> Any:
        row = torch.full((10,), -50.0)
        at = len(prefix) - 1
        row[tokens[at] if at < len(tokens) else 5] = 50.0
        return row

    return sd.testing.TabularLM(logits, vocab=10)


def oracle(tokens: list[int], stops: tuple[str, ...]) -> tuple[int, str, str]:
    """Feed one token at a time and look at the whole text: kept tokens, text, reason."""
    for count in range(1, len(tokens) + 1):
        if tokens[count - 1] == 9:
            return count, Words().decode(tokens[: count - 1]), "eos"
        text = Words().decode(tokens[:count])
        starts = [text.find(stop) for stop in stops if stop in text]
        if starts:
            return count, text[: min(starts)], "stop"
    return len(tokens), Words().decode(tokens), "length"


PLACES = [
    ([0, 1, 5, 5, 5], ("ab",)),
    ([5, 0, 1, 5, 5], ("ab",)),
    ([5, 5, 5, 0, 1, 5], ("ab",)),
    ([5, 4, 5, 5], ("ab",)),
    ([0, 0, 1, 5], ("aab",)),
    ([0, 7, 5, 5], ("bc", "abc")),
    ([5, 9, 0, 1], ("ab",)),
    ([0, 9, 1, 1], ("ab",)),
    ([0, 0, 0, 0], ("b",)),
    ([0, 0, 0, 0], ("ab",)),
]


@pytest.mark.parametrize("gamma", range(1, 6))
@pytest.mark.parametrize(("tokens", "stops"), PLACES, ids=str)
def test_stop_strings_wherever_they_fall(tokens: list[int], stops: tuple[str, ...], gamma: int) -> None:
    """Across blocks, inside a block, inside one token, ahead of an end token; ids, text and reason as one by one."""
    kept, text, reason = oracle(tokens, stops)
    target = script(tokens)
    engine = sd.Engine(target, drafter=sd.ModelDrafter(script(tokens)), tokenizer=Words(), gamma=gamma)
    sampling = sd.Sampling(temperature=0, stop=stops)
    for speculate in (True, False):
        stream = engine.stream([5], sampling, max_new_tokens=len(tokens), speculate=speculate)
        cycles = list(stream)
        result = stream.result()
        assert result.tokens == tuple(tokens[:kept])
        assert result.text == text == "".join(cycle.text for cycle in cycles)
        assert result.finish_reason == reason
        assert cycles[-1].target_kv.after == min(cycles[-1].target_kv.written, cycles[-1].committed_after - 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.lists(st.sampled_from(["ab", "b", "xa", "aa", "cab", "é"]), max_size=2, unique=True),
    st.lists(st.integers(1, 4), min_size=12, max_size=12),
)
def test_any_text_in_any_blocks(tokens: list[int], stops: list[str], sizes: list[int]) -> None:
    """Fed in blocks of any size, the pieces join to the oracle's text and never show part of a stop string."""
    kept, text, reason = oracle(tokens, tuple(stops))
    ending = Ending(frozenset({9}), tuple(stops), TextStream(Words()))
    shown, count, why = "", 0, None
    for size in sizes:
        block = tokens[count : count + size]
        if not block or why:
            break
        fed = ending.feed(block, last=count + len(block) == len(tokens))
        ending, shown, count, why = fed.after, shown + fed.piece, count + fed.kept, fed.reason
        assert text.startswith(shown)
    assert (count, shown, why or "length") == (kept, text, reason)


def test_feeding_twice_is_feeding_once() -> None:
    """An ending never changes, so a cycle that is worked out again shows the same."""
    ending = Ending(frozenset(), ("ab",), TextStream(Words()))
    first = ending.feed([5, 0])
    assert first.piece == ending.feed([5, 0]).piece == "c"
    assert first.after.feed([5], last=True).piece == "ac"


def test_logprobs(pair: sd.Pair) -> None:
    """Of accepted drafts, corrections and bonuses alike: the same as plain decoding reports; at T=0 those of T=1."""
    import torch

    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    for sampling in (
        sd.Sampling(temperature=0, logprobs=3),
        sd.Sampling(temperature=0.8, top_k=20, seed=2, logprobs=3),
    ):
        result = engine.generate("Once upon a time", sampling, max_new_tokens=20)
        assert result.logprobs is not None
        assert len(result.logprobs) == len(result.tokens)
        ids = [*pair.tokenizer("Once upon a time").input_ids, *result.tokens]
        with torch.inference_mode():
            logits = pair.target(torch.tensor([ids])).logits[0]
        start = len(ids) - len(result.tokens)
        for at, (token, row) in enumerate(zip(result.tokens, result.logprobs, strict=True)):
            scores = logits[start + at - 1]
            if sampling.temperature:
                scores = scores / 0.8
                scores = scores.masked_fill(scores < scores.topk(20).values[-1], -torch.inf)
            right = scores.log_softmax(-1)
            assert token in row
            assert 3 <= len(row) <= 4
            assert row == pytest.approx({i: float(right[i]) for i in row}, abs=1e-4)
    assert engine.generate("Once", sd.Sampling(), max_new_tokens=2).logprobs is None
