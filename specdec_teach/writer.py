"""Write a trace out when somebody first asks for it.

Invariant: it holds on to records and ids, to no cache and no model. It does not know how the records came about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from functools import cache
from typing import Any, final

from specdec_teach.recorder import Pending
from specdec_teach.text import pieces
from specdec_teach.trace import Cycle, FinishReason, Meta, Prefill, Trace

__all__ = ["Run"]


@final
@dataclass(frozen=True, slots=True)
class Run:
    """What a trace says beside its cycles; `settled` counts the cycles of the run, kept or not."""

    meta: Meta
    prompt_length: int
    prefill: Prefill | None
    reason: FinishReason | None
    settled: int

    def writer(self, records: Items[Pending], tokens: Items[int], tokenizer: Any) -> Callable[[], Trace]:
        """Return a function that writes the trace once and then returns it; later changes are not seen."""
        ids, kept = tuple(tokens), tuple(records)

        @cache
        def write() -> Trace:
            cycles = tuple(record.cycle() for record in kept)
            return Trace(
                self.meta,
                ids[: self.prompt_length],
                self.prefill,
                cycles,
                self.reason,
                pieces(tokenizer, _named(ids, cycles)),
                self.settled - len(cycles),
            )

        return write


def _named(ids: Iterable[int], cycles: Iterable[Cycle]) -> set[int]:
    """Return every token id that a trace names."""
    named = {*ids}
    for cycle in cycles:
        named.update(token for token in cycle.proposed if token is not None)
        for top in [top for d in cycle.decisions for top in (d.p_top, d.q_top, d.residual_top)]:
            named.update([token for token, _ in top.tokens])
        if cycle.last_top is not None:
            named.update([token for token, _ in cycle.last_top.tokens])
    return named
