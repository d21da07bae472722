"""What an engine tells its observers, in the order in which it happens.

Prefilled, then for every cycle CycleStarted, Drafted, TargetRan, Verified, Committed, RolledBack, CycleFinished, and at
last Finished. Invariant: events are frozen and hold no tensors; none is built when nobody listens. An observer that
raises stops the run where it is: the stream can go on later, and the closing events of an interrupted cycle come again.
`row` says which prompt of a batch an event belongs to. They do not know who listens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from specdec_teach.trace import KV, Cycle, FinishReason, LastKind, Prefill

if TYPE_CHECKING:
    from specdec_teach.recorder import Pending

__all__ = [
    "Builder",
    "Committed",
    "CycleFinished",
    "CycleStarted",
    "Drafted",
    "Event",
    "Finished",
    "Observer",
    "Prefilled",
    "RolledBack",
    "TargetRan",
    "Verified",
]


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Both models have computed all prompt tokens but the last; nothing is emitted yet."""

    prefill: Prefill
    row: int = 0


@dataclass(frozen=True, slots=True)
class CycleStarted:
    """A cycle begins with `committed` tokens; `gamma` drafts will be asked for."""

    index: int
    committed: int
    gamma: int
    row: int = 0


@dataclass(frozen=True, slots=True)
class Drafted:
    """The drafter has proposed `tokens`."""

    index: int
    tokens: tuple[int, ...]
    row: int = 0


@dataclass(frozen=True, slots=True)
class TargetRan:
    """The target has run one forward over `rows` positions; its pointer stands at `pointer`."""

    index: int
    rows: int
    pointer: int
    row: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """`accepted` drafts stand, and `token` follows them as a correction or a bonus."""

    index: int
    accepted: int
    token: int
    kind: LastKind
    row: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """`tokens` were committed: the kept drafts and the token after them, up to the end of the text."""

    index: int
    tokens: tuple[int, ...]
    row: int = 0


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Both pointers were moved back behind what was not kept."""

    index: int
    target: KV
    draft: KV | None
    row: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class CycleFinished:
    """The cycle is settled. Its record is written out when somebody first looks at `cycle`."""

    record: Pending
    row: int = 0

    @property
    def cycle(self) -> Cycle:
        """The cycle's whole record."""
        return self.record.cycle()


@dataclass(frozen=True, slots=True)
class Finished:
    """The text has ended."""

    reason: FinishReason
    row: int = 0


Event = Prefilled | CycleStarted | Drafted | TargetRan | Verified | Committed | RolledBack | CycleFinished | Finished

Builder = Callable[[], Event]


class Observer(Protocol):
    """Anything that wants to hear."""

    def on_event(self, event: Event) -> None:
        """Called for every event, in order, on the engine's own thread."""
