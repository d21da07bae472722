"""Text for people: what a stream may already show, and how one token is written on a screen.

Invariant: the pieces that `TextStream.push` returns join to `decode(all tokens)`; a character that is not complete yet
is held back, never shown broken. It does not know models or what ended a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Protocol, final

__all__ = ["TextStream", "Tokenizer", "pieces"]

_BROKEN = "�"


class Tokenizer(Protocol):
    """What the engine asks of a tokenizer."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of `token_ids`."""

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> Sequence[str | None]:
        """Return the vocabulary entries of `ids`."""


@final
class TextStream:
    """Turns tokens that arrive a few at a time into text that only grows."""

    __slots__ = ("_context", "_pending", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer
        self._context: list[int] = []
        self._pending: list[int] = []

    def push(self, tokens: Sequence[int], *, last: bool = False) -> str:
        """Add `tokens` and return the text that is now certain; with `last`, all that is left.

        A window of earlier tokens is decoded along, since some tokenizers write a token differently at the start.
        """
        if self._tokenizer is None:
            return ""
        self._pending.extend(tokens)
        if not self._pending:
            return ""
        before = self._tokenizer.decode(self._context)
        text = self._tokenizer.decode(self._context + self._pending)
        if text.endswith(_BROKEN) and not last:
            return ""
        self._context, self._pending = self._pending, []
        return text[len(before) :]

    def fork(self) -> TextStream:
        """Return an independent copy."""
        twin = TextStream(self._tokenizer)
        twin._context, twin._pending = list(self._context), list(self._pending)
        return twin


def pieces(tokenizer: Tokenizer | None, ids: Iterable[int]) -> dict[int, str]:
    """Return the display text of every id, sorted by id; bytes that form no character stand as `<0xE2>`.

    Without a tokenizer a token is written as its number.
    """
    ordered = sorted(set(ids))
    if tokenizer is None:
        return {token: str(token) for token in ordered}
    entries = tokenizer.convert_ids_to_tokens(ordered)
    write = _byte_level if _is_byte_level(tokenizer) else _marked
    return {
        token: write(entry) if entry is not None else f"<{token}>"
        for token, entry in zip(ordered, entries, strict=True)
    }


def _is_byte_level(tokenizer: Tokenizer) -> bool:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return "ByteLevel" in repr(getattr(backend, "decoder", None))


@cache
def _byte_of() -> dict[str, int]:
    """Return the byte behind each character of a byte-level vocabulary: printable bytes stand for themselves."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


@cache
def _byte_level(entry: str) -> str:
    table = _byte_of()
    if any(character not in table for character in entry):
        return entry
    raw = bytes(table[character] for character in entry)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"<0x{byte:02X}>" for byte in raw)


def _marked(entry: str) -> str:
    return entry.replace("▁", " ")
