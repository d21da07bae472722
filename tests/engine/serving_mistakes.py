"""The mistakes that batches and schedulers really make, each as a patch of one honest function; every one runs on."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specdec_kernels.errors import SpecDecError
from specdec_teach import noise, rounds
from specdec_teach.caches import paged
from specdec_teach.decoder import CompactDecoder
from specdec_teach.request import Request
from specdec_teach.scheduler import Scheduler
from specdec_teach.stream import Stream

from .neighbours import NEAR, TARGET

Patch = pytest.MonkeyPatch


def shortest_acceptance_for_all(patch: Patch) -> None:
    """Every row of a batch keeps as many tokens as the row that keeps the fewest."""
    honest = rounds._work_out

    def work_out(streams: list[Stream]) -> None:
        honest(streams)
        outcomes = [(stream, stream._outcome) for stream in streams if stream._outcome is not None]
        least = min((len(outcome.emitted) for _, outcome in outcomes), default=0)
        for stream, outcome in outcomes:
            fed = stream.progress.ending.feed(outcome.emitted[:least])
            verdict = replace(outcome.verdict, accepted=min(outcome.verdict.accepted, least - 1))
            reason = fed.reason or stream.limits.finished(outcome.plan.before + fed.kept)
            kept = outcome.emitted[: fed.kept]
            stream._outcome = replace(outcome, emitted=kept, fed=fed, verdict=verdict, reason=reason)

    patch.setattr(rounds, "_work_out", work_out)


def longest_rewind_for_all(patch: Patch) -> None:
    """Every row is rolled back by as many tokens as the row that rejected the most."""
    honest = rounds._work_out

    def work_out(streams: list[Stream]) -> None:
        honest(streams)
        outcomes = [stream._outcome for stream in streams if stream._outcome is not None]
        kept = [outcome.plan.before + len(outcome.emitted) - 1 for outcome in outcomes]
        most = max((outcome.highest[0] - to for outcome, to in zip(outcomes, kept, strict=True)), default=0)
        for stream in streams:
            cache = stream.sequence.cache
            if stream._outcome is not None:
                cache.rollback(min(cache.pointer, max(0, stream._outcome.highest[0] - most)))

    patch.setattr(rounds, "_work_out", work_out)


def _for_models(patch: Patch, name: str, change: Any) -> None:
    for model in (TARGET, NEAR):
        honest = model.forward

        @wraps(honest)
        def forward(*args: Any, honest: Any = honest, **kwargs: Any) -> Any:
            if kwargs.get(name) is not None:
                kwargs[name] = change(kwargs[name])
            return honest(*args, **kwargs)

        patch.setattr(model, "forward", forward)


def one_position_vector(patch: Patch) -> None:
    """All rows of a batch use the positions of the longest."""
    _for_models(patch, "position_ids", lambda ids_BT: ids_BT.amax(0, keepdim=True).expand_as(ids_BT))


def one_position_for_all(patch: Patch) -> None:
    """The compact decoder turns every row as the longest one."""
    honest = CompactDecoder._turns

    def turns(self: Any, caches: Any, counts: Any, like: torch.Tensor, trees: Any) -> Any:
        longest = SimpleNamespace(pointer=max(cache.pointer for cache in caches))
        return honest(self, [longest] * len(counts), counts, like, trees)

    patch.setattr(CompactDecoder, "_turns", turns)


def one_pad_is_seen(patch: Patch) -> None:
    """The mask of the padding is off by one."""

    def change(mask_BS: torch.Tensor) -> torch.Tensor:
        mask_BS = mask_BS.clone()
        for row in mask_BS:
            pads = int(row.argmax())
            row[max(0, pads - 1)] = 1
        return mask_BS

    _for_models(patch, "attention_mask", change)


def draft_kept_when_preempted(patch: Patch) -> None:
    """A request that waits keeps its draft's cache."""
    honest = Stream.preempt

    def preempt(self: Stream) -> None:
        draft, ready = self.sequence.draft, self._draft_ready
        honest(self)
        self.sequence.draft, self._draft_ready = draft, ready

    patch.setattr(Stream, "preempt", preempt)


def small_ones_first(patch: Patch) -> None:
    """A request that does not fit is passed over."""

    def admit(self: Any) -> None:
        running = self._running
        room = (self.pool.available or 0) - sum(self._lacks(request) for request in running)
        for request in self._requests:
            if request.admitted or not request.stream.waits or len(running) == self._max_batch:
                continue
            if room - self._lacks(request) >= len(running):
                room -= self._lacks(request)
                request.admitted = True
                running.append(request)

    patch.setattr(Scheduler, "_admit", admit)


