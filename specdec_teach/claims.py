"""What must hold of every cycle of an honest run: a function for each claim, yielding a sentence if it is broken.

A claim looks at a cycle's record and at what is known of the run before it (`Run`); what is not known is not judged.
Invariant: claims change nothing and need no model; a run that keeps its word breaks none of them, whatever its models,
settings and drafts. Claims about probabilities are in `specdec_teach.odds`. This module does not know who asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from specdec_teach.branches import behind, broken_flags, depth, kept_tokens
from specdec_teach.trace import Cycle, FinishReason, Meta

__all__ = ["Run"]

EXACT = ("rejection", "block", "coupled")
LOOSE = ("recompute", "snapshot")  # caches that cannot rewind to any position: they go back further and catch up
_GREEDY_BELOW = 1e-5

Claims = Iterator[str]


@final
@dataclass(slots=True)
class Run:
    """What is known of a run before the cycle that is looked at; `add` takes that cycle in.

    `meta`, `prompt` (its length): None where nobody has told. `first`: the index of the first cycle that was kept.
    `surprise`: how unlikely it is, as −ln, that all drafts so far were their rows' favourites; None once one was not.
    """

    meta: Meta | None = None
    prompt: int | None = None
    first: int = 0
    previous: Cycle | None = None
    used: dict[str, set[int]] = field(default_factory=lambda: {"draft": set(), "accept": set(), "token": set()})
    uniforms: set[float] = field(default_factory=set)
    said: set[int] = field(default_factory=set)
    surprise: float | None = 0.0

    def add(self, cycle: Cycle, surprise: float | None) -> None:
        """Remember a cycle."""
        for name, numbers in drawn(cycle).items():
            self.used[name].update(numbers)
        self.uniforms.update(d.u for d in cycle.decisions if d.u is not None)
        if self.previous is not None:
            self.said.update(self.previous.emitted[-1:])
        self.said.update(cycle.emitted[:-1])
        self.previous, self.surprise = cycle, surprise

    @property
    def rule(self) -> str | None:
        """The name of the verification rule."""
        return None if self.meta is None else self.meta.verify

    @property
    def greedy(self) -> bool:
        """Whether the run is greedy by its settings."""
        return self.meta is not None and self.setting("temperature", 1.0) <= _GREEDY_BELOW

    @property
    def certain(self) -> bool:
        """Whether nothing is left to chance: greedy, under a rule that then compares with the favourite."""
        return self.greedy and self.rule in EXACT

    @property
    def eos(self) -> frozenset[int]:
        """The ids that end the text."""
        return frozenset() if self.meta is None else frozenset(self.meta.eos)

    def setting(self, name: str, default: float) -> float:
        """Return a number from the sampling settings."""
        value = default if self.meta is None else self.meta.sampling.get(name, default)
        return value if isinstance(value, (int, float)) else default


def drawn(cycle: Cycle) -> dict[str, range]:
    """Return the draw numbers that a cycle used, by stream."""
    if cycle.rng is None:
        return {}
    streams = {"draft": cycle.rng.draft, "accept": cycle.rng.accept, "token": cycle.rng.token}
    return {name: range(first, first + count) for name, (first, count) in streams.items()}


def counters(run: Run, cycle: Cycle) -> Claims:
    """Cycles follow one another, and each adds as many tokens as it emits."""
    before, after, count = cycle.committed_before, cycle.committed_after, len(cycle.emitted)
    if after != before + count:
        yield f"{before} committed tokens and {count} emitted ones make {before + count}, the record says {after}"
    index = run.first if run.previous is None else run.previous.index + 1
    if cycle.index != index:
        yield f"the cycle's index is {cycle.index}, the next one is {index}"
    if run.previous is not None and before != run.previous.committed_after:
        yield f"it begins with {before} committed tokens, the cycle before ended with {run.previous.committed_after}"
    if run.previous is None and run.first == 0 and run.prompt is not None and before != run.prompt:
        yield f"the first cycle begins with {before} committed tokens, the prompt has {run.prompt}"


def flags(run: Run, cycle: Cycle) -> Claims:
    """Drafts are kept from the left, in a tree from the top: accepted ones, then rejected and unused, or cut ones."""
    tokens = tuple(decision.token for decision in cycle.decisions)
    places = tuple(decision.position for decision in cycle.decisions)
    if tokens != cycle.proposed or places != tuple(range(1, len(places) + 1)):
        yield f"decisions are about tokens {tokens} at positions {places}, the drafts were {cycle.proposed}"
        return
    if cycle.parents is not None or cycle.path is not None:
        yield from broken_flags(cycle)
        return
    accepted = [decision.accepted for decision in cycle.decisions]
    prefix = [*accepted, False].index(False)
    if any(accepted[prefix:]):
        shown = "".join("1" if flag else "0" for flag in accepted)
        yield f"the flags are {shown}; an accepted draft stands behind one that is not"
    if cycle.accepted != prefix:
        yield f"{cycle.accepted} drafts are counted as accepted, the flags keep the first {prefix}"
    behind = len(tokens) - prefix
    rest = ["cut"] * behind if cycle.last is None else (["rejected"] + ["unused"] * (behind - 1))[:behind]
    statuses = [decision.status for decision in cycle.decisions]
    if statuses != ["accepted"] * prefix + rest:
        yield f"the drafts are {', '.join(statuses)}; after {prefix} accepted ones come {', '.join(rest) or 'none'}"


def emitted(run: Run, cycle: Cycle) -> Claims:
    """A cycle emits its accepted drafts and one token more, correction or bonus; only the end of the text cuts it."""
    kept, last = cycle.accepted, cycle.last
    if len(cycle.emitted) != kept + (last is not None):
        more = "one token after them" if last is not None else "none after them"
        yield f"{len(cycle.emitted)} tokens were emitted; {kept} drafts were accepted, and {more}"
    if kept_tokens(cycle) != cycle.emitted[:kept]:
        yield f"the accepted drafts are {kept_tokens(cycle)}, what was emitted begins {cycle.emitted[:kept]}"
    if last is not None and cycle.emitted[-1:] != (last,):
        yield f"the token after the drafts is {last}, the last one emitted is {cycle.emitted[-1:]}"
    kind = "none" if last is None else "correction" if behind(cycle) else "bonus"
    source = cycle.last_from is None and cycle.rng is not None
    if cycle.last_kind != kind or (source if last is not None else cycle.last_from is not None):
        yield (
            f"{kept} of {len(cycle.proposed)} drafts were accepted, so the token after them is a {kind}; the record "
            f"says {cycle.last_kind}, drawn from {cycle.last_from}"
        )
    cut = behind(cycle) if last is None else 0
    if cycle.stop_cut != cut:
        yield f"{cycle.stop_cut} drafts are counted as cut by the end of the text, there are {cut}"
    previous = run.previous
    if previous is not None and _short(previous) and not run.eos.intersection(previous.emitted[-1:]):
        yield (
            f"cycle {previous.index} kept all its {previous.accepted} drafts without a bonus, which only the end of "
            f"the text allows, but cycle {cycle.index} follows"
        )


def emitted_at_end(run: Run, reason: FinishReason | None) -> Claims:
    """Only an end of the text inside a cycle cuts it."""
    last = run.previous
    if last is None or last.rng is None:  # another engine may draft beyond the token limit, ours does not
        return
    if last.last is None and reason not in ("eos", "stop"):
        yield f"cycle {last.index} emitted no token after its drafts, but no stop cut it: the text ended by {reason}"


def _short(cycle: Cycle) -> bool:
    """Whether a cycle lacks its bonus though no draft lay behind the end of the text."""
    return cycle.last is None and behind(cycle) == 0


def gamma(run: Run, cycle: Cycle) -> Claims:
    """A cycle drafts no more (in a tree: below each other) than it was asked for, nor is asked for more than γ."""
    if depth(cycle) > cycle.gamma:
        yield f"{depth(cycle)} tokens were drafted with γ = {cycle.gamma}"
    if cycle.gamma < 0 or (run.meta is not None and cycle.gamma > run.meta.gamma):
        yield f"γ = {cycle.gamma} in this cycle; the run allows 0 to {run.meta.gamma if run.meta else 'any'}"


def vocabulary(run: Run, cycle: Cycle) -> Claims:
    """Every token is an id of the target's vocabulary."""
    width = None if run.meta is None else run.meta.vocab
    known = [token for token in cycle.proposed + cycle.emitted if token is not None]
    wrong = [token for token in known if token < 0 or (width is not None and token >= width)]
    if wrong:
        yield f"token {wrong[0]} is no id of the target; its ids are 0 to {'…' if width is None else width - 1}"


