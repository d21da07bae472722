"""What forwards cost on a machine, as numbers to reason with: v(T) of the target, c of a draft step, d(γ) of a draft.

Invariant: only ratios matter to whoever chooses γ; seconds belong to one machine and moment.
It does not know how anything was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

__all__ = ["Costs"]


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one forward: of the target by number of positions, and of the draft over one (None: no draft).

    `drafts`: seconds of a whole draft by its length, where they were measured; a draft has a cost of its own beside
    its steps, and heads that all guess at once have little else. Without them each token costs one draft step.

    >>> costs = Costs({1: 0.010, 5: 0.012}, 0.001)
    >>> round(costs.v(5), 3), costs.c, round(costs.cycle(4), 3)
    (1.2, 0.1, 0.016)
    >>> [round(Costs({1: 0.010}, 0.001, {1: 0.003, 3: 0.005}).d(gamma), 3) for gamma in (0, 1, 2, 3, 4)]
    [0.0, 0.3, 0.4, 0.5, 0.6]
    """

    target: Mapping[int, float]
    draft: float | None
    drafts: Mapping[int, float] = field(default_factory=dict)

    def v(self, positions: int) -> float:
        """Return the cost of a target forward over `positions` in forwards over one, between measured sizes by line."""
        return _by_line(self.target, positions) / self.target[1]

    @property
    def c(self) -> float | None:
        """The cost of a draft step in target forwards over one position."""
        return None if self.draft is None else self.draft / self.target[1]

    def d(self, gamma: int) -> float:
        """Return the cost of a draft of γ tokens in target forwards over one position.

        Between measured lengths by line; each token beyond the longest costs a draft step.
        """
        longest = max(self.drafts, default=0)
        measured = _by_line({0: 0.0, **self.drafts}, min(gamma, longest))
        return (measured + max(gamma - longest, 0) * (self.draft or 0.0)) / self.target[1]

    def cycle(self, gamma: int) -> float:
        """Return the seconds of the forwards of a cycle with γ drafts."""
        return (self.v(gamma + 1) + self.d(gamma)) * self.target[1]


def _by_line(seconds: Mapping[int, float], size: int) -> float:
    """Return the seconds of `size`, on the line between its measured neighbours, or of the nearest one."""
    sizes = sorted(seconds)
    high = next((one for one in sizes if one >= size), sizes[-1])
    low = next((one for one in reversed(sizes) if one <= size), sizes[0])
    part = 0.0 if high == low else (size - low) / (high - low)
    return seconds[low] + part * (seconds[high] - seconds[low])
