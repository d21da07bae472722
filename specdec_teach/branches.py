"""What a record tells of a draft tree: where its path ends, what lies behind, and what must hold of its verdicts.

A chain is a tree without branches, so that whoever asks need not tell them apart.
Invariant: nothing is changed and no model is needed. It knows records of cycles only.
"""

from __future__ import annotations

from collections.abc import Iterator

from specdec_teach.trace import Cycle
from specdec_teach.tree import Parents, below, chain, children, depths, path_to, well_formed

__all__ = ["after_a_fall", "behind", "broken_flags", "depth", "kept_tokens", "last_fallen"]


def _shape(cycle: Cycle) -> Parents:
    return chain(len(cycle.proposed)) if cycle.parents is None else cycle.parents


def _path(cycle: Cycle) -> tuple[int, ...]:
    return tuple(range(min(cycle.accepted, len(cycle.proposed)))) if cycle.path is None else cycle.path


def depth(cycle: Cycle) -> int:
    """Return how many drafts stand below each other at most."""
    return max(depths(_shape(cycle)), default=0)


def kept_tokens(cycle: Cycle) -> tuple[int | None, ...]:
    """Return the drafts that were kept, in order."""
    return tuple(cycle.proposed[node] for node in _path(cycle))


def behind(cycle: Cycle) -> int:
    """Return how many drafts hang below the last one that was kept."""
    path = _path(cycle)
    return len(below(_shape(cycle), path[-1] if path else -1))


def last_fallen(cycle: Cycle) -> tuple[int, ...]:
    """Return the drafts that fell where the path ends, in the order in which they were judged."""
    path = _path(cycle)
    family = children(_shape(cycle))[path[-1] + 1 if path else 0]
    return tuple(node for node in family if cycle.decisions[node].status == "rejected")


def after_a_fall(cycle: Cycle, node: int) -> bool:
    """Return whether a sibling of draft `node` fell before it was judged."""
    shape = _shape(cycle)
    return any(
        shape[other] == shape[node] and decision.status == "rejected"
        for other, decision in enumerate(cycle.decisions[:node])
    )


def broken_flags(cycle: Cycle) -> Iterator[str]:
    """Yield what is wrong with the shape of a tree, its path, and what became of each draft."""
    parents, path = cycle.parents, cycle.path
    if parents is None or path is None:
        yield f"the parents are {parents} and the path is {path}; a tree has both, a chain neither"
        return
    if len(parents) != len(cycle.proposed) or not well_formed(parents):
        yield f"the parents {parents} are no tree of {len(cycle.proposed)} drafts"
        return
    if any(not 0 <= node < len(parents) for node in path) or path != path_to(parents, path[-1] if path else -1):
        yield f"the path {path} is no way down the tree {parents}"
        return
    if cycle.accepted != len(path):
        yield f"{cycle.accepted} drafts are counted as accepted, the path has {len(path)}"
    cut = below(parents, path[-1] if path else -1) if cycle.last is None else ()
    for node, decision in enumerate(cycle.decisions):
        stands, fell = node in path, decision.status == "rejected"
        if decision.accepted != stands or (decision.status == "accepted") != stands:
            yield f"draft {node + 1} is {decision.status}; the path is {path}"
        elif (decision.status == "cut") != (node in cut):
            yield f"draft {node + 1} is {decision.status}; behind the end of the text are {cut}"
        elif fell and parents[node] not in (-1, *path):
            yield f"draft {node + 1} was judged, and the draft above it does not stand"
        elif fell and any(parents[other] == parents[node] and other < node for other in path):
            yield f"draft {node + 1} was judged after a sibling that stands"
