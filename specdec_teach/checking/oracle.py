"""What a cache must hold: keys, values and logits of a fresh prefill, and how far another cache is from it.

Invariant: the prefill runs in one forward on a plain cache of its own, whatever the engine uses. It does not know
requests or rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from typing import cast, final

import torch
from torch import Tensor

from specdec_teach.caches import Cache, ContiguousCache
from specdec_teach.drafters.base import features_of
from specdec_teach.engine import Engine
from specdec_teach.hf import ModelRunner
from specdec_teach.hidden import Hidden
from specdec_teach.noise import GreedyNoise
from specdec_teach.policy import Policy
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence

__all__ = ["Fresh", "FreshDraft", "tolerance_of"]


def tolerance_of(runner: ModelRunner) -> float:
    """Return how far two ways of computing the same may differ: 1e-5 in float32, some last bits in less.

    Numbers above 1 may differ by as much in proportion.
    """
    resolution = torch.finfo(runner.model.dtype).eps
    return 1e-5 if resolution <= 1.2e-7 else 8 * resolution


@final
class FreshDraft:
    """What a drafter that reads hidden states is handed, and keeps, when it meets `ids` for the first time."""

    def __init__(self, engine: Engine, ids: Items[int]) -> None:
        assert engine.drafter is not None
        runner = engine.target_runner
        sequence = Sequence(list(ids), Policy(Sampling()), GreedyNoise(), runner.new_cache(len(ids)), runner.vocab)
        sequence.hidden = Hidden(features_of(engine.drafter))
        runner.forward_rows([sequence.cache], [sequence.tokens[:-1]], [0], [sequence.hidden])
        engine.drafter.reset(sequence, len(ids))
        self._rows_RW = sequence.hidden.rows_RW
        self._pairs = _rows_of(sequence).contents()

    def distance(self, sequence: Sequence) -> tuple[float, str]:
        """Return how far the states that wait, and the rows that the drafter keeps, are from these, and where."""
        hidden = sequence.hidden
        assert hidden is not None
        worst, where = _distance(self._pairs, _rows_of(sequence))
        if hidden.stop > hidden.start:
            right = self._rows_RW[hidden.start : hidden.stop]
            if len(right) != len(hidden.rows_RW):
                return math.inf, f"{hidden.stop} positions have hidden states"
            delta = float((hidden.rows_RW - right).abs().max()) / max(1.0, float(right.abs().max()))
            if not delta <= worst:
                worst, where = delta, f"the hidden states of positions {hidden.start}..{hidden.stop - 1}"
        return worst, where


def _rows_of(sequence: Sequence) -> Cache:
    """Return the cache of what the drafter keeps; an empty one where it keeps none."""
    return cast(Cache, getattr(sequence.draft, "cache", ContiguousCache(0)))


def _distance(pairs: list[tuple[Tensor, Tensor]], cache: Cache) -> tuple[float, str]:
    """Return how far the computed tokens of `cache` are from the first of these keys and values, and where."""
    pointer, worst, where = cache.pointer, 0.0, ""
    if pointer == 0:
        return 0.0, ""
    for layer, (mine, theirs) in enumerate(zip(pairs, cache.contents(), strict=False)):
        for name, right, found in zip(("keys", "values"), mine, theirs, strict=True):
            if found.shape[2] != pointer or right.shape[2] < pointer:
                return math.inf, f"{pointer} tokens are counted as computed, {found.shape[2]} are there"
            delta_T = (found - right[:, :, :pointer].to(found.device)).abs().amax(dim=(0, 1, 3))
            scaled_T = delta_T.float() / max(1.0, float(right.abs().max()))
            scaled_T = torch.where(scaled_T.isnan(), torch.inf, scaled_T)
            if float(scaled_T.max()) > worst:
                worst, at = float(scaled_T.max()), int(scaled_T.argmax())
                where = f"{name} of layer {layer} at position {at}"
    return worst, where


@final
class Fresh:
    """A prefill of `ids` from nothing: `logits_TV`, and the keys and values of every layer."""

    def __init__(self, runner: ModelRunner, ids: Items[int]) -> None:
        known = [token if token < runner.vocab else 0 for token in ids]
        cache = runner.new_cache(len(known))
        self.logits_TV: Tensor = runner.forward(cache, known, keep=len(known))
        self._pairs = cache.contents()

    def distance(self, cache: Cache) -> tuple[float, str]:
        """Return how far what `cache` says it has computed is from this prefill, and where; inf for no number."""
        return _distance(self._pairs, cache)

    def step(self, runner: ModelRunner, cache: Cache, tokens: Items[int]) -> float:
        """Return how far the logits behind `tokens`, computed from a copy of `cache`, are from this prefill's."""
        twin = cache.fork()
        try:
            twin.rollback(min(twin.pointer, len(tokens) - 1))
            found_V = runner.forward(twin, list(tokens[twin.pointer :]), keep=1)[0]
        finally:
            twin.release()
        right_V = self.logits_TV[len(tokens) - 1]
        delta = float((found_V - right_V).abs().max()) / max(1.0, float(right_V.abs().max()))
        return math.inf if math.isnan(delta) else delta
