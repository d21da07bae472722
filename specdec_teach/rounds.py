"""A cycle of several requests at once: one draft call and one target forward that all of them share.

The one rule for feeding a model stands here: computed catches up with committed. It serves the prefill, whole or in
chunks, what an interrupt left behind, and a request that comes back after it was preempted.
Invariant: what a request emits does not depend on who shares its forward, but for the last bits of a wider product.
A request that fails does so alone. It does not know who is admitted, or why.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, SpecDecError, shown
from specdec_teach.drafters.base import Drafter, Proposal
from specdec_teach.forced import force
from specdec_teach.noise import ForcedNoise
from specdec_teach.policy import fit_width
from specdec_teach.tree import is_chain, kept, well_formed
from specdec_teach.working import Plan

if TYPE_CHECKING:
    from specdec_teach.stream import Stream

__all__ = ["catch_up", "run"]

Drafts = tuple[Proposal, tuple[bool, ...]]


def run(streams: Items[Stream]) -> int:
    """Run one cycle of every stream that goes on, all on one engine; return how many were run.

    A stream that fails keeps its `error`; the first of them is raised when the others have been settled.
    """
    with torch.inference_mode():
        fresh = [stream for stream in streams if stream.waits]
        for stream in fresh:
            stream.error = None
        if fresh:
            _work_out(catch_up(fresh))
        ran = sum([stream.settle() for stream in streams])
    failed = next((stream.error for stream in fresh if stream.error is not None), None)
    if failed is not None:
        raise failed
    return ran


def catch_up(streams: Items[Stream]) -> list[Stream]:
    """Compute what is committed and not yet computed, at most `stream.chunk` tokens of each, in one forward.

    Return the streams that are ready for a cycle; one whose drafter fails keeps its `error` and is not among them.
    """
    for stream in streams:
        stream.rewind()
    lacking = [stream for stream in streams if stream.sequence.lacking]
    if lacking:
        start = perf_counter()
        feeds = [stream.sequence.lacking[: stream.chunk] for stream in lacking]
        _forward(lacking, feeds)
        share = (perf_counter() - start) / len(lacking)
        for stream, feed in zip(lacking, feeds, strict=True):
            stream.fed(len(feed), share)
    ready = []
    for stream in streams:
        if not stream.sequence.lacking:
            try:
                stream.get_ready()
                ready.append(stream)
            except SpecDecError as error:
                stream.error = error
    return ready


def _work_out(streams: list[Stream]) -> None:
    """Draft, run the target once, and judge."""
    plans = [stream.plan() for stream in streams]
    graphs = streams[0].engine.graphs
    if graphs is not None and len(streams) == 1 and graphs.work_out(streams[0], plans[0]):
        return
    clock = [perf_counter()]
    proposed = zip(streams, plans, _propose(streams, plans), strict=True)
    drafted = [(stream, plan, drafts) for stream, plan, drafts in proposed if drafts is not None]
    if not drafted:
        return
    for stream, plan, drafts in drafted:
        stream.told(plan, drafts[0])
    clock.append(perf_counter())
    feeds = [s.sequence.tokens[s.sequence.cache.pointer :] + list(d[0].tokens) for s, _, d in drafted]
    rows = _forward([s for s, _, _ in drafted], feeds, [d[0] for _, _, d in drafted])
    clock.append(perf_counter())
    spent = ((clock[1] - clock[0]) / len(drafted), (clock[2] - clock[1]) / len(drafted))
    for (stream, plan, (proposal, forced)), logits_RV in zip(drafted, rows, strict=True):
        try:
            stream.judge(plan, proposal, forced, fit_width(logits_RV, stream.sequence.vocab), spent, len(drafted))
        except SpecDecError as error:
            stream.error = error


def _forward(streams: list[Stream], feeds: list[list[int]], drafts: list[Proposal] | None = None) -> list[Tensor]:
    """Feed all streams in one forward of the target; hidden states go where a drafter will read them.

    Return the rows that judge `drafts`, which the feeds end with; without any, none.
    """
    caches, hidden = [s.sequence.cache for s in streams], [s.sequence.hidden for s in streams]
    runner = streams[0].engine.target_runner
    if drafts is None:
        return runner.forward_rows(caches, feeds, [0] * len(streams), hidden)
    keeps, trees = [len(one.tokens) + 1 for one in drafts], [one.parents for one in drafts]
    return runner.forward_rows(caches, feeds, keeps, hidden, trees, [one.stash for one in drafts])


def _propose(streams: list[Stream], plans: list[Plan]) -> list[Drafts | None]:
    """Return the drafts of every stream and which of them were swapped in; None where drafting failed."""
    drafts: list[Drafts | None] = [(Proposal(()), ())] * len(streams)
    asked = [at for at, (s, plan) in enumerate(zip(streams, plans, strict=True)) if s.drafter and plan.gamma]
    together = [at for at in asked if streams[at].meta.forced is None]
    try:
        found = _draft([streams[at] for at in together], [plans[at] for at in together])
        drafts = [found[together.index(at)] if at in together else one for at, one in enumerate(drafts)]
        alone = [at for at in asked if at not in together]
    except SpecDecError as error:
        if len(streams) == 1:
            streams[0].error = error
            return [None]
        alone = asked
    for at in alone:
        stream = streams[at]
        try:
            assert stream.drafter is not None
            stream.drafter.commit(stream.sequence)
            forced = stream.meta.forced is not None
            drafts[at] = _force(stream, plans[at].gamma) if forced else _draft([stream], [plans[at]])[0]
        except SpecDecError as error:
            stream.error, drafts[at] = error, None
    return drafts


def _draft(streams: list[Stream], plans: list[Plan]) -> list[Drafts]:
    """Ask the drafter once for all, check what comes, and cut what a grammar forbids."""
    if not streams:
        return []
    drafter = streams[0].drafter
    assert drafter is not None
    proposals = drafter.propose([stream.sequence for stream in streams], [plan.gamma for plan in plans])
    return [_checked(drafter, *one) for one in zip(streams, plans, proposals, strict=True)]


def _checked(drafter: Drafter, stream: Stream, plan: Plan, proposal: Proposal) -> Drafts:
    tokens, parents, sequence = proposal.tokens, proposal.parents, stream.sequence
    if len(tokens) > plan.nodes or not all(0 <= token < sequence.vocab for token in tokens):
        raise EngineFailure(
            f"the drafter {drafter.name} proposed {shown(tokens)}; wanted at most {plan.nodes} ids "
            f"from 0 to {sequence.vocab - 1}"
        )
    if parents is not None:
        if len(parents) != len(tokens) or not well_formed(parents) or proposal.depth > plan.gamma:
            raise EngineFailure(
                f"the drafter {drafter.name} proposed a tree {shown(parents)} of {len(tokens)} tokens; wanted a parent "
                f"before each of them (−1: the pending token), and at most {plan.gamma} below each other"
            )
        rule = stream.engine.rule
        if not rule.branches and not is_chain(parents):
            raise EngineFailure(f"the rule {rule.name} judges chains of drafts and a tree was drafted; use rejection")
    proposal = _pruned(proposal, sequence.policy.legal(sequence.tokens, tokens, parents))
    return proposal, (False,) * len(proposal.tokens)


def _pruned(proposal: Proposal, legal: Items[int]) -> Proposal:
    """Leave out the drafts that are not `legal`, and let a tree that is a chain be one.

    A certain draft that the target excludes is no loss. One that was drawn stays, since the law of the next token
    counts on it; only what hangs below it goes.
    """
    shape, q_KV = proposal.shape, proposal.q_KV
    if len(legal) < len(shape):
        stay = [n for n, parent in enumerate(shape) if n in legal or (q_KV is not None and parent in (-1, *legal))]
        tokens, shape = tuple(proposal.tokens[node] for node in stay), kept(shape, stay)
        q_KV = None if q_KV is None else q_KV[stay]
        confidence = tuple(proposal.confidence[node] for node in stay) if proposal.confidence else ()
        proposal = replace(proposal, tokens=tokens, q_KV=q_KV, parents=shape, confidence=confidence)
    return replace(proposal, parents=None) if proposal.parents is not None and is_chain(shape) else proposal


def _force(stream: Stream, gamma: int) -> Drafts:
    """Make the forced pattern of a demonstration."""
    assert stream.drafter is not None
    assert stream.meta.forced is not None
    assert isinstance(stream.sequence.noise, ForcedNoise)
    stream.sequence.noise.cycle_start = stream.sequence.number
    return force(stream.drafter, stream.engine.target_runner, stream.sequence, gamma, stream.meta.forced)
