"""Draft trees: several next tokens for a node instead of one, from any drafter that can say what follows each node.

Two kinds. A tree of a fixed shape may draw its drafts, siblings without replacement: what each of them is drawn from
does not depend on what comes of it, so the law of the text stays the target's. A tree that keeps what the draft trusts
most must not: to keep a draft because it turned out likely is to draw it from something else than the q that is
reported. So its drafts are certain, the likeliest tokens, and both what they are and which of them stay are a function
of the text so far. Sources: Miao et al. 2024 (SpecInfer); Li et al. 2024 (EAGLE-2).
Invariant: nodes are numbered level by level, siblings in the order in which they were chosen; nothing of a tree stays
in the draft's cache. It does not know the target, or which drafter it grows from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from dataclasses import dataclass, field
from typing import Any, Literal, final

import torch
from torch import Tensor

from specdec_kernels.errors import EngineFailure, InvalidInput, shown, unknown_name, whole
from specdec_teach import tree
from specdec_teach.drafters.base import Expandable, OnTarget, Proposal, Sprout
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.hf import ModelRunner
from specdec_teach.noise import StreamId
from specdec_teach.policy import processed
from specdec_teach.sequence import Sequence
from specdec_teach.tree import Parents

__all__ = ["TreeDrafter"]

_MODES = ("sample", "top")
_MOST = 63  # the pending token and the drafts share a forward of 64 rows


@final
class TreeDrafter:
    """Grows a tree from `base`, such as a `ModelDrafter`: of a fixed `shape`, or of the `budget` drafts it trusts most.

    `shape`: how many children the nodes of each depth have, (3, 2, 1) by default, or every node's parent, −1 first
    (`specdec_teach.tree`). `mode`: "sample" draws siblings without replacement from the processed q; "top" takes the
    likeliest tokens, certain ones (one-hot), which is what greedy requests get in any case.
    `budget`: instead of a shape, how many drafts to keep of a tree that is `depth` deep and in which the `beam`
    likeliest nodes of each level have the `beam` likeliest children; those with the largest product of probabilities
    stay. They are certain, at any temperature: drawn ones that are chosen by their chance would follow another law
    than q. In an engine γ cuts the depth.
    InvalidInput: both or an impossible shape, more than 63 drafts, a base of chains alone.
    Source: trees, Miao et al. 2024 (SpecInfer); siblings without replacement, Yang et al. 2024; a budget, Li et al.
    2024 (EAGLE-2).

    >>> from specdec_teach import Engine, ModelDrafter, Sampling
    >>> from specdec_teach.testing import TabularLM
    >>> target, draft = TabularLM([1.0, 2.0, 3.0]), TabularLM([1.0, 3.0, 2.0])
    >>> engine = Engine(target, drafter=TreeDrafter(ModelDrafter(draft), (2,)), gamma=1)
    >>> cycle = engine.generate([0], Sampling.greedy(), max_new_tokens=2).trace.cycles[0]
    >>> cycle.proposed, cycle.path, cycle.emitted
    ((1, 2), (1,), (2, 2))
    """

    def __init__(
        self,
        base: Expandable,
        shape: Items[int] | None = None,
        *,
        mode: Literal["sample", "top"] = "sample",
        budget: int | None = None,
        beam: int = 4,
        depth: int = 4,
    ) -> None:
        if mode not in _MODES:
            raise unknown_name("mode", mode, _MODES)
        if not hasattr(base, "expand"):
            raise InvalidInput(
                f"{type(base).__name__} cannot say what follows several nodes of a tree; give a ModelDrafter, or "
                "another drafter with `expand`"
            )
        if shape is not None and budget is not None:
            raise InvalidInput(f"shape={shown(shape)} and budget={shown(budget)}; a tree has the one or the other")
        base.check_tree()
        self._base = base
        self._shape = _read(shape if shape is not None else (3, 2, 1)) if budget is None else None
        self._beam, self._budget = _count("beam", beam), 0 if budget is None else _count("budget", budget)
        deepest = max(tree.depths(self._shape)) if self._shape is not None else _count("depth", depth)
        if self.nodes_of(deepest) > _MOST:
            raise InvalidInput(f"the tree has {self.nodes_of(deepest)} drafts; at most {_MOST} fit in a verify step")
        self.depth: int = deepest
        self.mode: Literal["sample", "top"] = mode if budget is None else "top"
        self.name = f"{base.name}-tree" if budget is None else f"{base.name}-dynamic-tree"
        self.model_name, self.revision, self.context = base.model_name, base.revision, base.context
        self.exact = True
        self.features: tuple[int, ...] = tuple(getattr(base, "features", ()))

    @property
    def model(self) -> Any:
        """The base's model, None without one."""
        return getattr(self._base, "model", None)

    def over(self, model: object) -> TreeDrafter:
        """Return trees like these from another draft model, in place of a base that is not one too."""
        twin = object.__new__(TreeDrafter)
        twin.__dict__.update(self.__dict__)
        twin._base = getattr(self._base, "over", ModelDrafter)(model)
        twin.features = tuple(getattr(twin._base, "features", ()))
        twin.model_name, twin.revision, twin.context = twin._base.model_name, twin._base.revision, twin._base.context
        return twin

    def planned(self, depth: int) -> Parents | None:
        """Return the shape of a proposal of this depth where every token is possible; None where it follows chances."""
        return None if self._shape is None else self._shape[: self.nodes(depth)]

    def nodes(self, depth: int) -> int:
        """See `Branching.nodes`."""
        return self.nodes_of(min(depth, self.depth))

    def nodes_of(self, depth: int) -> int:
        """Return how many drafts a tree of exactly this depth has at most."""
        if self._shape is not None:
            return sum(at <= depth for at in tree.depths(self._shape))
        return min(self._budget, self._beam + self._beam**2 * (depth - 1)) if depth else 0

    def check(self, vocab: int) -> None:
        """See `Drafter.check`."""
        self._base.check(vocab)

    def check_target(self, target: ModelRunner) -> None:
        """See `OnTarget.check_target`; a base that serves any target has nothing to say."""
        if isinstance(self._base, OnTarget):
            self._base.check_target(target)

    def reset(self, sequence: Sequence, capacity: int) -> int | None:
        """See `Drafter.reset`."""
        grown = len(self._shape) if self._shape is not None else self._beam * self.depth
        return self._base.reset(sequence, capacity, grown)

    def commit(self, sequence: Sequence) -> None:
        """See `Drafter.commit`."""
        self._base.commit(sequence)

    def pointer(self, sequence: Sequence) -> int | None:
        """See `Drafter.pointer`."""
        return self._base.pointer(sequence)

    def propose(
        self, sequences: Items[Sequence], counts: Items[int], hidden: Items[Tensor] | None = None
    ) -> list[Proposal]:
        """See `Drafter.propose`; each level is one call of the base for all sequences that go on."""
        grown = [_Growing(s, min(n, self.depth)) for s, n in zip(sequences, counts, strict=True)]
        active = [one for one in grown if one.depth > 0]
        while active:
            states = None if hidden is None else [hidden[grown.index(one)] for one in active]
            rows = self._base.expand([one.sequence for one in active], [one.sprout() for one in active], states)
            for one, logits_FV in zip(active, rows, strict=True):
                self._grow(one, logits_FV)
            active = [one for one in active if one.frontier]
        return [self._proposal(one) for one in grown]

    def _grow(self, one: _Growing, logits_FV: Tensor) -> None:
        """Add the children of the frontier, and say which of the tree's nodes are asked for next."""
        sequence, level, first = one.sequence, one.level + 1, len(one.tokens)
        scores_FV = sequence.policy.scores_behind(logits_FV, sequence.tokens, [one.way(node) for node in one.frontier])
        tops = scores_FV.amax(-1).tolist()
        if any(math.isnan(top) or top == math.inf for top in tops):
            raise EngineFailure(
                f"the draft's logits behind draft {one.frontier[0] + 1} after {len(sequence.tokens)} tokens are not "
                "numbers; check its weights and dtype (float16 overflows on a CPU), or run without a drafter"
            )
        wanted = [self._wanted(one.plan[node + 1]) for node in one.frontier]
        if self.mode == "sample" and not sequence.sampling.greedy_now:
            q_FV = processed(scores_FV, sequence.sampling)
            for node, q_V, top, plans in zip(one.frontier, q_FV, tops, wanted, strict=True):
                _draw(one, node, q_V, plans if top > -math.inf else [])
        else:
            logs_FV = scores_FV.log_softmax(-1)
            values_FW, ids_FW = logs_FV.topk(min(max(map(len, wanted)), logs_FV.shape[-1]), dim=-1)
            for node, values, ids, plans in zip(one.frontier, values_FW.tolist(), ids_FW.tolist(), wanted, strict=True):
                for value, token, plan in zip(values, ids, plans, strict=False):
                    if value > -math.inf:
                        one.add(node, token, plan, value)
        one.grown += one.frontier
        one.level = level
        one.frontier = () if level == one.depth else self._next(one, range(first, len(one.tokens)))

    def _wanted(self, plan: int) -> list[int]:
        """Return the planned nodes below a planned node; of a tree without a plan, as many unplanned ones."""
        return [plan] * self._beam if self._shape is None else list(tree.children(self._shape)[plan + 1])

    def _next(self, one: _Growing, fresh: range) -> tuple[int, ...]:
        """Return which of the newest nodes have children."""
        if self._shape is not None:
            return tuple(node for node in fresh if tree.children(self._shape)[one.plan[node + 1] + 1])
        return tuple(sorted(sorted(fresh, key=lambda node: -one.chances[node])[: self._beam]))

    def _proposal(self, one: _Growing) -> Proposal:
        reach = self._base.retract(one.sequence) if one.depth > 0 else None
        stay: Items[int] = range(len(one.tokens))
        if self._shape is None:
            stay = sorted(sorted(stay, key=lambda node: -one.chances[node])[: self._budget])
        tokens, parents = tuple(one.tokens[node] for node in stay), tree.kept(tuple(one.parents), stay)
        return Proposal(tokens, torch.stack(one.rows) if one.rows else None, parents, reach)


