"""Every way to break an honest trace, and the invariant that must show it.

Each edit changes what one mistake would change and leaves the rest of the record in agreement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import specdec_teach as sd
from specdec_teach.trace import KV, Bar, Draws, Top

from .records import BLOCK, GREEDY, SAMPLED, counted, edit, find, of, reblock, redecide, sampled_with, until

ALL = find(SAMPLED, lambda c: c.last_kind == "bonus" and len(c.proposed) == 4)
FELL = find(SAMPLED, lambda c: c.last_kind == "correction" and 0 < c.accepted < 3)
DOUBTED = find(SAMPLED, lambda c: any(d.accepted and d.p < 0.9 * d.q for d in c.decisions))
FELL_GREEDY = find(GREEDY, lambda c: c.last_kind == "correction" and c.accepted > 0)
STOOD = find(BLOCK, lambda c: c.accepted > 0)
END = len(SAMPLED.cycles) - 1


def no_bonus(index: int, accepted: int = 4) -> sd.Trace:
    """A cycle that keeps some drafts, and no token after them."""
    cycle = SAMPLED.cycles[index]
    decisions = tuple(
        d if at < accepted else replace(d, accepted=False, status="cut") for at, d in enumerate(cycle.decisions)
    )
    gone = {"last": None, "last_kind": "none", "last_from": None, "last_top": None}
    cut = {"emitted": cycle.proposed[:accepted], "accepted": accepted, "stop_cut": 4 - accepted}
    return counted(edit(SAMPLED, index, decisions=decisions, **gone, **cut))


def ghost() -> sd.Trace:
    """The counter is rewound, the target's pointer is not."""
    kv = SAMPLED.cycles[FELL].target_kv
    return edit(SAMPLED, FELL, target_kv=replace(kv, after=kv.written))


def gap() -> sd.Trace:
    """One token between two cycles that nobody emitted."""
    trace = until(SAMPLED, 3)
    c = trace.cycles[3]
    up = {name: getattr(c, name) + 1 for name in ("committed_before", "committed_after")}
    kv, draft = c.target_kv, c.draft_kv
    assert draft is not None
    moved = {
        "target_kv": KV(kv.before + 1, kv.written + 1, kv.after + 1),
        "draft_kv": replace(draft, after=kv.after + 1),
    }
    return edit(trace, 3, **up, **moved)


def redrawn() -> sd.Trace:
    """A correction that the residual cannot give: its bar says so."""
    cycle = SAMPLED.cycles[FELL]
    bars = tuple(
        Bar(b.token, b.p, b.q, 0.0) if b.token == cycle.last else b for b in cycle.decisions[cycle.accepted].bars
    )
    return redecide(SAMPLED, FELL, cycle.accepted, bars=bars)


def favourites() -> sd.Trace:
    """Every draft is said to be the likeliest of its q, in a run where q was far from sure."""
    trace = SAMPLED
    for cycle in SAMPLED.cycles:
        for at, d in enumerate(cycle.decisions):
            trace = redecide(trace, cycle.index, at, q_top=Top(((d.token, d.q),), 1.0 - d.q))
    return trace


def not_of_q() -> sd.Trace:
    """An accepted draft that q cannot give."""
    cycle = SAMPLED.cycles[ALL]
    top = Top(tuple(pair for pair in cycle.decisions[0].q_top.tokens if pair[0] != cycle.proposed[0])[:9], 0.1)
    return redecide(SAMPLED, ALL, 0, q=0.0, q_top=top, accept_probability=1.0)


def doubted(**changes: Any) -> sd.Trace:
    cycle = SAMPLED.cycles[DOUBTED]
    at = next(at for at, d in enumerate(cycle.decisions) if d.accepted and d.p < 0.9 * d.q)
    return redecide(SAMPLED, DOUBTED, at, **changes)


def reused() -> sd.Trace:
    """A draft judged with the u of another one, which gives the same verdict."""
    first, second = SAMPLED.cycles[ALL].decisions[:2]
    least = min(first.u or 1.0, second.u or 1.0)
    return redecide(redecide(SAMPLED, ALL, 0, u=least), ALL, 1, u=least)


