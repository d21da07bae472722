"""What forwards cost on a machine, as numbers to reason with: v(T) of the target, c of a draft step.

Invariant: only ratios matter to whoever chooses γ; seconds belong to one machine and moment.
It does not know how anything was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

__all__ = ["Costs"]


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one forward: of the target by number of positions, and of the draft over one (None: no draft).

    >>> costs = Costs({1: 0.010, 5: 0.012}, 0.001)
    >>> round(costs.v(5), 3), costs.c, round(costs.cycle(4), 3)
    (1.2, 0.1, 0.016)
    """

    target: Mapping[int, float]
    draft: float | None

    def v(self, positions: int) -> float:
        """Return the cost of a target forward over `positions` in forwards over one, between measured sizes by line."""
        sizes = sorted(self.target)
        high = next((size for size in sizes if size >= positions), sizes[-1])
        low = next((size for size in reversed(sizes) if size <= positions), sizes[0])
        part = 0.0 if high == low else (positions - low) / (high - low)
        return (self.target[low] + part * (self.target[high] - self.target[low])) / self.target[1]

    @property
    def c(self) -> float | None:
        """The cost of a draft step in target forwards over one position."""
        return None if self.draft is None else self.draft / self.target[1]

    def cycle(self, gamma: int) -> float:
        """Return the seconds of the forwards of a cycle with γ drafts."""
        return self.v(gamma + 1) * self.target[1] + gamma * (self.draft or 0.0)
