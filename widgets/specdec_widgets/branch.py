"""The one way through a draft tree that a view of chains draws: the drafts that were kept, and what ended them.

Invariant: the cycle that comes back is a chain with the tree's pointers, counts and last token, and `parents` still
says that it was a tree. It does not draw.
"""

from __future__ import annotations

from dataclasses import replace

from specdec_teach.trace import Cycle
from specdec_widgets.words import plural

__all__ = ["branch", "tree_sentence"]


def branch(cycle: Cycle) -> Cycle:
    """Return the cycle as a chain: its path, then the draft that was rejected last, or what the end of the text cut.

    A cycle that proposed a chain comes back as it is.
    """
    if cycle.parents is None:
        return cycle
    nodes, parents = list(cycle.path or ()), cycle.parents
    for status in ("rejected", "cut"):
        end = nodes[-1] if nodes else -1
        found = [k for k, d in enumerate(cycle.decisions) if parents[k] == end and d.status == status]
        while found:
            nodes.append(found[-1] if status == "rejected" else found[0])
            found = [k for k, parent in enumerate(parents) if parent == nodes[-1]] if status == "cut" else []
    decisions = tuple(replace(cycle.decisions[k], position=at) for at, k in enumerate(nodes, 1))
    return replace(
        cycle,
        proposed=tuple(cycle.proposed[k] for k in nodes),
        decisions=decisions,
        stop_cut=sum(d.status == "cut" for d in decisions),
    )


def tree_sentence(count: int) -> str:
    """Say that a tree of `count` drafts is drawn by one of its ways."""
    return f"A tree of {plural(count, 'draft')} was proposed: drawn are the path that was kept and what ended it."
