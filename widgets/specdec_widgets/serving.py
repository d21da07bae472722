"""Words and sums of a scheduler's run: a step in full sentences, what happened up to it, the run in one line.

Invariant: no timing appears in what this module returns, so that it may be stored and compared. It mirrors
static/pool.js (a test compares them) and knows nothing of pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdec_teach.timeline import Row, Timeline
from specdec_widgets.words import clip, listed, mark, plural

__all__ = ["ENDS", "Sums", "ending", "gist", "heading", "label", "left", "sentence", "sums"]

ENDS = ("finished", "cancelled", "failed")
FEW = 5


@dataclass(frozen=True, slots=True)
class Sums:
    """Counts after a step: of the pool (blocks), of the requests, and of everything from the first step on."""

    in_use: int
    idle: int
    free: int
    shared: int
    published: int
    running: int
    waiting: int
    over: int
    emitted: int
    accepted: int
    drafted: int
    cycles: int
    fed: int
    adopted: int
    preempted: int


def sums(timeline: Timeline, step: int) -> Sums:
    """Count what stands after the step with this index, and what happened up to it."""
    steps, last = timeline.steps[: step + 1], timeline.steps[step]
    rows = [row for moment in steps for row in moment.rows]
    held = [block for row in last.rows for block in row.table]
    in_use, idle = len(set(held)), len(last.idle)
    now = [row for row in last.rows if not ending(row)]
    return Sums(
        in_use, idle, timeline.meta.blocks - in_use - idle, sum(held.count(block) > 1 for block in set(held)),
        len(last.published), sum(row.state in ("prefill", "cycle") for row in now),
        sum(row.state in ("waiting", "preempted") for row in now), len({row.request for row in rows}) - len(now),
        sum(row.emitted for row in rows), sum(row.accepted for row in rows), sum(row.drafted for row in rows),
        sum(row.cycle is not None for row in rows), sum(row.fed for row in rows), sum(row.adopted for row in rows),
        sum(row.state == "preempted" for row in rows),
    )  # fmt: skip


def ending(row: Row) -> str:
    """Return how the request ended in this step, "" where it goes on."""
    return row.state if row.state in ENDS else "finished" if row.ends is not None else ""


def left(timeline: Timeline, step: int) -> tuple[int, ...]:
    """Return the requests that went between this step and the one before it, without an ending in either."""
    here = {row.request for row in timeline.steps[step].rows}
    earlier = timeline.steps[step - 1].rows if step else ()
    return tuple(row.request for row in earlier if not ending(row) and row.request not in here)


def label(timeline: Timeline, request: int, n: int = 14) -> str:
    """Return the name of a request with nothing invisible in it, cut to n columns."""
    return clip(mark(timeline.names[request]), n)


def _named(timeline: Timeline, request: int) -> str:
    """The name in quotation marks, unless it is the one that a request has by default."""
    name = label(timeline, request)
    return name if name == f"request {request}" else f"‘{name}’"


def sentence(timeline: Timeline, step: int) -> str:
    """Say what the step with this index did, with its numbers."""
    moment, after = timeline.steps[step], sums(timeline, step)
    parts = _each(timeline, step) if len(moment.rows) <= FEW else _all(moment.rows)
    gone = left(timeline, step)
    if gone:
        names = listed([_named(timeline, request) for request in gone]) if len(gone) <= FEW else f"{len(gone)} requests"
        parts.append(f"{names} left before it")
    happened = "; ".join(parts) if parts else "nobody is there"
    verb = "is" if after.in_use == 1 else "are"
    pool = f"{after.in_use} of {plural(timeline.meta.blocks, 'block')} {verb} in use, "
    pool += f"{after.idle} idle and {after.free} free"
    if moment.evicted:
        ids = listed(moment.evicted) if len(moment.evicted) <= FEW else ""
        what = f"block{'s' if len(moment.evicted) > 1 else ''} {ids}" if ids else f"{len(moment.evicted)} blocks"
        pool += f"; {what} {'was' if len(moment.evicted) == 1 else 'were'} evicted to make room"
    return f"Step {moment.index}: {happened}. {pool}."


def _each(timeline: Timeline, step: int) -> list[str]:
    """A clause for every request of the step; those that wait share one."""
    parts, wait = [], []
    for row in timeline.steps[step].rows:
        if row.state == "waiting":
            wait.append(_named(timeline, row.request))
        else:
            parts.append(f"{_named(timeline, row.request)} {_deed(timeline, step, row)}")
    return [*parts, f"{listed(wait)} {'waits' if len(wait) == 1 else 'wait'} for room"] if wait else parts


def _deed(timeline: Timeline, step: int, row: Row) -> str:
    deeds = []
    if row.adopted:
        deeds.append(f"takes {plural(row.adopted, 'token')} over from published blocks")
    if row.fed:
        again = " again" if row.committed - row.emitted > timeline.prompts[row.request] else " of its prompt"
        deeds.append(f"computes {plural(row.fed, 'token')}{again}")
    if row.cycle is not None:
        less = f" (γ = {row.gamma})" if row.gamma < timeline.meta.gamma else ""
        kept = f"keeps {row.accepted} of {plural(row.drafted, 'draft')}" if row.drafted else "drafts nothing"
        deeds += [f"{kept}{less}", f"emits {plural(row.emitted, 'token')}"]
    if row.state == "preempted":
        earlier = timeline.steps[step - 1].rows if step else ()
        lost = next((len(other.table) for other in earlier if other.request == row.request), 0)
        deeds.append(f"gives its {plural(lost, 'block')} back to make room" if lost else "gives its blocks back")
    end = ending(row)
    if end:
        why = f" ({clip(mark(row.ends), 20)})" if row.ends and row.ends != end else ""
        deeds.append({"finished": "ends", "cancelled": "is cancelled", "failed": "fails"}[end] + why)
    return listed(deeds) or "stands by"


def _all(rows: Sequence[Row]) -> list[str]:
    """The step as sums, where a clause for each would be too long."""
    cycles = [row for row in rows if row.cycle is not None]
    feeds = [row for row in rows if row.fed]
    parts = []
    if cycles:
        kept = f"{sum(r.accepted for r in cycles)} of {plural(sum(r.drafted for r in cycles), 'draft')} kept"
        verb = "runs" if len(cycles) == 1 else "run"
        many = plural(len(cycles), "request")
        parts.append(f"{many} {verb} a cycle, {kept}, {plural(sum(r.emitted for r in cycles), 'token')} emitted")
    if feeds:
        verb = "computes" if len(feeds) == 1 else "compute"
        parts.append(f"{len(feeds)} {verb} {plural(sum(r.fed for r in feeds), 'token')} outside of a cycle")
    if taken := sum(row.adopted for row in rows):
        parts.append(f"{plural(taken, 'token')} taken over from published blocks")
    for state, one, more in (
        ("preempted", "gives its blocks back", "give their blocks back"),
        ("waiting", "waits for room", "wait for room"),
    ):
        if count := sum(row.state == state for row in rows):
            parts.append(f"{count} {one if count == 1 else more}")
    for end, one, more in (
        ("finished", "ends", "end"),
        ("cancelled", "is cancelled", "are cancelled"),
        ("failed", "fails", "fail"),
    ):
        if count := sum(ending(row) == end for row in rows):
            parts.append(f"{count} {one if count == 1 else more}")
    return parts


def heading(timeline: Timeline) -> str:
    """A title for the run."""
    return (
        f"Serving, step by step: {plural(len(timeline.prompts), 'request')} on {plural(timeline.meta.blocks, 'block')}"
    )


def gist(timeline: Timeline) -> str:
    """The run in one line, without timings."""
    parts = [plural(len(timeline.prompts), "request"), plural(len(timeline.steps), "step")]
    if timeline.steps:
        last = sums(timeline, len(timeline.steps) - 1)
        parts.append(f"{plural(last.emitted, 'token')} emitted")
        if last.drafted:
            parts.append(f"{last.accepted} of {last.drafted} drafts accepted")
        if last.adopted:
            parts.append(f"{last.adopted} tokens taken over")
        if last.preempted:
            parts.append(plural(last.preempted, "preemption"))
    return "TimelinePlayer: " + ", ".join(parts)
