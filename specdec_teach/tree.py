"""The shape of a draft tree: whose child each draft is, and what follows from that.

A shape is the tuple of its nodes' parents: `parents[k]` is an index below k, or −1 for a child of the pending token.
Siblings stand in the order in which they were drawn. The chain of K drafts is (−1, 0, 1, …, K − 2).
Invariant: parents come before their children; everything here is a pure function of the shape.
It does not know tokens, probabilities or caches.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from functools import lru_cache

__all__ = [
    "Parents",
    "below",
    "chain",
    "children",
    "depths",
    "is_chain",
    "kept",
    "levels",
    "path_to",
    "spine",
    "well_formed",
]

Parents = tuple[int, ...]


def well_formed(parents: Parents) -> bool:
    """Return whether every node's parent comes before it.

    >>> well_formed((-1, -1, 0, 2)), well_formed((-1, 1)), well_formed((0,))
    (True, False, False)
    """
    return all(-1 <= parent < node for node, parent in enumerate(parents))


def chain(count: int) -> Parents:
    """Return the shape of a chain of `count` drafts.

    >>> chain(3)
    (-1, 0, 1)
    """
    return tuple(range(-1, count - 1))


def is_chain(parents: Parents) -> bool:
    """Return whether each node hangs below the one before it.

    >>> is_chain((-1, 0)), is_chain((-1, -1))
    (True, False)
    """
    return parents == chain(len(parents))


@lru_cache(maxsize=256)
def depths(parents: Parents) -> tuple[int, ...]:
    """Return how many drafts stand on the way to each node, itself included.

    >>> depths((-1, -1, 0, 2))
    (1, 1, 2, 3)
    """
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return tuple(found)


@lru_cache(maxsize=256)
def children(parents: Parents) -> tuple[tuple[int, ...], ...]:
    """Return the children of the pending token, then those of each node, in the order in which they were drawn.

    >>> children((-1, -1, 0, 0))
    ((0, 1), (2, 3), (), (), ())
    """
    found: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for node, parent in enumerate(parents):
        found[parent + 1].append(node)
    return tuple(map(tuple, found))


def path_to(parents: Parents, node: int) -> tuple[int, ...]:
    """Return the nodes from the first draft to `node`, both included; none for −1, the pending token.

    >>> path_to((-1, -1, 1, 2), 3), path_to((-1,), -1)
    ((1, 2, 3), ())
    """
    path: list[int] = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return tuple(reversed(path))


def below(parents: Parents, node: int) -> tuple[int, ...]:
    """Return every node that has `node` above it; all of them for −1.

    >>> below((-1, -1, 0, 2), 0), below((-1, 0), -1)
    ((2, 3), (0, 1))
    """
    inside = {node}
    for at, parent in enumerate(parents):
        if parent in inside:
            inside.add(at)
    return tuple(sorted(inside - {node}))


def kept(parents: Parents, nodes: Items[int]) -> Parents:
    """Return the shape of some nodes of a tree (rising, each with its parent) under their new numbers.

    >>> kept((-1, -1, 0, 1, 3), (1, 3, 4))
    (-1, 0, 1)
    """
    number = {-1: -1} | {node: at for at, node in enumerate(nodes)}
    return tuple(number[parents[node]] for node in nodes)


def levels(widths: Items[int]) -> Parents:
    """Return the shape in which each node of depth d − 1 has `widths[d − 1]` children, level after level.

    >>> levels((2, 1)), levels((1, 1, 1)) == chain(3)
    ((-1, -1, 0, 1), True)
    """
    parents: list[int] = []
    above = [-1]
    for width in widths:
        parents += (level := [parent for parent in above for _ in range(width)])
        above = list(range(len(parents) - len(level), len(parents)))
    return tuple(parents)


def spine(depth: int, width: int = 2) -> Parents:
    """Return the shape with `width` candidates for each of `depth` places, of which the first alone goes on.

    So there is one node on each level to ask for more, as in a chain.

    >>> spine(3)
    (-1, -1, 0, 0, 2, 2)
    """
    return tuple(parent for place in range(depth) for parent in [(place - 1) * width if place else -1] * width)
