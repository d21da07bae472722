"""One engine in several processes: the first decides, the others follow.

`torchrun` starts the same script in every process. A target that is too big for one device is split over them
(`load_pair(..., tensor_parallel=True)`), so each forward is everybody's work, and a process that chose another token
than the rest would spoil the text of all. So the first process alone drafts and judges, and sends what it decided.
Invariant: before every forward of the target the processes compare what they are about to feed; they hold the same
tokens, or all of them stop. Nobody waits for another longer than the timeout. It does not know how a model is split.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor

from specdec_kernels.errors import EngineFailure, InvalidInput, SpecDecError, shown
from specdec_kernels.rejection import residual
from specdec_teach.caches import Cache
from specdec_teach.drafters.base import Branching, Drafter, Proposal, features_of
from specdec_teach.engine import Engine
from specdec_teach.hidden import Hidden
from specdec_teach.noise import Noise
from specdec_teach.rules import Rule, Verdict
from specdec_teach.rules.kernel import ByKernel
from specdec_teach.sequence import Sequence
from specdec_teach.stash import Stash
from specdec_teach.tree import Parents

__all__ = ["group", "shared"]

_SET_BY_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
Made = TypeVar("Made")


@contextmanager
def group(timeout: float = 600.0) -> Iterator[int]:
    """Join the processes that `torchrun` started, for the length of a `with`, and give this one's rank, from 0.

    `timeout`: the seconds that one process waits for another, loading a model included (`shared` sets a shorter one).
    Messages go through gloo, and between GPUs through NCCL. InvalidInput when `torchrun` did not start this process,
    EngineFailure when another one ends or does not answer.
    """
    missing = [name for name in _SET_BY_TORCHRUN if name not in os.environ]
    if missing:
        raise InvalidInput(
            f"{', '.join(missing)} not set: this process is not one of several; start the script with "
            "torchrun --nproc-per-node=2 SCRIPT.py"
        )
    limit = _seconds(timeout)
    with _waiting():
        if torch.cuda.is_available():
            device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(device)
            dist.init_process_group("cpu:gloo,cuda:nccl", timeout=limit, device_id=device)
        else:
            dist.init_process_group("gloo", timeout=limit)
    yield dist.get_rank()
    with _waiting():
        dist.barrier()
    dist.destroy_process_group()


def shared(engine: Engine, *, timeout: float = 60.0) -> Engine:
    """Return an engine like `engine` whose drafts and verdicts are the first process's, in every process of a `group`.

    Every process runs the same requests in the same order; each gets the whole result. The draft model is whole, and
    only the first process runs it. `timeout`: the seconds that one process waits for another in a cycle.
    InvalidInput outside a `group`, for a draft model that is split and for draft trees; EngineFailure, while it runs,
    when the processes were given different tokens, or when one of them ends or does not answer.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise InvalidInput("there are no other processes to share with; use it inside `with sd.distributed.group():`")
    if engine.drafter is not None and _is_split(getattr(engine.drafter, "model", None)):
        raise InvalidInput(
            f"the model of the drafter {engine.drafter.name} is split over the processes and only the first one "
            "drafts; load the draft whole: load_pair(TARGET, draft=DRAFT, tensor_parallel=True)"
        )
    if isinstance(engine.drafter, Branching):
        raise InvalidInput(
            f"the drafter {engine.drafter.name} grows trees and the processes tell each other chains; use another one"
        )
    model, limit = engine.target_runner.model, _seconds(timeout)
    mesh: Any = getattr(model, "_device_mesh", None)
    for one in [None, *([] if mesh is None else mesh.get_all_groups())]:
        dist.distributed_c10d._set_pg_timeout(limit, one)
    link = _Link(dist.get_rank(), model.device)
    rule = engine.rule
    return engine.variant(
        target_runner=_Target(engine.target_runner, link),
        rule=replace(rule, rule=_Rule(rule.rule, link)) if isinstance(rule, ByKernel) else _Rule(rule, link),
        drafter=None if engine.drafter is None else _Drafter(engine.drafter, link),
    )


