"""Who sees whom in a forward over a draft tree, and at which positions: for one row of a batch.

A row has computed tokens in its cache and is fed more behind them; the last of all these are the nodes of a tree, some
of which may be in the cache already. A node's position is that of the pending token plus its depth, whatever slot it
lies in, and it sees the text before the tree, its ancestors and itself.
Invariant: for a chain both are what a causal forward has. It does not know models or caches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specdec_teach.tree import Parents, depths

__all__ = ["hidden", "positions", "seen"]


def positions(stop: int, parents: Parents) -> list[int]:
    """Return the position of each of the `stop` tokens, the last of which are the nodes of a tree.

    >>> positions(5, (-1, -1, 0))
    [0, 1, 2, 2, 3]
    """
    base = stop - len(parents)
    return [*range(base), *(base - 1 + depth for depth in depths(parents))]


def seen(parents: Parents, device: torch.device | str = "cpu") -> Tensor:
    """Return for each node which nodes it sees, bool `[K, K]`: its ancestors and itself.

    >>> seen((-1, -1, 0)).int().tolist()
    [[1, 0, 0], [0, 1, 0], [1, 0, 1]]
    """
    rows = [[False] * len(parents) for _ in parents]
    for node, parent in enumerate(parents):
        if parent >= 0:
            rows[node] = list(rows[parent])
        rows[node][node] = True
    return torch.tensor(rows, dtype=torch.bool, device=device).reshape(len(parents), len(parents))


def hidden(pointer: int, count: int, parents: Parents, window: int, device: torch.device | str = "cpu") -> Tensor:
    """Return which keys each fed token must not read, bool `[count, pointer + count]`.

    `pointer`: computed tokens; `count`: fed ones; `window`: how many positions back a token sees, 0 for all of them.

    >>> hidden(1, 2, (-1, -1), 0).int().tolist()
    [[0, 0, 1], [0, 1, 0]]
    """
    stop, base = pointer + count, pointer + count - len(parents)
    slots_S = torch.arange(stop, device=device)
    hidden_TS = slots_S > slots_S[pointer:, None]
    first = max(pointer, base)
    hidden_TS[first - pointer :, base:] = ~seen(parents, device)[first - base :]
    if window:
        places_S = torch.tensor(positions(stop, parents), device=device)
        hidden_TS |= places_S <= places_S[pointer:, None] - window
    return hidden_TS
