"""How tokens are chosen: one frozen, validated record per request.

Invariant: a `Sampling` that exists is valid; greedy is decided here and nowhere else. It does not know logits or torch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Literal, final

from specdec_kernels.errors import InvalidInput

__all__ = ["GREEDY_BELOW", "Sampling"]

GREEDY_BELOW = 1e-5


@final
@dataclass(frozen=True, slots=True)
class Sampling:
    """Temperature, filters, the tokens that end the text, and the seed.

    `temperature`: 0 (anything up to 1e-5) is greedy. `top_k`: keep the k likeliest tokens (ties with the k-th stay),
    0 keeps all. `top_p`: keep the smallest set of likeliest tokens whose mass reaches p. `min_p`: keep tokens at least
    min_p times as likely as the likeliest. They are applied in this order, to p and to q alike.
    `eos_token_id`: "tokenizer" takes the ids that tokenizer and model name, None lets nothing end the text.
    `seed`: 0 … 2⁶⁴ − 1; None draws a fresh one, which the trace records.

    >>> Sampling(temperature=0.8, seed=7).greedy_now, Sampling.greedy().greedy_now
    (False, True)
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    eos_token_id: Literal["tokenizer"] | int | tuple[int, ...] | None = "tokenizer"
    seed: int | None = None

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, math.inf, "0 for greedy or a positive number such as 0.8")
        _number("top_p", self.top_p, 0.0, 1.0, "a number in (0, 1]; 1 keeps every token", open_low=True)
        _number("min_p", self.min_p, 0.0, 1.0, "a number in [0, 1]; 0 keeps every token")
        _whole("top_k", self.top_k, 0, None, "0 to keep every token, or how many to keep")
        if self.seed is not None:
            _whole("seed", self.seed, 0, 2**64 - 1, "a whole number from 0 to 2**64 - 1, or None")
        if isinstance(self.eos_token_id, (list, set, frozenset)):
            object.__setattr__(self, "eos_token_id", tuple(self.eos_token_id))
        if isinstance(self.eos_token_id, str) and self.eos_token_id != "tokenizer":
            raise InvalidInput(f"eos_token_id={self.eos_token_id!r}; give 'tokenizer', token ids or None")
        for token in self.eos_ids:
            _whole("eos_token_id", token, 0, None, "'tokenizer', token ids or None")

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
        """Return the settings as JSON types."""
        return {key: list(item) if isinstance(item, tuple) else item for key, item in asdict(self).items()}


def _number(name: str, value: object, low: float, high: float, wanted: str, open_low: bool = False) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not (fits and low <= value <= high and not (open_low and value == low)):  # type: ignore[operator]
        raise InvalidInput(f"{name}={value!r}; give {wanted}")


def _whole(name: str, value: object, low: int, high: int | None, wanted: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
        raise InvalidInput(f"{name}={value!r}; give {wanted}")