def _seconds(timeout: object) -> timedelta:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e6:
        raise InvalidInput(f"timeout={shown(timeout)}; give the seconds to wait for another process, more than 0")
    return timedelta(seconds=timeout)


def _is_split(model: Any) -> bool:
    """Whether any weight of a model is spread over the processes."""
    from torch.distributed.tensor import DTensor

    return isinstance(model, torch.nn.Module) and any(isinstance(weight, DTensor) for weight in model.parameters())


@contextmanager
def _waiting(lost: Callable[[str], None] = lambda message: None) -> Iterator[None]:
    """Turn what torch says of a lost process into an EngineFailure, and tell `lost`."""
    try:
        yield
    except RuntimeError as error:
        said = " ".join(str(error).split())
        if not isinstance(error, dist.DistError) and not any(word in said.lower() for word in ("gloo", "nccl")):
            raise
        message = (
            "another process of this run has ended or does not answer, so this one cannot go on; see what the other "
            f"one said and start all of them again (torch says: {said[:200]})"
        )
        lost(message)
        raise EngineFailure(message) from error


@final
class _Link:
    """What connects this process to the first. Once somebody is lost, it says so at once and waits no more."""

    def __init__(self, rank: int, device: torch.device) -> None:
        self.first, self.device = rank == 0, device
        self._rank, self._lost = rank, ""

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Do something that all processes take part in."""
        if self._lost:
            raise EngineFailure(self._lost)
        with _waiting(self._lose):
            yield

    def _lose(self, message: str) -> None:
        self._lost = message

    def agree(self, feed: list[tuple[int, list[int], int]]) -> None:
        """Compare what each process is about to feed; EngineFailure in all of them when one differs."""
        digest = hashlib.blake2b(repr(feed).encode(), digest_size=8).digest()
        mine = torch.tensor([int.from_bytes(digest, "big", signed=True)])
        with self.waiting():
            all_P = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
            dist.all_gather(all_P, mine)
        others = [rank for rank, theirs in enumerate(all_P) if not torch.equal(theirs, all_P[0])]
        if others:
            ends = [(pointer, ids[-8:]) for pointer, ids, _ in feed]
            self._lose(
                f"the processes hold different tokens: rank {', '.join(map(str, others))} differs from rank 0 "
                f"(rank {self._rank} is about to feed, by pointer and last ids, {shown(ends)}); give every process "
                "the same requests in the same order, and the engine that `shared` returned"
            )
            raise EngineFailure(self._lost)

    def decided(self, decide: Callable[[], Made]) -> Made:
        """Return in every process what `decide` gives in the first; what fails there with an error of ours, fails here.

        What is sent is plain: numbers, strings, tuples.
        """
        box: list[Any] = [None]
        if self.first:
            try:
                box[0] = decide()
            except SpecDecError as error:
                box[0] = error
        with self.waiting():
            dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
        if isinstance(box[0], SpecDecError):
            raise box[0]
        made: Made = box[0]
        return made

    def sent(self, tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return the first process's `tensor`, of that shape, on this process's device."""
        here = torch.empty(shape, dtype=dtype, device=self.device) if tensor is None else tensor.contiguous()
        with self.waiting():
            dist.broadcast(here, src=0)
        return here


@final
class _Target:
    """The target's runner; before a forward all processes make sure that they feed the same."""

    def __init__(self, inner: Any, link: _Link) -> None:
        self._inner, self._link = inner, link

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forward(self, cache: Cache, ids: list[int], keep: int) -> Tensor:
        """See `ModelRunner.forward`."""
        return self.forward_rows([cache], [ids], [keep])[0]

    def forward_rows(
        self,
        caches: list[Cache],
        ids: list[list[int]],
        keeps: list[int],
        hidden: Items[Hidden | None] = (),
        trees: Items[Parents | None] | None = None,
        stashes: Items[Stash | None] | None = None,
    ) -> list[Tensor]:
        """See `ModelRunner.forward_rows`."""
        self._link.agree([(c.pointer, fed, keep) for c, fed, keep in zip(caches, ids, keeps, strict=True)])
        with self._link.waiting():
            rows: list[Tensor] = self._inner.forward_rows(caches, ids, keeps, hidden, trees, stashes)
        return rows


