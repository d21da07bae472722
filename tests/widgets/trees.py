"""Traces with draft trees, for the views' tests: shapes, verdicts and numbers by hand, counts as an engine keeps them.

Invariant: siblings are judged in the order of their numbers until one stands, then its children, as the rules do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specdec_teach.trace import KV, Cycle, Trace
from tests.widgets.traces import CASES, WORDS, build, decision


def tree(trace: Trace, at: int, parents: Sequence[int], path: Sequence[int], *, stops: bool = False) -> Trace:
    """Replace the proposal of cycle `at` by a tree of which `path` was kept; the cycles behind it are dropped."""
    cycle, tokens = trace.cycles[at], tuple((7 * k + 2 * at) % 22 for k in range(len(parents)))
    judged, fallen, node = list(path), [], -1
    for kept in (*path, None):
        family = [k for k, parent in enumerate(parents) if parent == node]
        fallen += [k for k in family if kept is None or k < kept]
        node = node if kept is None else kept
    judged = sorted([*path, *fallen])
    last = None if stops else 8
    bottom = [k for k, parent in enumerate(parents) if parent == (path[-1] if path else -1)]
    decisions = tuple(
        replace(
            decision(k + 1, token, last, "a" if k in path else "r" if k in fallen else "-", 3 * k + at, False),
            u=(0.31 + 0.04 * k) if k in judged else None,
        )
        for k, token in enumerate(tokens)
    )
    length, emitted = cycle.committed_before, (*(tokens[k] for k in path), *(() if last is None else (last,)))
    after = length + len(emitted)
    new: Cycle = replace(
        cycle, gamma=max(1, len(path)), proposed=tokens, accepted=len(path), emitted=emitted, last=last,
        last_kind="none" if last is None else "correction" if bottom else "bonus", decisions=decisions,
        committed_after=after, target_kv=KV(cycle.target_kv.before, length + len(tokens), after - 1),
        draft_kv=None, parents=tuple(parents), path=tuple(path), last_from=None if last is None else "p",
        stop_cut=0, text="".join(WORDS[i] for i in emitted),
    )  # fmt: skip
    return replace(trace, cycles=(*trace.cycles[:at], new))


PLAIN = build(["aar-", "aaaa", "r---"], draft_cache=False)

TREES: Mapping[str, Trace] = {
    "typical": tree(PLAIN, 1, (-1, -1, -1, 0, 0, 1, 1, 3, 5, 6), (1, 6)),
    "all": tree(PLAIN, 0, (-1, -1, 0, 0, 2), (0, 2, 4)),
    "none": tree(PLAIN, 0, (-1, -1, -1, 0, 1), ()),
    "second": tree(PLAIN, 0, (-1, 0, -1, 2, 2), (2, 3)),
    "chain": tree(PLAIN, 0, (-1, 0, 1), (0, 1)),
    "one": tree(PLAIN, 0, (-1,), ()),
    "stopped": tree(PLAIN, 0, (-1, -1, 0, 1), (1, 3), stops=True),
    "wide": tree(PLAIN, 0, tuple([-1] * 6 + [k // 3 for k in range(18)] + [k + 6 for k in range(18)]), (0, 7)),
    "hostile": tree(
        replace(CASES["hostile"], pieces={k: "</script><b>" + "\u202e" * 3 + str(k) * 900 for k in range(30)}),
        0, (-1, -1, 0), (1,),
    ),
}  # fmt: skip
