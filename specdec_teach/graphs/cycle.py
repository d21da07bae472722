"""Cycles of one request that run on the device from the first draft to the verdict, with one copy to the host.

What is recorded (`steps`): the draft's forwards over one token and over two (catch-up after a cycle that accepted
everything), the target's over γ + 1, the draw, the verdict; each the first time that it is needed. It serves greedy and
drawn drafts under "rejection" and "coupled", judged by `specdec_kernels`, and plain decoding. Everything else takes the
general way: several requests at once, a γ below the one asked for when it comes for the first time, other rules,
drafters, caches and decoders, whatever looks at the text (penalties, grammars), forced patterns, prefill. A cycle that
cannot be judged is run again the general way, which says what is wrong; a failure to record ends all recording, with
one warning.
One copy brings counts and tokens to the host. A record (trace, observer) reads rows of p and q, and costs more of them.
Invariant: tokens, counters, draw numbers and pointers are those of the general way, up to the rounding of logits; a
request can change from one way to the other at any cycle. It does not know how a model attends.
"""

from __future__ import annotations

import gc
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, final

import torch

from specdec_kernels.errors import SpecDecError
from specdec_teach.drafters.base import Proposal
from specdec_teach.graphs.board import Board, Standing
from specdec_teach.graphs.capture import Capture, CudaGraphs, Work
from specdec_teach.graphs.job import Job
from specdec_teach.graphs.model import FixedModel
from specdec_teach.graphs.steps import Judge, Report, Steps
from specdec_teach.working import Decided, Plan

if TYPE_CHECKING:
    from specdec_teach.stream import Stream

__all__ = ["Graphs"]

_LEAST_SLOTS = 256


@final
class Graphs:
    """The recorded cycles of one engine. `cycles`: how many it ran; `why`: what made it give up, None while it goes on.

    `steps`: what is recorded now. Each model keeps a memory for one request, as large as the largest that asked.
    """

    def __init__(self, capture: Capture) -> None:
        self.cycles = 0
        self.why: str | None = None
        self._capture = capture
        self.steps: Steps | None = None
        self._left_at: Standing | None = None
        self._met: set[int] = set()

    @classmethod
    def on(cls, device: torch.device) -> Graphs | None:
        """Return what runs cycles on a CUDA device, None for others."""
        return cls(CudaGraphs()) if device.type == "cuda" else None

    def again(self) -> Graphs:
        """Return one for another engine on the same device."""
        return Graphs(self._capture)

    def work_out(self, stream: Stream, plan: Plan) -> bool:
        """Work out the cycle that `plan` began, or return False and leave it all to the general way."""
        job = Job.of(stream, plan) if self.why is None else None
        if job is None or self._is_rare(job.count, stream.meta.gamma):
            return False
        try:
            steps, drafting, target, judge = self._ready(stream, job)
        except Exception as error:  # whatever keeps a device from recording is no reason to stop a text
            self.why, self.steps = f"{type(error).__name__}: {error}".partition("\n")[0], None
            warnings.warn(
                f"cycles cannot be recorded on this device ({self.why}); this engine runs them one by one, as it would "
                "without CUDA graphs",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        marks = [self._capture.mark()]
        for part in (drafting, [target], [judge.replay]):
            for replay in part:
                replay()
            marks.append(self._capture.mark())
        # The next cycle, of whatever request, overwrites these; copied while the device is still at work.
        p_RV, q_KV = judge.p_RV.clone(), steps.q(job.count).clone() if job.form.draws else None
        report = Report.of(self._capture.fetch(judge.report_R), job.count)
        if report.status or report.bad:
            return False
        seconds = [self._capture.seconds(*ends) for ends in pairwise(marks)]
        decided = Decided(p_RV, report.verdict(job.form, p_RV[:0, 0]), seconds.pop())
        self._settle(stream, plan, job, Proposal(report.drafts, q_KV), decided, (seconds[0], seconds[1]))
        return True

    def _is_rare(self, count: int, asked: int) -> bool:
        """Whether this is the first cycle with fewer drafts than were asked for, such as end a text."""
        first = count < asked and count not in self._met
        self._met.add(count)
        return first

    def _ready(self, stream: Stream, job: Job) -> tuple[Steps, list[Work], Work, Judge]:
        """Return the steps of a cycle and its replays, with the request on the board and in the memory."""
        left_at, self._left_at = self._left_at, None
        steps = self._for(job)
        models = (steps.target, *([steps.draft] if job.draft is not None and steps.draft is not None else []))
        known = steps.knows(job.form, job.count, job.lacking) and left_at == job.standing
        if known and all(model.holds(cache) for model, cache in zip(models, job.caches, strict=True)):
            return self._replays(steps, job)
        for model, cache in zip(models, job.caches, strict=True):
            model.lend(cache)
        # Recording runs what it records, from here on: behind the pointers, where nothing counts.
        steps.board.write(stream.sequence.tokens, job.standing, job.seed)
        replays = self._replays(steps, job)
        steps.board.write(stream.sequence.tokens, job.standing, job.seed)
        return replays

    def _replays(self, steps: Steps, job: Job) -> tuple[Steps, list[Work], Work, Judge]:
        rows = job.count + 1
        drafting = steps.drafting(job.form, job.count, job.lacking)
        return steps, drafting, steps.target.forward(rows, rows), steps.judge(job.form, job.count)

    def _for(self, job: Job) -> Steps:
        """Return the steps of these models with room for these caches: the same as last time if they still fit."""
        steps = self.steps
        wanted = [(job.target, job.caches[0].capacity)]
        if job.draft is not None:
            wanted.append((job.draft, job.caches[1].capacity))
        if steps is not None:
            have = [steps.target] if steps.draft is None else [steps.target, steps.draft]
            fits = [m.decoder is decoder and m.slots >= room for m, (decoder, room) in zip(have, wanted, strict=False)]
            if len(have) >= len(wanted) and all(fits):
                return steps
        self.steps = steps = None
        gc.collect()  # records hold themselves in circles, and their memory goes first
        slots = [max(_LEAST_SLOTS, 1 << (room - 1).bit_length()) for _, room in wanted]
        board = Board(slots[0], job.target.device)
        pairs = zip(wanted, slots, (board.target, board.draft), strict=False)
        models = [FixedModel(decoder, size, board, at, self._capture) for (decoder, _), size, at in pairs]
        self.steps = Steps(board, models[0], models[1] if job.draft is not None else None, self._capture)
        return self.steps

    def _settle(
        self, stream: Stream, plan: Plan, job: Job, proposal: Proposal, decided: Decided, spent: tuple[float, float]
    ) -> None:
        """Let the host follow: pointers, verdict, and where the board has moved."""
        assert self.steps is not None
        count, accepted = job.count, decided.verdict.accepted
        job.caches[0].advance(count + 1)
        drafted = job.lacking + count - 1 if count else 0
        if drafted:
            job.caches[1].advance(drafted)
        stream.told(plan, proposal)
        logits_RV = self.steps.target.logits(count + 1)
        try:
            stream.judge(plan, proposal, (False,) * count, logits_RV, spent, 1, decided)
        except SpecDecError as error:
            stream.error = error
            return
        self.cycles += 1
        at = plan.before + accepted
        number = at + 1 if job.form.rule == "coupled" else job.standing.number + count + 1
        self._left_at = Standing(at + 1, at, min(job.standing.draft + drafted, at), number)