@final
@dataclass(slots=True)
class _Followed:
    """What a process that does not draft knows of a sequence's drafts: where the first one's cache stands."""

    pointer: int | None

    def fork(self) -> _Followed:
        return _Followed(self.pointer)


@final
class _Drafter:
    """The first process's drafter; the others are told its proposals."""

    def __init__(self, inner: Drafter, link: _Link) -> None:
        self._inner, self._link = inner, link
        self.name, self.exact, self.context = inner.name, inner.exact, inner.context
        self.model_name, self.revision = inner.model_name, inner.revision
        self.features = features_of(inner) if link.first else ()

    def check(self, vocab: int) -> None:
        """See `Drafter.check`."""
        self._inner.check(vocab)

    def reset(self, sequence: Sequence, capacity: int) -> int | None:
        """See `Drafter.reset`."""
        pointer = self._link.decided(lambda: self._inner.reset(sequence, capacity))
        if not self._link.first:
            sequence.draft = _Followed(pointer)
        return pointer

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        made: list[Proposal] = []

        def draft() -> list[tuple[tuple[int, ...], tuple[tuple[int, ...], str] | None, int | None]]:
            made.extend(self._inner.propose(sequences, counts, hidden))
            rows = zip(made, sequences, strict=True)
            return [(proposal.tokens, _form(proposal.q_KV), self._inner.pointer(one)) for proposal, one in rows]

        told = self._link.decided(draft)
        proposals = []
        for at, (sequence, (tokens, form, pointer)) in enumerate(zip(sequences, told, strict=True)):
            q_KV = None
            if form is not None:
                q_KV = self._link.sent(made[at].q_KV if made else None, form[0], getattr(torch, form[1]))
            if not made:
                sequence.draft = _Followed(pointer)
            proposals.append(made[at] if made else Proposal(tokens, q_KV))
        return proposals

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""
        followed = sequence.draft
        if not isinstance(followed, _Followed):
            self._inner.commit(sequence)
        elif followed.pointer is not None:
            followed.pointer = min(followed.pointer, len(sequence.tokens) - 1)

    def pointer(self, sequence: Sequence) -> int | None:
        """See `Drafter.pointer`."""
        followed = sequence.draft
        return followed.pointer if isinstance(followed, _Followed) else self._inner.pointer(sequence)


def _form(q_KV: Tensor | None) -> tuple[tuple[int, ...], str] | None:
    """Return the shape of a tensor and the name of its dtype."""
    return None if q_KV is None else (tuple(q_KV.shape), str(q_KV.dtype).removeprefix("torch."))


@final
class _Rule:
    """The rule as the first process applies it; the others are told its verdict."""

    def __init__(self, inner: Rule, link: _Link) -> None:
        self._inner, self._link = inner, link
        self.name, self.lossless = inner.name, inner.lossless
        self.by_number, self.by_position, self.branches = inner.by_number, inner.by_position, False

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`; `law_V` is not sent, but worked out again from the rows."""
        made: list[Verdict] = []

        def decide() -> tuple[Any, ...]:
            made.append(one := self._inner.judge(proposal, p_RV, noise, first))
            numbers = (one.p, one.q, one.uniforms, one.chances, one.scales)
            return (one.accepted, one.token, *numbers, one.source, one.degenerate)

        accepted, token, p, q, uniforms, chances, scales, source, degenerate = self._link.decided(decide)
        if made:
            return made[0]
        law_V = _law(proposal, p_RV[accepted], accepted, scales, source)
        return Verdict(accepted, token, law_V, p, q, uniforms, chances, scales, source, degenerate)


def _law(
    proposal: Proposal, p_V: Tensor, row: int, scales: tuple[float, ...], source: Literal["p", "residual"]
) -> Tensor:
    """Return what the token behind `row` accepted drafts was drawn from, not normalised."""
    if source == "p":
        return p_V
    q_V = None if proposal.q_KV is None else proposal.q_KV[row]
    return residual(p_V * scales[row], q_V, torch.tensor(proposal.tokens[row], device=p_V.device))[0]
