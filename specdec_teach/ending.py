"""Where a text ends, token by token: end-of-sequence tokens and stop strings, and the text that may be shown so far.

Invariant: the first end in token order wins and nothing behind it is kept, shown or counted. The pieces of text join to
the whole text; a stop string is never shown, not even its first letters. An `Ending` never changes: feeding it gives a
new one, so a cycle that is worked out twice is shown once.
It does not know models, caches or how many tokens are still allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from specdec_teach.text import TextStream

__all__ = ["Ending", "Fed"]


@final
@dataclass(frozen=True, slots=True)
class Fed:
    """What came of a block of tokens: how many are `kept`, why the text ended there if it did, and the text to show."""

    kept: int
    reason: Literal["eos", "stop"] | None
    piece: str
    after: Ending


@final
@dataclass(frozen=True, slots=True)
class Ending:
    """The ends of one request, and the text that is held back: it could be the start of a stop string."""

    eos: frozenset[int]
    stop: tuple[str, ...]
    stream: TextStream
    held: str = ""

    def feed(self, tokens: Sequence[int], *, last: bool = False) -> Fed:
        """Take tokens in order until one ends the text. `last`: nothing follows, so hold nothing back."""
        return self._with_stops(tokens, last) if self.stop else self._without_stops(tokens, last)

    def _without_stops(self, tokens: Sequence[int], last: bool) -> Fed:
        stream = self.stream.fork()
        end = next((index for index, token in enumerate(tokens) if token in self.eos), None)
        if end is not None:
            return Fed(end + 1, "eos", stream.push(tokens[:end], last=True), Ending(self.eos, (), stream))
        return Fed(len(tokens), None, stream.push(tokens, last=last), Ending(self.eos, (), stream))

    def _with_stops(self, tokens: Sequence[int], last: bool) -> Fed:
        stream, held, shown = self.stream.fork(), self.held, ""
        for index, token in enumerate(tokens):
            if token in self.eos:
                shown += held + stream.push((), last=True)
                return Fed(index + 1, "eos", shown, Ending(self.eos, self.stop, stream))
            held += stream.push((token,))
            starts = [at for at in (held.find(stop) for stop in self.stop) if at >= 0]
            if starts:
                return Fed(index + 1, "stop", shown + held[: min(starts)], Ending(self.eos, self.stop, stream))
            keep = self._could_start(held)
            shown, held = shown + held[: len(held) - keep], held[len(held) - keep :]
        if last:
            shown, held = shown + held + stream.push((), last=True), ""
        return Fed(len(tokens), None, shown, Ending(self.eos, self.stop, stream, held))

    def _could_start(self, text: str) -> int:
        """Return how many of the last characters of `text` could be the start of a stop string."""
        longest = max(map(len, self.stop)) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self.stop):
                return size
        return 0
