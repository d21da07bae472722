"""Attention over paged caches without gathering them: one kernel call for all rows of a forward.

Invariant: it reads what the caches' own `write` would return, block by block where it lies. It serves the few tokens
of a verify step; longer feeds, and caches of several pools, are left to the general way (`of` returns None).
It does not know weights, or what is drafted.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import final

import torch
from torch import Tensor

from specdec_kernels.attention import paged_attention
from specdec_teach.caches import Cache, PagedCache

__all__ = ["PagedRows"]

_LONGEST = 16


@final
class PagedRows:
    """The paged caches of one forward: row b feeds `counts[b]` tokens, N at most; T of them in all.

    Shapes: tables `[B, M]`, lengths and counts `[B]`, queries `[T, H, D]`, new keys and values `[T, G, D]`.
    """

    def __init__(self, caches: list[PagedCache], counts: list[int], device: torch.device) -> None:
        self._pool, longest = caches[0].pool, max(counts)
        widest = max(len(cache.table) for cache in caches)
        tables = [[*cache.table, *[-1] * (widest - len(cache.table))] for cache in caches]
        self._tables_BM = torch.tensor(tables, device=device)
        self._lengths_B = torch.tensor([cache.pointer for cache in caches], device=device)
        self._counts_B = torch.tensor(counts, device=device)
        places = [cache.slots(cache.pointer, cache.pointer + n) for cache, n in zip(caches, counts, strict=True)]
        self._slots_T = torch.cat(places).to(device)
        rows = [(row, at) for row, n in enumerate(counts) for at in range(n)]
        self._row_T, self._at_T = torch.tensor(rows, device=device).T
        self._longest = longest

    @classmethod
    def of(cls, caches: Items[Cache], counts: Items[int], device: torch.device) -> PagedRows | None:
        """Return the rows of these caches, None where they have to be gathered."""
        paged = [cache for cache in caches if isinstance(cache, PagedCache)]
        if len(paged) < len(caches) or len({id(cache.pool) for cache in paged}) != 1 or max(counts) > _LONGEST:
            return None
        return cls(paged, list(counts), device)

    def attend(self, layer: int, q_THD: Tensor, k_TGD: Tensor, v_TGD: Tensor, scale: float, window: int) -> Tensor:
        """Write the new keys and values of `layer`; return what every query reads, `[T, H·D]`."""
        store = self._pool.store
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
            block_size=self._pool.size,
            counts=self._counts_B,
            scale=scale,
            window=window or None,
            backend="triton",
        )
        return out_BHND[self._row_T, :, self._at_T].reshape(len(q_THD), -1)
