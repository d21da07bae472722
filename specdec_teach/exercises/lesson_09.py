"""Judges of lesson 09: rows and positions of a tree, its mask, the law of siblings, what moves; and a broken rule.

Invariant: every right answer comes from the engine: its positions and masks, its enumerated law, what its cache moved.
It does not know the lesson's text.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import Any, final

import torch
from torch import Tensor

from specdec_kernels.rejection import residual
from specdec_teach import sight
from specdec_teach.caches import ContiguousCache
from specdec_teach.drafters.base import Proposal
from specdec_teach.engine import Engine
from specdec_teach.exact import exact_law
from specdec_teach.exercises.kit import NotYet, ask, exercise
from specdec_teach.exercises.laws import model_of
from specdec_teach.noise import Noise
from specdec_teach.rules.base import Rows, Verdict, follow
from specdec_teach.sequence import Sequence
from specdec_teach.tree import Parents

__all__ = ["against_p"]

_TEXTBOOK = ([0.6, 0.3, 0.1], [0.2, 0.5, 0.3])
_FOUR = ([0.4, 0.3, 0.2, 0.1], [0.1, 0.15, 0.25, 0.5])
_NEAR = 1e-6


@final
class _AgainstP:
    """Judges all drafts as siblings, each against p itself; after the last one the correction is from [p − q]₊."""

    name = "each against p"
    lossless = False
    by_number = True
    by_position = False
    branches = True

    def judge(self, proposal: Proposal, p_RV: Tensor, noise: Noise, first: int) -> Verdict:
        """See `Rule.judge`."""
        rows, count, law_V = Rows(proposal, p_RV), len(proposal.tokens), p_RV[0]
        judged: list[int] = []
        uniforms: list[float | None] = [None] * count
        path: tuple[int, ...] = ()
        for child in range(count):
            judged.append(child)
            stands, uniforms[child] = noise.accepts(first + child, *rows.at(child))
            if stands:
                path, law_V = (child,), p_RV[child + 1]
                break
            law_V = residual(p_RV[0], rows.q_V(child), rows.drafts_K[child])[0]
        token = follow(noise, first + len(path), law_V, path[0] + 1 if path else 0)
        fallen = judged[-1] if judged and not path else None
        none, ones = (None,) * count, (1.0,) * count
        verdict = Verdict(len(path), token, law_V, rows.p, rows.q, tuple(uniforms), none, ones)
        if proposal.parents is None:
            return verdict
        return Verdict(
            len(path), token, law_V, rows.p, rows.q, tuple(uniforms), none, ones,
            path=path, judged=tuple(judged), fallen=fallen,
        )  # fmt: skip


def against_p(engine: Engine) -> Engine:
    """Return an engine like this one that judges every sibling against p itself, for trees of one level."""
    return engine.variant(rule=_AgainstP())


@final
class _Siblings:
    """Drafts the same siblings for every place, and reports what each was drawn from: q without those before it."""

    name, model_name, revision, context, exact = "siblings", None, None, None, True

    def __init__(self, drafts: Items[int], q: Items[float]) -> None:
        self._drafts, q_V = tuple(drafts), _row(q)
        rows = []
        for draft in drafts:
            rows.append(q_V / q_V.sum())
            q_V = q_V.index_fill(0, torch.tensor([draft]), 0.0)
        self._q_KV = torch.stack(rows)

    def nodes(self, depth: int) -> int:
        """See `Branching.nodes`."""
        return len(self._drafts) if depth else 0

    def check(self, vocab: int) -> None:
        """Any width fits."""

    def reset(self, sequence: Sequence, capacity: int) -> None:
        """There is nothing to prepare."""

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`."""
        whole = Proposal(self._drafts, self._q_KV, (-1,) * len(self._drafts))
        return [whole if count else Proposal(()) for count in counts]

    def commit(self, sequence: Sequence) -> None:
        """Nothing is computed, so nothing is forgotten."""

    def pointer(self, sequence: Sequence) -> None:
        """There is no cache."""


