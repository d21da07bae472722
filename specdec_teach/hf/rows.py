"""One layer of a transformers cache over our own: what a model reads and writes while it runs.

Invariant: the model sees a batch padded on both sides; our caches see each row's own tokens and no padding.
It does not know which model asks.
"""

from __future__ import annotations

from typing import Any, final

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin

from specdec_teach.caches import Cache

__all__ = ["RowsLayer"]


@final
class RowsLayer(CacheLayerMixin):
    """One layer of a transformers cache over the caches of several sequences.

    Row r has `pasts[r]` older keys and `counts[r]` new tokens. The model sees `[B, H, past + T, D]`: the older keys end
    where the new ones begin, as in a batch that is padded on the left, and shorter rows are padded on the right too.
    """

    def __init__(self, caches: list[Cache], layer: int, counts: list[int], past: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caches, self.layer, self.counts, self.past = caches, layer, counts, past
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the store allocates at its first write."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write each row at its pointer, return all that is readable."""
        if len(self.caches) == 1 and self.past == self.caches[0].pointer:
            return self.caches[0].write(self.layer, key_states, value_states)
        width = self.past + key_states.shape[2]
        wide = [new.new_zeros(*new.shape[:2], width, new.shape[3]) for new in (key_states, value_states)]
        for row, (cache, count) in enumerate(zip(self.caches, self.counts, strict=True)):
            new = [states[row : row + 1, :, :count] for states in (key_states, value_states)]
            for out, all_keys in zip(wide, cache.write(self.layer, new[0], new[1]), strict=True):
                pointer, stop = cache.pointer, cache.pointer + count
                stale = all_keys.shape[2] - stop
                out[row, :, self.past - pointer : self.past + count] = all_keys[0, :, :stop]
                out[row, :, self.past - pointer - stale : self.past - pointer] = all_keys[0, :, stop:]
        return wide[0], wide[1]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return how many keys the coming forward can read, and the position of the first."""
        return self.past + query_length, 0

    def get_seq_length(self) -> int:
        """Return where the new tokens begin."""
        return self.past

    def get_max_length(self) -> int:
        """Return −1: the mask is as wide as what is readable, not as the store."""
        return -1
