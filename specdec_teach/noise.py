"""Where the engine's random choices come from: a two-method seam with a source for every purpose.

Three separate streams (draft, accept, token) are numbered per request; a cycle that starts at draw number n judges
draft i with number n + i, and no number is used twice, discarded drafts included. Only `CoupledNoise` is different: its
numbers are absolute positions, and draft and target share them.
Invariant: a source that depends on (seed, stream, number) alone; nothing here is global or shared between requests.
It does not know models, caches or what is done with a choice.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum
from typing import Protocol, final

import numpy as np
import torch
from torch import Tensor

from specdec_kernels import rejection
from specdec_kernels.philox import philox4x32, uniform

__all__ = ["CounterNoise", "CoupledNoise", "ForcedNoise", "GreedyNoise", "Noise", "StreamId", "gumbel", "pick"]


class StreamId(IntEnum):
    """The separate random streams of one request."""

    DRAFT = 0
    ACCEPT = 1
    TOKEN = 2
    POSITION = 3


class Noise(Protocol):
    """The engine's only way to leave something to chance."""

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """Return a token drawn in proportion to `weights_V` `[V]` (not negative, mass > 0, any scale)."""

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """Return whether a draft with probabilities `p`, `q` is accepted, and the uniform number used, if any."""


_WIDE, _PART = 4096, 512


def pick(weights_V: Tensor, u: float) -> int:
    """Return the token at quantile `u` in (0, 1) of `weights_V`: inverse transform in float64, weight 0 never.

    A wide row is searched in two steps, part and token, since a running sum over all of it costs more than a softmax.

    >>> [pick(torch.tensor([0.0, 0.25, 0.0, 0.75]), u) for u in (1e-9, 0.24, 0.26, 1 - 2**-52)]
    [1, 1, 3, 3]
    """
    width = weights_V.shape[-1]
    if width <= _WIDE:
        cumulative_V = weights_V.cumsum(-1, dtype=torch.float64)
        return int(torch.searchsorted(cumulative_V, u * cumulative_V[-1:], right=True))
    whole = width // _PART * _PART
    ends = weights_V[:whole].view(-1, _PART).sum(-1).cumsum(-1, dtype=torch.float64).tolist()
    if whole < width:
        ends.append(ends[-1] + float(weights_V[whole:].sum()))
    part = min(bisect_right(ends, u * ends[-1]), len(ends) - 1)
    before, first = ends[part - 1] if part else 0.0, part * _PART
    inside = (u * ends[-1] - before) / (ends[part] - before)
    return first + pick(weights_V[first : first + _PART], min(max(inside, 2.0**-60), 1.0 - 2.0**-53))


@final
class CounterNoise:
    """The source of a normal run: Philox numbers keyed by the request's seed."""

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        return pick(weights_V, uniform(self.seed, stream, number))

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        u = uniform(self.seed, StreamId.ACCEPT, number)
        return rejection.accepts(u, p, q), u


@final
class CoupledNoise:
    """The source of coupled verification: Gumbel noise for each token id, keyed by the seed and an absolute position.

    Whoever draws at a position, draft or target, meets the same noise; so the draw with the larger overlap of
    distributions agrees more often. Source: the Gumbel-max trick.
    """

    __slots__ = ("seed",)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`; `number` is an absolute position and `stream` makes no difference."""
        noise_V = torch.from_numpy(gumbel(self.seed, number, weights_V.shape[-1])).to(weights_V.device)
        return int((weights_V.to(torch.float64).log() + noise_V).argmax())

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """Coupled verification asks nobody; this serves a rule that does."""
        u = uniform(self.seed, StreamId.ACCEPT, number)
        return rejection.accepts(u, p, q), u


def gumbel(seed: int, position: int, width: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return standard Gumbel noise `[width]` for the token ids at one absolute position, from 32 random bits each.

    Token v takes word v mod 4 of the Philox block with lane v div 4, the same words as the kernels. The largest noise
    comes from the smallest numbers, where the grid is finest.

    >>> bool((gumbel(7, 3, 8)[:5] == gumbel(7, 3, 5)).all())
    True
    """
    lanes = np.arange((width + 3) // 4, dtype=np.uint64)
    fixed = (np.uint64(position & 0xFFFFFFFF), np.uint64(position >> 32), np.uint64(StreamId.POSITION))
    words = philox4x32((*fixed, lanes), (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))  # type: ignore[arg-type]
    bits = np.stack([np.broadcast_to(word, lanes.shape) for word in words], axis=1).reshape(-1)[:width]
    u = (2.0 * bits + 1.0) * 2.0**-33
    return -np.log(-np.log1p(-u))


@final
class GreedyNoise:
    """The source at temperature 0: there is nothing to draw, the largest weight wins, the lowest id on ties."""

    __slots__ = ()

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        return int(weights_V.argmax())

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        return p > 0.0, None


@final
class ForcedNoise:
    """A source whose acceptance numbers are replaced: the smallest u before draft `reject_at`, the largest at it.

    `reject_at` counts the drafts of a cycle from 1; 0 accepts every draft. The engine tells it where a cycle starts.
    """

    __slots__ = ("_inner", "cycle_start", "reject_at")

    def __init__(self, inner: Noise, reject_at: int) -> None:
        self._inner = inner
        self.reject_at = reject_at
        self.cycle_start = 0

    def draw(self, stream: StreamId, number: int, weights_V: Tensor) -> int:
        """See `Noise.draw`."""
        return self._inner.draw(stream, number, weights_V)

    def accepts(self, number: int, p: float, q: float) -> tuple[bool, float | None]:
        """See `Noise.accepts`."""
        rejects = 0 < self.reject_at <= number - self.cycle_start + 1
        if isinstance(self._inner, GreedyNoise):
            return p > 0.0, None
        u = 1.0 - 2.0**-52 if rejects else 2.0**-52
        return rejection.accepts(u, p, q), u
