"""One model with one memory: forwards of a few tokens whose shapes never change, each recorded once.

The memory is lent to one request's cache at a time, which reads and writes there by its ordinary ways too, so a request
goes over to the general way, and back, at any cycle. Keys and values lie in the slots of their positions.
Invariant: where a forward begins is a number on the device, and what it is fed is read off the board; no position,
length or token is part of a record. It does not know drafts, draws or verdicts.
"""

from __future__ import annotations

import weakref
from typing import final

import torch
from torch import Tensor
from torch.nn import functional as F

from specdec_teach.caches import ContiguousCache
from specdec_teach.caches.store import SlotStore
from specdec_teach.decoder import CompactDecoder
from specdec_teach.graphs.board import Board
from specdec_teach.graphs.capture import Capture, Work

__all__ = ["FixedModel"]

_NO_WINDOW = 2**31 - 1


@final
class FixedModel:
    """`decoder` over a memory of `slots` tokens, fed from `board` at `length_1`, int64 `[1]`, one of its numbers.

    Shapes: T tokens of a forward, H query heads and G key/value heads of size D, S slots, vocabulary V.
    """

    def __init__(self, decoder: CompactDecoder, slots: int, board: Board, length_1: Tensor, capture: Capture) -> None:
        self.decoder, self.slots = decoder, slots
        self._board, self._length_1, self._capture = board, length_1, capture
        device = length_1.device
        self._store = SlotStore(slots)
        self._tables = decoder.turns(slots)
        keys = torch.zeros(1, decoder.groups, 0, decoder.size, dtype=decoder.dtype, device=device)
        for layer in range(decoder.depth):
            self._store.put(layer, slice(0, 0), keys, keys)
        self._block_11 = torch.zeros(1, 1, dtype=torch.int64, device=device)
        self._logits: dict[int, Tensor] = {}
        self._forwards: dict[tuple[int, int], Work] = {}
        self._holder: weakref.ref[ContiguousCache] | None = None

    def holds(self, cache: ContiguousCache) -> bool:
        """Return whether the memory is lent to `cache`."""
        return self._holder is not None and self._holder() is cache and cache.store is self._store

    def lend(self, cache: ContiguousCache) -> None:
        """Let `cache` live here; who lived here before takes a copy along."""
        if self.holds(cache):
            return
        before = self._holder() if self._holder is not None else None
        if before is not None and before.store is self._store:
            before.store = self._store.copy()
        computed = slice(0, cache.pointer)
        for layer in cache.store.layers:
            self._store.put(layer, computed, *cache.store.get(layer, computed))
        cache.store = self._store
        self._holder = weakref.ref(cache)

    def logits(self, keep: int) -> Tensor:
        """Return where forwards that keep so many rows leave their logits, `[keep, V]`."""
        if keep not in self._logits:
            like = self._tables[0]
            self._logits[keep] = torch.zeros(keep, self.decoder.vocab, dtype=self.decoder.dtype, device=like.device)
        return self._logits[keep]

    def knows(self, count: int, keep: int) -> bool:
        """Return whether this forward has been recorded."""
        return (count, keep) in self._forwards

    def forward(self, count: int, keep: int) -> Work:
        """Return a replay: feed `count` tokens at the length, leave the logits of the last `keep`, advance the length.

        The first time it is run some times more and recorded: that writes past the length, moves it, and moves no more.
        """
        if (count, keep) not in self._forwards:
            self._forwards[count, keep] = self._capture.record(self._work(count, self.logits(keep)))
        return self._forwards[count, keep]

    def _work(self, count: int, logits_RV: Tensor) -> Work:
        count_1 = torch.full_like(self._length_1, count)

        def work() -> None:
            places_T = self._board.places(self._length_1, count).clamp_max(self.slots - 1)
            ids_T = self._board.text_S.index_select(0, places_T)

            def attend(layer: int, q: Tensor, k: Tensor, v: Tensor, scale: float, window: int) -> Tensor:
                stores = self._store.layers[layer]
                for store, new_TGD in zip(stores, (k, v), strict=True):
                    store.index_copy_(2, places_T, new_TGD.transpose(0, 1)[None])
                if not self.decoder.kernel:
                    return _attend(q, *stores, places_T, scale, window)
                from specdec_kernels import triton_attention

                keys, values = (store[0].transpose(0, 1) for store in stores)
                out_1HTD = triton_attention.attend(
                    q.transpose(0, 1)[None], keys, values, self._block_11, self._length_1, count_1, None, None,
                    window or _NO_WINDOW, self.slots, scale,
                )  # fmt: skip
                return out_1HTD[0].transpose(0, 1).reshape(count, -1)

            logits_RV.copy_(self.decoder.at(ids_T, places_T, self._tables, len(logits_RV), attend))
            self._length_1.add_(count)

        return work


def _attend(q_THD: Tensor, k_1GSD: Tensor, v_1GSD: Tensor, places_T: Tensor, scale: float, window: int) -> Tensor:
    """Attend over the whole memory in torch, `[T, H·D]`: what lies behind a token, or before its window, is hidden."""
    slots_S = torch.arange(k_1GSD.shape[2], device=places_T.device)
    hidden_TS = slots_S > places_T[:, None]
    if window:
        hidden_TS = hidden_TS | (slots_S <= places_T[:, None] - window)
    unread_S1 = hidden_TS.all(0)[:, None]
    k, v = k_1GSD.masked_fill(unread_S1, 0.0), v_1GSD.masked_fill(unread_S1, 0.0)
    mask_TS = q_THD.new_zeros(hidden_TS.shape).masked_fill(hidden_TS, -torch.inf)
    q, grouped = q_THD.transpose(0, 1)[None], q_THD.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_TS, scale=scale, enable_gqa=grouped)
    return out[0].transpose(0, 1).reshape(len(q_THD), -1)