def computed(run: Run, cycle: Cycle) -> Claims:
    """The target's cache holds every committed token but the last, before and after each cycle."""
    kv, before, after = cycle.target_kv, cycle.committed_before, cycle.committed_after
    strict = run.meta is not None and run.meta.cache not in LOOSE
    for when, pointer, length in (("begins", kv.before, before), ("ends", kv.after, after)):
        if pointer > length - 1 or pointer < 0 or (strict and pointer != length - 1):
            yield (
                f"the cycle {when} with {pointer} computed tokens and {length} committed ones; "
                f"{length - 1} of them can be computed, the last one is pending"
            )
    if kv.after > kv.written:
        yield f"the pointer ends at {kv.after}, but only {kv.written} tokens were ever computed"
    if kv.written != before + len(cycle.proposed):
        yield (
            f"the target computed up to {kv.written}; the pending token and {len(cycle.proposed)} drafts reach "
            f"{before + len(cycle.proposed)}"
        )


def draft_lag(run: Run, cycle: Cycle) -> Claims:
    """A draft's cache is one token behind after a chain, two where every draft stood, and after a tree all emitted."""
    kv = cycle.draft_kv
    if kv is None:
        return
    for pointer, length in ((kv.before, cycle.committed_before), (kv.after, cycle.committed_after)):
        if not 0 <= pointer <= length - 1:
            yield f"the draft's pointer is at {pointer} with {length} committed tokens; the last one cannot be computed"
    if kv.after > kv.written:
        yield f"the draft's pointer ends at {kv.after}, but only {kv.written} tokens were ever computed"
    lag, allowed = cycle.committed_after - kv.after, 2 if cycle.last_kind == "bonus" else 1
    # What was made up in place of the target's states is let go, accepted or not: the lag is all that was emitted. The
    # same goes for a tree, though it be a chain this time; so without a meta there is no saying.
    if run.meta is None or run.meta.features or run.meta.trees or cycle.parents is not None:
        allowed = max(allowed, len(cycle.emitted))
    if cycle.proposed and lag > allowed:
        yield (
            f"the draft's cache is {lag} tokens behind after {cycle.accepted} of {len(cycle.proposed)} drafts were "
            f"accepted; at most {allowed} can be"
        )


