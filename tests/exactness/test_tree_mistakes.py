"""The mistakes that tree drafting invites, each put into the honest engine, and the test that sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import specdec_teach as sd
from specdec_kernels import rejection
from specdec_teach import invariants, sight
from specdec_teach.drafters import tree as tree_drafter
from specdec_teach.drafters.base import Proposal
from specdec_teach.keeping import Keeping
from specdec_teach.noise import StreamId
from specdec_teach.policy import processed
from specdec_teach.rules import rejection as rejection_rule
from specdec_teach.sequence import Sequence

from ..checks import P4, Q4, chi_square, chi_square_of_long_runs, logs, product_law, same_law
from .test_tree_law import chain_law, table, trees

Patch = pytest.MonkeyPatch
TARGET, NEAR = sd.testing.tiny_llama(), sd.testing.tiny_llama(noise=0.08)


def law_of_siblings() -> None:
    """Three siblings in one row, V = 4."""
    same_law(sd.exact_law(trees(logs(P4), logs(Q4), (3,)), [0], 1), product_law(lambda prefix: P4, (0,), 1))


def law_of_a_tree() -> None:
    """Two levels on a Markov chain, two tokens."""
    target, draft = table(1, 3), table(2, 3)
    law = sd.exact_law(trees(target, draft, (2, 1)), [0], 2)
    same_law(law, chain_law(target, sd.Sampling(), 2))


def greedy_text() -> None:
    """Speculation changes no greedy token of a real model, over several cycles."""
    engine = sd.Engine(TARGET, drafter=sd.TreeDrafter(sd.ModelDrafter(NEAR), (3, 2, 1)), gamma=3)
    for prompt in ([1, 2, 3], [5, 9, 13, 2]):
        fast, plain = (
            engine.generate(prompt, sd.Sampling.greedy(), max_new_tokens=24, speculate=s).tokens for s in (True, False)
        )
        assert fast == plain


def long_runs() -> None:
    """Tokens of long seeded runs: one number for two draws shows here, an enumeration cannot see it."""
    assert chi_square_of_long_runs(trees(logs(P4), logs(Q4), (2, 2)), P4, runs=24, length=250) > 1e-3


def records() -> None:
    """What a trace says of its draws: the next cycle's numbers begin behind those of this one."""
    trace = trees(logs(P4), logs(Q4), (2, 2)).generate([0], sd.Sampling(seed=3), max_new_tokens=40).trace
    assert invariants.check(trace) == []


def q_not_renormalised(patch: Patch) -> None:
    """A later sibling reports the q of the first."""

    def draw(one: Any, parent: int, q_V: torch.Tensor, plans: list[int]) -> None:
        whole_V = q_V
        honest(one, parent, q_V, plans)
        for at in range(len(one.rows) - sum(p == parent for p in one.parents), len(one.rows)):
            one.rows[at] = whole_V

    honest = tree_drafter._draw
    patch.setattr(tree_drafter, "_draw", draw)


def residual_not_updated(patch: Patch) -> None:
    """Every sibling is judged by the whole row."""

    def residual(p_V: Any, q_V: Any, token: Any) -> Any:
        rest_V, mass = honest(p_V, q_V, token)
        return (p_V, p_V.sum(-1)) if p_V.dim() == 1 else (rest_V, mass)

    honest = rejection.residual
    patch.setattr(rejection_rule, "residual", residual)


def siblings_see_each_other(patch: Patch) -> None:
    """The mask lets a node see every node before it."""
    patch.setattr(
        sight, "seen", lambda parents, device="cpu": torch.ones(len(parents), len(parents), dtype=torch.bool).tril()
    )


def position_by_slot(patch: Patch) -> None:
    """A node's position is its slot."""
    from specdec_teach import decoder

    patch.setattr(decoder, "positions", lambda stop, parents: list(range(stop)))


def first_slots_kept(patch: Patch) -> None:
    """As many slots as drafts were accepted stay, whichever they are."""

    def settle(self: Any, sequence: Any, computed: int) -> None:
        sequence.cache.rollback(min(sequence.cache.pointer, computed))

    patch.setattr(Keeping, "settle", settle)


def one_number_a_level(patch: Patch) -> None:
    """Siblings and cousins are drawn with their depth's number: all of a level meet the same noise."""
    patch.setattr(Sequence, "draw", lambda self, node, depth: self.number)


def numbers_come_again(patch: Patch) -> None:
    """A cycle counts one number, however many its tree has used, so the next one uses the others again."""
    from specdec_teach.working import Plan

    patch.setattr(Plan, "next_number", property(lambda self: self.first + 1))


MISTAKES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (q_not_renormalised, law_of_siblings),
    (residual_not_updated, law_of_siblings),
    (siblings_see_each_other, greedy_text),
    (position_by_slot, greedy_text),
    (first_slots_kept, greedy_text),
    (one_number_a_level, long_runs),
    (numbers_come_again, records),
]


@pytest.mark.parametrize(("mistake", "sees"), MISTAKES, ids=lambda one: one.__name__)
def test_a_mistake_is_seen(
    mistake: Callable[[Patch], None], sees: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        sees()


@pytest.mark.parametrize(
    "look", [law_of_siblings, law_of_a_tree, greedy_text, long_runs, records], ids=lambda one: one.__name__
)
def test_the_honest_engine_passes(look: Callable[[], None]) -> None:
    look()


def test_three_tokens_across_cycles() -> None:
    """Seeded runs of a two-level tree against the exact law of a chain, over two or three cycles each."""
    target, draft = table(3, 4), table(4, 4)
    rows = processed(target, sd.Sampling()).tolist()
    right = product_law(lambda prefix: rows[prefix[-1]], (0,), 3)
    value = chi_square(trees(target, draft, (2, 1)), right, 3, 1500, lambda seed: sd.Sampling(seed=seed))
    assert value > 1e-3


class _Choosy:
    """Two drafts drawn from q, of which the likelier stays, said to be drawn from q: the choice follows the draws."""

    name, model_name, revision, context, exact = "choosy", None, None, None, True

    def __init__(self, q: torch.Tensor, honest: bool) -> None:
        self.q, self.honest = q, honest

    def nodes(self, depth: int) -> int:
        return depth

    def check(self, vocab: int) -> None: ...

    def reset(self, sequence: Any, capacity: int) -> None: ...

    def commit(self, sequence: Any) -> None: ...

    def pointer(self, sequence: Any) -> None: ...

    def propose(self, sequences: Any, counts: Any, hidden: Any = None) -> list[Proposal]:
        return [self._one(sequence) for sequence in sequences]

    def _one(self, sequence: Any) -> Proposal:
        drawn = [sequence.noise.draw(StreamId.DRAFT, sequence.number + at, self.q) for at in range(2)]
        best = drawn[0] if self.honest else max(drawn, key=lambda token: float(self.q[token]))
        return Proposal((best,), self.q[None])


def test_a_choice_that_follows_the_draws_biases_the_law() -> None:
    """Why trees by confidence are certain: drafts that were drawn and then chosen by their chance are not q's."""
    q = torch.tensor(Q4, dtype=torch.float64)
    right = product_law(lambda prefix: P4, (0,), 1)
    for honest in (True, False):
        target, drafter = sd.testing.TabularLM(logs(P4)), _Choosy(q, honest)
        law = sd.exact_law(sd.Engine(target, drafter=drafter, gamma=1), [0], 1)  # type: ignore[arg-type]
        if honest:
            same_law(law, right)
        else:
            with pytest.raises(AssertionError):
                same_law(law, right, 1e-3)
