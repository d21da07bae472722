"""One request in flight: every `next()` is one cycle of Draft → Verify → Commit → Rollback.

Invariant: a cycle is worked out first and settled afterwards, and settling can be repeated. So a stream that was
interrupted anywhere goes on with the next `next()`, with the same tokens as if nothing had happened.
It does not know how drafts are made or judged, who else shares a forward (`rounds`), nor how a trace is drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, SpecDecError
from specdec_teach import events, rounds
from specdec_teach.drafters.base import Proposal, features_of, most_nodes
from specdec_teach.ending import Ending
from specdec_teach.hidden import Hidden
from specdec_teach.invariants import Watch
from specdec_teach.keeping import Keeping
from specdec_teach.limits import Limits
from specdec_teach.noise import Noise
from specdec_teach.pacing import Planning
from specdec_teach.policy import logprobs, processed
from specdec_teach.recorder import Pending, Unread, draw_numbers
from specdec_teach.result import Result, Stats
from specdec_teach.sequence import Sequence
from specdec_teach.trace import KV, Cycle, FinishReason, Meta, Prefill, Seconds, Trace
from specdec_teach.working import Decided, Outcome, Plan, Progress
from specdec_teach.writer import Run

if TYPE_CHECKING:
    from specdec_teach.engine import Engine

__all__ = ["Stream"]


@final
class Stream(Iterator[Cycle]):
    """Yields the record of a cycle per step. Made by `Engine.stream`; can be abandoned or interrupted at any event.

    `progress`: what settled cycles add up to. `error`: what the last cycle failed with, if it did. A scheduler sets
    `fits`, the most drafts that the next cycle may make, `chunk`, the most tokens to catch up with at once, and
    `at_step`, the step that the next cycle belongs to.
    """

    def __init__(
        self,
        engine: Engine,
        sequence: Sequence,
        limits: Limits,
        ending: Ending,
        meta: Meta,
        planning: Planning,
        keep: int | None,
        record: bool,
    ) -> None:
        self.engine, self.sequence, self.limits, self.meta = engine, sequence, limits, meta
        self.error: SpecDecError | None = None
        self.fits: int | None = None
        self.chunk: int | None = None
        self.at_step: int | None = None
        self._planning, self._kept, self._now = planning, record, False
        drafts = meta.speculate and limits.gamma(planning.most, len(sequence.tokens)) > 0  # γ never grows along a text
        self.drafter = engine.drafter if drafts else None
        if sequence.hidden is None and self.drafter is not None and (layers := features_of(self.drafter)):
            sequence.hidden = Hidden(layers)
        self._prefill: Prefill | None = None
        self._drafted: int | None = None
        self._draft_ready = False
        self._fed, self._adopted, self._feeding = 0, 0, 0.0
        self._outcome: Outcome | None = None
        self._closed, self._delivered = False, -1
        self._draws_drafts = self.drafter is not None and self.drafter.exact and not sequence.sampling.greedy_now
        self._watch = Watch() if engine.debug else None
        if self._watch is not None:
            self._watch.expect(meta, sequence.prompt_length)
        self._cycles: deque[Pending] = deque(maxlen=keep)
        self._unread = Unread()
        self.progress = Progress(Stats(), ending, "", (), limits.finished(len(sequence.tokens)), planning.start())

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text has ended, None while it goes on."""
        return self.progress.reason

    @property
    def goes_on(self) -> bool:
        """Whether there is anything left to do."""
        return self._outcome is not None or not self._closed

    @property
    def waits(self) -> bool:
        """Whether a cycle can be worked out: the text goes on and the last cycle is settled."""
        return self._outcome is None and self.progress.reason is None

    def __next__(self) -> Cycle:
        """Run one cycle and return its record."""
        self._now = True
        last = self.progress.last
        waits = self._outcome is None and last is not None and last.shell.index > self._delivered
        if not waits and not self.step():
            raise StopIteration
        assert self.progress.last is not None
        cycle = self.progress.last.cycle()
        self._delivered = cycle.index
        return cycle

    def step(self) -> bool:
        """Run one cycle, with a record only if somebody wants it; return whether there was one to run."""
        return rounds.run([self]) > 0

    def rewind(self) -> None:
        """Leave nothing computed past what is committed, as after an interrupt; take over what others published.

        A request whose drafter reads hidden states takes nothing over: others' blocks hold keys and values only.
        """
        sequence, settled = self.sequence, len(self.sequence.tokens) - 1
        if sequence.cache.pointer > settled:  # a rollback that moves nothing would give reserved blocks back
            sequence.cache.rollback(settled)
        sequence.trim()
        if sequence.cache.pointer == 0 and len(sequence.tokens) > 1 and sequence.hidden is None:
            self._adopted = sequence.cache.adopt(sequence.tokens[:-1])

    def fed(self, count: int, seconds: float) -> None:
        """Take note of committed tokens that were computed outside of a cycle."""
        self._fed += count
        self._feeding += seconds
        self.sequence.cache.publish(self.sequence.tokens)

    def get_ready(self) -> None:
        """Let the drafter follow, and tell that the prefill is done when it is."""
        start = perf_counter()
        if self.drafter is not None:
            if not self._draft_ready:
                self._drafted = self.drafter.reset(self.sequence, self.limits.capacity)
                self._draft_ready = True
            self.drafter.commit(self.sequence)
        if self._prefill is None:
            seconds = self._feeding + perf_counter() - start
            prefill = Prefill(self._fed, self._drafted, seconds, self._adopted)
            self._tell(lambda: events.Prefilled(prefill, self.sequence.row))
            self._prefill, self._fed = prefill, 0
            self.sequence.cache.mark()

    def preempt(self) -> None:
        """Give the memory of both caches back; what was computed is computed again when the request goes on."""
        self.sequence.cache.release()
        self.sequence.cache.mark()
        self.sequence.draft = None
        if self.sequence.hidden is not None:
            self.sequence.hidden.clear()
        self.fits = self.chunk = self.at_step = None
        self._draft_ready = False
        self._fed = 0 if self._prefill is None else self._fed

    def next_gamma(self) -> int:
        """Return how many drafts the next cycle asks for, in a tree how many below each other."""
        asked = self.progress.outlook.gamma if self.drafter is not None else 0
        gamma = self.limits.gamma(asked, len(self.sequence.tokens))
        while self.fits is not None and most_nodes(self.drafter, gamma) > self.fits:
            gamma -= 1
        return gamma

    def next_nodes(self) -> int:
        """Return how many drafts the next cycle has at most: more than `next_gamma` in a tree."""
        return most_nodes(self.drafter, self.next_gamma())

    def plan(self) -> Plan:
        """Begin a cycle: how many drafts to ask for, and which random numbers it starts with."""
        sequence, rule = self.sequence, self.engine.rule
        index, before = self.progress.stats.cycles, len(sequence.tokens)
        sequence.number = first = before if rule.by_position else sequence.number
        gamma, sequence.patience = self.next_gamma(), self.progress.outlook.patience
        at_start = (sequence.cache.pointer, self.draft_pointer())
        self._tell(lambda: events.CycleStarted(index, before, gamma, sequence.row))
        return Plan(index, gamma, most_nodes(self.drafter, gamma), before, at_start, first, perf_counter())

    def told(self, plan: Plan, proposal: Proposal) -> None:
        """Tell what was drafted."""
        self._tell(lambda: events.Drafted(plan.index, proposal.tokens, self.sequence.row))

    def judge(
        self,
        plan: Plan,
        proposal: Proposal,
        forced: tuple[bool, ...],
        logits_RV: Tensor,
        spent: tuple[float, float],
        rows: int,
        decided: Decided | None = None,
    ) -> None:
        """Judge the drafts by the target's rows `[K + 1, V]`; nothing is committed yet.

        `spent`: seconds of draft and target. `rows`: how many requests shared them. `decided`: what a device decided.
        """
        sequence, limits, rule, index = self.sequence, self.limits, self.engine.rule, plan.index
        highest = (sequence.cache.pointer, proposal.reach or self.draft_pointer())
        self._tell(lambda: events.TargetRan(index, len(proposal.tokens) + 1, highest[0], sequence.row))
        start = perf_counter()
        scores_RV = sequence.policy.scores(logits_RV, sequence.tokens, proposal.tokens, proposal.parents)
        p_RV = processed(scores_RV, sequence.sampling) if decided is None else decided.p_RV
        try:
            verdict = rule.judge(proposal, p_RV, sequence.noise, plan.first) if decided is None else decided.verdict
        except EngineFailure as error:
            raise EngineFailure(f"cycle {index}, after {plan.before} tokens: {error}") from None
        verifying = perf_counter() - start if decided is None else decided.seconds
        drawn = not (sequence.sampling.greedy_now and rule.lossless)
        emitted = (*verdict.standing(proposal.tokens), verdict.token)
        full = limits.finished(plan.before + len(emitted)) is not None
        ended = self.progress.ending.feed(emitted, last=full)
        emitted = emitted[: ended.kept]
        reason = ended.reason or limits.finished(plan.before + ended.kept)
        self._tell(lambda: events.Verified(index, verdict.accepted, verdict.token, verdict.kind, sequence.row))
        logs = logprobs(scores_RV, p_RV, verdict.rows, emitted, sequence.sampling)
        draws = draw_numbers(proposal, verdict, plan.first, rule.by_position, drawn, self._draws_drafts)
        self._outcome = Outcome(
            plan, highest, proposal, forced, p_RV, verdict, emitted, ended, logs, reason, draws,
            (*spent, verifying), rows, Keeping(plan.before, verdict.path),
        )  # fmt: skip

    def settle(self) -> bool:
        """Commit a cycle that was worked out, let both caches follow, record and tell; return whether there was one.

        Every part can be repeated after an interrupt.
        """
        outcome, sequence = self._outcome, self.sequence
        if outcome is not None:
            plan = outcome.plan
            if len(sequence.tokens) == plan.before:
                sequence.number = plan.next_number
                sequence.tokens.extend(outcome.emitted)
            outcome.keeping.settle(sequence, len(sequence.tokens) - 1)
            sequence.cache.publish(sequence.tokens)
            if self.drafter is not None:
                self.drafter.commit(sequence)
            if self.progress.stats.cycles == plan.index:
                self.progress = self._count(outcome)
                self._fed = 0
                sequence.cache.mark()
            self._tell_settled(outcome)
        reason = self.progress.reason
        if reason is not None and not self._closed:
            if self._watch is not None:
                self._watch.on_event(events.Finished(reason))
            self._tell(lambda: events.Finished(reason, sequence.row))
            self._closed = True
        self._outcome = None
        return outcome is not None

    def _count(self, outcome: Outcome) -> Progress:
        """Return what settled cycles add up to with `outcome` among them; record it if somebody wants it."""
        other = (perf_counter() - outcome.plan.began) / outcome.rows - sum(outcome.spent)
        seconds = Seconds(*outcome.spent, other=max(0.0, other))
        drafted, degenerate = len(outcome.proposal.tokens), outcome.verdict.degenerate and not outcome.cut
        kept, stop_cut = outcome.kept, outcome.stop_cut
        stats = self.progress.stats.plus(drafted, kept, len(outcome.emitted), stop_cut, degenerate, seconds)
        record = None
        if self._kept or self._now or self.engine.observers or self._watch is not None:
            record = self._write(outcome, seconds)
            if self._kept and (not self._cycles or self._cycles[-1].shell.index < outcome.plan.index):
                self._cycles.append(record)
        return Progress(
            stats,
            outcome.fed.after,
            self.progress.text + outcome.fed.piece,
            self.progress.logprobs + outcome.logprobs,
            outcome.reason,
            outcome.foreseen(self.progress.outlook),
            record,
        )

    def _write(self, outcome: Outcome, seconds: Seconds) -> Pending:
        """Turn a settled outcome into its record, still to be written out; both pointers are read off the caches."""
        cache, drafts = self.sequence.cache, (outcome.plan.at_start[1], outcome.highest[1], self.draft_pointer())
        record = outcome.record(
            seconds=seconds,
            committed=len(self.sequence.tokens),
            target=KV(outcome.plan.at_start[0], outcome.highest[0], cache.pointer),
            draft=None if None in drafts else KV(*drafts),  # type: ignore[arg-type]
            caught_up=self._fed,
            blocks=cache.blocks(),
            step=self.at_step,
        )
        return self._unread.add(record)

    def draft_pointer(self) -> int | None:
        """Return how many tokens the drafter has computed, None for one without a cache."""
        return None if self.drafter is None else self.drafter.pointer(self.sequence)

    def _tell_settled(self, outcome: Outcome) -> None:
        record, index, row = self.progress.last, outcome.plan.index, self.sequence.row
        if self._watch is not None and record is not None:
            self._watch.on_event(events.CycleFinished(record))
        if record is None or not self.engine.observers:
            return
        self._tell(lambda: events.Committed(index, outcome.emitted, row))
        self._tell(lambda: events.RolledBack(index, record.shell.target_kv, record.shell.draft_kv, row))
        self._tell(lambda: events.CycleFinished(record, row))

    def _tell(self, build: events.Builder) -> None:
        observers = self.engine.observers
        if observers:
            event = build()
            for observer in tuple(observers):
                observer.on_event(event)

    def finish(self) -> Result:
        """Run what is left and return the whole result."""
        while self.step():
            pass
        return self.result()

    def result(self) -> Result:
        """Return what has been committed so far; `finish_reason` is None while the text goes on."""
        progress = self.progress
        reported = progress.logprobs if self.sequence.sampling.logprobs else None
        tokens = tuple(self.sequence.new_tokens[: progress.stats.emitted])
        return Result(
            tokens, progress.text, progress.reason, progress.stats, reported, self._writer() if self._kept else None
        )

    def trace(self) -> Trace:
        """Return the record of all cycles so far (the last ones, where only those are kept)."""
        return self._writer()()

    def _writer(self) -> Callable[[], Trace]:
        """Return what writes the trace out as it stands now."""
        settled = self.progress.stats.cycles
        records = [record for record in self._cycles if record.shell.index < settled]
        run = Run(self.meta, self.sequence.prompt_length, self._prefill, self.progress.reason, settled)
        return run.writer(records, self.sequence.tokens, self.engine.tokenizer)

    def fork(self, noise: Noise) -> Stream:
        """Return an independent copy of the request that takes its chances from `noise`; used to enumerate them."""
        with torch.inference_mode():
            rounds.catch_up([self])
            sequence = self.sequence.fork(noise)
        twin = Stream(
            self.engine, sequence, self.limits, self.progress.ending, self.meta, self._planning, self._cycles.maxlen,
            False,
        )  # fmt: skip
        twin._prefill, twin._draft_ready, twin._watch = self._prefill, True, None
        twin.progress = replace(self.progress, last=None)
        return twin
