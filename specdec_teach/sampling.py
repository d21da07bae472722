"""How tokens are chosen and what ends the text: one frozen, validated record per request.

Invariant: a `Sampling` that exists is valid; greedy is decided here and nowhere else. It does not know logits or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, final

from specdec_kernels.errors import InvalidInput

if TYPE_CHECKING:
    from specdec_teach.grammar import Grammar

__all__ = ["GREEDY_BELOW", "Sampling"]

GREEDY_BELOW = 1e-5


@final
@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature, filters, penalties, what ends the text, and the seed.

    Choice. `temperature`: 0 (anything up to 1e-5) is greedy. `top_k`: keep the k likeliest tokens (ties with the k-th
    stay), 0 keeps all. `top_p`: keep the smallest set of likeliest tokens whose mass reaches p. `min_p`: keep tokens at
    least min_p times as likely as the likeliest.

    History. `repetition_penalty`: divides (or multiplies, below 0) the logits of all tokens of prompt and text.
    `frequency_penalty`, `presence_penalty`: subtracted per occurrence, and once, for tokens of the text.
    `no_repeat_ngram_size`: no n tokens twice, 0 is off. `min_new_tokens`: no end-of-sequence token before. `banned`:
    phrases that must not be said, each a tuple of ids or a string. `allowed`: the only ids that may be said.
    `logit_bias`: {id: added to its logit}. `processors`: functions (ids [1, T], logits [1, V]) -> logits without state,
    such as transformers' logits processors. `grammar`: the language the whole text must belong to (`sd.Grammar`).
    All of it applies to p and to q alike, first the history, then temperature, top-k, top-p, min-p.

    End. `eos_token_id`: "tokenizer" takes the ids that tokenizer and model name, None lets nothing end the text.
    `stop`: texts that end it and are left out of it.

    `logprobs`: report the log-probabilities of the n likeliest tokens and of the chosen one, 0 reports none.
    `seed`: 0 … 2⁶⁴ − 1; None draws a fresh one, which the trace records.

    >>> Sampling(temperature=0.8, seed=7).greedy_now, Sampling.greedy().greedy_now
    (False, True)
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    no_repeat_ngram_size: int = 0
    min_new_tokens: int = 0
    banned: tuple[tuple[int, ...] | str, ...] = ()
    allowed: tuple[int, ...] | None = None
    logit_bias: Mapping[int, float] | None = None
    processors: tuple[Callable[[Any, Any], Any], ...] = ()
    grammar: Grammar | None = None
    stop: tuple[str, ...] = ()
    eos_token_id: Literal["tokenizer"] | int | tuple[int, ...] | None = "tokenizer"
    logprobs: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, math.inf, "0 for greedy or a positive number such as 0.8")
        _number("top_p", self.top_p, 0.0, 1.0, "a number in (0, 1]; 1 keeps every token", open_low=True)
        _number("min_p", self.min_p, 0.0, 1.0, "a number in [0, 1]; 0 keeps every token")
        _number(
            "repetition_penalty", self.repetition_penalty, 0.0, math.inf, "a positive number; 1 is off", open_low=True
        )
        _number("frequency_penalty", self.frequency_penalty, -math.inf, math.inf, "a number; 0 is off")
        _number("presence_penalty", self.presence_penalty, -math.inf, math.inf, "a number; 0 is off")
        for name, wanted in (
            ("top_k", "0 to keep every token, or how many to keep"),
            ("no_repeat_ngram_size", "0 for off, or the length n of what may not come twice"),
            ("min_new_tokens", "0 or how many tokens come before the end may come"),
            ("logprobs", "0 for none, or how many tokens to report"),
        ):
            _whole(name, getattr(self, name), 0, None, wanted)
        if self.seed is not None:
            _whole("seed", self.seed, 0, 2**64 - 1, "a whole number from 0 to 2**64 - 1, or None")
        self._freeze()

    def _freeze(self) -> None:
        """Check what holds several items, and copy it so that nobody can change it later."""
        keep = object.__setattr__
        if isinstance(self.eos_token_id, str) and self.eos_token_id != "tokenizer":
            raise InvalidInput(f"eos_token_id={self.eos_token_id!r}; give 'tokenizer', token ids or None")
        if isinstance(self.eos_token_id, (list, tuple, set, frozenset)):
            keep(self, "eos_token_id", tuple(self.eos_token_id))
        for token in self.eos_ids:
            _whole("eos_token_id", token, 0, None, "'tokenizer', token ids or None")
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        if any(not isinstance(text, str) or not text for text in stop):
            raise InvalidInput(f"stop={self.stop!r}; give texts of at least one character")
        keep(self, "stop", stop)
        banned = tuple(one if isinstance(one, str) else tuple(one) for one in self.banned)
        if any(not one or (not isinstance(one, str) and not all(isinstance(t, int) for t in one)) for one in banned):
            raise InvalidInput(f"banned={self.banned!r}; give phrases, each a text or a tuple of token ids")
        keep(self, "banned", banned)
        if self.allowed is not None:
            keep(self, "allowed", tuple(self.allowed))
            if not self.allowed:
                raise InvalidInput("allowed=() leaves nothing to say; give at least one token id, or None")
            for token in self.allowed:
                _whole("allowed", token, 0, None, "token ids")
        if self.logit_bias is not None:
            for token, bias in self.logit_bias.items():
                _whole("logit_bias", token, 0, None, "{token id: number}")
                _number("logit_bias", bias, -math.inf, math.inf, "{token id: number}")
            keep(self, "logit_bias", MappingProxyType(dict(self.logit_bias)))
        if self.grammar is not None and not hasattr(self.grammar, "kind"):
            raise InvalidInput(f"grammar={self.grammar!r}; give sd.Grammar.regex(...), .json_schema(...) or .ebnf(...)")
        keep(self, "processors", tuple(self.processors))
        for processor in self.processors:
            if not callable(processor):
                raise InvalidInput(f"processors holds {processor!r}; give functions (ids, logits) -> logits")

    @property
    def greedy_now(self) -> bool:
        """Whether these settings mean the likeliest token each time."""
        return self.temperature <= GREEDY_BELOW

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """The ids given here; empty for None and for "tokenizer", which the engine looks up."""
        if self.eos_token_id is None or isinstance(self.eos_token_id, str):
            return ()
        return (self.eos_token_id,) if isinstance(self.eos_token_id, int) else tuple(self.eos_token_id)

    @classmethod
    def greedy(cls) -> Sampling:
        """Return the settings of greedy decoding: temperature 0."""
        return cls(temperature=0.0)

    def to_plain(self) -> dict[str, object]:
        """Return the settings as JSON types; a processor is named by its class."""
        return {field.name: _plain(field.name, getattr(self, field.name)) for field in fields(self)}


def _plain(name: str, value: object) -> object:
    if name == "processors":
        return [type(processor).__name__ for processor in value]  # type: ignore[attr-defined]
    if name == "grammar" and value is not None:
        return {"kind": value.kind, "text": value.text}  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return [_plain("", item) for item in value] if isinstance(value, tuple) else value


def _number(name: str, value: object, low: float, high: float, wanted: str, open_low: bool = False) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not (fits and low <= value <= high and not (open_low and value == low)):  # type: ignore[operator]
        raise InvalidInput(f"{name}={value!r}; give {wanted}")


def _whole(name: str, value: object, low: int, high: int | None, wanted: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise InvalidInput(f"{name}={value!r}; give {wanted}")
