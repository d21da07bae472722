"""The memory below every cache: keys and values of all layers, addressed by slot.

Invariant: a slot is one token's place in every layer; what is read never carries a gradient. It allocates a layer at
its first write, on the device of what is written, and knows nothing of positions, pointers or owners.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from specdec_kernels import compact_kv

__all__ = ["SlotStore", "Slots"]

Slots = slice | Tensor


@final
class SlotStore:
    """`[1, H, S, D]` keys and values for each layer, S = `slots`. A slice of slots is read as a view."""

    __slots__ = ("_layers", "slots")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def layers(self) -> dict[int, tuple[Tensor, Tensor]]:
        """The whole memory by layer, unused slots included."""
        return dict(sorted(self._layers.items()))

    @property
    def device(self) -> torch.device:
        """Where the lowest layer lies; the CPU before the first write."""
        return self._layers[min(self._layers)][0].device if self._layers else torch.device("cpu")

    def put(self, layer: int, slots: Slots, keys: Tensor, values: Tensor) -> None:
        """Write `[1, H, T, D]` into T slots of `layer`."""
        if layer not in self._layers:
            shapes = [(*new.shape[:2], self.slots, new.shape[3]) for new in (keys, values)]
            self._layers[layer] = (keys.new_zeros(shapes[0]), values.new_zeros(shapes[1]))
        # Rewinds and copies write outside a forward too, where tensors that were made inside one are read-only.
        with torch.inference_mode():
            for store, new in zip(self._layers[layer], (keys, values), strict=True):
                store[:, :, _on(store, slots)] = new

    def get(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Return keys and values `[1, H, T, D]` of T slots of `layer`."""
        store_k, store_v = self._layers[layer]
        return store_k[:, :, _on(store_k, slots)], store_v[:, :, _on(store_v, slots)]

    def move(self, source: Tensor, target: Slots) -> None:
        """Copy slots to other slots in every layer; none of the targets is a source of a later one."""
        for layer, (keys, values) in self._layers.items():
            if keys.is_cuda and values.device == keys.device:
                places = torch.arange(target.start, target.stop) if isinstance(target, slice) else target
                with torch.inference_mode():
                    compact_kv(keys, values, source[None].to(keys.device), places[None].to(keys.device))
            else:
                self.put(layer, target, *self.get(layer, source))

    def fill(self, slots: Slots, value: float) -> None:
        """Overwrite slots of every layer with one number."""
        with torch.inference_mode():
            for store in (store for pair in self._layers.values() for store in pair):
                store[:, :, _on(store, slots)] = value

    def grow(self, slots: int) -> None:
        """Make room for `slots` slots in all, keeping what is there."""
        more = slots - self.slots
        self.slots = slots
        for layer, pair in self._layers.items():
            wider = [torch.cat([s, s.new_zeros(*s.shape[:2], more, s.shape[3])], dim=2) for s in pair]
            self._layers[layer] = (wider[0], wider[1])

    def copy(self) -> SlotStore:
        """Return an independent copy."""
        twin = SlotStore(self.slots)
        twin._layers = {layer: (keys.clone(), values.clone()) for layer, (keys, values) in self._layers.items()}
        return twin


def _on(store: Tensor, slots: Slots) -> Slots:
    """Return the slots on the device of `store`: layers may lie on several."""
    return slots if isinstance(slots, slice) else slots.to(store.device)
