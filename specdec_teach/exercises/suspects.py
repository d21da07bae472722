"""What lesson 12 hunts: twelve broken engines, the thoughts behind them, logs of three incidents, and loaded dice.

Invariant: every record and every log is of an engine that runs, made once and remembered; engines keep their neutral
names. It does not know how answers are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Items
from functools import cache
from typing import Any, Final

import torch

from specdec_teach import faults
from specdec_teach.caches import PagedCache
from specdec_teach.checking.tables import over
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.engine import Engine
from specdec_teach.exercises.laws import first_token, model_of
from specdec_teach.exercises.lesson_05 import with_cache
from specdec_teach.faults import drafting, memory, requests
from specdec_teach.pairs import load_pair
from specdec_teach.sampling import Sampling
from specdec_teach.trace import Cycle, Trace

__all__ = ["CRAFTED", "INCIDENTS", "NEAR", "SECTIONS", "THOUGHTS", "THOUGHT_OF", "TWELVE", "base", "dice", "incident",
           "leaky", "loaded_dice", "record", "suspect", "traced", "two_filters"]  # fmt: skip

TWELVE: Final = tuple(f"engine_{letter}" for letter in "bcdefghijlmn")
SECTIONS: Final = ("laws", "chi-square", "ends", "caps", "penalties", "greedy", "self-draft", "second call", "states")
PROMPT: Final = "Mira had a red lantern and"
STORY: Final = Sampling(temperature=0.8, top_k=6, seed=8)

_LINES: Final = (
    ("j", "all tokens of the block are committed, so others may have it"),
    ("n", "the likeliest draft is the best one, and q stays the softmax"),
    ("f", "the counter went back, so the rewind is done; a slot keeps what it got first"),
    ("h", "the history is what has been committed; all rows of the pass share it"),
    ("l", "better to forget a token too many than to keep a wrong one"),
    ("g", "accepted drafts are counted: add up the ticks"),
    ("i", "every draw has a number, and every number one vector of noise"),
    ("c", "all drafts stand, so the draft's cache holds them all"),
    ("e", "q is the softmax of the draft's logits; filters belong to the sampler"),
    ("d", "a cycle ends with one new token: is it the end of the text?"),
    ("b", "the draft fell, so the target draws again, from its own row"),
    ("m", "the last token is committed, so it is in the target's cache"),
)
THOUGHTS: Final[Mapping[str, str]] = {letter: line for letter, (_, line) in zip("ABCDEFGHIJKL", _LINES, strict=True)}
THOUGHT_OF: Final = {f"engine_{letter}": name for name, (letter, _) in zip("ABCDEFGHIJKL", _LINES, strict=True)}


@cache
def base() -> Engine:
    """Return the honest engine of the hunt: the story pair, γ = 4, blocks of four tokens."""
    pair = load_pair()
    drafter = ModelDrafter(pair.draft)
    return Engine(pair.target, drafter=drafter, tokenizer=pair.tokenizer, gamma=4, cache="paged", block_size=4)


def suspect(name: str) -> Engine:
    """Return the broken engine of this name, made of `base()`; InvalidInput for an unknown one."""
    return faults.inject(base(), name)


def record(name: str) -> Trace:
    """Return the record of 48 tokens of the story by a broken engine; run once, then remembered."""
    return _recorded(name)


@cache
def _recorded(name: str) -> Trace:
    return traced(suspect(name), 48)


def traced(engine: Engine, count: int, **how: Any) -> Trace:
    """Return the record of `count` tokens of the story; `how` goes to `Engine.generate`."""
    trace: Trace | None = engine.generate(PROMPT, STORY, max_new_tokens=count, **how).trace
    assert trace is not None
    return trace


def two_filters(engine: Engine) -> Engine:
    """Return an engine that draws from the filtered q and judges with the unfiltered one."""
    return drafting.raw_q(engine)


def loaded_dice(engine: Engine) -> Engine:
    """Return an engine that uses the noise of a refused draft again for the correction."""
    return requests.one_vector(engine)


NEAR: Final = ((0.34, 0.22, 0.15, 0.1, 0.08, 0.06, 0.03, 0.02), (0.32, 0.24, 0.14, 0.11, 0.08, 0.06, 0.03, 0.02))
CRAFTED: Final = ((0.45, 0.05, 0.25, 0.25), (0.05, 0.65, 0.15, 0.15))


def dice(
    engine: Engine,
    p: Items[float] = CRAFTED[0],
    q: Items[float] = CRAFTED[1],
    *,
    runs: int = 1500,
    sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
) -> tuple[list[float], float]:
    """Return the shares of the first token in `runs` seeded runs, and how likely a distance like theirs is.

    The engine's rule, noise and drafter are put over two models that always say `p` and `q` `[V]`, with γ = 1. The
    likelihood is that of a chi-square test against the processed p.
    """
    both = over(engine, model_of(p), model_of(q), 1)
    right = first_token(Engine(model_of(p)), sampling)
    how = [Sampling(seed=seed, top_k=sampling.top_k, eos_token_id=None) for seed in range(runs)]
    results = both.generate([[0]] * runs, how, max_new_tokens=2, trace=False)
    said = [result.tokens[0] for result in results]
    counts = [said.count(token) for token in range(len(p))]
    pairs = [(count, chance) for count, chance in zip(counts, right, strict=True) if chance > 0]
    value = sum((count - runs * chance) ** 2 / (runs * chance) for count, chance in pairs)
    half = torch.tensor([(len(pairs) - 1) / 2, value / 2], dtype=torch.float64)
    return [count / runs for count in counts], float(torch.special.gammaincc(half[0], half[1]))


def incident(name: str) -> tuple[Cycle, ...]:
    """Return the cycles of one of three engines with paged caches, "red", "green" or "blue"; KeyError otherwise."""
    return _incident(name)


def _keeping(inner: Any) -> Any:
    return PagedCache(inner.pool, inner.capacity, "keep")


INCIDENTS: Final[Mapping[str, Callable[[Engine], Engine]]] = {
    "red": memory.runs_ahead,
    "green": lambda engine: with_cache(engine, _keeping),
    "blue": memory.early_publisher,
}


def leaky(name: str) -> Engine:
    """Return the engine of an incident."""
    return INCIDENTS[name](base())


@cache
def _incident(name: str) -> tuple[Cycle, ...]:
    how = Sampling(temperature=0.8, seed=3 if name == "red" else 9)
    trace = leaky(name).generate(PROMPT, how, max_new_tokens=28).trace
    assert trace is not None
    return trace.cycles
