"""The check on trees: it ends at every node, siblings before it refused, and it sees what goes wrong with trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import specdec_teach as sd
from specdec_teach import checking
from specdec_teach.checking.report import Row
from specdec_teach.checking.states import states
from specdec_teach.checking.steered import Script, patterns, steered
from specdec_teach.keeping import Keeping
from specdec_teach.tree import children, depths, path_to

from . import test_tree_mistakes as mistakes

Patch = pytest.MonkeyPatch
Look = Callable[[sd.Engine], Iterator[Row]]
TREES = ("tree", "head-tree", "medusa-tree")


def tiny() -> sd.Engine:
    """Two levels of two, on models that run in no time."""
    return sd.Engine(mistakes.TARGET, drafter=sd.TreeDrafter(sd.ModelDrafter(mistakes.NEAR), (2, 2)), gamma=2)


@pytest.mark.parametrize("name", TREES)
def test_a_round_ends_at_every_node(pair: sd.Pair, name: str) -> None:
    """Also where a first sibling is refused and a later one stands, and where all children of a node are refused."""
    engine = sd.Engine(pair.target, drafter=sd.drafters_for(pair)[name], gamma=3)
    assert engine.drafter is not None
    script = Script.of(80, engine.target_runner.vocab, soft=True)
    ends, later, all_refused = set(), set(), set()
    for pattern in patterns(engine):
        if pattern.shape is None:
            continue
        sent = engine.variant(drafter=steered(engine.drafter, script, pattern))
        stream = sent.open(list(script.ids[:6]), script.sampling(), max_new_tokens=40)
        stream.step()
        cycle = stream.trace().cycles[0]
        assert cycle.parents == pattern.shape
        assert cycle.path == path_to(pattern.shape, pattern.node)
        assert cycle.emitted == script.ids[6 : 7 + len(cycle.path)]
        end = cycle.path[-1] if cycle.path else -1
        ends.add(end)
        fates = [decision.status for decision in cycle.decisions]
        below = children(pattern.shape)[end + 1]
        if below:
            assert {fates[child] for child in below} == {"rejected"}
            all_refused.add(depths(pattern.shape)[end] if end >= 0 else 0)
        for node in cycle.path:
            before = [at for at in children(pattern.shape)[pattern.shape[node] + 1] if at < node]
            assert all(fates[at] == "rejected" for at in before)
            if before:
                later.add(depths(pattern.shape)[node])
        shape = pattern.shape
    assert ends == {-1, *range(len(shape))}
    assert all_refused == set(range(max(depths(shape))))
    twins = {depths(shape)[node] for node in range(len(shape)) if shape.index(shape[node]) != node}
    assert later == twins != set()


def test_refused_siblings_are_never_what_the_script_says() -> None:
    """More nodes than tokens: none of them comes round to the right one."""
    target, near = (sd.testing.tiny_llama(vocab=5, noise=noise) for noise in (0.0, 0.05))
    engine = sd.Engine(target, drafter=sd.TreeDrafter(sd.ModelDrafter(near), (3, 2), mode="top"), gamma=2)
    rows = [row for row in states(engine, ("contiguous",)) if row.group == "forced pattern"]
    assert rows
    assert all(row.ok for row in rows), [row for row in rows if not row.ok][:2]


def a_sibling_stays(patch: Patch) -> None:
    """Of the last level that stands, the slot of the node before is kept."""
    _moved(patch, lambda path: (*path[:-1], path[-1] - 1) if path and path[-1] > len(path) - 1 else path)


def the_second_level_stays_where_it_is(patch: Patch) -> None:
    """The first slot is moved, the others are those behind it."""
    _moved(patch, lambda path: tuple(range(path[0], path[0] + len(path))) if path else path)


def _moved(patch: Patch, wrong: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    honest = Keeping.__init__

    def start(self: Keeping, before: int, path: tuple[int, ...] | None) -> None:
        honest(self, before, path if path is None else wrong(path))

    patch.setattr(Keeping, "__init__", start)


def caches(engine: sd.Engine) -> Iterator[Row]:
    """One layout."""
    return states(engine, ("contiguous",))


def section(name: str) -> Look:
    """One section of the check."""
    return checking.SECTIONS[name]


SEEN = [
    (mistakes.q_not_renormalised, "laws", "law, T = 1"),
    (mistakes.residual_not_updated, "laws", "law, T = 1"),
    (mistakes.siblings_see_each_other, "greedy", "greedy == plain"),
    (mistakes.position_by_slot, "states", "target cache"),
    (mistakes.first_slots_kept, "states", "target cache"),
    (a_sibling_stays, "states", "target cache"),
    (the_second_level_stays_where_it_is, "states", "target cache"),
    (mistakes.one_number_a_level, "chi-square", "chi-square"),
    (mistakes.numbers_come_again, "runs", "invariants"),
]


@pytest.mark.parametrize(("mistake", "where", "group"), SEEN, ids=[f"{one.__name__}-{at}" for one, at, _ in SEEN])
def test_the_check_sees_a_mistake(mistake: Callable[[Patch], None], where: str, group: str, monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    look = caches if where == "states" else section(where)
    assert any(row.group == group and not row.ok for row in look(tiny()))


@pytest.mark.parametrize("where", sorted({where for _, where, _ in SEEN}))
def test_the_honest_engine_passes_the_same(where: str) -> None:
    look = caches if where == "states" else section(where)
    assert not [row for row in look(tiny()) if not row.ok]
