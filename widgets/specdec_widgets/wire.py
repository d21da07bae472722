"""What the views send and receive: the records of a trace and of a timeline as JSON, and the messages of the widgets.

A tuple stands for a JSON list of that length. Invariant: these types, those of static/wire.js and the JSON Schema of a
trace say the same (a test compares the three), so a field that one side renames cannot go unnoticed.
It holds no code.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class KV(TypedDict):
    """A cache's write pointer through one cycle, counted in tokens."""

    before: int
    written: int
    after: int


class Top(TypedDict):
    """The likeliest tokens of one distribution as (id, probability), likeliest first, and the mass of the rest."""

    tokens: list[tuple[int, float]]
    rest: float


class Bar(TypedDict):
    """One token's probabilities in one row: target `p`, draft `q`, and the normalised `residual` [p − q]₊ / β."""

    token: int
    p: float
    q: float
    residual: float


class Decision(TypedDict):
    """What became of one proposed token."""

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
    bars: list[Bar]
    status: Literal["accepted", "rejected", "unused", "cut"]
    forced: NotRequired[bool]


class Draws(TypedDict):
    """The draw numbers that a cycle used in each random stream, as (first, count): no number is used twice."""

    draft: tuple[int, int]
    accept: tuple[int, int]
    token: tuple[int, int]


class Seconds(TypedDict):
    """Where the wall-clock time of a cycle went, in seconds."""

    draft: float
    target: float
    verify: float
    other: float


class Prefill(TypedDict):
    """The work before the first cycle: tokens fed to each model (None: the drafter keeps no cache), and seconds."""

    target: int
    draft: int | None
    seconds: float
    adopted: NotRequired[int]


class Blocks(TypedDict):
    """What a cycle did to the blocks of a paged cache, by block id."""

    size: int
    owned: list[int]
    taken: NotRequired[list[int]]
    freed: NotRequired[list[int]]
    published: NotRequired[list[int]]
    shared: NotRequired[list[int]]
    copied: NotRequired[list[tuple[int, int]]]


class Cycle(TypedDict):
    """One round of Draft → Verify → Commit → Rollback."""

    index: int
    gamma: int
    proposed: list[int | None]
    accepted: int
    emitted: list[int]
    last: int | None
    last_kind: Literal["correction", "bonus", "none"]
    last_top: Top | None
    committed_before: int
    committed_after: int
    target_kv: KV
    draft_kv: KV | None
    decisions: list[Decision]
    rng: Draws | None
    degenerate_residual: bool | None
    seconds: Seconds | None
    stop_cut: int
    text: str
    last_from: NotRequired[Literal["p", "residual"] | None]
    caught_up: NotRequired[int]
    blocks: NotRequired[Blocks | None]
    step: NotRequired[int | None]
    parents: NotRequired[list[int] | None]
    path: NotRequired[list[int] | None]


class Meta(TypedDict):
    """How the run was made."""

    schema_version: int
    models: dict[str, str]
    revisions: dict[str, str]
    drafter: str | None
    dtype: str
    decoder: str
    vocab: int | None
    sampling: dict[str, object]
    gamma: int
    verify: str
    cache: str
    seed: int | None
    speculate: bool
    max_new_tokens: int | None
    lossless: bool | None
    forced: NotRequired[int | None]
    backend: NotRequired[str]
    planner: NotRequired[str | None]
    eos: NotRequired[list[int]]
    features: NotRequired[list[int]]
    trees: NotRequired[bool]


class Trace(TypedDict):
    """A whole run: how it was made, the prompt's ids, every cycle, and the display text of every token id in it."""

    meta: Meta
    prompt: list[int]
    prefill: Prefill | None
    cycles: list[Cycle]
    finish_reason: Literal["eos", "stop", "length", "context"] | None
    pieces: NotRequired[dict[str, str]]
    dropped: NotRequired[int]


class Row(TypedDict):
    """One request in one step."""

    request: int
    state: Literal["waiting", "prefill", "cycle", "preempted", "finished", "cancelled", "failed"]
    computed: int
    committed: int
    fed: NotRequired[int]
    adopted: NotRequired[int]
    cycle: NotRequired[int | None]
    gamma: NotRequired[int]
    drafted: NotRequired[int]
    accepted: NotRequired[int]
    emitted: NotRequired[int]
    table: NotRequired[list[int]]
    text: NotRequired[str]
    ends: NotRequired[str | None]


class Step(TypedDict):
    """One step: every request that was not over when the last one ended, in order of arrival, and the pool after it."""

    index: int
    rows: list[Row]
    published: list[int]
    idle: list[int]
    evicted: list[int]
    seconds: float


class TimelineMeta(TypedDict):
    """How the scheduler was made: `blocks` blocks of `block_size` tokens, at most `max_batch` requests at once."""

    schema_version: int
    blocks: int
    block_size: int
    max_batch: int
    chunk: int
    gamma: int
    planner: NotRequired[str | None]


class Timeline(TypedDict):
    """A scheduler's run. `prompts`: prompt length by request number, `names`: what to call each in a picture."""

    meta: TimelineMeta
    prompts: list[int]
    names: list[str]
    steps: list[Step]


class Request(TypedDict):
    """What the player asks of the engine: a rejection forced at a draft (null: none, 0: accept all)."""

    reject_at: int | None
    cycle: int
    n: int


class Pair(TypedDict):
    """Two runs for one clock, and what to call them."""

    names: tuple[str, str]
    runs: tuple[Trace, Trace]


class PlayerState(TypedDict):
    """What the cycle player shares with the kernel; a page holds the same in memory."""

    trace: Trace
    step: int
    status: str
    can_rerun: bool
    request: Request | None


class CompareState(TypedDict):
    """What the view of two runs shares with the kernel."""

    pair: Pair
    step: int
    clock: Literal["forwards", "seconds"]


class TimelineState(TypedDict):
    """What the view of a scheduler shares with the kernel."""

    timeline: Timeline
    step: int
