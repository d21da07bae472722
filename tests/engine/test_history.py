"""Penalties, bans and processors: every row sees its own prefix, as transformers' processors and plain decoding do."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
import torch
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

import specdec_teach as sd
from specdec_teach.history import History

from ..checks import product_law, same_law

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.05)
PROMPT = [1, 2, 3, 1, 2, 3]
GREEDY: dict[str, Any] = {"temperature": 0.0}
CASES: list[tuple[dict[str, Any], Any]] = [
    ({"repetition_penalty": 1.5}, RepetitionPenaltyLogitsProcessor(1.5)),
    ({"repetition_penalty": 0.7}, RepetitionPenaltyLogitsProcessor(0.7)),
    ({"no_repeat_ngram_size": 2}, NoRepeatNGramLogitsProcessor(2)),
    ({"no_repeat_ngram_size": 1}, NoRepeatNGramLogitsProcessor(1)),
    ({"no_repeat_ngram_size": 3}, NoRepeatNGramLogitsProcessor(3)),
    ({"banned": ((5,), (3, 9))}, NoBadWordsLogitsProcessor([[5], [3, 9]])),
    ({"logit_bias": {7: 3.0, 9: -4.0}}, SequenceBiasLogitsProcessor({(7,): 3.0, (9,): -4.0})),
    (
        {"min_new_tokens": 2, "eos_token_id": (4, 6)},
        MinNewTokensLengthLogitsProcessor(len(PROMPT), 2, [4, 6], device="cpu"),
    ),
]


def steps(settings: dict[str, Any], eos: frozenset[int] = frozenset({4, 6})) -> History:
    """The steps of a request with `PROMPT`."""
    sampling = sd.Sampling(**settings)
    built = History.of(sampling, PROMPT, 64, eos, [b for b in sampling.banned if not isinstance(b, str)])
    assert built is not None
    return built


@pytest.mark.parametrize(("settings", "theirs"), CASES, ids=[str(case[0]) for case in CASES])
def test_each_row_is_what_transformers_makes_of_its_prefix(settings: dict[str, Any], theirs: Any) -> None:
    """Row r sees prompt, committed tokens and the first r drafts."""
    prefix, drafts = [*PROMPT, 8, 3], [9, 1, 2, 5]
    logits_RV = torch.randn(5, 64, generator=torch.Generator().manual_seed(2))
    ours_RV = steps(settings).apply(logits_RV, prefix, drafts)
    for row in range(5):
        ids = torch.tensor([prefix + drafts[:row]])
        right_V = theirs(ids, logits_RV[row : row + 1].clone())[0]
        assert torch.allclose(ours_RV[row], right_V, atol=1e-6), f"row {row}"


def test_count_penalties_on_paper() -> None:
    """Frequency counts, presence does not; the prompt is not counted."""
    logits_RV = torch.zeros(3, 64)
    ours_RV = steps({"frequency_penalty": 0.5, "presence_penalty": 0.25}).apply(logits_RV, [*PROMPT, 8], [8, 9])
    assert ours_RV[:, 8].tolist() == [-0.75, -1.25, -1.25]
    assert ours_RV[:, 9].tolist() == [0.0, 0.0, -0.75]
    assert ours_RV[:, 1].tolist() == [0.0, 0.0, 0.0]


def test_allowed_ids() -> None:
    """Everything else is impossible, for the draft as well."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    result = engine.generate(PROMPT, sd.Sampling(allowed=(5, 9, 11), seed=1), max_new_tokens=20)
    assert set(result.tokens) <= {5, 9, 11}
    assert result.trace is not None
    assert {t for cycle in result.trace.cycles for t in cycle.proposed} <= {5, 9, 11}


