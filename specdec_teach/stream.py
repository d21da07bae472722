"""One request in flight: every `next()` is one cycle of Draft → Verify → Commit → Rollback.

Invariant: a cycle is worked out first and settled afterwards, and settling can be repeated. So a stream that was
interrupted anywhere goes on with the next `next()`, with the same tokens as if nothing had happened.
It does not know how drafts are made or judged, nor how a trace is drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, final

import torch

from specdec_kernels.errors import EngineFailure, shown
from specdec_teach import events
from specdec_teach.drafters.base import Proposal
from specdec_teach.ending import Ending
from specdec_teach.forced import force
from specdec_teach.limits import Limits
from specdec_teach.noise import ForcedNoise, Noise
from specdec_teach.policy import fit_width, logprobs, processed
from specdec_teach.recorder import Pending, measure
from specdec_teach.result import Result, Stats
from specdec_teach.rules.base import Verdict
from specdec_teach.sequence import Sequence
from specdec_teach.text import pieces
from specdec_teach.trace import KV, Cycle, Draws, FinishReason, LastKind, Meta, Prefill, Seconds, Trace
from specdec_teach.working import Outcome, Progress

if TYPE_CHECKING:
    from specdec_teach.engine import Engine

__all__ = ["Stream"]


@final
class Stream(Iterator[Cycle]):
    """Yields the record of a cycle per step. Made by `Engine.stream`; can be abandoned or interrupted at any event."""

    def __init__(
        self,
        engine: Engine,
        sequence: Sequence,
        limits: Limits,
        ending: Ending,
        meta: Meta,
        gamma: int,
        keep: int | None,
        record: bool,
    ) -> None:
        self.sequence = sequence
        self.meta = meta
        self._engine, self._limits, self._gamma, self._kept, self._now = engine, limits, gamma, record, False
        drafts = meta.speculate and limits.gamma(gamma, len(sequence.tokens)) > 0  # γ never grows along a text
        self._drafter = engine.drafter if drafts else None
        self._prefill: Prefill | None = None
        self._outcome: Outcome | None = None
        self._closed = False
        self._delivered = -1
        self._cycles: deque[Pending] = deque(maxlen=keep)
        self._progress = Progress(Stats(), ending, "", (), limits.finished(len(sequence.tokens)))

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text has ended, None while it goes on."""
        return self._progress.reason

    @property
    def shares_noise(self) -> bool:
        """Whether draft and target meet the same noise at a position (coupled verification)."""
        return self._engine.rule.by_position and not self.sequence.sampling.greedy_now

    def __next__(self) -> Cycle:
        """Run one cycle and return its record."""
        self._now = True
        last = self._progress.last
        waits = self._outcome is None and last is not None and last.shell.index > self._delivered
        if not waits and not self.step():
            raise StopIteration
        assert self._progress.last is not None
        cycle = self._progress.last.cycle()
        self._delivered = cycle.index
        return cycle

    def step(self) -> bool:
        """Run one cycle, with a record only if somebody wants it; return whether there was one to run."""
        with torch.inference_mode():
            if self._outcome is None and self._progress.reason is None:
                self._prepare()
                self._outcome = self._work_out()
            if self._outcome is not None:
                self._settle(self._outcome)
        self._close()
        ran, self._outcome = self._outcome is not None, None
        return ran

    def _close(self) -> None:
        """Tell the end of the text, once."""
        reason = self._progress.reason
        if reason is not None and not self._closed:
            self._tell(lambda: events.Finished(reason))
            self._closed = True

    def _prepare(self) -> None:
        """Let computed catch up with committed: the prefill at first, and later what an interrupt left behind."""
        sequence, target, drafter = self.sequence, self._engine.target_runner, self._drafter
        if self._prefill is None:
            start = perf_counter()
            sequence.cache.rollback(0)
            ready = sequence.tokens[:-1]
            if ready:
                target.forward(sequence.cache, ready, keep=0)
            drafted = drafter.reset(sequence, self._limits.capacity) if drafter is not None else None
            prefill = Prefill(len(ready), drafted, perf_counter() - start)
            self._tell(lambda: events.Prefilled(prefill))
            self._prefill = prefill
        sequence.cache.rollback(min(sequence.cache.pointer, len(sequence.tokens) - 1))
        if drafter is not None:
            drafter.commit(sequence)

    def _work_out(self) -> Outcome:
        """Draft, run the target once, and judge; nothing is committed yet."""
        sequence, limits, target = self.sequence, self._limits, self._engine.target_runner
        index, before, rule = self._progress.stats.cycles, len(sequence.tokens), self._engine.rule
        sequence.number = first = before if rule.by_position else sequence.number
        gamma = limits.gamma(self._gamma, before) if self._drafter is not None else 0
        at_start = (sequence.cache.pointer, self._draft_pointer())
        self._tell(lambda: events.CycleStarted(index, before, gamma))
        clock = [perf_counter()]
        proposal, forced = self._propose(gamma)
        count = len(proposal.tokens)
        self._tell(lambda: events.Drafted(index, proposal.tokens))
        clock.append(perf_counter())
        feed = sequence.tokens[sequence.cache.pointer :] + list(proposal.tokens)
        logits_RV = fit_width(target.forward(sequence.cache, feed, keep=count + 1), sequence.vocab)
        highest = (sequence.cache.pointer, self._draft_pointer())
        self._tell(lambda: events.TargetRan(index, count + 1, highest[0]))
        clock.append(perf_counter())
        scores_RV = sequence.policy.scores(logits_RV, sequence.tokens, proposal.tokens)
        p_RV = processed(scores_RV, sequence.sampling)
        try:
            verdict = rule.judge(proposal, p_RV, sequence.noise, first)
        except EngineFailure as error:
            raise EngineFailure(f"cycle {index}, after {before} tokens: {error}") from None
        clock.append(perf_counter())
        emitted = (*proposal.tokens[: verdict.accepted], verdict.token)
        full = limits.finished(before + len(emitted)) is not None
        fed = self._progress.ending.feed(emitted, last=full)
        emitted = emitted[: fed.kept]
        reason = fed.reason or limits.finished(before + fed.kept)
        self._tell(lambda: events.Verified(index, verdict.accepted, verdict.token, verdict.kind))
        draws = self._draws(proposal, verdict, first)
        spent = (clock[1] - clock[0], clock[2] - clock[1], clock[3] - clock[2])
        return Outcome(
            index, gamma, before, at_start, highest, proposal, forced, p_RV, verdict, emitted, fed,
            logprobs(scores_RV, p_RV, emitted, sequence.sampling), reason, draws,
            first + gamma + 1, clock[0], spent,
        )  # fmt: skip

    def _draws(self, proposal: Proposal, verdict: Verdict, first: int) -> Draws:
        """Say which draw numbers were used. A rule by position draws a token in every row it judges."""
        judged = [row for row, u in enumerate(verdict.uniforms) if u is not None]
        token = (first, verdict.accepted + 1) if self._engine.rule.by_position else (first + verdict.accepted, 1)
        return Draws(
            draft=(first, 0 if proposal.q_KV is None else len(proposal.tokens)),
            accept=(first + min(judged, default=0), len(judged)),
            token=(token[0], 0) if self.sequence.sampling.greedy_now and self._engine.rule.lossless else token,
        )

    def _propose(self, gamma: int) -> tuple[Proposal, tuple[bool, ...]]:
        """Ask the drafter, or make a forced pattern, for at most `gamma` drafts."""
        drafter, sequence = self._drafter, self.sequence
        if drafter is None or gamma == 0:
            return Proposal(()), ()
        if self.meta.forced is not None:
            assert isinstance(sequence.noise, ForcedNoise)
            sequence.noise.cycle_start = sequence.number
            return force(drafter, self._engine.target_runner, sequence, gamma, self.meta.forced)
        proposal = drafter.propose([sequence], [gamma])[0]
        if len(proposal.tokens) > gamma or not all(0 <= token < sequence.vocab for token in proposal.tokens):
            raise EngineFailure(
                f"the drafter {drafter.name} proposed {shown(proposal.tokens)}; wanted at most {gamma} ids "
                f"from 0 to {sequence.vocab - 1}"
            )
        legal = sequence.policy.legal(sequence.tokens, proposal.tokens)
        if legal < len(proposal.tokens):
            proposal = Proposal(proposal.tokens[:legal], None if proposal.q_KV is None else proposal.q_KV[:legal])
        return proposal, (False,) * len(proposal.tokens)

    def _settle(self, outcome: Outcome) -> None:
        """Commit, let both caches follow, record and tell. Every part can be repeated after an interrupt."""
        sequence = self.sequence
        if len(sequence.tokens) == outcome.before:
            sequence.number = outcome.next_number
            sequence.tokens.extend(outcome.emitted)
        sequence.cache.rollback(min(sequence.cache.pointer, len(sequence.tokens) - 1))
        if self._drafter is not None:
            self._drafter.commit(sequence)
        if self._progress.stats.cycles == outcome.index:
            kept = min(outcome.verdict.accepted, len(outcome.emitted))
            cut = len(outcome.emitted) <= outcome.verdict.accepted
            stop_cut = len(outcome.proposal.tokens) - kept if cut else 0
            seconds = Seconds(*outcome.spent, other=perf_counter() - outcome.began - sum(outcome.spent))
            stats = self._progress.stats.plus(
                len(outcome.proposal.tokens),
                kept,
                len(outcome.emitted),
                stop_cut,
                outcome.verdict.degenerate and not cut,
                seconds,
            )
            record = None
            if self._kept or self._now or self._engine.observers:
                record = self._write(outcome, kept, stop_cut, seconds)
                if self._kept and (not self._cycles or self._cycles[-1].shell.index < outcome.index):
                    self._cycles.append(record)
            self._progress = Progress(
                stats,
                outcome.fed.after,
                self._progress.text + outcome.fed.piece,
                self._progress.logprobs + outcome.logprobs,
                outcome.reason,
                record,
            )
        self._tell_settled(outcome)

    def _write(self, outcome: Outcome, kept: int, stop_cut: int, seconds: Seconds) -> Pending:
        """Turn a settled outcome into its record, still to be written out; both pointers are read off the caches."""
        verdict, sequence, cut = outcome.verdict, self.sequence, len(outcome.emitted) <= outcome.verdict.accepted
        measured = measure(outcome.proposal, outcome.p_RV, verdict)
        kind: LastKind = "none" if cut else verdict.kind
        drafts = (outcome.at_start[1], outcome.highest[1], self._draft_pointer())
        shell = Cycle(
            index=outcome.index,
            gamma=outcome.gamma,
            proposed=outcome.proposal.tokens,
            accepted=kept,
            emitted=outcome.emitted,
            last=None if cut else verdict.token,
            last_kind=kind,
            last_top=None,
            committed_before=outcome.before,
            committed_after=len(sequence.tokens),
            target_kv=KV(outcome.at_start[0], outcome.highest[0], sequence.cache.pointer),
            draft_kv=None if None in drafts else KV(*drafts),  # type: ignore[arg-type]
            decisions=(),
            rng=outcome.draws,
            degenerate_residual=verdict.degenerate and not cut,
            seconds=seconds,
            stop_cut=stop_cut,
            text=outcome.fed.piece,
            last_from=None if cut else verdict.source,
        )
        return Pending(shell, measured, verdict, cut, outcome.forced)

    def _draft_pointer(self) -> int | None:
        return None if self._drafter is None else self._drafter.pointer(self.sequence)

    def _tell_settled(self, outcome: Outcome) -> None:
        record = self._progress.last
        if record is None or not self._engine.observers:
            return
        self._tell(lambda: events.Committed(outcome.index, outcome.emitted))
        self._tell(lambda: events.RolledBack(outcome.index, record.shell.target_kv, record.shell.draft_kv))
        self._tell(lambda: events.CycleFinished(record))

    def _tell(self, build: events.Builder) -> None:
        observers = self._engine.observers
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
        progress = self._progress
        reported = progress.logprobs if self.sequence.sampling.logprobs else None
        tokens = tuple(self.sequence.new_tokens[: progress.stats.emitted])
        return Result(
            tokens, progress.text, progress.reason, progress.stats, reported, self._writer() if self._kept else None
        )

    def trace(self) -> Trace:
        """Return the record of all cycles so far (the last ones, where only those are kept)."""
        return self._writer()()

    def _writer(self) -> Callable[[], Trace]:
        """Return what writes the trace out as it stands now, once; it holds on to no cache and no model."""
        settled, tokens = self._progress.stats.cycles, tuple(self.sequence.tokens)
        records = [record for record in self._cycles if record.shell.index < settled]
        prompt = tokens[: self.sequence.prompt_length]
        known = (self.meta, prompt, self._prefill, self._progress.reason, self._engine.tokenizer)

        @cache
        def write() -> Trace:
            meta, prompt, prefill, reason, tokenizer = known
            cycles = tuple(record.cycle() for record in records)
            return Trace(
                meta, prompt, prefill, cycles, reason, pieces(tokenizer, _ids(tokens, cycles)), settled - len(cycles)
            )

        return write

    def fork(self, noise: Noise) -> Stream:
        """Return an independent copy of the request that takes its chances from `noise`; used to enumerate them."""
        with torch.inference_mode():
            self._prepare()
            sequence = self.sequence.fork(noise)
        twin = Stream(
            self._engine,
            sequence,
            self._limits,
            self._progress.ending,
            self.meta,
            self._gamma,
            self._cycles.maxlen,
            False,
        )
        twin._prefill = self._prefill
        twin._progress = replace(self._progress, last=None)
        return twin


def _ids(tokens: Iterable[int], cycles: Iterable[Cycle]) -> set[int]:
    """Return every token id that a trace names."""
    ids = {*tokens}
    for cycle in cycles:
        ids.update(cycle.proposed)
        for top in [top for d in cycle.decisions for top in (d.p_top, d.q_top, d.residual_top)]:
            ids.update([token for token, _ in top.tokens])
        if cycle.last_top is not None:
            ids.update([token for token, _ in cycle.last_top.tokens])
    return ids