@final
@dataclass(slots=True, eq=False)
class _Growing:
    """One sequence's tree while it grows: `depth` levels are wanted and `level` are there.

    `plan`: which node of a fixed shape the pending token (−1) and each draft stand for. `chances`: ln of the product of
    probabilities on the way to each node. `rows`: the q of each draft, none where drafts are certain.
    """

    sequence: Sequence
    depth: int
    level: int = 0
    tokens: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)
    rows: list[Tensor] = field(default_factory=list)
    plan: list[int] = field(default_factory=lambda: [-1])
    grown: tuple[int, ...] = ()
    frontier: tuple[int, ...] = (-1,)

    def sprout(self) -> Sprout:
        """Return what the base is asked."""
        return Sprout(tuple(self.tokens), tuple(self.parents), self.grown, self.frontier)

    def way(self, node: int) -> list[int]:
        """Return the tokens from the first draft to `node`."""
        return [self.tokens[at] for at in tree.path_to(tuple(self.parents), node)]

    def add(self, parent: int, token: int, plan: int, chance: float) -> None:
        """Hang a draft below `parent`."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.plan.append(plan)
        self.chances.append(chance + (self.chances[parent] if parent >= 0 else 0.0))


def _draw(one: _Growing, parent: int, q_V: Tensor, plans: list[int]) -> None:
    """Draw children of one node, no token twice: each from q without those before it."""
    for left, plan in zip(range(len(plans) - 1, -1, -1), plans, strict=True):
        token = one.sequence.noise.draw(StreamId.DRAFT, one.sequence.draw(len(one.tokens), one.level + 1), q_V)
        one.rows.append(q_V)
        one.add(parent, token, plan, 0.0)
        if not left:
            break
        rest_V = q_V.clone()
        rest_V[token] = 0.0
        mass = float(rest_V.sum())
        if not mass > 0:
            break
        q_V = rest_V.div_(mass)


def _read(shape: object) -> Parents:
    """Return a shape given by its widths or by its parents, its nodes numbered level by level."""
    items = [whole(item) for item in shape] if isinstance(shape, (list, tuple, range)) else []
    numbers = [item for item in items if item is not None]
    if not numbers or len(numbers) < len(items):
        raise InvalidInput(
            f"shape={shown(shape)}; give children for each depth such as (3, 2, 1), or parents, −1 first"
        )
    if numbers[0] >= 0:
        if min(numbers) < 1 or math.prod(numbers) > _MOST:
            raise InvalidInput(f"shape={shown(shape)}; give 1 or more children for each depth, {_MOST} nodes at most")
        return tree.levels(numbers)
    parents = tuple(numbers)
    if not tree.well_formed(parents):
        raise InvalidInput(f"shape={shown(shape)}; each node's parent comes before it, −1 is the pending token")
    order = sorted(range(len(parents)), key=lambda node: tree.depths(parents)[node])
    return tree.kept(parents, order)


def _count(name: str, value: object) -> int:
    number = whole(value)
    if number is None or number < 1:
        raise InvalidInput(f"{name}={shown(value)}; give a whole number, 1 or more")
    return number
