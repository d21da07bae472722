"""What a stream holds between two moments: a cycle that waits to be settled, and what settled cycles add up to.

Invariant: both are frozen; a stream moves on by replacing one whole record with the next.
They do not know how they came about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from specdec_teach.drafters.base import Proposal
from specdec_teach.ending import Ending, Fed
from specdec_teach.keeping import Keeping
from specdec_teach.pacing import Outlook
from specdec_teach.recorder import Pending
from specdec_teach.result import Stats
from specdec_teach.rules.base import Verdict
from specdec_teach.trace import KV, Blocks, Cycle, Draws, FinishReason, Seconds
from specdec_teach.tree import below

__all__ = ["Decided", "Outcome", "Plan", "Progress"]


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A cycle that begins. `before`: committed tokens; `at_start`: both pointers; `first`: its first draw number.

    `nodes`: how many drafts there can be: γ, or more in a tree of that depth.
    """

    index: int
    gamma: int
    nodes: int
    before: int
    at_start: tuple[int, int | None]
    first: int
    began: float

    @property
    def next_number(self) -> int:
        """The first draw number of the cycle after this one."""
        return self.first + self.nodes + 1


@final
@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """A verdict that was reached on a device, the rows `[K + 1, V]` it was made from, and the seconds it took."""

    p_RV: Tensor
    verdict: Verdict
    seconds: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A cycle that was worked out and waits to be settled. `highest`: how far both pointers got. `rows`: who shared it.

    `spent`: its share of the seconds for draft, target and verification. `keeping`: what stays in the target's cache.
    """

    plan: Plan
    highest: tuple[int, int | None]
    proposal: Proposal
    forced: tuple[bool, ...]
    p_RV: Tensor
    verdict: Verdict
    emitted: tuple[int, ...]
    fed: Fed
    logprobs: tuple[dict[int, float], ...]
    reason: FinishReason | None
    draws: Draws
    spent: tuple[float, float, float]
    rows: int
    keeping: Keeping

    @property
    def cut(self) -> bool:
        """Whether the text ended before the token that follows the drafts."""
        return len(self.emitted) <= self.verdict.accepted

    @property
    def kept(self) -> int:
        """How many drafts were kept."""
        return min(self.verdict.accepted, len(self.emitted))

    @property
    def stop_cut(self) -> int:
        """How many drafts lay behind the end of the text: in a tree those below the last one kept."""
        if not self.cut:
            return 0
        path, count = self.verdict.path, len(self.proposal.tokens)
        return count - self.kept if path is None else len(below(self.proposal.shape, path[self.kept - 1]))

    def foreseen(self, outlook: Outlook) -> Outlook:
        """Return the outlook on the next cycle when `outlook` was the one on this."""
        return outlook.after(self.proposal.depth, self.kept, self.cut, self.proposal.confidence)

    def record(
        self,
        *,
        seconds: Seconds,
        committed: int,
        target: KV,
        draft: KV | None,
        caught_up: int,
        blocks: Blocks | None,
        step: int | None,
    ) -> Pending:
        """Return the cycle's record, still to be written out, with what only settling it could tell."""
        plan, verdict, cut = self.plan, self.verdict, self.cut
        shell = Cycle(
            index=plan.index,
            gamma=plan.gamma,
            proposed=self.proposal.tokens,
            accepted=self.kept,
            emitted=self.emitted,
            last=None if cut else verdict.token,
            last_kind="none" if cut else verdict.kind,
            last_top=None,
            committed_before=plan.before,
            committed_after=committed,
            target_kv=target,
            draft_kv=draft,
            decisions=(),
            rng=self.draws,
            degenerate_residual=verdict.degenerate and not cut,
            seconds=seconds,
            stop_cut=self.stop_cut,
            text=self.fed.piece,
            last_from=None if cut else verdict.source,
            caught_up=caught_up,
            blocks=blocks,
            step=step,
            parents=self.proposal.parents,
            path=None if verdict.path is None else verdict.path[: self.kept],
        )
        return Pending(shell, self.proposal, self.p_RV, verdict, cut, self.forced)


@final
@dataclass(frozen=True, slots=True)
class Progress:
    """What settled cycles add up to; replaced as a whole."""

    stats: Stats
    ending: Ending
    text: str
    logprobs: tuple[dict[int, float], ...]
    reason: FinishReason | None
    outlook: Outlook
    last: Pending | None = None
