"""Field cases of drafters that look drafts up: caps, second calls, long and hostile texts, other vocabularies."""

from __future__ import annotations

from typing import Any

import pytest

import specdec_teach as sd
from specdec_teach.drafters.ngram import _Index

from ..checks import logs
from ..exactness.mistakes import first_unverified

GREEDY = sd.Sampling.greedy()
TARGET = sd.testing.tiny_llama()
LOOP = sd.testing.TabularLM([[0.0, 9.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
MAKERS: dict[str, Any] = {"ngram": sd.NgramDrafter, "retrieval": lambda: sd.RetrievalDrafter([[0, 1, 2] * 30])}
WORDS: dict[str, Any] = {
    "ngram": sd.NgramDrafter,
    "retrieval": lambda: sd.RetrievalDrafter([[at * 7 % 64 for at in range(300)]]),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("most", [0, 1, 2, 3, 5])
def test_a_cap_holds_where_every_draft_stands(name: str, most: int) -> None:
    """Exactly as many tokens as are allowed; γ leaves room for the token that the cycle adds; one token needs none."""
    engine = sd.Engine(LOOP, drafter=MAKERS[name](), gamma=4)
    prompt = [0, 1, 2, 0, 1, 2]
    result = engine.generate(prompt, GREEDY, max_new_tokens=most)
    assert result.tokens == (0, 1, 2, 0, 1)[:most]
    assert result.finish_reason == "length"
    assert result.trace is not None
    assert all(len(c.proposed) <= most - (c.committed_before - len(prompt)) - 1 for c in result.trace.cycles)
    assert result.stats.drafted == result.stats.accepted == (0 if most <= 1 else most - 1)


LADDER = sd.testing.TabularLM([[9.0 * (after == at + 1) for after in range(10)] for at in range(10)])
"""Says 1, 2, 3, … ; "9" comes late."""
WRONG = [1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9, 0]
LIARS: dict[str, Any] = {"ngram": sd.NgramDrafter, "retrieval": lambda: sd.RetrievalDrafter([WRONG])}


def the_first_draft_is_judged(name: str, gamma: int, sampling: sd.Sampling) -> None:
    """What is looked up begins with a token that the target never says: it falls each time, and the text stays."""
    engine = sd.Engine(LADDER, drafter=LIARS[name](), gamma=gamma)
    result = engine.generate(WRONG, sampling, max_new_tokens=7)
    assert result.tokens == engine.generate(WRONG, sampling, max_new_tokens=7, speculate=False).tokens
    assert result.tokens == (1, 2, 3, 4, 5, 6, 7)
    assert result.trace is not None
    drafted = [cycle for cycle in result.trace.cycles if cycle.proposed]
    assert len(drafted) >= 5
    assert max(len(cycle.proposed) for cycle in drafted) == gamma
    for cycle in drafted:
        assert cycle.proposed[0] == 9
        assert (cycle.accepted, cycle.decisions[0].status, cycle.last_kind) == (0, "rejected", "correction")


FIRST = [(name, gamma, how) for name in LIARS for gamma in (1, 3) for how in (GREEDY, sd.Sampling(top_k=1, seed=5))]


@pytest.mark.parametrize(("name", "gamma", "sampling"), FIRST)
def test_a_wrong_first_draft_falls_each_time(name: str, gamma: int, sampling: sd.Sampling) -> None:
    the_first_draft_is_judged(name, gamma, sampling)


@pytest.mark.parametrize(("name", "gamma", "sampling"), FIRST)
def test_a_first_draft_that_nothing_judges_is_noticed(
    name: str, gamma: int, sampling: sd.Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are shifted by one let it pass; also where it is the only one."""
    first_unverified(monkeypatch)
    with pytest.raises(AssertionError):
        the_first_draft_is_judged(name, gamma, sampling)


class _Counted:
    """A drafter that counts what is asked of it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.asked = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(self, *given: Any) -> Any:
        self.asked += 1
        return self.inner.propose(*given)

    def reset(self, *given: Any) -> Any:
        self.asked += 1
        return self.inner.reset(*given)


@pytest.mark.parametrize("name", MAKERS)
def test_one_token_does_no_draft_work(name: str) -> None:
    drafter = _Counted(MAKERS[name]())
    sd.Engine(LOOP, drafter=drafter, gamma=4).generate([0, 1, 2, 0], GREEDY, max_new_tokens=1)
    assert drafter.asked == 0


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("sampling", [GREEDY, sd.Sampling(seed=4)], ids=["greedy", "T=1"])
def test_a_call_leaves_nothing_behind(name: str, sampling: sd.Sampling) -> None:
    """The second call is like the first, also with another one in between, and like a new engine's."""
    engine = sd.Engine(TARGET, drafter=WORDS[name](), gamma=3)
    prompt = [7, 14, 21, 7, 14]

    def drafts(engine: sd.Engine) -> list[tuple[int, ...]]:
        trace = engine.generate(prompt, sampling, max_new_tokens=20).trace
        assert trace is not None
        return [cycle.proposed for cycle in trace.cycles]

    first = drafts(engine)
    engine.generate([7, 14, 50, 51, 52, 7, 14, 50], sd.Sampling(seed=9), max_new_tokens=20)
    assert drafts(engine) == first == drafts(sd.Engine(TARGET, drafter=WORDS[name](), gamma=3))
    assert any(first)


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("cache", ["contiguous", "paged", "masked", "selective", "recompute"])
def test_rows_of_a_batch_are_as_alone(name: str, cache: str) -> None:
    """Greedy rows of three lengths in every layout, one of them with a penalty."""
    engine = sd.Engine(TARGET, drafter=WORDS[name](), gamma=4, cache=cache, debug=True)
    prompts = [[7, 14, 21, 7], [3, 5, 3, 5, 3, 5, 3], [9]]
    how = [GREEDY, GREEDY, sd.Sampling(temperature=0, repetition_penalty=1.4)]
    plain = sd.Engine(TARGET)
    rows = engine.generate(prompts, how, max_new_tokens=24)
    for row, prompt, one in zip(rows, prompts, how, strict=True):
        assert row.tokens == plain.generate(prompt, one, max_new_tokens=24).tokens
    assert sum(row.stats.drafted for row in rows) > 0


class _Tally(list[int]):
    """A text that counts how often a token of it is read."""

    reads = 0

    def __getitem__(self, at: Any) -> Any:
        self.reads += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("text", [[5] * 32_000, [at * at % 251 for at in range(32_000)]], ids=["one token", "many"])
def test_n_gram_work_depends_on_what_is_new(text: list[int]) -> None:
    """Of a text of 32 000 tokens a proposal reads its end and the drafts, a commit what is new."""
    index, tokens = _Index(3, 1), _Tally(text)
    index.follow(tokens)
    assert tokens.reads <= 3 * len(text)
    tokens.reads = 0
    drafts = index.look_up(tokens, 8)
    assert len(drafts) == 8
    assert tokens.reads <= 3 + 8
    tokens.reads = 0
    tokens.append(6)
    index.follow(tokens)
    assert tokens.reads <= 3
    assert len(index._places) <= 3 * len(tokens)


@pytest.mark.parametrize("name", WORDS)
def test_a_text_shorter_than_what_is_compared(name: str) -> None:
    """One token, two tokens; the whole text as its own end."""
    engine = sd.Engine(TARGET, drafter=WORDS[name](), gamma=2, debug=True)
    for prompt in ([5], [5, 5], [5, 6], [5, 5, 5, 5]):
        found = engine.generate(prompt, GREEDY, max_new_tokens=8)
        assert found.tokens == engine.generate(prompt, GREEDY, max_new_tokens=8, speculate=False).tokens


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("rule", ["rejection", "block", "coupled"])
def test_a_drafter_over_a_padded_vocabulary(name: str, rule: str) -> None:
    """Ids that no text holds are never drafted, and the law is the target's own over all of its width."""
    p = (0.5, 0.2, 0.2, 0.1)
    lm = sd.testing.TabularLM(logs(p))
    engine = sd.Engine(lm, drafter=MAKERS[name](), gamma=2, verify=rule)
    law = sd.exact_law(engine, [0, 1, 2, 0], 2)
    assert len(law) == 16
    assert max(abs(chance - p[a] * p[b]) for (a, b), chance in law.items()) < 1e-12
    trace = engine.generate([0, 1, 2, 0], sd.Sampling(seed=1), max_new_tokens=30).trace
    assert trace is not None
    drafted = [token for cycle in trace.cycles for token in cycle.proposed]
    assert drafted
    assert name == "ngram" or 3 not in drafted