SETTINGS = [
    {"repetition_penalty": 1.5},
    {"frequency_penalty": 0.5},
    {"presence_penalty": 0.9},
    {"no_repeat_ngram_size": 2},
    {"banned": ((11,), (26, 3))},
    {"min_new_tokens": 9, "eos_token_id": 26},
    {"logit_bias": {11: -1.0, 30: 1.0}},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "no_repeat_ngram_size": 3},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_greedy_equals_plain_for_every_gamma(settings: dict[str, Any]) -> None:
    """γ 1 … 6, looping prompt, a near draft and a script of one repeated token."""
    sampling = sd.Sampling(**GREEDY, **settings)
    plain = sd.Engine(TARGET).generate(PROMPT, sampling, max_new_tokens=24).tokens
    for gamma in range(1, 7):
        for drafter in (sd.ModelDrafter(NEAR), sd.ScriptedDrafter([plain[0]] * 40)):
            engine = sd.Engine(TARGET, drafter=drafter, gamma=gamma)  # type: ignore[arg-type]
            assert engine.generate(PROMPT, sampling, max_new_tokens=24).tokens == plain


@pytest.mark.parametrize("settings", SETTINGS[:1] + SETTINGS[3:4], ids=str)
def test_greedy_equals_transformers(settings: dict[str, Any]) -> None:
    """The same words mean the same in `generate`."""
    ids = torch.tensor([PROMPT])
    theirs = TARGET.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24, pad_token_id=0, **settings
    )
    ours = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR)).generate(
        PROMPT, sd.Sampling(**GREEDY, **settings), max_new_tokens=24
    )
    assert list(ours.tokens) == theirs[0, len(PROMPT) :].tolist()


def looping_check() -> None:
    """A target that would say one token for ever but for the penalty: a block must change its mind in the middle."""
    loop = sd.testing.TabularLM([2.0, 1.6, 1.2, 0.0])
    sampling = sd.Sampling(temperature=0, frequency_penalty=0.5)
    plain = sd.Engine(loop).generate([3], sampling, max_new_tokens=24).tokens
    assert len(set(plain)) > 1
    for gamma in range(1, 7):
        for drafter in (sd.ModelDrafter(loop), sd.ScriptedDrafter([0] * 40)):
            engine = sd.Engine(loop, drafter=drafter, gamma=gamma)  # type: ignore[arg-type]
            assert engine.generate([3], sampling, max_new_tokens=24).tokens == plain


def test_a_looping_target() -> None:
    """See above."""
    looping_check()


def test_a_penalty_that_is_blind_inside_the_block_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows with the committed history only: the checks above must fail."""
    honest = History.apply

    def blind(self: History, logits_RV: torch.Tensor, prefix: Any, drafts: Any, parents: Any = None) -> torch.Tensor:
        return torch.cat([honest(self, row[None], prefix, ()) for row in logits_RV])

    monkeypatch.setattr(History, "apply", blind)
    with pytest.raises(AssertionError):
        test_each_row_is_what_transformers_makes_of_its_prefix(*CASES[0])
    with pytest.raises(AssertionError):
        looping_check()


def test_exact_law_with_a_penalty() -> None:
    """Three tokens, no token twice in a row, by enumeration through the engine."""
    table = torch.randn(3, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    target, draft = sd.testing.TabularLM(table), sd.testing.TabularLM(-table)
    sampling = sd.Sampling(frequency_penalty=0.8, presence_penalty=0.4)

    def step(prefix: tuple[int, ...]) -> list[float]:
        counts = torch.tensor([prefix[1:].count(token) for token in range(3)], dtype=torch.float64)
        return (table - 0.8 * counts - 0.4 * (counts > 0)).softmax(0).tolist()

    for rule in ("rejection", "block"):
        engine = sd.Engine(target, drafter=sd.ModelDrafter(draft), gamma=2, verify=rule)
        same_law(sd.exact_law(engine, [0], 3, sampling), product_law(step, (0,), 3))


class Counting(LogitsProcessor):  # type: ignore[misc]
    """A processor with a state: it counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Bans a token that depends on the number of calls."""
        self.calls += 1
        scores[:, self.calls % 64] = -torch.inf
        return scores


class Nested(LogitsProcessor):  # type: ignore[misc]
    """A state one level down: it only looks at ids it has not seen, and bans repeating the last."""

    def __init__(self) -> None:
        self.inner = Counting()
        self.inner.calls = 0
        self.last = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Advances on the new ids only."""
        for token in input_ids[0, self.inner.calls :].tolist():
            self.last = token
            self.inner.calls += 1
        scores[:, self.last] = -torch.inf
        return scores