def favourite_refused() -> sd.Trace:
    cycle = GREEDY.cycles[FELL_GREEDY]
    fallen = cycle.decisions[cycle.accepted]
    return redecide(GREEDY, FELL_GREEDY, cycle.accepted, p=1.0, p_top=Top(((fallen.token, 1.0),), 0.0), bars=())


def two_stand() -> tuple[Any, ...]:
    """The decisions of a cycle in which one draft more stands than was counted."""
    cycle = SAMPLED.cycles[FELL]
    stands: dict[str, Any] = {"accepted": True, "status": "accepted", "u": 1e-9}
    return tuple(replace(d, **stands) if at == cycle.accepted else d for at, d in enumerate(cycle.decisions))


def judged_behind() -> sd.Trace:
    """A draft behind a rejection that was judged all the same."""
    rng = SAMPLED.cycles[FELL].rng
    return edit(redecide(SAMPLED, FELL, -1, u=0.5), FELL, rng=replace(rng, accept=(rng.accept[0], rng.accept[1] + 1)))


def uncounted() -> sd.Trace:
    """Counter and pointers move on by one token that was not emitted."""
    trace = until(SAMPLED, FELL)
    c = trace.cycles[FELL]
    assert c.draft_kv is not None
    moved = {"target_kv": replace(c.target_kv, after=AFTER), "draft_kv": replace(c.draft_kv, after=AFTER)}
    return edit(trace, FELL, committed_after=AFTER + 1, **moved)


def again() -> sd.Trace:
    """A correction that is the rejected draft."""
    cycle = SAMPLED.cycles[FELL]
    fallen = cycle.proposed[cycle.accepted]
    return edit(SAMPLED, FELL, last=fallen, emitted=(*cycle.emitted[:-1], fallen))


def heavy() -> sd.Trace:
    """A row of p that sums to more than one."""
    first = SAMPLED.cycles[ALL].decisions[0]
    return redecide(SAMPLED, ALL, 0, p_top=Top(((99, 1.0), (first.token, first.p)), 0.0))


def hole() -> sd.Trace:
    """After an all-accept the draft's pointer moves on without a forward."""
    kv = SAMPLED.cycles[ALL].draft_kv
    assert kv is not None
    return edit(SAMPLED, ALL, draft_kv=replace(kv, after=kv.written + 1))


def drafted(**changes: int) -> sd.Trace:
    kv = SAMPLED.cycles[FELL].draft_kv
    assert kv is not None
    return edit(SAMPLED, FELL, draft_kv=replace(kv, **changes))


def third(**changes: Any) -> sd.Trace:
    return edit(SAMPLED, 2, **changes)


def emitted_before(index: int) -> list[int]:
    """All tokens in front of a cycle's last one."""
    tokens = [token for cycle in SAMPLED.cycles[: index + 1] for token in cycle.emitted]
    return tokens[:-1]


def token_between() -> int:
    """A token that stands at the end of a cycle in the middle, and nowhere inside one."""
    inside = {token for cycle in SAMPLED.cycles for token in cycle.emitted[:-1]}
    return next(c.emitted[-1] for c in SAMPLED.cycles[:-1] if c.emitted[-1] not in inside)


def token_in_the_middle() -> int:
    """A token that was emitted inside a cycle and is not the run's last one."""
    final = SAMPLED.cycles[-1].emitted[-1]
    return next(t for c in SAMPLED.cycles for t in c.emitted[:-1] if t != final)


FIRST = next(c.index for c in SAMPLED.cycles[1:] if c.emitted[-1] not in emitted_before(c.index))
AFTER, AFTER_ALL = SAMPLED.cycles[FELL].committed_after, SAMPLED.cycles[ALL].committed_after
OWNED = tuple(range(100, 112))

