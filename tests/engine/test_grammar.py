"""Structured output: every emitted text is in the language, whatever was drafted, rejected or interrupted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.grammar import GrammarMasks

DIGITS = sd.Grammar.regex(r"[0-9]+;")
PROMPT = "Mira counted"


def engine(pair: sd.Pair, drafter: Any = None, **settings: Any) -> sd.Engine:
    """The embedded pair, or its target with another drafter."""
    return sd.Engine(
        pair.target, drafter=drafter or sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer, gamma=4, **settings
    )


@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_every_text_is_in_the_language(pair: sd.Pair, rule: str) -> None:
    """Sampled hot, so that the models alone would never say it."""
    for seed in range(5):
        result = engine(pair, verify=rule).generate(
            PROMPT, sd.Sampling(temperature=1.5, seed=seed, grammar=DIGITS), max_new_tokens=40
        )
        whole = r"[0-9]+;" if result.finish_reason == "eos" else r"[0-9]*;?"
        assert re.fullmatch(whole, result.text), result.text


@pytest.mark.parametrize("reject_at", [None, 0, 1, 2, 3])
def test_greedy_equals_plain_with_rejections_anywhere(pair: sd.Pair, reject_at: int | None) -> None:
    """The matcher stands where the committed tokens put it, whatever the drafts were."""
    subject = engine(pair)
    sampling = sd.Sampling(temperature=0, grammar=sd.Grammar.regex(r" (one|two|three) (cats|dogs|birds)( and more)*\."))
    plain = subject.generate(PROMPT, sampling, max_new_tokens=20, speculate=False)
    fast = subject.generate(PROMPT, sampling, max_new_tokens=20, reject_at=reject_at)
    assert fast.tokens == plain.tokens


def test_illegal_drafts_are_cut_before_the_target_runs(pair: sd.Pair) -> None:
    """Digits, then a letter in the third place: two drafts reach the target, none behind them."""
    digit, letter = (pair.tokenizer.convert_tokens_to_ids(text) for text in ("1", "a"))
    script = sd.ScriptedDrafter(lambda ids, count: [digit, digit, letter, digit][:count])
    stream = engine(pair, script).stream(PROMPT, sd.Sampling(seed=3, grammar=DIGITS), max_new_tokens=12)
    cycle = next(stream)
    assert cycle.gamma == 4
    assert cycle.proposed == (digit, digit)
    assert cycle.target_kv.written == cycle.target_kv.before + 3
    for _ in stream:
        pass
    assert re.fullmatch(r"[0-9]*;?", stream.result().text)


def test_masks_follow_any_walk(pair: sd.Pair) -> None:
    """Forward, back, elsewhere: a prefix's mask is that of a fresh matcher."""
    import torch

    def fresh() -> GrammarMasks:
        return GrammarMasks(sd.Grammar.regex(r"(ab|a1)+;"), pair.tokenizer, 2048, frozenset({0}))

    a, b, one, end = (pair.tokenizer.convert_tokens_to_ids(text) for text in ("a", "b", "1", ";"))
    walker = fresh()
    for tokens in ([], [a], [a, b], [a, b, a, one], [a, one], [], [a, b, end], [a, b]):
        row = torch.zeros(2048)
        assert torch.equal(walker.mask(row, tokens), fresh().mask(row, tokens))
    assert walker.legal([a], [b, a, a, one]) == 2
    assert walker.legal([a], [b, end, a]) == 2


def test_a_draft_of_a_tree_is_legal_along_its_own_way(pair: sd.Pair) -> None:
    """Below "a" may stand "b" and not "a"; below "b", which nothing begins with, may stand nothing."""
    a, b = (pair.tokenizer.convert_tokens_to_ids(text) for text in ("a", "b"))
    stream = engine(pair).stream(PROMPT, sd.Sampling(grammar=sd.Grammar.regex(r"(ab|a1)+;")))
    sequence = stream.sequence
    assert sequence.policy.legal(sequence.tokens, (a, b, b, a, a), (-1, -1, 0, 1, 0)) == (0, 2)


def test_json(pair: sd.Pair) -> None:
    """A small schema; the text parses."""
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    result = engine(pair).generate(
        PROMPT, sd.Sampling(seed=1, grammar=sd.Grammar.json_schema(schema)), max_new_tokens=60
    )
    assert result.finish_reason == "eos"
    assert json.loads(result.text)["n"] in (1, 2)
    assert result.trace is not None
    assert result.trace.meta.sampling["grammar"]["kind"] == "json_schema"  # type: ignore[index]


@pytest.mark.parametrize(
    ("sampling", "says"),
    [
        (sd.Sampling(grammar=sd.Grammar.regex("([")), "cannot be read"),
        (sd.Sampling(grammar=DIGITS, eos_token_id=None), "needs an end token"),
    ],
)
def test_refusals(pair: sd.Pair, sampling: sd.Sampling, says: str) -> None:
    """One line, before anything has run."""
    with pytest.raises(sd.InvalidInput, match=says) as caught:
        engine(pair).generate(PROMPT, sampling)
    assert "\n" not in str(caught.value)
    with pytest.raises(sd.InvalidInput, match="has no tokenizer"):
        sd.Engine(pair.target).generate([1], sd.Sampling(grammar=DIGITS))
    with pytest.raises(sd.InvalidInput, match="grammar='x'"):
        sd.Sampling(grammar="x")  # type: ignore[arg-type]
