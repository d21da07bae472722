"""The processed distribution: from logits to the probabilities that are really sampled from.

Invariant: one policy makes every p and every q of a request, so draw, acceptance ratio and residual can never disagree
about which distribution they mean; and row i sees the committed tokens and the drafts before it, no more and no less.
Rows that hold NaN or +inf, or nothing but −inf, come out as NaN, never as silence.
It does not know models or random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_teach.history import History
from specdec_teach.sampling import Sampling
from specdec_teach.tree import Parents

__all__ = ["Policy", "fit_width", "logprobs", "processed"]


@final
class Policy:
    """How one request turns logits into probabilities. It keeps no state: every row is told its whole prefix."""

    __slots__ = ("_history", "sampling")

    def __init__(self, sampling: Sampling, history: History | None = None) -> None:
        self.sampling = sampling
        self._history = history

    @property
    def plain(self) -> bool:
        """Whether rows depend on nothing but their own logits."""
        return self._history is None

    def scores(
        self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int], parents: Parents | None = None
    ) -> Tensor:
        """Return logits `[R, V]` after penalties and bans; row r sees `prefix` and the first r of `drafts`.

        In a tree, whose shape `parents` is, row r sees `prefix` and the way to draft r − 1.
        """
        return logits_RV if self._history is None else self._history.apply(logits_RV, prefix, drafts, parents)

    def scores_behind(self, logits_RV: Tensor, prefix: Items[int], ways: Items[Items[int]]) -> Tensor:
        """Return logits `[R, V]` after penalties and bans; row r sees `prefix` and the tokens of `ways[r]`."""
        if self._history is None:
            return logits_RV
        rows = zip(torch.split(logits_RV, 1), ways, strict=True)
        return torch.cat([self._history.apply(row_1V, [*prefix, *way], ()) for row_1V, way in rows])

    def legal(self, prefix: Items[int], drafts: Items[int], parents: Parents | None = None) -> tuple[int, ...]:
        """Return which of `drafts` may stand where they do: a grammar cuts the others before the target runs."""
        return tuple(range(len(drafts))) if self._history is None else self._history.legal(prefix, drafts, parents)

    def rows(self, logits_RV: Tensor, prefix: Items[int], drafts: Items[int] = ()) -> Tensor:
        """Return the probabilities `[R, V]` that are sampled from; row r sees `prefix` and the first r of `drafts`."""
        return processed(self.scores(logits_RV, prefix, drafts), self.sampling)


def processed(logits_RV: Tensor, sampling: Sampling) -> Tensor:
    """Return probabilities `[R, V]` after temperature, top-k, top-p and min-p; one-hot rows when greedy.

    Computed in float32, or in float64 where the logits are. Ties at the top go to the lowest id.

    >>> logits = torch.tensor([[.4, .3, .2, .1]]).log()
    >>> processed(logits, Sampling(top_k=2)).mul(1000).round().tolist()
    [[571.0, 429.0, 0.0, 0.0]]
    """
    logits_RV = logits_RV if logits_RV.dtype == torch.float64 else logits_RV.float()
    top_R1 = logits_RV.amax(-1, keepdim=True)
    if sampling.greedy_now:
        winner_R1 = logits_RV.argmax(-1, keepdim=True)
        return torch.zeros_like(logits_RV).scatter_(-1, winner_R1, 1.0 + (top_R1 - top_R1))
    scores_RV = logits_RV - top_R1
    if sampling.temperature != 1.0:
        scores_RV = scores_RV / sampling.temperature
    if 0 < sampling.top_k < scores_RV.shape[-1]:
        floor_R1 = scores_RV.topk(sampling.top_k, dim=-1).values[:, -1:]
        scores_RV = scores_RV.masked_fill(scores_RV < floor_R1, -torch.inf)
    p_RV = scores_RV.softmax(-1)
    if sampling.top_p < 1.0:
        p_RV = _nucleus(p_RV, sampling.top_p)
    if sampling.min_p > 0.0:
        p_RV = p_RV.masked_fill(p_RV < sampling.min_p * p_RV.amax(-1, keepdim=True), 0.0)
        p_RV = p_RV / p_RV.sum(-1, keepdim=True)
    return p_RV


def logprobs(
    scores_RV: Tensor, p_RV: Tensor, rows: list[int], emitted: Items[int], sampling: Sampling
) -> tuple[dict[int, float], ...]:
    """Return {id: log p} for each emitted token: the likeliest ids that were asked for, and the token itself.

    `scores_RV` and `p_RV` `[R, V]`: a cycle's rows before and after `processed`; `rows`: which of them the tokens come
    from. At temperature 0 the probabilities are
    those of temperature 1 without filters, since one-hot rows have nothing to tell.
    """
    if not sampling.logprobs:
        return ()
    logs_RV = (processed(scores_RV, Sampling()) if sampling.greedy_now else p_RV)[rows[: len(emitted)]].log()
    values_RN, ids_RN = logs_RV.topk(min(sampling.logprobs, logs_RV.shape[-1]), dim=-1)
    found = []
    for row, token in enumerate(emitted):
        best = zip(ids_RN[row].tolist(), values_RN[row].tolist(), strict=True)
        found.append({i: v for i, v in best if v > -math.inf} | {token: float(logs_RV[row, token])})
    return tuple(found)


def _nucleus(p_RV: Tensor, top_p: float) -> Tensor:
    """Keep the likeliest tokens until their mass reaches `top_p` (the one that crosses it included) and renormalise."""
    sorted_RV, order_RV = p_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(-1) - sorted_RV
    kept_RV = sorted_RV.masked_fill(before_RV >= top_p, 0.0)
    kept_RV = kept_RV / kept_RV.sum(-1, keepdim=True)
    return torch.zeros_like(p_RV).scatter_(-1, order_RV, kept_RV)


def fit_width(logits_RV: Tensor, width: int) -> Tensor:
    """Cut the last axis to `width`, or widen it with −inf: two models may pad one vocabulary differently.

    >>> fit_width(torch.zeros(1, 2), 3).tolist()
    [[0.0, 0.0, -inf]]
    """
    have = logits_RV.shape[-1]
    if have >= width:
        return logits_RV[..., :width]
    return torch.nn.functional.pad(logits_RV, (0, width - have), value=-torch.inf)
