"""Run an iterator on the kernel's own loop, an item at a time, so that buttons are heard between two items.

Invariant: `stop` takes effect before the next item; at most one iterator runs; errors go to whoever asked. Where no
loop runs (a script), `start` runs to the end. It does not know what an item is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, final

__all__ = ["Pacer"]


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the loop that this thread runs, None in a script."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@final
class Pacer:
    """One running iterator, or none."""

    __slots__ = ("_done", "_each", "_handle", "_items")

    def __init__(self) -> None:
        self._items: Iterator[Any] | None = None
        self._handle: asyncio.Handle | None = None

    @property
    def running(self) -> bool:
        """Whether an iterator has items left to run."""
        return self._items is not None

    def start(
        self, items: Iterator[Any], each: Callable[[Any], None], done: Callable[[BaseException | None], None]
    ) -> None:
        """Call `each` for every item, and `done` once: with the error that ended it, or None. Ends what ran before."""
        self.stop()
        self._items, self._each, self._done = items, each, done
        loop = running_loop()
        if loop is not None:
            self._later(loop)
        while loop is None and self._items is not None:
            self._one()

    def stop(self) -> None:
        """End what runs; its `done` is called."""
        if self._items is not None:
            self._end(None)

    def _later(self, loop: asyncio.AbstractEventLoop) -> None:
        # A little later, not at once: the loop reads its sockets in between, and a button's message is heard.
        self._handle = loop.call_later(0.002, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._one()
        if self._items is not None:
            self._later(loop)

    def _one(self) -> None:
        assert self._items is not None
        try:
            item = next(self._items)
            self._each(item)
        except StopIteration:
            self._end(None)
        except Exception as error:  # a callback's exception would vanish: `done` shows it
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        items, self._items, self._handle = self._items, None, None
        close = getattr(items, "close", None)
        if close is not None:
            close()
        self._done(error)
