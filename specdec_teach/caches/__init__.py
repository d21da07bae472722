"""Layouts of the key/value cache, one interface (`caches.base.Cache`) and one store of slots below them all."""

from __future__ import annotations

from specdec_kernels.errors import unknown_name
from specdec_teach.caches.base import Cache
from specdec_teach.caches.contiguous import ContiguousCache
from specdec_teach.caches.paged import PagedCache
from specdec_teach.caches.pool import BlockPool, OutOfBlocks
from specdec_teach.caches.selective import SelectiveCache
from specdec_teach.caches.snapshot import SnapshotCache

__all__ = [
    "KINDS",
    "BlockPool",
    "Cache",
    "ContiguousCache",
    "OutOfBlocks",
    "PagedCache",
    "SelectiveCache",
    "SnapshotCache",
    "new_cache",
]

KINDS = ("contiguous", "masked", "paged", "selective", "recompute")


def new_cache(kind: str, capacity: int, pool: BlockPool | None = None) -> Cache:
    """Return an empty cache of this kind for one sequence; `pool`: where a paged one takes its blocks.

    "snapshot" is what a model gets whose state cannot rewind (`ModelRunner.layout`); it has no slots, so it is not one
    of `KINDS`.

    >>> new_cache("masked", 8).kind
    'masked'
    """
    if kind == "paged":
        assert pool is not None, "a paged cache needs a pool"
        return PagedCache(pool, capacity)
    if kind == "selective":
        return SelectiveCache(capacity)
    if kind == "snapshot":
        return SnapshotCache(capacity)
    if kind not in KINDS:
        raise unknown_name("cache=", kind, KINDS)
    return ContiguousCache(capacity, kind)  # type: ignore[arg-type]
