"""The engine: a target, a drafter and a rule, and the requests that run on them.

Invariant: the engine itself never changes while it runs; everything that moves belongs to one request's stream, so an
abandoned or interrupted request leaves nothing behind. Every refusal comes before a request exists.
It does not know how a cycle goes (`stream`) or how it is drawn.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Sequence as Items
from typing import Any, cast, final, overload

from specdec_kernels.errors import InvalidInput, unknown_name
from specdec_teach import probe, rounds, terms
from specdec_teach.asking import (
    Prompt,
    as_prompt,
    banned_phrases,
    count,
    end_tokens,
    kept,
    per_row,
    prompt_ids,
)
from specdec_teach.caches import BlockPool
from specdec_teach.costs import Costs
from specdec_teach.drafters.base import Drafter, OnTarget, features_of, spare_nodes
from specdec_teach.ending import Ending
from specdec_teach.events import Observer
from specdec_teach.grammar import GrammarMasks
from specdec_teach.graphs import Graphs
from specdec_teach.hf import ModelRunner
from specdec_teach.history import History
from specdec_teach.limits import Limits
from specdec_teach.noise import ForcedNoise
from specdec_teach.pacing import NAMES, Fixed, Heuristic, Planning
from specdec_teach.parts import Parts
from specdec_teach.planner import MOST, Planner
from specdec_teach.refusals import can_branch, can_draft, can_force
from specdec_teach.result import Result
from specdec_teach.rules import Rule, rule_of
from specdec_teach.rules.kernel import judged_by
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence
from specdec_teach.stream import Stream
from specdec_teach.text import TextStream

__all__ = ["Engine"]


@final
class Engine:
    """Speculative decoding of a causal LM of transformers.

    `target`: the model whose distribution is served. `drafter`: who proposes; None decodes plainly. `tokenizer`: needed
    for prompts and results as text. `gamma`: draft length asked for in a cycle; "auto" plans it from what became of
    earlier drafts, "heuristic" is the usual rule of thumb (`specdec_teach.pacing`). `planner`: who plans for "auto";
    by default one with this machine's costs, measured when they are first needed, so two runs may cut their cycles
    differently (the law is the same; so is the text when greedy or coupled). `verify`: "rejection", "block",
    "coupled"; or a lossy rule, "typical", "threshold", "synthetic", also with its parameters (`specdec_teach.rules`).
    `cache`: the layout of the target's cache, "contiguous", "paged" (in blocks of `block_size` tokens, `blocks` of them
    for a call, None: as many as it takes), "masked", "selective" or "recompute" (`specdec_teach.caches`); a recurrent
    target has "snapshot" instead.
    `decoder`: "auto" runs the Llama family on the compact decoder, "hf" everything through transformers.
    `backend`: who judges under an exact rule; "auto" is the Triton kernel on a GPU, else torch; "triton" without a GPU
    needs its interpreter. `debug`: check the invariants of every cycle as it ends. `observers`: objects with
    `on_event(event)`, told everything (`specdec_teach.events`).
    Where the drafter grows trees, γ is the most drafts below each other.
    InvalidInput: a model that cannot be rolled back or is in training mode, a drafter that does not fit, γ < 0,
    an unknown rule or cache, trees under a rule or over a target that takes chains alone.
    Source: Leviathan et al. 2023, algorithm 1; Chen et al. 2023.

    >>> from specdec_teach.drafters.scripted import ScriptedDrafter
    >>> from specdec_teach.testing import TabularLM
    >>> engine = Engine(TabularLM([[0.0, 9.0], [9.0, 0.0]]), drafter=ScriptedDrafter([1, 0, 0]), gamma=3)
    >>> result = engine.generate([0], Sampling.greedy(), max_new_tokens=5)
    >>> result.tokens, result.stats.drafted, result.stats.accepted
    ((1, 0, 1, 0, 1), 3, 2)
    """

    def __init__(
        self,
        target: object,
        *,
        drafter: Drafter | None = None,
        tokenizer: Any = None,
        gamma: int | str = 4,
        planner: Planning | None = None,
        verify: str | Rule = "rejection",
        cache: str = "contiguous",
        block_size: int = 16,
        blocks: int | None = None,
        decoder: str = "auto",
        backend: str = "auto",
        debug: bool = False,
    ) -> None:
        rule = rule_of(verify)
        self.block_size = count("block_size", block_size, 1, "how many tokens a block holds")
        self.blocks = None if blocks is None else count("blocks", blocks, 1, "how many blocks there are, or None")
        self.target_runner = ModelRunner(target, "target", decoder=decoder, backend=backend)
        self.rule = judged_by(backend, rule, self.target_runner.model.device)
        if drafter is not None:
            can_draft(drafter)
            drafter.check(self.target_runner.vocab)
            self.target_runner.check_layers(features_of(drafter))
            if isinstance(drafter, OnTarget):
                drafter.check_target(self.target_runner)
            can_branch(drafter, self.rule, self.target_runner)
        self.drafter = drafter
        self.tokenizer = tokenizer
        self.cache = self.target_runner.layout(cache)
        self.debug = debug
        self.parts = Parts()
        self.observers: list[Observer] = []
        self.graphs = Graphs.on(self.target_runner.model.device)
        self.pace, self.planner, self._costs = "fixed", planner, cast("Costs | None", None)
        self.gamma = 0
        self.gamma, self.pace = self._asked(gamma)

    def variant(self, **changes: object) -> Engine:
        """Return an engine like this one with some attributes replaced, without observers; this one stays as it is."""
        twin = copy.copy(self)
        twin.observers = []
        twin.graphs = None if self.graphs is None else self.graphs.again()
        if changes.keys() & {"target_runner", "drafter"}:
            twin._costs = None
        for name, value in changes.items():
            assert hasattr(self, name), name
            setattr(twin, name, value)
        return twin

    @overload  # a text is also a sequence of texts, which mypy cannot tell apart
    def generate(  # type: ignore[overload-overlap]
        self,
        prompt: str | Items[int],
        sampling: Sampling = ...,
        *,
        max_new_tokens: int = ...,
        gamma: int | str | None = ...,
        speculate: bool = ...,
        trace: bool | int = ...,
        reject_at: int | None = ...,
        lossless: bool = ...,
    ) -> Result: ...
    @overload
    def generate(
        self,
        prompt: Items[str] | Items[Items[int]],
        sampling: Sampling | Items[Sampling] = ...,
        *,
        max_new_tokens: int | Items[int] = ...,
        gamma: int | str | Items[int | str | None] | None = ...,
        speculate: bool = ...,
        trace: bool | int = ...,
        reject_at: int | None = ...,
        lossless: bool = ...,
    ) -> list[Result]: ...

    def generate(
        self,
        prompt: Prompt | Items[str] | Items[Items[int]],
        sampling: Sampling | Items[Sampling] = Sampling(),  # noqa: B008 (frozen)
        *,
        max_new_tokens: int | Items[int] = 64,
        gamma: int | str | Items[int | str | None] | None = None,
        speculate: bool = True,
        trace: bool | int = True,
        reject_at: int | None = None,
        lossless: bool = False,
    ) -> Result | list[Result]:
        """Return the finished text of a prompt, or a list of them for a list of prompts.

        `prompt`: text, token ids, or a list of either; the rows of such a batch share each forward, and `sampling`,
        `max_new_tokens` and `gamma` may then be lists too. `speculate=False` decodes plainly with the same code.
        `trace`: keep a record (an int: of the last n cycles). `reject_at`: force a rejection at that draft of every
        cycle, counted from 1 (0 forces every draft to be accepted); such a run is marked not lossless.
        `lossless=True` refuses a run that would not follow the target exactly.
        """
        batch, prompt = as_prompt(prompt)
        if not batch:
            return self.open(
                cast(Prompt, prompt), sampling, max_new_tokens=max_new_tokens, gamma=gamma, speculate=speculate,
                trace=trace, reject_at=reject_at, lossless=lossless,
            ).finish()  # fmt: skip
        rows = len(prompt)
        settings = zip(
            cast(Items[Prompt], prompt),
            per_row("sampling", sampling, rows),
            per_row("max_new_tokens", max_new_tokens, rows),
            per_row("gamma", gamma, rows),
            strict=True,
        )
        pool = self.new_pool()
        streams = [
            self.open(
                one, how, max_new_tokens=cap, gamma=drafts, speculate=speculate, trace=trace, reject_at=reject_at,
                lossless=lossless, row=row, pool=pool,
            )
            for row, (one, how, cap, drafts) in enumerate(settings)
        ]  # fmt: skip
        self._fits(streams)
        while rounds.run([stream for stream in streams if stream.goes_on]):
            pass
        return [stream.result() for stream in streams]

    def stream(
        self,
        prompt: Prompt,
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
        *,
        max_new_tokens: int = 64,
        gamma: int | str | None = None,
        speculate: bool = True,
        trace: bool | int = True,
        reject_at: int | None = None,
        lossless: bool = False,
    ) -> Stream:
        """Return an iterator over the cycles of one request; arguments as in `generate`.

        Each `next()` runs one cycle. The iterator can be abandoned or interrupted at any time and can go on after an
        interrupt; `.result()` and `.trace()` tell what there is so far.
        """
        batch, one = as_prompt(prompt)
        if batch:
            raise InvalidInput("stream takes one prompt; give a text or a list of ids, or use generate for a batch")
        return self.open(
            one, sampling, max_new_tokens=max_new_tokens, gamma=gamma, speculate=speculate, trace=trace,
            reject_at=reject_at, lossless=lossless,
        )  # fmt: skip

    def open(
        self,
        prompt: Prompt,
        sampling: object,
        *,
        max_new_tokens: object = 64,
        gamma: object = None,
        speculate: bool = True,
        trace: bool | int = True,
        reject_at: int | None = None,
        lossless: bool = False,
        row: int = 0,
        pool: BlockPool | None = None,
        cache: str | None = None,
    ) -> Stream:
        """Return a request that has not begun; what `stream` does, with its place in a batch and a pool to share."""
        keep, kind = kept(trace), self.target_runner.layout(cache or self.cache)
        if not isinstance(sampling, Sampling):
            raise InvalidInput(
                f"sampling is a {type(sampling).__name__}; give sd.Sampling(...) or a list of them for a batch"
            )
        cap = count("max_new_tokens", max_new_tokens, 0, "how many tokens to add at most, 0 or more")
        most, pace = (self.gamma, self.pace) if gamma is None else self._asked(gamma)
        drafter = self.drafter if speculate else None
        planning = self._planning(most, pace if drafter is not None and reject_at is None else "fixed")
        if reject_at is not None:
            can_force(drafter, reject_at, most if drafter else 0, self.rule, sampling)
        target = self.target_runner
        target.refresh()
        ids = prompt_ids(prompt, self.tokenizer, target.vocab)
        if target.context is not None and len(ids) > target.context:
            raise InvalidInput(
                f"the prompt has {len(ids)} tokens and the target's context holds {target.context}; shorten the prompt"
            )
        draft_context = drafter.context if drafter is not None else None
        limits = self.parts.limits(Limits(len(ids), cap, target.context, draft_context))
        eos = end_tokens(sampling, self.tokenizer, target.model)
        grammar = None
        if sampling.grammar is not None:
            grammar = GrammarMasks(sampling.grammar, self.tokenizer, target.vocab, eos)
        phrases = banned_phrases(sampling, self.tokenizer)
        history = History.of(sampling, ids, target.vocab, eos, phrases, drafter is not None, grammar)
        if sampling.stop and self.tokenizer is None:
            raise InvalidInput(f"stop={sampling.stop!r} needs text and the engine has no tokenizer; pass tokenizer=…")
        ending = self.parts.ending(Ending(eos, sampling.stop, TextStream(self.tokenizer)))
        seed = sampling.seed if sampling.seed is not None else secrets.randbits(64)
        meta = terms.describe(
            self, sampling, gamma=most if drafter is not None else 0, planner=planning.name, seed=seed,
            max_new_tokens=cap, drafter=drafter, reject_at=reject_at, cache=kind, eos=eos,
        )  # fmt: skip
        if lossless and not meta.lossless:
            raise InvalidInput(terms.why_lossy(self.rule, self.drafter, reject_at))
        noise = self.parts.noise(self.rule, sampling, seed)
        if reject_at is not None:
            noise = ForcedNoise(noise, reject_at)
        alone = pool is None
        if kind == "paged" and pool is None:
            pool = self.new_pool()
        spare = spare_nodes(drafter, limits.gamma(most, len(ids)))  # γ never grows along a text
        room = self.parts.cache(kind, max(limits.capacity, len(ids)) + spare, pool)
        by_position = self.rule.by_position
        sequence = Sequence(
            ids, self.parts.policy(sampling, history), noise, room, target.vocab, row, by_position, target
        )
        stream = Stream(self, sequence, limits, ending, meta, planning, keep, trace is not False)
        if alone:
            self._fits([stream])
        return stream

    def new_pool(self) -> BlockPool | None:
        """Return the pool of one call, None unless the cache is paged."""
        return BlockPool(self.blocks, size=self.block_size) if self.cache == "paged" else None

    def costs(self) -> Costs:
        """Return what cycles of this engine cost here, measured when first asked for (a second or less)."""
        if self._costs is None:
            self._costs = probe.cycles(self)
        return self._costs

    def _asked(self, gamma: object) -> tuple[int, str]:
        """Return the largest γ that was asked for, and whether it is "fixed" or who plans."""
        if not isinstance(gamma, str):
            wanted = "0 for plain decoding, how many tokens to draft in a cycle, 'auto' or 'heuristic'"
            return count("gamma", gamma, 0, wanted), "fixed"
        if gamma not in NAMES:
            raise unknown_name("gamma", gamma, NAMES)
        known = Heuristic() if gamma == "heuristic" else self.planner
        return MOST if known is None else known.most, gamma

    def _planning(self, most: int, pace: str) -> Planning:
        if pace == "fixed":
            return Fixed(most)
        found = Heuristic() if pace == "heuristic" else self.planner or Planner(self.costs())
        return found.capped(most)

    def _fits(self, streams: list[Stream]) -> None:
        """Refuse requests that could run out of blocks together."""
        if self.cache != "paged" or self.blocks is None:
            return
        wanted = sum(-(-stream.sequence.cache.capacity // self.block_size) for stream in streams)
        if wanted > self.blocks:
            raise InvalidInput(
                f"{len(streams)} prompt(s) can need {wanted} blocks of {self.block_size} tokens and blocks="
                f"{self.blocks}; give more blocks, a smaller max_new_tokens, or use sd.Scheduler for a batch"
            )
