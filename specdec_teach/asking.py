"""Read what a caller asks for: prompts, counts, end tokens, banned phrases; refuse before a request exists.

Invariant: what comes out is plain (ints, lists, frozensets) and inside its bounds. It does not know engines or caches.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, cast

from specdec_kernels.errors import InvalidInput, shown, whole
from specdec_teach.sampling import Sampling

__all__ = ["Prompt", "as_prompt", "banned_phrases", "count", "end_tokens", "kept", "per_row", "prompt_ids"]

Prompt = str | Items[int]


def as_prompt(prompt: object) -> tuple[bool, Any]:
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


def per_row(name: str, value: object, rows: int) -> list[Any]:
    """Return one setting for each row of a batch: a list with as many entries, or one value for all."""
    if isinstance(value, (list, tuple)):
        if len(value) != rows:
            raise InvalidInput(
                f"{name} has {len(value)} entries for a batch of {rows} prompts; give one for each, or one for all"
            )
        return list(value)
    return [value] * rows


def count(name: str, value: object, low: int, wanted: str) -> int:
    """Return a whole number that is at least `low`; `wanted` says what to give instead."""
    number = whole(value)
    if number is None or number < low:
        raise InvalidInput(f"{name}={shown(value)}; give {wanted}")
    return number


def kept(trace: bool | int) -> int | None:
    """Return how many of the last cycles to keep, None for all."""
    if isinstance(trace, bool):
        return None
    return count("trace", trace, 1, "True, False, or how many of the last cycles to keep")


def prompt_ids(prompt: Prompt, tokenizer: Any, vocab: int) -> list[int]:
    """Return the prompt's token ids, at least one, each below `vocab`."""
    if isinstance(prompt, str):
        if tokenizer is None:
            raise InvalidInput(
                "the prompt is text and the engine has no tokenizer; pass tokenizer=… or a list of token ids"
            )
        given: Items[object] = list(tokenizer(prompt).input_ids) if prompt else []
    else:
        given = prompt
    if len(given) == 0:
        raise InvalidInput("the prompt is empty; give at least one token to continue from, such as 'Once upon a time'")
    ids = [whole(token) for token in given]
    for index, token in enumerate(ids):
        if token is None or not 0 <= token < vocab:
            raise InvalidInput(
                f"the prompt's item {index} is {shown(given[index])}; the target's ids are 0 to {vocab - 1}"
            )
    return cast(list[int], ids)


def banned_phrases(sampling: Sampling, tokenizer: Any) -> list[tuple[int, ...]]:
    """Return the banned phrases as ids; a text is banned as it is and with a space before it."""
    phrases: list[tuple[int, ...]] = []
    for phrase in sampling.banned:
        if not isinstance(phrase, str):
            phrases.append(phrase)
            continue
        if tokenizer is None:
            raise InvalidInput(f"banned={phrase!r} is text and the engine has no tokenizer; give a tuple of token ids")
        for text in (phrase, " " + phrase):
            phrases.append(tuple(tokenizer(text, add_special_tokens=False).input_ids))
    return phrases


def end_tokens(sampling: Sampling, tokenizer: Any, model: Any) -> frozenset[int]:
    """Return the ids that end a text: those that were named, or the tokenizer's and the model's own."""
    if sampling.eos_token_id != "tokenizer":
        return frozenset(sampling.eos_ids)
    generation = getattr(model, "generation_config", None)
    found = (getattr(tokenizer, "eos_token_id", None), getattr(generation, "eos_token_id", None))
    flat = [i for item in found for i in (item if isinstance(item, (list, tuple)) else (item,))]
    return frozenset(token for token in flat if isinstance(token, int))