def cancelled_keeps_its_blocks(patch: Patch) -> None:
    """Only the bookkeeping of a cancelled request ends."""
    honest = Request.end

    def end(self: Request) -> None:
        if self.cancelled:
            self.state = "cancelled"
        else:
            honest(self)

    patch.setattr(Request, "end", end)


def published_before_the_rollback(patch: Patch) -> None:
    """Blocks are offered while the rejected drafts are still in them."""
    honest = Stream.settle

    def settle(self: Stream) -> bool:
        outcome, sequence = self._outcome, self.sequence
        if outcome is not None and len(sequence.tokens) == outcome.plan.before:
            sequence.number = outcome.plan.next_number
            sequence.tokens.extend(outcome.emitted)
            sequence.cache.publish(sequence.tokens)
        return honest(self)

    patch.setattr(Stream, "settle", settle)


def found_by_its_own_tokens(patch: Patch) -> None:
    """A block is known by its own tokens, whatever stands before them."""
    honest = paged.chain_key
    patch.setattr(paged, "chain_key", lambda before, tokens: honest(b"", tokens))


def room_ignored(patch: Patch) -> None:
    """As many drafts are made as were wished for, whether they fit or not."""
    patch.setattr(
        Stream,
        "next_gamma",
        lambda self: self.limits.gamma(self.progress.outlook.gamma if self.drafter else 0, len(self.sequence.tokens)),
    )


def gamma_never_grows_back(patch: Patch) -> None:
    """What fitted once is the most that is asked for ever after."""
    honest, least = Stream.next_gamma, dict[int, int]()

    def next_gamma(self: Stream) -> int:
        if self.fits is not None:
            least[id(self)] = min(least.get(id(self), self.fits), self.fits)
        return min(honest(self), least.get(id(self), 1000))

    patch.setattr(Stream, "next_gamma", next_gamma)


def committed_again_when_settled_again(patch: Patch) -> None:
    """A cycle that was interrupted while it was settled is appended once more."""
    honest = Stream.settle

    def settle(self: Stream) -> bool:
        outcome = self._outcome
        if outcome is not None and len(self.sequence.tokens) > outcome.plan.before:
            self.sequence.tokens.extend(outcome.emitted)
        return honest(self)

    patch.setattr(Stream, "settle", settle)


def counted_again_when_told_again(patch: Patch) -> None:
    """A cycle whose closing events come again is counted again."""
    honest = Stream.settle

    def settle(self: Stream) -> bool:
        outcome = self._outcome
        if outcome is not None and self.progress.stats.cycles > outcome.plan.index:
            stats = self.progress.stats
            self.progress = replace(self.progress, stats=replace(stats, drafted=stats.drafted + 1))
        return honest(self)

    patch.setattr(Stream, "settle", settle)


def numbers_skipped_after_a_stumble(patch: Patch) -> None:
    """Drafts that are asked for again use fresh numbers, so a row depends on its neighbours."""
    honest = rounds._draft

    def draft(streams: list[Stream], counts: list[int]) -> Any:
        try:
            return honest(streams, counts)
        except SpecDecError:
            for stream in streams:
                stream.sequence.number += len(streams) > 1
            raise

    patch.setattr(rounds, "_draft", draft)


def one_generator_for_all(patch: Patch) -> None:
    """Rows draw from one generator."""
    generator = torch.Generator().manual_seed(0)

    def draw(self: Any, stream: Any, number: int, weights_V: torch.Tensor) -> int:
        return int(torch.multinomial(weights_V.double(), 1, generator=generator))

    patch.setattr(noise.CounterNoise, "draw", draw)


def a_failure_stops_the_step(patch: Patch) -> None:
    """When one row cannot be judged, the rows behind it are not."""
    honest, broken = Stream.judge, list[Any]()

    def judge(self: Stream, plan: Any, *rest: Any) -> None:
        if broken and broken[-1] is plan.began:
            return
        honest(self, plan, *rest)

    def work_out(streams: list[Stream]) -> None:
        honest_work(streams)
        failed = [at for at, stream in enumerate(streams) if stream.error is not None]
        for stream in streams[failed[0] + 1 :] if failed else []:
            stream._outcome = None
            stream.error = streams[failed[0]].error

    honest_work = rounds._work_out
    patch.setattr(Stream, "judge", judge)
    patch.setattr(rounds, "_work_out", work_out)


def finished_without_a_row(patch: Patch) -> None:
    """A step that was interrupted is left out of the timeline."""
    honest = Scheduler.step

    def step(self: Scheduler) -> bool:
        if self._log.running:
            rounds.run([request.stream for request in self._requests if not request.stream.waits])
            self._sweep()
            for request in self._running:
                request.stream.rewind()
            self._log._pool = None
        return honest(self)

    patch.setattr(Scheduler, "step", step)