@pytest.mark.parametrize(
    "processor",
    [
        NoBadWordsLogitsProcessor([[5], [3, 9]]),
        SequenceBiasLogitsProcessor({(7,): 3.0, (3, 9): -4.0}),
        MinNewTokensLengthLogitsProcessor(len(PROMPT), 2, [4, 6], device="cpu"),
        lambda ids, scores: scores.index_fill(1, ids[0, -1:], -5.0),
    ],
    ids=["bad words", "bias", "minimum", "function"],
)
def test_processors_that_only_look_stateful_are_welcome(processor: Any) -> None:
    """A cache of constants is no state: answers decide."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    sampling = sd.Sampling(**GREEDY, processors=processor)
    runs = [
        engine.generate(PROMPT, sampling, max_new_tokens=12, speculate=speculate).tokens for speculate in (True, False)
    ]
    assert runs[0] == runs[1]


def test_hidden_state_and_what_cannot_be_copied_are_refused() -> None:
    """A state inside an object, and a lock."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    with pytest.raises(sd.InvalidInput, match="Nested keeps a state"):
        engine.generate(PROMPT, sd.Sampling(processors=(Nested(),)))
    locked = Counting()
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(sd.InvalidInput, match="cannot be tried out on a copy"):
        engine.generate(PROMPT, sd.Sampling(processors=(locked,)))


def test_an_end_token_that_the_target_lacks() -> None:
    """min_new_tokens bans the end tokens that exist."""
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=2)
    assert len(engine.generate(PROMPT, sd.Sampling(eos_token_id=999, min_new_tokens=2), max_new_tokens=4).tokens) == 4


def test_processors_of_transformers_and_those_with_a_state() -> None:
    """A stateless list works as in plain decoding; one with a state is refused by name, unless decoding plainly."""
    processors = (LogitsProcessorList([RepetitionPenaltyLogitsProcessor(1.3), NoRepeatNGramLogitsProcessor(2)]),)
    engine = sd.Engine(TARGET, drafter=sd.ModelDrafter(NEAR), gamma=4)
    sampling = sd.Sampling(**GREEDY, processors=processors)
    assert (
        engine.generate(PROMPT, sampling, max_new_tokens=20).tokens
        == engine.generate(PROMPT, sampling, max_new_tokens=20, speculate=False).tokens
    )
    counting = Counting()
    with pytest.raises(sd.InvalidInput, match="the processor Counting keeps a state"):
        engine.generate(PROMPT, sd.Sampling(processors=(counting,)))
    assert counting.calls == 0
    assert engine.generate(PROMPT, sd.Sampling(processors=(counting,)), max_new_tokens=3, speculate=False).tokens


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"allowed": (64,)}, "names token 64"),
        ({"banned": ((1, 99),)}, "names token 99"),
        ({"logit_bias": {70: 1.0}}, "names token 70"),
        ({"banned": ("word",)}, "has no tokenizer"),
        ({"stop": ("word",)}, "has no tokenizer"),
    ],
)
def test_ids_and_texts_that_do_not_fit_the_target(settings: dict[str, Any], says: str) -> None:
    """Refused when the request is made."""
    with pytest.raises(sd.InvalidInput, match=says):
        sd.Engine(TARGET).generate(PROMPT, sd.Sampling(**settings))


def test_banned_texts(pair: sd.Pair) -> None:
    """A banned word is not said, with or without a space before it."""
    engine = sd.Engine(pair.target, drafter=sd.ModelDrafter(pair.draft), tokenizer=pair.tokenizer)
    free = engine.generate("Once upon a time", sd.Sampling.greedy(), max_new_tokens=40)
    word = next(word for word in free.text.replace(",", "").replace(".", "").split() if len(word) > 3)
    tame = engine.generate("Once upon a time", sd.Sampling(temperature=0, banned=(word,)), max_new_tokens=40)
    assert word in re.findall(r"\w+", free.text)
    assert word not in re.findall(r"\w+", tame.text)
