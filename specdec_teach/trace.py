"""What a run leaves behind: frozen records of every cycle, and the Trace that holds them.

A Trace is plain data (ints, floats, strings, tuples): it can be saved as JSON, loaded on a machine without torch and
drawn by any view. None stands for what was not recorded: our engine records all of it, another engine may not
(`specdec_teach.traces`). Invariant: every number that a view shows is in here; no view ever computes one from a model.
It does not know the engine, torch, or how it is drawn; `show`, `to_html` and `to_svg` ask the installed renderer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from specdec_teach import views
from specdec_teach.comparison import Comparison, tell_apart
from specdec_teach.records import from_plain, read_json, to_plain, write_json

__all__ = [
    "KV",
    "SCHEMA_VERSION",
    "Bar",
    "Blocks",
    "Cycle",
    "Decision",
    "Draws",
    "Meta",
    "Prefill",
    "Seconds",
    "Top",
    "Trace",
]

SCHEMA_VERSION = 1

Status = Literal["accepted", "rejected", "unused", "cut"]
LastKind = Literal["correction", "bonus", "none"]
FinishReason = Literal["eos", "stop", "length", "context"]


@dataclass(frozen=True, slots=True)
class KV:
    """A cache's write pointer through one cycle, counted in tokens.

    `before`: where it stood when the cycle began. `written`: the highest it got. `after`: where the rewind left it.
    """

    before: int
    written: int
    after: int


@dataclass(frozen=True, slots=True)
class Top:
    """The likeliest tokens of one distribution as (id, probability), likeliest first, and the mass of the rest."""

    tokens: tuple[tuple[int, float], ...]
    rest: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One token's probabilities in one row: target `p`, draft `q`, and the normalised `residual` [p − q]₊ / β."""

    token: int
    p: float
    q: float
    residual: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one proposed token.

    `position` counts the drafts of the cycle from 1. `p`, `q`: probabilities of `token` in the processed distributions
    of target and draft. `u`: the uniform number it was judged with, `accept_probability` = min(1, p/q); both None when
    greedy or never judged. `alpha` = Σ min(p, q) over the whole vocabulary. `bars` holds p, q and residual of every
    token that is among the six likeliest of p or of q, the proposed token and the token drawn instead of it.
    In a tree `p`, `p_top` and `residual_top` of a draft that was judged after a sibling fell are those of what that
    left of the row.
    `status` is "unused" behind a rejection and "cut" behind the end of the text. Where `token`, `p`, `q` or `alpha` is
    None it is unknown; the tops of an unknown row list no token.
    """

    position: int
    token: int | None
    p: float | None
    q: float | None
    u: float | None
    accept_probability: float | None
    accepted: bool
    alpha: float | None
    p_top: Top
    q_top: Top
    residual_top: Top
    bars: tuple[Bar, ...]
    status: Status
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Draws:
    """The draw numbers that a cycle used in each random stream, as (first, count): no number is used twice.

    Draft k is drawn and judged with number first + k, k counted from 0. In a tree the numbers between those of two
    judged drafts are counted too, since no later cycle uses them either.
    """

    draft: tuple[int, int]
    accept: tuple[int, int]
    token: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Seconds:
    """Where the wall-clock time of a cycle went, in seconds."""

    draft: float
    target: float
    verify: float
    other: float


@dataclass(frozen=True, slots=True)
class Prefill:
    """The work before the first cycle: tokens fed to each model (None: the drafter keeps no cache), and seconds.

    `adopted`: tokens that were not fed to the target, since shared blocks held their keys and values already.
    """

    target: int
    draft: int | None
    seconds: float
    adopted: int = 0


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a cycle did to the blocks of a paged cache, by block id.

    `size`: tokens a block holds. `owned`: the block table after the rewind, in order of position. `taken`: blocks got
    from the pool. `freed`: blocks given back by the rewind. `published`: blocks offered to other requests, each full
    of committed and computed tokens. `shared`: blocks of the table that somebody else holds too. `copied`: blocks
    that were copied before a write, since somebody else held them, as (from, to).
    """

    size: int
    owned: tuple[int, ...]
    taken: tuple[int, ...] = ()
    freed: tuple[int, ...] = ()
    published: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()
    copied: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Cycle:
    """One round of Draft → Verify → Commit → Rollback.

    `gamma`: the draft length asked for, in a tree its depth. `proposed`: the draft tokens. `accepted`: how many of them
    were kept. `emitted`: the new committed tokens (the kept drafts and `last`). `last`: the token after them, None when
    the text ended before it; `last_kind` says in which row it was drawn, `last_from` whether from that row's p or its
    residual, and `last_top` shows that distribution.
    `parents`: the shape of a draft tree (draft k hangs below draft parents[k], −1: below the pending token), None where
    the drafts are a chain; `path`: the drafts of a tree that were kept, from the first to the last.
    `committed_before`, `committed_after`: counts of tokens, prompt included. `target_kv`, `draft_kv`: the pointers.
    `stop_cut`: drafts that stood behind the end of the text. `text`: what this cycle adds to the visible text.
    `caught_up`: committed tokens that the target computed again before this cycle, after a preemption or where a cache
    cannot rewind. `blocks`: of a paged cache. `step`: the scheduler's step, where one ran the cycle.
    A draft token, `rng`, `degenerate_residual` and `seconds` are None where they are unknown.
    """

    index: int
    gamma: int
    proposed: tuple[int | None, ...]
    accepted: int
    emitted: tuple[int, ...]
    last: int | None
    last_kind: LastKind
    last_top: Top | None
    committed_before: int
    committed_after: int
    target_kv: KV
    draft_kv: KV | None
    decisions: tuple[Decision, ...]
    rng: Draws | None
    degenerate_residual: bool | None
    seconds: Seconds | None
    stop_cut: int
    text: str
    last_from: Literal["p", "residual"] | None = None
    caught_up: int = 0
    blocks: Blocks | None = None
    step: int | None = None
    parents: tuple[int, ...] | None = None
    path: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Meta:
    """How the run was made.

    `models`, `revisions`: by role, "target" and, where the drafter has a model, "draft". `lossless`: the emitted text
    follows the target's processed distribution exactly. `forced`: the draft at which rejections were forced, if any.
    `planner`: who chose the γ of each cycle, "auto" or "heuristic", with `gamma` as the largest; None: it was fixed.
    `backend`: who judged the drafts, "torch", the "triton" kernel or another engine. `eos`: the ids that end the text.
    `features`: which of the target's hidden states the drafter reads, none for most. `trees`: it grows draft trees,
    also where one of them turned out to be a chain.
    None, "unknown" and a setting that `sampling` lacks stand for what is not known.
    """

    schema_version: int
    models: Mapping[str, str]
    revisions: Mapping[str, str]
    drafter: str | None
    dtype: str
    decoder: str
    vocab: int | None
    sampling: Mapping[str, object]
    gamma: int
    verify: str
    cache: str
    seed: int | None
    speculate: bool
    max_new_tokens: int | None
    lossless: bool | None
    forced: int | None = None
    backend: str = "torch"
    eos: tuple[int, ...] = ()
    planner: str | None = None
    features: tuple[int, ...] = ()
    trees: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """A whole run: how it was made, the prompt's ids, every cycle, and the display text of every token id in it.

    `pieces` maps a token id to the text it adds; a token that is only part of a character stands as `<0xE2>` for each
    byte. `dropped` counts the oldest cycles that were not kept (`trace=n` keeps the last n).
    """

    meta: Meta
    prompt: tuple[int, ...]
    prefill: Prefill | None
    cycles: tuple[Cycle, ...]
    finish_reason: FinishReason | None
    pieces: Mapping[int, str] = field(default_factory=dict)
    dropped: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the trace as plain JSON types; `Trace.from_dict` is its inverse."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_dict(cls, plain: object) -> Trace:
        """Build a Trace from `to_dict`'s output; refuses another schema version or a field of the wrong kind."""
        return from_plain(cls, plain, SCHEMA_VERSION)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the trace as UTF-8 JSON and return the path."""
        return write_json(self.to_dict(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace that `save` wrote; needs no torch."""
        return cls.from_dict(read_json(path))

    def to_table(self) -> str:
        """Return the run as plain text: a line per cycle and a line per decision."""
        from specdec_teach.table import render

        return render(self)

    def show(self) -> object:
        """Return the cycle player for a notebook (needs the installed widgets)."""
        return views.renderer().show(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page that plays this run without server or network, and return its path."""
        return views.renderer().to_html(self, Path(path))

    def to_svg(self, cycle: int = 0) -> str:
        """Return a deterministic still of one cycle as SVG text; `cycle` is its index in the run."""
        return views.renderer().to_svg(self, cycle)

    def identity(self, cycle: int = 0, position: int = 1, *, dark: bool = False, width: float = 980) -> object:
        """Return a picture of min(p, q) + [p − q]₊ = p at one draft: `cycle` is an index, `position` counts from 1.

        A cell shows it; `.svg` is its text, `.table` its numbers. `dark`: for a dark ground. `width`: in pixels.
        """
        return views.renderer().identity(self, cycle, position, dark=dark, width=width)

    def four_steps(self, cycle: int = 0, *, dark: bool = False, width: float = 980) -> object:
        """Return a picture of one cycle: proposed, verified, judged, committed; as `identity` does."""
        return views.renderer().four_steps(self, cycle, dark=dark, width=width)

    def to_png(self, path: str | os.PathLike[str], cycle: int = 0, *, scale: float = 2.0) -> Path:
        """Write the still of one cycle as a PNG, `scale` pixels for each of its units, and return the path."""
        return views.renderer().to_png(self, Path(path), cycle, scale)

    def to_gif(
        self, path: str | os.PathLike[str], first: int = 0, last: int | None = None, *, seconds: float = 1.2
    ) -> Path:
        """Write the cycles from `first` to `last` (three when None) as an animated GIF, `seconds` a picture."""
        return views.renderer().to_gif(self, Path(path), first, first + 2 if last is None else last, seconds)

    def compare(self, other: Trace, names: tuple[str, str] | None = None) -> Comparison:
        """Set this run beside another one: `.parting`, `.show()`, `.to_html(path)`; None finds `names` by itself."""
        return Comparison(self, other, tell_apart(self, other) if names is None else names)

    def tree(self, cycle: int = 0, *, dark: bool = False) -> object:
        """Return a picture of a cycle's draft tree: tokens, verdicts, path and mask; InvalidInput where it has none."""
        return views.renderer().tree(self, cycle, dark=dark)
