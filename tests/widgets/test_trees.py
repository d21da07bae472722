"""The tree's still: places, mask and sentence from the shape and the record, inside the frame, refusals."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach import tree as shapes
from specdec_teach.drafters.model import ModelDrafter
from specdec_teach.drafters.tree import TreeDrafter
from specdec_teach.engine import Engine
from specdec_teach.sampling import Sampling
from specdec_teach.testing import tiny_llama
from specdec_widgets.rounds import round_of
from specdec_widgets.svg import COLORS
from specdec_widgets.trees import leaf_rows, mask, places, sentence, tree_of
from specdec_widgets.words import num
from tests.widgets.test_pictures import SVG, frame
from tests.widgets.traces import CASES
from tests.widgets.trees import TREES


def every_shape(count: int) -> list[tuple[int, ...]]:
    return [tuple(p) for p in itertools.product(*(range(-1, k) for k in range(count)))]


@pytest.mark.parametrize("parents", [*every_shape(4), *every_shape(5)[::3], shapes.levels((3, 2, 2))])
def test_no_two_nodes_share_a_place_and_a_first_child_stands_beside_its_parent(parents: tuple[int, ...]) -> None:
    spots = places(parents)
    assert len(set(spots)) == len(spots)
    assert (0, 0) not in spots
    assert tuple(column for column, _ in spots) == shapes.depths(parents)
    families = shapes.children(parents)
    for parent, family in enumerate(families, -1):
        rows = [spots[child][1] for child in family]
        assert rows == sorted(rows)
        if family:
            assert rows[0] == (0 if parent < 0 else spots[parent][1])
    leaves = sum(not family for family in families[1:])
    assert leaf_rows(parents) == leaves


@pytest.mark.parametrize("parents", [(), *every_shape(4), shapes.levels((2, 2, 2))])
def test_a_token_sees_the_pending_one_its_ancestors_and_itself(parents: tuple[int, ...]) -> None:
    rows = mask(parents)
    assert len(rows) == len(parents) + 1
    for node in range(-1, len(parents)):
        seen = {0, *(k + 1 for k in shapes.path_to(parents, node))}
        assert {at for at, sees in enumerate(rows[node + 1]) if sees} == seen


@pytest.mark.parametrize("name", sorted(TREES))
@pytest.mark.parametrize("dark", [False, True])
def test_the_still_shows_every_node_and_stays_inside(name: str, dark: bool) -> None:
    trace = TREES[name]
    cycle = trace.cycles[-1]
    picture = tree_of(trace, cycle.index, dark=dark)
    frame(picture)
    assert picture == tree_of(type(trace).from_dict(trace.to_dict()), cycle.index, dark=dark)
    words = [t.text or "" for t in ElementTree.fromstring(picture.svg).iter(SVG + "text")]
    for glyph, status in (("✓", "accepted"), ("✗", "rejected"), ("·", "unused")):
        assert words.count(glyph) == sum(d.status == status for d in cycle.decisions)
    lines = picture.table.splitlines()
    for line, d, parent in zip(lines[1:], cycle.decisions, cycle.parents or (), strict=True):
        cells = line.split()
        assert cells[:2] == [str(d.position), str(parent + 1)]
        assert cells[-4:-1] == [num(d.q), num(d.p), num(d.u)]
    if not dark:
        squares = [r for r in ElementTree.fromstring(picture.svg).iter(SVG + "rect") if r.get("rx") == "1"]
        seen = sum(r.attrib["fill"] in (COLORS["green"], COLORS["valid"]) for r in squares)
        assert seen == sum(map(sum, mask(cycle.parents or ())))


def test_the_sentence_counts() -> None:
    trace = TREES["typical"]
    assert sentence(trace, trace.cycles[1]) == (
        "10 drafts in a tree of depth 3, 5 of them judged: "
        "the path ‘river’ and ‘the’ is kept, 3 fall, and ‘a’ corrects."
    )


def test_a_cycle_without_a_tree_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="none"):
        tree_of(CASES["mixed"], 0)
    with pytest.raises(InvalidInput, match="a tree: 1"):
        tree_of(TREES["typical"], 0)
    assert TREES["typical"].tree(1) == tree_of(TREES["typical"], 1)


def test_a_tree_that_the_engine_grew_and_judged() -> None:
    target, draft = tiny_llama(1, vocab=48), tiny_llama(1, vocab=48, noise=0.3)
    engine = Engine(target, drafter=TreeDrafter(ModelDrafter(draft), (2, 2, 1)), gamma=3)
    trace = engine.generate([1, 2, 3], Sampling(temperature=0.9, seed=2), max_new_tokens=24).trace
    assert trace is not None
    grown = [cycle for cycle in trace.cycles if cycle.parents]
    assert len(grown) > 3
    for cycle in grown:
        picture = tree_of(trace, cycle.index)
        frame(picture)
        assert len(picture.table.splitlines()) == len(cycle.proposed) + 1
        frame(round_of(trace, cycle.index))
