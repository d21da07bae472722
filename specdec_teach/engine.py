"""The engine: a target, a drafter and a rule, and the requests that run on them.

Invariant: the engine itself never changes while it runs; everything that moves belongs to one request's stream, so an
abandoned or interrupted request leaves nothing behind. Every refusal comes before a request exists.
It does not know how a cycle goes (`stream`) or how it is drawn.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence as Items
from typing import Any, TypeVar, cast, final, overload

from specdec_kernels.errors import InvalidInput, shown, unknown_name, whole
from specdec_teach.drafters.base import Drafter
from specdec_teach.ending import Ending
from specdec_teach.events import Observer
from specdec_teach.grammar import GrammarMasks
from specdec_teach.hf import ModelRunner
from specdec_teach.history import History
from specdec_teach.limits import Limits
from specdec_teach.noise import CounterNoise, CoupledNoise, ForcedNoise, GreedyNoise, Noise
from specdec_teach.policy import Policy
from specdec_teach.result import Result
from specdec_teach.rules import Rule, rule_of
from specdec_teach.rules.kernel import ByKernel, judged_by
from specdec_teach.sampling import Sampling
from specdec_teach.sequence import Sequence
from specdec_teach.stream import Stream
from specdec_teach.text import TextStream
from specdec_teach.trace import SCHEMA_VERSION, Meta

__all__ = ["Engine"]

CACHES = ("contiguous",)

Prompt = str | Items[int]
T = TypeVar("T")


@final
class Engine:
    """Speculative decoding of a causal LM of transformers.

    `target`: the model whose distribution is served. `drafter`: who proposes; None decodes plainly. `tokenizer`: needed
    for prompts and results as text. `gamma`: draft length asked for in a cycle. `verify`: "rejection", "block",
    "coupled"; or a lossy rule, "typical", "threshold", "synthetic", also with its parameters (`specdec_teach.rules`).
    `backend`: who judges under an exact rule; "auto" is the Triton kernel on a GPU, else torch; "triton" without a GPU
    needs its interpreter. `observers`: objects with `on_event(event)`, told everything (`specdec_teach.events`).
    InvalidInput: a model that cannot be rolled back or is in training mode, a drafter that does not fit, γ < 0,
    an unknown rule or cache.
    """

    def __init__(
        self,
        target: object,
        *,
        drafter: Drafter | None = None,
        tokenizer: Any = None,
        gamma: int = 4,
        verify: str | Rule = "rejection",
        cache: str = "contiguous",
        backend: str = "auto",
    ) -> None:
        rule = rule_of(verify)
        if cache not in CACHES:
            raise unknown_name("cache=", cache, CACHES)
        self.gamma = _count("gamma", gamma, 0, "0 for plain decoding, or how many tokens to draft in a cycle")
        self.target_runner = ModelRunner(target, "target")
        self.rule = judged_by(backend, rule, self.target_runner.model.device)
        if drafter is not None:
            drafter.check(self.target_runner.vocab)
        self.drafter = drafter
        self.tokenizer = tokenizer
        self.observers: list[Observer] = []
        self._cache = cache

    @overload  # a text is also a sequence of texts, which mypy cannot tell apart
    def generate(  # type: ignore[overload-overlap]
        self,
        prompt: str | Items[int],
        sampling: Sampling = ...,
        *,
        max_new_tokens: int = ...,
        gamma: int | None = ...,
        speculate: bool = ...,
        trace: bool | int = ...,
        reject_at: int | None = ...,
    ) -> Result: ...
    @overload
    def generate(
        self,
        prompt: Items[str] | Items[Items[int]],
        sampling: Sampling | Items[Sampling] = ...,
        *,
        max_new_tokens: int | Items[int] = ...,
        gamma: int | Items[int | None] | None = ...,
        speculate: bool = ...,
        trace: bool | int = ...,
        reject_at: int | None = ...,
    ) -> list[Result]: ...

    def generate(
        self,
        prompt: Prompt | Items[str] | Items[Items[int]],
        sampling: Sampling | Items[Sampling] = Sampling(),  # noqa: B008 (frozen)
        *,
        max_new_tokens: int | Items[int] = 64,
        gamma: int | Items[int | None] | None = None,
        speculate: bool = True,
        trace: bool | int = True,
        reject_at: int | None = None,
    ) -> Result | list[Result]:
        """Return the finished text of a prompt, or a list of them for a list of prompts.

        `prompt`: text, token ids, or a list of either; the rows of such a batch run one after the other, and
        `sampling`, `max_new_tokens` and `gamma` may then be lists too. `speculate=False` decodes plainly with the same
        code. `trace`: keep a record (an int: of the last n cycles). `reject_at`: force a rejection at that draft of
        every cycle, counted from 1 (0 forces every draft to be accepted); such a run is marked not lossless.
        """
        keep, record = _keep(trace), trace is not False
        batch, prompt = _as_prompt(prompt)
        if not batch:
            return self._open(
                cast(Prompt, prompt), sampling, max_new_tokens, gamma, speculate, keep, record, reject_at
            ).finish()
        rows = len(prompt)
        per_row = zip(
            cast(Items[Prompt], prompt),
            _per_row("sampling", sampling, rows),
            _per_row("max_new_tokens", max_new_tokens, rows),
            _per_row("gamma", gamma, rows),
            strict=True,
        )
        streams = [
            self._open(one, settings, cap, drafts, speculate, keep, record, reject_at, row)
            for row, (one, settings, cap, drafts) in enumerate(per_row)
        ]
        return [stream.finish() for stream in streams]

    def stream(
        self,
        prompt: Prompt,
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
        *,
        max_new_tokens: int = 64,
        gamma: int | None = None,
        speculate: bool = True,
        trace: bool | int = True,
        reject_at: int | None = None,
    ) -> Stream:
        """Return an iterator over the cycles of one request; arguments as in `generate`.

        Each `next()` runs one cycle. The iterator can be abandoned or interrupted at any time and can go on after an
        interrupt; `.result()` and `.trace()` tell what there is so far.
        """
        batch, one = _as_prompt(prompt)
        if batch:
            raise InvalidInput("stream takes one prompt; give a text or a list of ids, or use generate for a batch")
        return self._open(one, sampling, max_new_tokens, gamma, speculate, _keep(trace), trace is not False, reject_at)

    def _open(
        self,
        prompt: Prompt,
        sampling: object,
        max_new: object,
        gamma: object,
        speculate: bool,
        keep: int | None,
        record: bool,
        reject_at: int | None,
        row: int = 0,
    ) -> Stream:
        if not isinstance(sampling, Sampling):
            raise InvalidInput(
                f"sampling is a {type(sampling).__name__}; give sd.Sampling(...) or a list of them for a batch"
            )
        cap = _count("max_new_tokens", max_new, 0, "how many tokens to add at most, 0 or more")
        asked = self.gamma if gamma is None else _count("gamma", gamma, 0, "0 or more, or None for the engine's own")
        drafter = self.drafter if speculate else None
        if reject_at is not None:
            _count("reject_at", reject_at, 0, "the draft to reject, from 1, or 0 to accept all")
            if drafter is None or reject_at > asked:
                raise InvalidInput(
                    f"reject_at={reject_at} cannot happen with {asked if drafter else 0} drafts a cycle; raise gamma"
                )
        if reject_at is not None and not (self.rule.by_number or sampling.greedy_now):
            raise InvalidInput(
                f"reject_at={reject_at} cannot be forced under the rule {self.rule.name}; use rejection or block"
            )
        ids = self._ids(prompt)
        context = self.target_runner.context
        if context is not None and len(ids) > context:
            raise InvalidInput(
                f"the prompt has {len(ids)} tokens and the target's context holds {context}; shorten the prompt"
            )
        limits = Limits(len(ids), cap, context, drafter.context if drafter is not None else None)
        eos, vocab = self._eos(sampling), self.target_runner.vocab
        grammar = GrammarMasks(sampling.grammar, self.tokenizer, vocab, eos) if sampling.grammar is not None else None
        history = History.of(sampling, ids, vocab, eos, self._phrases(sampling), drafter is not None, grammar)
        if sampling.stop and self.tokenizer is None:
            raise InvalidInput(f"stop={sampling.stop!r} needs text and the engine has no tokenizer; pass tokenizer=…")
        ending = Ending(eos, sampling.stop, TextStream(self.tokenizer))
        seed = sampling.seed if sampling.seed is not None else secrets.randbits(64)
        noise: Noise = CoupledNoise(seed) if self.rule.by_position else CounterNoise(seed)
        if sampling.greedy_now and self.rule.lossless:
            noise = GreedyNoise()
        if reject_at is not None:
            noise = ForcedNoise(noise, reject_at)
        cache = self.target_runner.new_cache(max(limits.capacity, len(ids)))
        sequence = Sequence(ids, Policy(sampling, history), noise, cache, vocab, row)
        meta = self._meta(sampling, asked if drafter is not None else 0, seed, cap, drafter, reject_at)
        return Stream(self, sequence, limits, ending, meta, asked, keep, record)

    def _ids(self, prompt: Prompt) -> list[int]:
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise InvalidInput(
                    "the prompt is text and the engine has no tokenizer; pass tokenizer=… or a list of token ids"
                )
            given: Items[object] = list(self.tokenizer(prompt).input_ids) if prompt else []
        else:
            given = prompt
        if len(given) == 0:
            raise InvalidInput(
                "the prompt is empty; give at least one token to continue from, such as 'Once upon a time'"
            )
        ids = [whole(token) for token in given]
        vocab = self.target_runner.vocab
        for index, token in enumerate(ids):
            if token is None or not 0 <= token < vocab:
                raise InvalidInput(
                    f"the prompt's item {index} is {shown(given[index])}; the target's ids are 0 to {vocab - 1}"
                )
        return cast(list[int], ids)

    def _phrases(self, sampling: Sampling) -> list[tuple[int, ...]]:
        """Return the banned phrases as ids; a text is banned as it is and with a space before it."""
        phrases: list[tuple[int, ...]] = []
        for phrase in sampling.banned:
            if not isinstance(phrase, str):
                phrases.append(phrase)
                continue
            if self.tokenizer is None:
                raise InvalidInput(
                    f"banned={phrase!r} is text and the engine has no tokenizer; give a tuple of token ids"
                )
            for text in (phrase, " " + phrase):
                phrases.append(tuple(self.tokenizer(text, add_special_tokens=False).input_ids))
        return phrases

    def _eos(self, sampling: Sampling) -> frozenset[int]:
        if sampling.eos_token_id != "tokenizer":
            return frozenset(sampling.eos_ids)
        generation = getattr(self.target_runner.model, "generation_config", None)
        found = (getattr(self.tokenizer, "eos_token_id", None), getattr(generation, "eos_token_id", None))
        flat = [i for item in found for i in (item if isinstance(item, (list, tuple)) else (item,))]
        return frozenset(token for token in flat if isinstance(token, int))

    def _is_lossless(self, drafter: Drafter, sampling: Sampling, reject_at: int | None) -> bool:
        """Whether the emitted text follows the target: greedy and coupled text does so whatever is drafted."""
        whatever = sampling.greedy_now or self.rule.by_position
        return self.rule.lossless and (whatever or (drafter.exact and reject_at is None))

    def _meta(
        self, sampling: Sampling, gamma: int, seed: int, cap: int, drafter: Drafter | None, reject_at: int | None
    ) -> Meta:
        target = self.target_runner
        names, revisions = {"target": target.name}, {"target": target.revision}
        if drafter is not None and drafter.model_name is not None:
            names["draft"], revisions["draft"] = drafter.model_name, drafter.revision or "unknown"
        return Meta(
            schema_version=SCHEMA_VERSION,
            models=names,
            revisions=revisions,
            drafter=drafter.name if drafter is not None else None,
            dtype=target.dtype,
            decoder="hf",
            vocab=target.vocab,
            sampling=sampling.to_plain(),
            gamma=gamma,
            verify=self.rule.name,
            cache=self._cache,
            seed=seed,
            speculate=drafter is not None,
            max_new_tokens=cap,
            lossless=drafter is None or self._is_lossless(drafter, sampling, reject_at),
            forced=reject_at,
            backend=self.rule.backend if isinstance(self.rule, ByKernel) else "torch",
        )


def _as_prompt(prompt: object) -> tuple[bool, Any]:
    """Return whether `prompt` is a list of prompts, and the prompt itself with arrays and tensors turned into lists."""
    if isinstance(prompt, str):
        return False, prompt
    items = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if not isinstance(items, (list, tuple, range)):
        raise InvalidInput(
            f"the prompt is a {type(prompt).__name__}; give a text, a list of token ids, or a list of either"
        )
    rows = [item.tolist() if hasattr(item, "tolist") else item for item in items]
    batch = any(isinstance(row, (str, list, tuple, range)) for row in rows)
    wrong = next((row for row in rows if not isinstance(row, (str, list, tuple, range))), None) if batch else None
    if wrong is not None:
        raise InvalidInput(f"the batch holds {shown(wrong)} beside whole prompts; give a list of texts or of id lists")
    return batch, rows


def _per_row(name: str, value: object, rows: int) -> list[Any]:
    if isinstance(value, (list, tuple)):
        if len(value) != rows:
            raise InvalidInput(
                f"{name} has {len(value)} entries for a batch of {rows} prompts; give one for each, or one for all"
            )
        return list(value)
    return [value] * rows


def _count(name: str, value: object, low: int, wanted: str) -> int:
    number = whole(value)
    if number is None or number < low:
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")
    return number


def _keep(trace: bool | int) -> int | None:
    if isinstance(trace, bool):
        return None
    return _count("trace", trace, 1, "True, False, or how many of the last cycles to keep")
