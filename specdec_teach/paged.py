"""Attention over caches where they lie: one kernel call for all rows of a forward, lengths as tensors on the device.

Paged caches of one pool are read by their tables. A contiguous cache is one block as large as itself, so its shapes
never change while the text grows, and only a length says how much of it counts.
Invariant: it reads what the caches' own `write` would return. It serves the few tokens of a verify step; longer feeds,
several pools and several contiguous caches are left to the general way (`of` returns None).
It does not know weights, or what is drafted.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_kernels.attention import paged_attention
from specdec_teach.caches import ContiguousCache, PagedCache
from specdec_teach.caches.store import SlotStore
from specdec_teach.sight import hidden
from specdec_teach.stash import Row
from specdec_teach.tree import Parents

__all__ = ["PagedRows"]

_LONGEST, _MOST = 16, 64


@final
class PagedRows:
    """The caches of one forward in one store: row b feeds `counts[b]` tokens, N at most; T of them in all.

    Shapes: tables `[B, M]`, lengths and counts `[B]`, queries `[T, H, D]`, new keys and values `[T, G, D]`.
    """

    def __init__(
        self,
        store: SlotStore,
        size: int,
        tables: list[tuple[int, ...]],
        pointers: list[int],
        slots: list[Tensor],
        trees: Items[Parents | None],
        device: torch.device,
    ) -> None:
        self._store, self._size = store, size
        counts, widest = [len(places) for places in slots], max(map(len, tables))
        self._tables_BM = torch.tensor([[*table, *[-1] * (widest - len(table))] for table in tables], device=device)
        self._lengths_B = torch.tensor(pointers, device=device)
        self._counts_B = torch.tensor(counts, device=device)
        self._slots_T = torch.cat(slots).to(device)
        rows = [(row, at) for row, n in enumerate(counts) for at in range(n)]
        self._row_T, self._at_T = torch.tensor(rows, device=device).T
        self._longest = max(counts)
        self._trees_BNN = None
        if any(tree is not None for tree in trees):
            self._trees_BNN = torch.zeros(len(counts), self._longest, self._longest, dtype=torch.bool, device=device)
            for row, (n, tree) in enumerate(zip(counts, trees, strict=True)):
                self._trees_BNN[row, :n, :n] = ~hidden(0, n, tree or (), 0, device)

    @classmethod
    def of(
        cls,
        caches: Items[Row],
        counts: Items[int],
        device: torch.device,
        trees: Items[Parents | None] | None = None,
    ) -> PagedRows | None:
        """Return the rows of these caches, None where they have to be gathered.

        `trees`: as for `CompactDecoder`. One whose nodes lie in the cache already has to be.
        """
        trees = [None] * len(caches) if trees is None else trees
        grown = [tree is not None for tree in trees]
        if max(counts) > (_MOST if any(grown) else _LONGEST):
            return None
        if any(tree is not None and len(tree) > n for tree, n in zip(trees, counts, strict=True)):
            return None
        pointers = [cache.pointer for cache in caches]
        only = caches[0] if len(caches) == 1 else None
        if isinstance(only, ContiguousCache) and only.kind == "contiguous":
            slots = torch.arange(only.pointer, only.pointer + counts[0])
            return cls(only.store, only.store.slots, [(0,)], pointers, [slots], trees, device)
        paged = [cache for cache in caches if isinstance(cache, PagedCache)]
        if len(paged) < len(caches) or len({id(cache.pool) for cache in paged}) != 1:
            return None
        places = [cache.slots(cache.pointer, cache.pointer + n) for cache, n in zip(paged, counts, strict=True)]
        pool = paged[0].pool
        return cls(pool.store, pool.size, [cache.table for cache in paged], pointers, places, trees, device)

    def attend(self, layer: int, q_THD: Tensor, k_TGD: Tensor, v_TGD: Tensor, scale: float, window: int) -> Tensor:
        """Write the new keys and values of `layer`; return what every query reads, `[T, H·D]`."""
        store = self._store
        store.put(layer, self._slots_T, k_TGD.transpose(0, 1)[None], v_TGD.transpose(0, 1)[None])
        keys, values = (whole[0].transpose(0, 1) for whole in store.layers[layer])
        q_BNHD = q_THD.new_zeros(len(self._counts_B), self._longest, *q_THD.shape[1:])
        q_BNHD[self._row_T, self._at_T] = q_THD
        out_BHND = paged_attention(
            q_BNHD.transpose(1, 2),
            keys,
            values,
            self._tables_BM,
            self._lengths_B,
            block_size=self._size,
            counts=self._counts_B,
            scale=scale,
            tree_mask=self._trees_BNN,
            window=window or None,
            backend="triton",
        )
        return out_BHND[self._row_T, :, self._at_T].reshape(len(q_THD), -1)