BROKEN: list[tuple[str, str, Callable[[], sd.Trace]]] = [
    ("counters", "a cycle is missing", lambda: edit(SAMPLED, END, index=END + 1)),
    ("counters", "a token that nobody emitted", gap),
    ("counters", "one token more than emitted", uncounted),
    ("gamma", "more drafts than asked for", lambda: edit(SAMPLED, ALL, gamma=3)),
    ("gamma", "asked for more than the run's γ", lambda: edit(SAMPLED, ALL, gamma=5)),
    ("vocabulary", "ids past the vocabulary", lambda: of(SAMPLED, vocab=max(max(c.emitted) for c in SAMPLED.cycles))),
    ("vocabulary", "an id past it in the prompt", lambda: replace(SAMPLED, prompt=(1, 2, 64))),
    ("flags", "accepted behind a rejection", lambda: redecide(SAMPLED, FELL, -1, accepted=True)),
    ("flags", "cut in the middle of the text", lambda: redecide(SAMPLED, FELL, -1, status="cut")),
    ("flags", "one more counted than kept", lambda: edit(SAMPLED, FELL, decisions=two_stand())),
    ("flags", "a decision about another token", lambda: redecide(SAMPLED, ALL, 0, position=2)),
    ("acceptance", "u does not fit", lambda: doubted(u=0.9999999)),
    ("acceptance", "nobody judged it", lambda: doubted(u=None)),
    ("acceptance", "another probability", lambda: doubted(accept_probability=1.0)),
    ("acceptance", "an impossible overlap", lambda: doubted(alpha=1.1)),
    ("acceptance", "an overlap less than what is shown", lambda: redecide(SAMPLED, ALL, 0, alpha=0.0)),
    ("acceptance", "judged behind a rejection", judged_behind),
    ("acceptance", "an impossible token stands", lambda: doubted(p=0.0, p_top=Top((), 0.0), bars=())),
    ("acceptance", "block: nobody judged it", lambda: redecide(BLOCK, STOOD, BLOCK.cycles[STOOD].accepted - 1, u=None)),
    ("acceptance", "block: u does not fit",
     lambda: redecide(BLOCK, STOOD, BLOCK.cycles[STOOD].accepted - 1, accept_probability=0.0)),
    ("acceptance", "greedy refuses the favourite", favourite_refused),
    ("residual", "a correction from p", lambda: edit(SAMPLED, FELL, last_from="p")),
    ("residual", "a bonus from a residual", lambda: edit(SAMPLED, ALL, last_from="residual")),
    ("residual", "a bonus after an empty residual", lambda: edit(SAMPLED, ALL, degenerate_residual=True)),
    ("residual", "a token that the residual lacks", redrawn),
    ("residual", "the rejected draft again", again),
    ("residual", "a token that its row lacks", lambda: edit(SAMPLED, ALL, last_top=Top(((99, 1.0),), 0.0))),
    ("emitted", "the bonus is dropped", lambda: replace(no_bonus(ALL), finish_reason="stop")),
    ("emitted", "the bonus is dropped at last", lambda: until(no_bonus(ALL), ALL)),
    ("emitted", "a correction without its name", lambda: edit(SAMPLED, FELL, last_kind="none")),
    ("emitted", "a token is lost", lambda: until(counted(edit(SAMPLED, 3, emitted=SAMPLED.cycles[3].emitted[:-1])), 3)),
    ("emitted", "drafts cut without an end", lambda: edit(SAMPLED, ALL, stop_cut=1)),
    ("emitted", "another token than the one drawn",
     lambda: edit(SAMPLED, ALL, emitted=(*SAMPLED.cycles[ALL].emitted[:-1], 5 + (SAMPLED.cycles[ALL].last == 5)))),
    ("emitted", "another draft than the accepted one",
     lambda: edit(SAMPLED, ALL, emitted=(63 - SAMPLED.cycles[ALL].emitted[0], *SAMPLED.cycles[ALL].emitted[1:]))),
    ("nothing-after-stop", "a cycle after a cut one", lambda: no_bonus(ALL, 3)),
    ("nothing-after-stop", "tokens behind the end",
     lambda: of(SAMPLED, eos=(token_in_the_middle(),))),
    ("nothing-after-stop", "a cycle behind the end", lambda: of(SAMPLED, eos=(token_between(),))),
    ("nothing-after-stop", "an end that nobody saw",
     lambda: of(until(SAMPLED, FIRST), eos=SAMPLED.cycles[FIRST].emitted[-1:])),
    ("nothing-after-stop", "an end that was passed before", lambda: eos_twice()),
    ("nothing-after-stop", "an end that is none",
     lambda: of(replace(SAMPLED, finish_reason="eos"), eos=(63,))),
    ("nothing-after-stop", "more than allowed", lambda: of(SAMPLED, max_new_tokens=39)),
    ("nothing-after-stop", "less than the length", lambda: of(SAMPLED, max_new_tokens=41)),
    ("computed-behind-committed", "the pointer is not rewound", ghost),
    ("computed-behind-committed", "the last token counts as computed",
     lambda: third(target_kv=replace(SAMPLED.cycles[2].target_kv, after=SAMPLED.cycles[2].committed_after))),
    ("computed-behind-committed", "rewound too far",
     lambda: edit(SAMPLED, FELL, target_kv=replace(SAMPLED.cycles[FELL].target_kv, after=AFTER - 2))),
    ("computed-behind-committed", "a row too few",
     lambda: third(target_kv=replace(SAMPLED.cycles[2].target_kv, written=SAMPLED.cycles[2].committed_before))),
    ("computed-behind-committed", "prefill of the whole prompt",
     lambda: replace(SAMPLED, prefill=replace(SAMPLED.prefill, target=3))),  # type: ignore[type-var]
    ("computed-behind-committed", "past what was written",
     lambda: edit(SAMPLED, ALL, target_kv=KV(AFTER_ALL - 6, AFTER_ALL - 6, AFTER_ALL - 1))),
    ("draft-lag", "rewound by one too many", lambda: drafted(after=AFTER - 2)),
    ("draft-lag", "a draft counts as computed that was only sampled", hole),
    ("draft-lag", "not rewound", lambda: drafted(after=AFTER)),
    ("drawn-from-q", "q cannot give it", not_of_q),
    ("drawn-from-q", "a certain drafter with doubts", lambda: of(SAMPLED, drafter="model-argmax")),
    ("drawn-from-q", "always the favourite", favourites),
    ("rows", "p of another row", lambda: redecide(SAMPLED, FELL, -1, p=SAMPLED.cycles[FELL].decisions[-1].p + 0.01)),
    ("rows", "a likely draft that its row does not show",
     lambda: redecide(SAMPLED, ALL, 0, q_top=Top(((63, 0.1),), 0.9))),
    ("rows", "a row with too much mass", heavy),
    ("rows", "q without the filter", lambda: sampled_with(SAMPLED, top_k=2)),
    ("rows", "q without the floor", lambda: sampled_with(SAMPLED, min_p=0.9)),
    ("draw-numbers", "numbers used again", lambda: third(rng=SAMPLED.cycles[1].rng)),
    ("draw-numbers", "more judged than numbers", lambda: edit(SAMPLED, FELL, rng=Draws((50, 0), (50, 1), (50, 1)))),
    ("draw-numbers", "one u for two drafts", reused),
    ("draw-numbers", "greedy leaves something to chance",
     lambda: edit(GREEDY, 2, rng=Draws((0, 0), (0, 0), (7, 1)))),
    ("blocks", "a block twice", lambda: reblock(owned=(*OWNED, 100))),
    ("blocks", "given back and kept", lambda: reblock(freed=(100,))),
    ("blocks", "shared and not owned", lambda: reblock(shared=(7,))),
    ("blocks", "too few", lambda: reblock(owned=(100,), published=())),
    ("published-committed", "published before it was full", lambda: reblock(published=(111,), owned=OWNED)),
    ("published-committed", "published and not owned", lambda: reblock(published=(7,))),
]  # fmt: skip


def eos_twice() -> sd.Trace:
    """What ended the text stands in it already."""
    final = SAMPLED.cycles[-1].emitted[-1]
    at = next(c.index for c in SAMPLED.cycles if c.index > 0 and c.last_kind == "bonus")
    cycle = SAMPLED.cycles[at]
    told = edit(SAMPLED, at, last=final, emitted=(*cycle.emitted[:-1], final), last_top=Top(((final, 1.0),), 0.0))
    return replace(told, finish_reason="eos")
