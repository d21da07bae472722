"""Caches with one mistake in them, around any honest layout.

Invariant: a broken cache appends, rolls back and forks like the honest one below it and never stops a run; only what it
keeps, counts or offers is wrong. It does not know models.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import replace
from typing import Any, cast, final

import torch
from torch import Tensor

from specdec_teach.caches import BlockPool, Cache, PagedCache
from specdec_teach.engine import Engine

__all__ = ["early_publisher", "ghosts", "runs_ahead"]


def ghosts(engine: Engine) -> Engine:
    """Rewind the counter only: slots that were written once are not written again."""
    return _with(engine, lambda cache: cast(Cache, _Ghosts(cache)))


def runs_ahead(engine: Engine) -> Engine:
    """Count the token that was just sampled as computed."""
    return _with(engine, lambda cache: cast(Cache, _Ahead(cache)))


def early_publisher(engine: Engine) -> Engine:
    """Offer a block to others as soon as its last token is committed, before its keys and values exist."""
    broken = _with(engine, lambda c: cast(Cache, _Early(c)) if isinstance(c, PagedCache) else c)
    return broken.variant(cache="paged")


def _with(engine: Engine, around: Callable[[Cache], Cache]) -> Engine:
    honest = engine.parts.cache

    def make(kind: str, capacity: int, pool: BlockPool | None) -> Cache:
        return around(honest(kind, capacity, pool))

    return engine.variant(parts=replace(engine.parts, cache=make))


@final
class _Ghosts:
    """Keeps what each slot got first, rejected drafts included."""

    def __init__(self, inner: Cache) -> None:
        self.inner = inner
        self.first: list[tuple[Tensor, Tensor]] = []
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        start = self.inner.pointer
        stale = min(self.count - start, keys.shape[2])
        if stale > 0:
            old_k, old_v = self.first[layer]
            keys, values = keys.clone(), values.clone()
            keys[:, :, :stale] = old_k[:, :, start : start + stale]
            values[:, :, :stale] = old_v[:, :, start : start + stale]
        return self.inner.write(layer, keys, values)

    def rollback(self, to: int) -> int:
        if to < self.inner.pointer and self.inner.pointer > self.count:
            self.first = [(keys.clone(), values.clone()) for keys, values in self.inner.contents()]
            self.count = self.inner.pointer
        return self.inner.rollback(to)

    def release(self) -> None:
        self.first, self.count = [], 0
        self.inner.release()

    def fork(self) -> _Ghosts:
        twin = _Ghosts(self.inner.fork())
        twin.first, twin.count = list(self.first), self.count
        return twin


@final
class _Ahead:
    """Counts one token more than it holds from the end of a cycle to the beginning of the next.

    The slot of that token counts as written, so it keeps what lies in it: a rejected draft, or nothing.
    """

    def __init__(self, inner: Cache) -> None:
        self.inner = inner
        self.ahead = self.rolled = False
        self.at = self.counted = -1
        self.slot: list[tuple[Tensor, Tensor]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def pointer(self) -> int:
        return self.inner.pointer + self.ahead

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        self.rolled = False
        if self.inner.pointer == self.counted and self.slot:
            keys, values = keys.clone(), values.clone()
            keys[:, :, :1], values[:, :, :1] = self.slot[layer]
        return self.inner.write(layer, keys, values)

    def rollback(self, to: int) -> int:
        self.ahead, self.rolled = False, True
        to = min(to, self.inner.pointer)
        if to < self.inner.pointer:
            self.slot = [(k[:, :, to : to + 1].clone(), v[:, :, to : to + 1].clone()) for k, v in self.inner.contents()]
        elif to != self.at and to > 0:
            self.slot = [
                (torch.zeros_like(k[:, :, :1]), torch.zeros_like(v[:, :, :1])) for k, v in self.inner.contents()
            ]
        self.at = to
        return self.inner.rollback(to)

    def publish(self, tokens: Items[int]) -> None:
        self.inner.publish(tokens)
        if self.rolled and self.inner.pointer == len(tokens) - 1 == self.at and self.slot:
            self.ahead, self.counted = True, self.at

    def contents(self) -> list[tuple[Tensor, Tensor]]:
        pairs = self.inner.contents()
        if not self.ahead:
            return pairs
        return [
            (torch.cat([k, k1], dim=2), torch.cat([v, v1], dim=2))
            for (k, v), (k1, v1) in zip(pairs, self.slot, strict=True)
        ]

    def release(self) -> None:
        self.ahead, self.at, self.counted, self.slot = False, -1, -1, []
        self.inner.release()

    def fork(self) -> _Ahead:
        twin = _Ahead(self.inner.fork())
        twin.ahead, twin.rolled, twin.at, twin.counted = self.ahead, self.rolled, self.at, self.counted
        twin.slot = list(self.slot)
        return twin


@final
class _Early:
    """Publishes blocks of committed tokens, computed or not."""

    def __init__(self, inner: PagedCache) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def publish(self, tokens: Items[int]) -> None:
        computed = self.inner.pointer
        self.inner.pointer = max(computed, min(len(tokens), len(self.inner.table) * self.inner.pool.size))
        try:
            self.inner.publish(tokens)
        finally:
            self.inner.pointer = computed

    def fork(self) -> _Early:
        return _Early(self.inner.fork())
