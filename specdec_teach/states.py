"""Feeds a model that keeps more than keys and values: a recurrent or hybrid one, by its own cache object.

What such a model can do is tried out when it is met, on a few tokens. It must go on from a copy of its state as it
would from the beginning, or it is refused. If it does so for several tokens at once, a verify step is one forward; many
families look at their state only for a single token, and are fed one at a time.
Invariant: a state that a cache holds is never changed; only copies of it are fed.
It does not know why a cache is rolled back.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.errors import InvalidInput, shown
from specdec_teach.caches.snapshot import SnapshotCache
from specdec_teach.trial import cache_argument, differs, probe_ids

__all__ = ["StateFeeder"]

Steps = list[tuple[int, Any]]


@final
class StateFeeder:
    """Runs `model` on the states of snapshot caches. `at_once`: several tokens may be fed in one forward.

    InvalidInput when the model does not go on from a copy of its state; `role` is what the message calls it.
    """

    def __init__(self, model: Any, role: str, vocab: int) -> None:
        parameters = inspect.signature(model.forward).parameters
        name = cache_argument(parameters)
        assert name is not None, "a model without a cache is refused before"
        self.model, self.cache_name = model, name
        self._positions, self._rows = "position_ids" in parameters, "logits_to_keep" in parameters
        try:
            reason = self._try(probe_ids(11, vocab), 5)
        except Exception as error:  # whatever a strange model throws is a reason to refuse it
            reason = f"fails when it is fed behind its own state ({shown(error)})"
        if reason is not None:
            raise InvalidInput(
                f"the {role} {type(model).__name__} {reason}, so it cannot be rolled back after a rejection; "
                "give another model"
            )

    def feed(self, cache: SnapshotCache, ids: list[int], keep: int) -> tuple[Steps, Tensor]:
        """Return states on the way through `ids`, each with how many tokens it is further, and logits `[keep, V]`.

        The cache stays as it is; the last state is the one after all `ids`.
        """
        if self.at_once or cache.state is None or len(ids) == 1:
            state, rows = self._run(cache.working(), ids, cache.pointer, keep)
            return [(len(ids), state)], rows
        if keep == 0:
            state, rows = self._one_by_one(cache.working(), ids, cache.pointer)
            return [(len(ids), state)], rows[:0]
        steps: Steps = []
        kept: list[Tensor] = []
        state = cache.state
        for at, token in enumerate(ids):
            state, rows = self._run(copy.deepcopy(state), [token], cache.pointer + at, 1)
            steps.append((1, state))
            kept.append(rows)
        return steps, torch.cat(kept[-keep:])

    def _run(self, state: Any, ids: list[int], start: int, keep: int) -> tuple[Any, Tensor]:
        """Feed a state that may be changed; return it, and the last `keep` rows of logits."""
        device = self.model.device
        given: dict[str, Any] = {self.cache_name: state, "use_cache": True}
        if self._positions:
            given["position_ids"] = torch.arange(start, start + len(ids), device=device)[None]
        if self._rows:
            given["logits_to_keep"] = max(keep, 1)
        out = self.model(input_ids=torch.tensor([ids], device=device), **given)
        return getattr(out, self.cache_name, None), out.logits[0, out.logits.shape[1] - keep :]

    def _one_by_one(self, state: Any, ids: list[int], start: int) -> tuple[Any, Tensor]:
        rows = []
        for at, token in enumerate(ids):
            state, row = self._run(state, [token], start + at, 1)
            rows.append(row)
        return state, torch.cat(rows)

    @torch.inference_mode()
    def _try(self, ids: list[int], split: int) -> str | None:
        """Find out how the model may be fed; return why it cannot be, or None."""
        fresh_RV = self.model(input_ids=torch.tensor([ids], device=self.model.device), use_cache=False).logits[0]
        state, rows = self._run(None, ids[:split], 0, split)
        if state is None:
            return "hands out no state"
        if differs(rows, fresh_RV[:split]):
            return "answers otherwise when it keeps a state"
        self.at_once = True
        for stop in (split + 2, len(ids)):
            try:
                rows = self._run(copy.deepcopy(state), ids[split:stop], split, stop - split)[1]
                self.at_once = self.at_once and not differs(rows, fresh_RV[split:stop])
            except (RuntimeError, ValueError, IndexError, NotImplementedError):
                self.at_once = False
        rows = self._one_by_one(copy.deepcopy(state), ids[split:], split)[1]
        return "does not go on from a copy of its state" if differs(rows, fresh_RV[split:]) else None