def published(run: Run, cycle: Cycle) -> Claims:
    """A block is offered to others only when it is full of committed and computed tokens."""
    if cycle.blocks is None:
        return
    safe, size, owned = min(cycle.committed_after, cycle.target_kv.after), cycle.blocks.size, cycle.blocks.owned
    for block in cycle.blocks.published:
        if block not in owned:
            yield f"block {block} was published and is not in the request's table {owned}"
        elif (end := (owned.index(block) + 1) * size) > safe:
            yield f"block {block} was published up to token {end}; only {safe} tokens are committed and computed"


def blocks(run: Run, cycle: Cycle) -> Claims:
    """A block table names each block once, none that was given back, and enough of them."""
    table = cycle.blocks
    if table is None:
        return
    owned = set(table.owned)
    if len(owned) < len(table.owned):
        yield f"the block table {table.owned} names a block twice"
    for what, ids in (("was given back and is still in", owned.intersection(table.freed)),
                      ("is shared and not in", set(table.shared) - owned)):  # fmt: skip
        if ids:
            yield f"block {min(ids)} {what} the table {table.owned}"
    if len(table.owned) * table.size < cycle.target_kv.after:
        yield (f"{len(table.owned)} blocks of {table.size} tokens cannot hold {cycle.target_kv.after} computed tokens")


def draw_numbers(run: Run, cycle: Cycle) -> Claims:
    """Every random number is used once; greedy runs use none."""
    numbers = drawn(cycle)
    if run.meta is None or run.rule == "coupled":
        return
    for name, used in numbers.items():
        again = run.used[name].intersection(used)
        if again:
            yield f"number {min(again)} of the {name} stream was used by an earlier cycle"
        told = name == "draft" and run.meta.drafter == "scripted"
        if used and run.certain and not told:
            yield f"a greedy cycle used {len(used)} numbers of the {name} stream"
    if run.meta.forced is not None or run.meta.backend != "torch":
        return
    seen = [decision.u for decision in cycle.decisions if decision.u is not None]
    repeated = run.uniforms.intersection(seen) or {u for u in seen if seen.count(u) > 1}
    if repeated:
        yield f"u = {min(repeated)!r} judged two drafts"
    if run.rule == "rejection" and len(seen) > len(numbers["accept"]):
        yield f"{len(seen)} drafts were judged with {len(numbers['accept'])} numbers of the accept stream"


def nothing_after(run: Run, cycle: Cycle) -> Claims:
    """Nothing follows the end of the text: no token, no cycle, and never more tokens than allowed."""
    eos, previous = run.eos, run.previous
    early = next((at for at, token in enumerate(cycle.emitted[:-1]) if token in eos), None)
    if early is not None:
        left = len(cycle.emitted) - early - 1
        yield f"{left} tokens follow the end-of-sequence token {cycle.emitted[early]} in this cycle"
    if previous is not None and eos.intersection(previous.emitted[-1:]):
        yield f"token {previous.emitted[-1]} ended the text in cycle {previous.index}, but cycle {cycle.index} follows"
    elif previous is not None and previous.last is None and not _short(previous):
        yield f"cycle {previous.index} was cut by the end of the text, but cycle {cycle.index} follows"
    if run.meta is None or run.prompt is None:
        return
    cap, new = run.meta.max_new_tokens, cycle.committed_after - run.prompt
    if cap is not None and new > cap:
        yield f"{new} new tokens are committed, {cap} are allowed"


def nothing_after_at_end(run: Run, reason: FinishReason | None) -> Claims:
    """The reason why a text ended is true of its last token and of its length."""
    last = run.previous
    final = last.emitted[-1] if last is not None and last.emitted else None
    if reason == "eos":
        if final is not None and run.eos and final not in run.eos:
            yield f"the text ended by eos, its last token is {final}; the end-of-sequence ids are {sorted(run.eos)}"
        elif final in run.said:
            yield f"token {final} ended the text, but it was emitted before"
    elif final in run.eos and last is not None:
        yield f"the last token {final} ends a sequence, but the text ended by {reason}"
    if run.meta is not None and run.prompt is not None and (last is not None or run.first == 0):
        cap, new = run.meta.max_new_tokens, (last.committed_after if last is not None else run.prompt) - run.prompt
        if reason == "length" and cap is not None and new != cap:
            yield f"the text ended by length with {new} new tokens, {cap} are allowed"
