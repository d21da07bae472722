"""What a finished request hands back: tokens, text, why it ended, counts, and the trace if one was kept.

Every count is defined here, once: `drafted` is Σ tokens really proposed; `accepted` is Σ drafts kept; `emitted` is
Σ tokens committed = accepted + one per cycle, less the cycles whose last token lay behind the end of the text;
`stop_cut` counts drafts behind the end of the text, which are neither accepted nor rejected; `degenerate` counts
corrections drawn from p because the residual was numerically empty.
It does not know how the counts came about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

from specdec_teach.trace import FinishReason, Seconds, Trace

__all__ = ["Result", "Stats"]


@final
@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a run, and where the seconds of its cycles went (the prefill is not in them)."""

    cycles: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    stop_cut: int = 0
    degenerate: int = 0
    seconds: Seconds = field(default_factory=lambda: Seconds(0.0, 0.0, 0.0, 0.0))

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / (drafted − stop_cut); None when nothing was drafted.

        >>> Stats(cycles=2, drafted=8, accepted=5, emitted=7, stop_cut=0).acceptance_rate, Stats().acceptance_rate
        (0.625, None)
        """
        judged = self.drafted - self.stop_cut
        return self.accepted / judged if judged else None

    @property
    def tokens_per_cycle(self) -> float | None:
        """emitted / cycles; None before the first cycle."""
        return self.emitted / self.cycles if self.cycles else None

    def plus(
        self, drafted: int, accepted: int, emitted: int, stop_cut: int, degenerate: bool, seconds: Seconds
    ) -> Stats:
        """Return the counts with one more cycle in them."""
        spent = self.seconds
        return Stats(
            cycles=self.cycles + 1,
            drafted=self.drafted + drafted,
            accepted=self.accepted + accepted,
            emitted=self.emitted + emitted,
            stop_cut=self.stop_cut + stop_cut,
            degenerate=self.degenerate + degenerate,
            seconds=Seconds(
                spent.draft + seconds.draft,
                spent.target + seconds.target,
                spent.verify + seconds.verify,
                spent.other + seconds.other,
            ),
        )


@final
@dataclass(frozen=True, slots=True)
class Result:
    """One finished request.

    `tokens`: the new ids, with the end-of-sequence token or the token that completed a stop string; `text`: without
    either. `logprobs`: per token {id: log p} under the target's processed
    distribution (at temperature 0: that of temperature 1 without filters), None where none was asked for.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason | None
    stats: Stats
    logprobs: tuple[dict[int, float], ...] | None = field(default=None, repr=False)
    _records: Callable[[], Trace] | None = field(default=None, repr=False, compare=False)

    @property
    def trace(self) -> Trace | None:
        """The record of the run, written out when it is first asked for; None where none was kept."""
        return None if self._records is None else self._records()
