"""How tokens are chosen and what ends the text: one frozen, validated record per request.

Invariant: a `Sampling` that exists is valid; greedy is decided here and nowhere else. It does not know logits or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, final

from specdec_kernels.errors import InvalidInput, shown, whole

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
    InvalidInput, from here or from the engine that is given it: a value out of its range, or that does not fit there.

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
        _number("temperature", self.temperature, 0.0, 1e6, "0 for greedy, or a positive number such as 0.8")
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
        if self.eos_token_id is not None and self.eos_token_id != "tokenizer":
            wanted = "'tokenizer', token ids or None"
            given = (self.eos_token_id,) if whole(self.eos_token_id) is not None else self.eos_token_id
            ids = tuple(_id("eos_token_id", token, wanted) for token in _items("eos_token_id", given, wanted))
            keep(self, "eos_token_id", ids if len(ids) != 1 or given is self.eos_token_id else ids[0])
        texts = "texts of at least one character"
        stop = (self.stop,) if isinstance(self.stop, str) else _items("stop", self.stop, texts)
        if any(not isinstance(text, str) or not text for text in stop):
            raise InvalidInput(f"stop={shown(self.stop)}; give {texts}")
        keep(self, "stop", stop)
        phrases = "phrases, each a text or a tuple of token ids"
        banned = (self.banned,) if isinstance(self.banned, str) else _items("banned", self.banned, phrases)
        keep(self, "banned", tuple(_phrase(one, phrases) for one in banned))
        if self.allowed is not None:
            wanted = "at least one token id, or None"
            keep(self, "allowed", tuple(_id("allowed", one, wanted) for one in _items("allowed", self.allowed, wanted)))
            if not self.allowed:
                raise InvalidInput(f"allowed=() leaves nothing to say; give {wanted}")
        if self.logit_bias is not None:
            wanted = "{token id: number}"
            if not isinstance(self.logit_bias, Mapping):
                raise InvalidInput(f"logit_bias={shown(self.logit_bias)}; give {wanted}")
            for bias in self.logit_bias.values():
                _number("logit_bias", bias, -math.inf, math.inf, wanted)
            keep(self, "logit_bias", {_id("logit_bias", t, wanted): float(b) for t, b in self.logit_bias.items()})
        if self.grammar is not None and not hasattr(self.grammar, "kind"):
            raise InvalidInput(
                f"grammar={shown(self.grammar)}; give sd.Grammar.regex(...), .json_schema(...) or .ebnf(...)"
            )
        functions = "functions (ids, logits) -> logits"
        single = callable(self.processors) and not isinstance(self.processors, (list, tuple))
        keep(self, "processors", (self.processors,) if single else _items("processors", self.processors, functions))
        for processor in self.processors:
            if not callable(processor):
                raise InvalidInput(f"processors holds {shown(processor)}; give {functions}")

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


def _items(name: str, value: object, wanted: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple, set, frozenset, range)):
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")
    return tuple(value)


def _phrase(value: object, wanted: str) -> str | tuple[int, ...]:
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidInput(f"banned holds {shown(value)}; give {wanted}")
    return tuple(_id("banned", token, wanted) for token in value)


def _id(name: str, value: object, wanted: str) -> int:
    token = whole(value)
    if token is None or token < 0:
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")
    return token


def _number(name: str, value: object, low: float, high: float, wanted: str, open_low: bool = False) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not (fits and low <= value <= high and not (open_low and value == low)):  # type: ignore[operator]
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")


def _whole(name: str, value: object, low: int, high: int | None, wanted: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")