def _row(law: Items[float]) -> Tensor:
    return torch.tensor(list(law), dtype=torch.float64)


def _say(law: Items[float]) -> str:
    return "[" + ", ".join(f"{chance:.3f}".rstrip("0").rstrip(".") for chance in law) + "]"


@exercise("09.1")
def _by_hand(answer: Any) -> str:
    length, parents = 12, (-1, -1, 0, 0, 1, 3)
    right = sight.positions(length + len(parents), parents)[length - 1 :]
    rows, given = answer
    found = [int(place) for place in given]
    if int(rows) == len(parents):
        raise NotYet(f"{rows} is the number of drafts, and the pending token is read as well: its row judges the first")
    if int(rows) != len(right):
        raise NotYet(f"one row for every token that is read; this pass does not read {rows} tokens")
    if found == right:
        return "as the engine places them: by depth, whatever the slot"
    if len(found) != len(right):
        raise NotYet(f"{len(right)} positions are wanted, the pending token's first, not {len(found)}")
    if found == list(range(found[0], found[0] + len(found))):
        raise NotYet(f"these are slots: nodes 0 and 1 are siblings, and both stand at {length}")
    if found == [place + 1 for place in right]:
        raise NotYet(
            f"positions count from 0: {length} tokens are committed, so the pending one stands at {length - 1}"
        )
    wrong = next(at for at, (a, b) in enumerate(zip(found, right, strict=True)) if a != b)
    if wrong == 0:
        raise NotYet(f"the pending token is the last of {length} committed ones and does not stand at {found[0]}")
    raise NotYet(
        f"node {wrong - 1} is not at {found[wrong]}: its parent, {parents[wrong - 1]}, is one position before it"
    )


_SHAPES: tuple[Parents, ...] = ((-1,), (-1, 0), (-1, -1), (-1, -1, 0, 1), (-1, -1, 0, 0, 1, 3), (-1, -1, 1, 1, 3))


@exercise("09.2")
def _mask(answer: Any) -> str:
    for parents in _SHAPES:
        width, call = len(parents) + 1, f"tree_mask({parents})"
        right = (~sight.hidden(0, width, parents, 0)).int().tolist()
        found = [[int(bool(seen)) for seen in row] for row in ask(answer, parents)]
        if [len(row) for row in found] != [width] * width:
            raise NotYet(f"{call} should give {width} lists of {width} numbers, the pending token's first")
        for row, (mine, wanted) in enumerate(zip(found, right, strict=True)):
            if mine == wanted:
                continue
            column = next(at for at, (a, b) in enumerate(zip(mine, wanted, strict=True)) if a != b)
            who, whom = (f"node {at - 1}" if at else "the pending token" for at in (row, column))
            if row == column:
                why = "every token sees itself"
            elif wanted[column]:
                why = f"{who} must see {whom}, which stands on its path"
            elif column > row:
                why = f"{who} must not see {whom}, which hangs behind it or beside it"
            else:
                why = f"{who} must not see {whom}, which is not above it"
            raise NotYet(f"{call}, row {row}: {why}; it is {wanted}, not {mine}")
    return f"the engine's own masks, for {len(_SHAPES)} trees"


