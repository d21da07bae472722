"""Engines and requests that share forwards or blocks, and the one question asked of them: is each as it is alone?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

import specdec_teach as sd
from specdec_teach.caches import ContiguousCache
from specdec_teach.invariants import check
from specdec_teach.request import Request

TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)
RULES = ("rejection", "block", "coupled")
LOOSE = 2e-4
"""How far a number of a float32 model may move when its forward gets wider."""


def peaked(seed: int, width: int = 7, near: float = 0.0) -> Callable[[tuple[int, ...]], Tensor]:
    """Logits `[width]` that depend on the whole prefix; `near`: the size of a disturbance, for a draft."""

    def logits(prefix: tuple[int, ...]) -> Tensor:
        state = seed
        for token in prefix:
            state = (state * 31 + token + 1) % 1_000_003
        generator = torch.Generator().manual_seed(state)
        row = torch.randn(width, generator=generator, dtype=torch.float64) * 2
        return row + near * torch.randn(width, generator=generator, dtype=torch.float64)

    return logits


TABLE, TABLE_NEAR = sd.testing.TabularLM(peaked(3)), sd.testing.TabularLM(peaked(3, near=0.7))


def llama_engine(**settings: Any) -> sd.Engine:
    """A float32 Llama and a draft near it."""
    drafter = sd.ModelDrafter(NEAR, decoder=settings.get("decoder", "auto"))
    return sd.Engine(TARGET, drafter=drafter, **{"gamma": 4, "block_size": 4, **settings})


def table_engine(**settings: Any) -> sd.Engine:
    """Two tables of the whole prefix in float64: no forward is wider than another."""
    return sd.Engine(TABLE, drafter=sd.ModelDrafter(TABLE_NEAR), **{"gamma": 3, "block_size": 4, **settings})


@dataclass(frozen=True)
class Ask:
    """One request."""

    prompt: Any
    sampling: sd.Sampling = field(default_factory=sd.Sampling.greedy)
    cap: int = 12
    gamma: int | None = None


def banned_after(token: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A processor without a state: `token` never stands twice in a row."""

    def processor(ids: Tensor, logits: Tensor) -> Tensor:
        if ids.shape[1] and int(ids[0, -1]) == token:
            logits[:, token] = -math.inf
        return logits

    return processor


def requests(vocab: int) -> list[Ask]:
    """Rows that differ in everything: length, γ, cap, seed, filters, penalties, bans, ends, logprobs."""
    ids = [[(at * 5 + row) % vocab for at in range(length)] for row, length in enumerate((1, 5, 9, 2, 13, 3, 6, 1, 4))]
    how = sd.Sampling
    return [
        Ask(ids[0], how.greedy(), 13),
        Ask(ids[1], how(seed=1, temperature=0.9), 14, 2),
        Ask(ids[2], how(seed=2, top_k=5, repetition_penalty=1.3, logprobs=3), 9, 0),
        Ask(ids[3], how(seed=3, frequency_penalty=0.5, presence_penalty=0.2), 1),
        Ask(ids[4], how(seed=4), 0, 4),
        Ask(ids[5], how(seed=5, top_p=0.8, eos_token_id=tuple(range(0, vocab, 3)), min_new_tokens=3), 30, 5),
        Ask(ids[6], how(temperature=0, no_repeat_ngram_size=2, logprobs=2, banned=((1,),)), 12, 1),
        Ask(ids[7], how(seed=5, processors=(banned_after(2),), logit_bias={2: 3.0}, min_p=0.01), 11, 3),
        Ask(ids[8], how(temperature=0, eos_token_id=tuple(range(1, vocab, 2)), repetition_penalty=1.2), 20),
    ]


def alone(engine: sd.Engine, ask: Ask, **settings: Any) -> sd.Result:
    """The request by itself."""
    result = engine.generate(ask.prompt, ask.sampling, max_new_tokens=ask.cap, gamma=ask.gamma, **settings)
    assert isinstance(result, sd.Result)
    return result


def together(engine: sd.Engine, asks: Sequence[Ask], **settings: Any) -> list[sd.Result]:
    """The requests in one call."""
    return engine.generate(
        [ask.prompt for ask in asks],
        [ask.sampling for ask in asks],
        max_new_tokens=[ask.cap for ask in asks],
        gamma=[ask.gamma for ask in asks],
        **settings,
    )


def same(
    found: sd.Result, right: sd.Result, tolerance: float = 0.0, *, freely: bool = False, resumed: bool = False
) -> None:
    """Two results tell the same, seconds and block ids apart; numbers of models agree to `tolerance`.

    `freely`: the cycles may differ, for requests whose γ was made less. `resumed`: the draft may begin a cycle with
    more than it would have, since what it lacked was computed before an interrupt.
    """
    assert found.tokens == right.tokens
    assert (found.text, found.finish_reason) == (right.text, right.finish_reason)
    assert _close(found.logprobs, right.logprobs, tolerance), "logprobs"
    for result in (found, right):
        if result.trace is not None:
            assert check(result.trace) == []
    if freely:
        return
    counts = ("cycles", "drafted", "accepted", "emitted", "stop_cut", "degenerate")
    assert [getattr(found.stats, name) for name in counts] == [getattr(right.stats, name) for name in counts]
    assert (found.trace is None) == (right.trace is None)
    if found.trace is not None and right.trace is not None:
        plain = [_timeless(trace.to_dict(), {"draft_kv"} if resumed else set()) for trace in (found.trace, right.trace)]
        assert _close(*plain, tolerance), "trace"


