"""Serve many requests on one pool of blocks: continuous batching with prefix reuse and preemption.

Each step admits what fits, in order of arrival, lets some requests compute a chunk of committed tokens and all others
run one cycle together. When a request cannot grow by one token, the youngest loses its blocks and waits; later it
computes its tokens again by the same rule as a prefill. Drafts are only made for the room there is.
Invariant: what a request emits is what it emits alone, as long as its γ is not made less for lack of blocks (always,
when greedy or coupled); nobody overtakes an older request; a request that is over holds no block.
It does not know how a cycle goes.
"""

from __future__ import annotations

from time import perf_counter
from typing import final

import torch

from specdec_kernels.errors import EngineFailure, InvalidInput, SpecDecError
from specdec_teach import rounds
from specdec_teach.asking import Prompt, count
from specdec_teach.caches import BlockPool
from specdec_teach.engine import Engine
from specdec_teach.logbook import Logbook
from specdec_teach.request import Request
from specdec_teach.result import Result
from specdec_teach.sampling import Sampling
from specdec_teach.timeline import TIMELINE_VERSION, Timeline, TimelineMeta

__all__ = ["Scheduler"]


@final
class Scheduler:
    """Runs requests of one engine together, `max_batch` at a time, in `blocks` blocks of its block size.

    `chunk`: the most tokens that a request computes in one step outside of a cycle. `keep`: how many of the last steps
    its timeline keeps, None for all, 0 for none.
    InvalidInput: counts below 1, or a target whose cache cannot be paged.

    >>> from specdec_teach.testing import TabularLM
    >>> scheduler = Scheduler(Engine(TabularLM([[0.0, 9.0], [9.0, 0.0]])), max_batch=2, blocks=8)
    >>> request = scheduler.submit([0], Sampling.greedy(), max_new_tokens=3)
    >>> scheduler.run()[0].tokens, request.state, scheduler.blocks_in_use
    ((1, 0, 1), 'finished', 0)
    """

    def __init__(
        self, engine: Engine, *, max_batch: int = 8, blocks: int = 256, chunk: int = 64, keep: int | None = None
    ) -> None:
        engine.target_runner.layout("paged")
        self.engine = engine
        self._max_batch = count("max_batch", max_batch, 1, "how many requests run at once")
        self._chunk = count("chunk", chunk, 1, "how many tokens a request may compute in a step outside of a cycle")
        blocks = count("blocks", blocks, 1, "how many blocks all requests share")
        self.pool = BlockPool(blocks, size=engine.block_size)
        self._requests: list[Request] = []
        self._arrived = 0
        self._busy = False
        self._began = self._spent = 0.0
        planner = None if engine.pace == "fixed" else engine.pace
        meta = TimelineMeta(
            TIMELINE_VERSION, blocks, engine.block_size, self._max_batch, self._chunk, engine.gamma, planner
        )
        self._log = Logbook(meta, keep)

    @property
    def blocks_in_use(self) -> int:
        """How many blocks are held by requests; published ones that nobody holds are not counted."""
        return self.pool.in_use

    @property
    def live(self) -> tuple[Request, ...]:
        """The requests that are not over, in order of arrival."""
        return tuple(self._requests)

    def submit(
        self,
        prompt: Prompt,
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
        *,
        max_new_tokens: int = 64,
        gamma: int | None = None,
        speculate: bool = True,
        trace: bool | int = True,
        name: str | None = None,
    ) -> Request:
        """Put a request at the end of the queue; arguments as for `Engine.generate`, `name` is for pictures.

        InvalidInput, and no request, for what `generate` refuses and for one that could not fit alone.
        """
        stream = self.engine.open(
            prompt,
            sampling,
            max_new_tokens=max_new_tokens,
            gamma=gamma,
            speculate=speculate,
            trace=trace,
            row=self._arrived,
            pool=self.pool,
            cache="paged",
        )
        wanted = -(-stream.limits.capacity // self.pool.size)
        if wanted > self.pool.blocks:
            raise InvalidInput(
                f"the request can need {wanted} blocks of {self.pool.size} tokens and there are {self.pool.blocks}; "
                "give the scheduler more blocks, or the request a smaller max_new_tokens"
            )
        request = Request(self, stream, self._arrived, name or f"request {self._arrived}")
        self._log.expect(len(stream.sequence.tokens), request.name)
        self._arrived += 1
        self._requests.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """End a request where it is; its blocks are free at once, or after the step that is running."""
        if request.over:
            return
        if request not in self._requests:
            raise InvalidInput(f"{request!r} is served by another scheduler; cancel it there")
        request.cancelled = True
        if not self._busy:
            self._sweep()

    def run(self) -> list[Result]:
        """Step until nothing is left; return the results of all requests that were live, in order of arrival."""
        requests = dict.fromkeys(self.live)
        while self.step():
            requests.update(dict.fromkeys(self.live))
        return [request.result for request in requests]

    def step(self) -> bool:
        """Run one step; return False when there was nothing to do. It can be repeated after an interrupt anywhere."""
        if self._busy:
            raise EngineFailure("a step is running already; an observer may submit and cancel, and not step")
        self._busy, self._began, finished = True, perf_counter(), self._log.running
        try:
            with torch.inference_mode():
                if finished:
                    self._finish()
                if self._requests:
                    self._log.open(self._requests, self.pool)
                    self._admit()
                    feeding, cycling = self._plan()
                    rounds.catch_up([request.stream for request in feeding])
                    self._run(cycling)
                    self._finish()
                    finished = True
        finally:
            self._busy = False
            self._spent += perf_counter() - self._began
            self._sweep()
        return finished

    def timeline(self) -> Timeline:
        """Return the record of all steps so far (the last ones, where only those are kept)."""
        return self._log.timeline()

    def _run(self, requests: list[Request]) -> None:
        """Run one cycle of each; a request that fails is ended alone."""
        try:
            rounds.run([request.stream for request in requests])
        except SpecDecError:
            if not any(request.stream.error for request in requests):
                raise

    def _finish(self) -> None:
        """Settle what an interrupt left, let go of requests that are over, and write the step down."""
        self._run([request for request in self._requests if not request.stream.waits])
        self._sweep()
        for request in self._running:
            if request.cache.pointer:
                request.stream.rewind()
        now = perf_counter()
        self._log.close(self._spent + now - self._began)
        self._spent, self._began = 0.0, now

    @property
    def _running(self) -> list[Request]:
        return [request for request in self._requests if request.admitted]

    def _sweep(self) -> None:
        """Let go of every request that is over."""
        for request in list(self._requests):
            if request.cancelled or request.stream.error is not None or not request.stream.goes_on:
                self._log.leaves(request)
                request.end()
                self._requests.remove(request)

    def _admit(self) -> None:
        """Start waiting requests, the oldest first, while there is a place, and room for all they have committed."""
        running = self._running
        room = (self.pool.available or 0) - sum(self._lacks(request) for request in running)
        for request in self._requests:
            if request.admitted or not request.stream.waits:
                continue
            sequence = request.stream.sequence
            known = request.cache.known(sequence.tokens[:-1]) if sequence.hidden is None else 0
            room -= self._lacks(request) - known
            if len(running) == self._max_batch or room < len(running):
                return
            request.admitted = True
            running.append(request)

    def _lacks(self, request: Request) -> int:
        """Return how many blocks a request needs for its committed tokens beside those in its table."""
        return max(0, -(-len(request.stream.sequence.tokens) // self.pool.size) - len(request.cache.table))

    def _plan(self) -> tuple[list[Request], list[Request]]:
        """Reserve room for everybody's next step; return who computes committed tokens and who runs a cycle."""
        feeding: list[Request] = []
        cycling: list[Request] = []
        for request in self._running:
            stream, cache = request.stream, request.cache
            if not request.admitted:
                continue
            stream.at_step, stream.fits = self._log.step, None
            if cache.pointer == 0:
                stream.rewind()
                self._log.adopted(request, cache.pointer)
            while request.admitted and not self.pool.can_take(cache.missing(1)):
                self._preempt(self._running[-1])
            if not request.admitted:
                continue
            lacking = len(stream.sequence.lacking)
            wanted = min(lacking, self._chunk) if lacking else 1 + stream.next_nodes()
            while not self.pool.can_take(cache.missing(wanted)):
                wanted -= 1
            cache.reserve(wanted)
            stream.chunk, stream.fits = (wanted, None) if lacking else (None, wanted - 1)
            self._log.planned(request, stream.fits or 0)
            (feeding if lacking else cycling).append(request)
        return feeding, cycling

    def _preempt(self, request: Request) -> None:
        """Take the blocks of a request and let it wait in its old place."""
        self._log.preempted(request)
        request.stream.preempt()
        request.admitted = False