@exercise("09.3")
def _place(answer: Any) -> str:
    cases = [(_TEXTBOOK, [1]), (_TEXTBOOK, [1, 2]), (_FOUR, [3]), (_FOUR, [3, 0]), (_FOUR, [3, 2]), (_FOUR, [2, 3, 1])]
    cases += [(([0.5, 0.5], [0.5, 0.5]), [0])]
    for (p, q), drafts in cases:
        engine = Engine(model_of(p), drafter=_Siblings(drafts, q), gamma=1)
        law = exact_law(engine, [0], 1)
        right = [law.get((token,), 0.0) for token in range(len(p))]
        call = f"place_law({_say(p)}, {_say(q)}, {drafts})"
        found = [float(chance) for chance in ask(answer, list(p), list(q), list(drafts))]
        if len(found) != len(p):
            raise NotYet(f"{call} should give {len(p)} numbers, one for each token, not {len(found)}")
        if _near(found, right):
            continue
        why = ""
        if abs(sum(found) - 1.0) > _NEAR:
            why = f": yours sums to {sum(found):.3f}; a sibling stands, or the last correction comes"
        elif _near(found, _careless(p, q, drafts, fresh_p=True)):
            why = ": a sibling that is judged after a fall meets what was left, not p itself"
        elif _near(found, _careless(p, q, drafts, stale_q=True)):
            why = ": the next sibling was drawn without that token, so its q is scaled up again"
        elif _near(found, p):
            why = ": p is what comes on average over all draws; here the siblings are given"
        raise NotYet(f"{call}: the engine gives {_say(right)}, and yours {_say(found)}{why}")
    return "the engine's own law, siblings given; averaged over all draws it is p"


def _near(found: Items[float], right: Items[float]) -> bool:
    return all(abs(a - b) < _NEAR for a, b in zip(found, right, strict=True))


def _careless(p: list[float], q: list[float], drafts: list[int], fresh_p: bool = False, stale_q: bool = False) -> Any:
    """Return the law that a usual mistake gives, to tell it by its numbers."""
    p_V, q_V, target_V = _row(p), _row(q), _row(p)
    law_V, reached, rest_V = torch.zeros(len(p), dtype=torch.float64), 1.0, _row(p)
    for draft in drafts:
        stands = min(1.0, float(p_V[draft] / q_V[draft]))
        law_V[draft] += reached * stands
        reached *= 1.0 - stands
        rest_V, mass = residual(p_V, q_V, torch.tensor(draft))
        rest_V = rest_V / mass if mass > 0 else p_V
        p_V = target_V if fresh_p else rest_V
        q_V = q_V.index_fill(0, torch.tensor([draft]), 0.0)
        q_V = q_V if stale_q else q_V / q_V.sum()
    return (law_V + reached * rest_V).tolist()


@exercise("09.4")
def _moves(answer: Any) -> str:
    cases: tuple[tuple[int, Parents], ...] = (
        (7, (1, 4)),
        (7, (0, 3)),
        (7, (0,)),
        (5, ()),
        (9, (0, 1, 2)),
        (20, (2, 3, 9)),
    )
    for length, path in cases:
        call = f"moves({length}, {path})"
        found = [(int(a), int(b)) for a, b in ask(answer, length, path)]
        pointer = length + max(path, default=0) + 3
        cache = ContiguousCache(pointer)
        numbers = torch.arange(pointer, dtype=torch.float64).reshape(1, 1, pointer, 1)
        cache.write(0, numbers, numbers)
        cache.advance(pointer)
        stop = cache.compact(length, [length + node for node in path])
        after = cache.contents()[0][0].flatten().int().tolist()
        slots = list(range(pointer))
        for source, goal in found:
            if not (0 <= source < pointer and 0 <= goal < pointer):
                raise NotYet(
                    f"{call}: the pass has written slots up to {pointer - 1}, and ({source}, {goal}) is past them"
                )
            slots[goal] = slots[source]
        idle = next((pair for pair in found if pair[0] == pair[1]), None)
        if slots[:stop] == after and idle is None:
            continue
        if slots[:stop] == after:
            raise NotYet(f"{call}: {idle} moves nothing; leave it out")
        wrong = next(slot for slot in range(stop) if slots[slot] != after[slot])
        why = ""
        if set(found) == {(length + node, length + at) for at, node in enumerate(path) if node != at}:
            why = "; the pairs are right and their order is not: one overwrites what the next one reads"
        elif wrong == length - 1:
            why = f"; the pending token lies in slot {length - 1} and stays, so node 0 lies in slot {length}"
        raise NotYet(
            f"{call}: after your copies slot {wrong} holds what was in slot {slots[wrong]}, "
            f"and the engine's cache holds what was in slot {after[wrong]}{why}"
        )
    return "the cache holds what the engine's own compaction leaves"