_ASIDE = {"seed", "seconds", "blocks", "step", "caught_up", "prefill", "cache"}


def _timeless(plain: Any, more: set[str]) -> Any:
    if isinstance(plain, dict):
        return {key: _timeless(value, more) for key, value in plain.items() if key not in _ASIDE | more}
    return [_timeless(value, more) for value in plain] if isinstance(plain, (list, tuple)) else plain


def _close(found: Any, right: Any, tolerance: float) -> bool:
    if isinstance(found, dict) and isinstance(right, dict):
        return found.keys() == right.keys() and all(_close(found[key], right[key], tolerance) for key in found)
    if isinstance(found, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(found) == len(right) and all(_close(f, r, tolerance) for f, r in zip(found, right, strict=True))
    if isinstance(found, float) and isinstance(right, float):
        return found == right or abs(found - right) <= tolerance
    return bool(found == right)


class Ear:
    """An observer that calls `act(event)`."""

    def __init__(self, act: Callable[[Any], None]) -> None:
        self.act = act

    def on_event(self, event: Any) -> None:
        """See `Observer`."""
        self.act(event)


def sound(scheduler: sd.Scheduler) -> None:
    """The pool counts what the tables hold, and nobody runs whose elder waits."""
    held = [0] * scheduler.pool.blocks
    for request in scheduler.live:
        for block in request.cache.table:
            held[block] += 1
        assert request.admitted or not request.cache.table, "a waiting request holds blocks"
        assert request.admitted or request.stream.sequence.draft is None, "a waiting request holds a draft's cache"
    assert held == scheduler.pool.holders, "holders differ from the tables"
    assert scheduler.blocks_in_use == sum(count > 0 for count in held)
    running = [request.admitted for request in scheduler.live if request.stream.finish_reason is None]
    assert all(older >= younger for older, younger in pairwise(running)), "a request was overtaken"
    assert sum(running) <= scheduler.timeline().meta.max_batch


def drain(scheduler: sd.Scheduler, most: int = 2000) -> int:
    """Step until nothing is left, looking at the pool after each; return how many steps there were."""
    for step in range(most):
        if not scheduler.step():
            sound(scheduler)
            assert scheduler.blocks_in_use == 0, "blocks are held when nobody is there"
            return step
        sound(scheduler)
    raise AssertionError(f"no end after {most} steps")


def submit(scheduler: sd.Scheduler, ask: Ask, **settings: Any) -> Request:
    """Hand a request in."""
    return scheduler.submit(ask.prompt, ask.sampling, max_new_tokens=ask.cap, gamma=ask.gamma, **settings)


def tells(scheduler: sd.Scheduler, asked: Sequence[Request]) -> sd.Timeline:
    """The timeline agrees with what the requests themselves say, row by row, and survives JSON."""
    timeline = scheduler.timeline()
    assert sd.Timeline.from_dict(json.loads(json.dumps(timeline.to_dict()))) == timeline
    assert [step.index for step in timeline.steps] == list(range(len(timeline.steps)))
    size, published = timeline.meta.block_size, set[int]()
    for step in timeline.steps:
        held = {block for row in step.rows for block in row.table}
        assert set(step.evicted) == published - set(step.published)
        assert set(step.idle) == set(step.published) - held
        published = set(step.published)
        numbers = [row.request for row in step.rows]
        assert numbers == sorted(set(numbers))
        for row in step.rows:
            assert len(row.table) >= -(-row.computed // size)
            assert row.computed < row.committed
            assert (row.cycle is not None) == (row.emitted > 0)
            assert row.table == () or (row.ends is None and row.state in ("cycle", "prefill", "waiting"))
    for request in asked:
        rows = [(step.index, row) for step in timeline.steps for row in step.rows if row.request == request.number]
        stats, result = request.stream.progress.stats, request.result
        for name in ("emitted", "accepted", "drafted"):
            assert sum(getattr(row, name) for _, row in rows) == getattr(stats, name), name
        assert "".join(row.text for _, row in rows) == result.text
        assert [row.cycle for _, row in rows if row.cycle is not None] == list(range(stats.cycles))
        assert rows[-1][1].ends == (result.finish_reason or request.state)
        assert all(row.ends is None for _, row in rows[:-1])
        again = 0
        for index, row in rows:
            again += row.fed
            if row.cycle is not None and result.trace is not None:
                assert row.cycle == 0 or request.trace.cycles[row.cycle].caught_up == again
                again = 0
                cycle = request.trace.cycles[row.cycle]
                assert (cycle.step, cycle.gamma, cycle.accepted) == (index, row.gamma, row.accepted)
    return timeline


def shrunk(request: Request, asked: int) -> list[bool]:
    """For each cycle, whether it was asked for fewer drafts than the request's own limits allow."""
    limits = request.stream.limits
    return [cycle.gamma < limits.gamma(asked, cycle.committed_before) for cycle in request.trace.cycles]


def contiguous(cache: Any) -> ContiguousCache:
    """The computed tokens of any cache in a cache of their own."""
    copy = ContiguousCache(cache.pointer + 64)
    for layer, (keys, values) in enumerate(cache.contents()):
        copy.write(layer, keys, values)
    copy.advance(cache.pointer)
    return copy
