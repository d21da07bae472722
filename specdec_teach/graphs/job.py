"""A cycle that can run on the device: which one it is, and what it needs.

Invariant: whatever is not known to be right on the device is no job: the general way does it. It changes nothing, and
does not know how a cycle runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast, final

import torch

from specdec_teach.caches import ContiguousCache
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.graphs.board import Standing
from specdec_teach.hf import ModelRunner
from specdec_teach.noise import CounterNoise, CoupledNoise, GreedyNoise
from specdec_teach.rules.kernel import ByKernel
from specdec_teach.sampling import Sampling

if TYPE_CHECKING:
    from specdec_teach.decoder import CompactDecoder
    from specdec_teach.stream import Stream
    from specdec_teach.working import Plan

__all__ = ["MOST_DRAFTS", "Form", "Job"]

MOST_DRAFTS = 15
_RULES = ("rejection", "coupled")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What is part of a record: the rule ("rejection" or "coupled"), who judges, how logits become probabilities.

    `sampling`: temperature and filters alone. `draws`: drafts are drawn, else they are the draft's likeliest tokens.
    """

    rule: str
    backend: Literal["torch", "triton"]
    sampling: Sampling
    draws: bool

    @property
    def by_number(self) -> bool:
        """Whether drafts are judged by uniform numbers."""
        return self.rule == "rejection" and not self.sampling.greedy_now


@final
@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A cycle of `count` drafts: its models, their caches, and where the request stands.

    `lacking`: how many committed tokens the draft has not computed. `draft`: None where nothing is drafted.
    """

    form: Form
    target: CompactDecoder
    draft: CompactDecoder | None
    caches: tuple[ContiguousCache, ...]
    standing: Standing
    count: int
    lacking: int
    seed: int

    @classmethod
    def of(cls, stream: Stream, plan: Plan) -> Job | None:
        """Return the job of the cycle that `plan` begins, None for one that takes the general way."""
        sequence, drafter, rule, count = stream.sequence, stream.drafter, stream.engine.rule, plan.gamma
        noise, it, length = sequence.noise, sequence.sampling, len(sequence.tokens)
        if not isinstance(rule, ByKernel) or rule.name not in _RULES or stream.meta.forced is not None:
            return None
        if not isinstance(noise, (CounterNoise, CoupledNoise, GreedyNoise)) or not sequence.policy.plain:
            return None
        if sequence.hidden is not None:  # hidden states are kept by the general way alone
            return None
        runner, cache = stream.engine.target_runner, sequence.cache
        target = runner.compact if isinstance(runner, ModelRunner) else None
        if target is None or not _serves(target, cache, sequence.vocab, length + count) or cache.pointer != length - 1:
            return None
        draws, draft, at = False, None, 0
        caches: tuple[ContiguousCache, ...] = (cast(ContiguousCache, cache),)
        if drafter is not None and count:
            if not isinstance(drafter, ModelDrafter) or count > MOST_DRAFTS:
                return None
            draft, own = drafter.runner.compact, cast(ContiguousCache, sequence.draft)
            if draft is None or not _serves(draft, own, sequence.vocab, length + count - 1) or length - own.pointer > 2:
                return None
            draws, caches, at = drafter.mode == "sample" and not it.greedy_now, (*caches, own), own.pointer
        return cls(
            _form(rule.name, rule.backend, it.temperature, it.top_k, it.top_p, it.min_p, draws),
            target,
            draft,
            caches,
            Standing(length, cache.pointer, at, sequence.number),
            count,
            0 if draft is None else length - at,
            0 if isinstance(noise, GreedyNoise) else noise.seed,
        )


@lru_cache(maxsize=256)
def _form(
    rule: str,
    backend: Literal["torch", "triton"],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    draws: bool,
) -> Form:
    """Return the one form of these settings: forms are told apart by identity, which costs nothing every cycle."""
    return Form(rule, backend, Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p), draws)


def _serves(model: CompactDecoder, cache: object, vocab: int, room: int) -> bool:
    """Whether the model's numbers, its vocabulary and its cache are what the steps are made for."""
    fits = isinstance(cache, ContiguousCache) and cache.kind == "contiguous" and cache.capacity >= room
    return fits and model.dtype in _DTYPES and model.vocab == vocab
