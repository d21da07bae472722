"""What the first layers of a model made of tokens that lie past a cache's pointer, kept so that nobody makes it twice.

A drafter that stops early in the target's own layers leaves one behind; the forward that verifies its drafts begins
where the drafts stopped. The cache stays the only place that is read: keys and values go into its slots past the
pointer, and the copies here can put them there again.
Invariant: it is used for the same cache at the same pointer, by the decoder that made it, and for as many tokens as
agree with those that are fed; the rest is computed. It does not know drafters, or how a layer works.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Protocol, final

import torch
from torch import Tensor

from specdec_teach.caches.base import Cache

__all__ = ["Row", "Stash"]


class Row(Protocol):
    """Where a forward puts one sequence's keys and values: a cache, or a stash in front of one."""

    @property
    def pointer(self) -> int:
        """See `Cache.pointer`."""

    def span(self, count: int) -> int:
        """See `Cache.span`."""

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cache.write`."""


@final
class Stash:
    """Tokens behind the pointer of `cache` that have been through the first `layers` layers of the decoder `maker`.

    `tokens`: their ids. Hidden states are `[T, N]`, keys and values `[1, G, T, D]`.
    """

    __slots__ = ("_hidden", "_pairs", "_start", "cache", "layers", "maker", "tokens")

    def __init__(self, cache: Cache, layers: int, maker: object) -> None:
        self.cache, self.layers, self.maker = cache, layers, maker
        self.tokens: list[int] = []
        self._start = cache.pointer
        self._hidden: list[Tensor] = []
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def pointer(self) -> int:
        """The position behind the last token."""
        return self._start + len(self.tokens)

    @property
    def hidden_TN(self) -> Tensor:
        """What came out of the last of the layers."""
        return torch.cat(self._hidden)[: len(self.tokens)]

    def span(self, count: int) -> int:
        """See `Cache.span`."""
        return self.cache.span(len(self.tokens) + count)

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put new tokens behind these, as `Cache.write` does behind its pointer; they belong here once `add`ed."""
        ready = len(self.tokens)
        if ready:
            old_k, old_v = self._pairs[layer]
            keys, values = (
                torch.cat([old_k[:, :, :ready], keys], dim=2),
                torch.cat([old_v[:, :, :ready], values], dim=2),
            )
        self._pairs[layer] = (keys, values)
        return self.cache.write(layer, keys, values)

    def add(self, tokens: Items[int], hidden_TN: Tensor) -> None:
        """Keep tokens that went through all the layers."""
        self._hidden = [*self._hidden, hidden_TN]
        self.tokens = [*self.tokens, *tokens]

    def agree(self, maker: object, cache: Cache, ids: Items[int]) -> int:
        """Forget what is not a beginning of `ids`, which `maker` is about to feed to `cache`; return what stays.

        The last of `ids` never does, so that there is something to compute.
        """
        fits = self.maker is maker and self.cache is cache and cache.pointer == self._start
        same = [mine == fed for mine, fed in zip(self.tokens, ids[:-1], strict=False)] if fits else []
        self.tokens = self.tokens[: [*same, False].index(False)]
        return len(self.tokens)
