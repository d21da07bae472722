"""What a scheduler did, step by step: frozen records of every request and of the pool of blocks.

Like a Trace it is plain data that can be saved, loaded without torch, and drawn by any view; each request has a Trace
of its own beside it. Invariant: every number that a view shows is in here. It does not know the scheduler or torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specdec_teach import views
from specdec_teach.records import from_plain, read_json, to_plain, write_json

__all__ = ["TIMELINE_VERSION", "Row", "Step", "Timeline", "TimelineMeta"]

TIMELINE_VERSION = 1

State = Literal["waiting", "prefill", "cycle", "preempted", "finished", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One request in one step.

    `state`: what it did: wait for room, compute tokens that are committed already ("prefill", `fed` of them), run a
    cycle (`cycle` is its index in the request's trace), lose its blocks, or end; a request that ends with a cycle shows
    the cycle and `ends`. `adopted`: tokens taken over from published blocks. `gamma`: drafts asked for, where the pool
    can make it less than was wished. `computed`, `committed`: tokens after the step. `table`: its block ids after the
    step, in order of position. `text`: what the step adds to the visible text.
    """

    request: int
    state: State
    computed: int
    committed: int
    fed: int = 0
    adopted: int = 0
    cycle: int | None = None
    gamma: int = 0
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0
    table: tuple[int, ...] = ()
    text: str = ""
    ends: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: every request that was not over when the last one ended, in order of arrival, and the pool after it.

    `published`: blocks that can be found by their tokens; `idle`: those of them that nobody holds; `evicted`: those
    that were forgotten in this step to make room. `seconds`: wall-clock time.
    """

    index: int
    rows: tuple[Row, ...]
    published: tuple[int, ...]
    idle: tuple[int, ...]
    evicted: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class TimelineMeta:
    """How the scheduler was made: `blocks` blocks of `block_size` tokens, at most `max_batch` requests at once.

    `chunk`: the most tokens that one request computes in a step outside of a cycle. `gamma`: the engine's own,
    the largest where a `planner` chose it, "auto" or "heuristic" (None: it was fixed).
    """

    schema_version: int
    blocks: int
    block_size: int
    max_batch: int
    chunk: int
    gamma: int
    planner: str | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """A scheduler's run. `prompts`: prompt length by request number, `names`: what to call each in a picture."""

    meta: TimelineMeta
    prompts: tuple[int, ...]
    names: tuple[str, ...]
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON types; `Timeline.from_dict` is the inverse."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> Timeline:
        """Build a Timeline from `to_dict`'s output; refuses another version or a field of the wrong kind."""
        return from_plain(cls, plain, TIMELINE_VERSION)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write UTF-8 JSON and return the path."""
        return write_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Timeline:
        """Read what `save` wrote; needs no torch."""
        return cls.from_dict(read_json(path))

    def to_table(self) -> str:
        """Return the run as plain text: a line per request, a column per step.

        `w` waits, `p` computes its prompt or computes again, a digit counts the tokens a cycle emitted, `x` loses its
        blocks, `.` is over or not there.
        """
        marks = {"waiting": "w", "prefill": "p", "preempted": "x"}
        lines = []
        for request, name in enumerate(self.names):
            cells = []
            for step in self.steps:
                row = next((row for row in step.rows if row.request == request), None)
                cells.append(
                    "." if row is None else str(row.emitted) if row.cycle is not None else marks.get(row.state, ".")
                )
            lines.append(f"{name:<12} {' '.join(cells)}")
        return "\n".join(lines)

    def show(self) -> object:
        """Return the view of requests and blocks for a notebook (needs the installed widgets)."""
        return views.renderer().show_timeline(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page that plays this run without server or network, and return its path."""
        return views.renderer().timeline_to_html(self, Path(path))

    def to_svg(self, step: int = -1) -> str:
        """Return a deterministic still as SVG text: requests × steps up to `step`, and the blocks after it."""
        return views.renderer().timeline_to_svg(self, step)

    def to_png(self, path: str | os.PathLike[str], step: int = -1, *, scale: float = 2.0) -> Path:
        """Write that still as a PNG, `scale` pixels for each of its units, and return the path."""
        return views.renderer().timeline_to_png(self, Path(path), step, scale)
