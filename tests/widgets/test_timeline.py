"""The still of a scheduler's run and the numbers behind it: from the records alone, deterministic, inside its frame."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from specdec_kernels.errors import InvalidInput
from specdec_teach.timeline import Row, Timeline
from specdec_widgets import RENDERER
from specdec_widgets.blocks import image, telling_step, to_svg
from specdec_widgets.owners import look
from specdec_widgets.pool import Block, blocks_after, chosen, places, shown, where
from specdec_widgets.serving import ending, gist, left, sentence, sums
from specdec_widgets.tiles import words
from specdec_widgets.words import columns
from tests.widgets.timelines import TIMELINES, Script

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [
    (name, step) for name, t in TIMELINES.items() for step in range(len(t.steps)) if step < 16 or step % 50 == 0
]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(SVG + "text")]


@pytest.mark.parametrize(("name", "step"), PICTURES)
def test_still_is_well_formed_inside_its_frame_and_the_same_twice(name: str, step: int) -> None:
    timeline = TIMELINES[name]
    svg = to_svg(timeline, step)
    assert svg == to_svg(Timeline.from_dict(timeline.to_dict()), step - len(timeline.steps))
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for text in root.iter(SVG + "text"):
        size, x = float(text.attrib["font-size"]), float(text.attrib["x"])
        assert size >= 12
        wide = columns(text.text or "") * size * 0.54
        shift = {"middle": wide / 2, "end": wide}.get(text.get("text-anchor", ""), 0.0)
        assert -1 <= x - shift <= width + 1 - wide, text.text
        assert float(text.attrib["y"]) <= height
    for rect in list(root)[4:]:
        if rect.tag == SVG + "rect":
            assert 0 <= float(rect.attrib["x"]) <= float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
            assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height


@pytest.mark.parametrize(("name", "step"), PICTURES)
def test_every_slot_of_the_pool_is_accounted_for(name: str, step: int) -> None:
    timeline = TIMELINES[name]
    moment, size = timeline.steps[step], timeline.meta.block_size
    blocks, after = blocks_after(timeline, step), sums(timeline, step)
    assert [block.id for block in blocks] == list(range(timeline.meta.blocks))
    assert (after.in_use, after.idle, after.free) == tuple(
        sum(flags) for flags in zip(*((bool(b.owners), b.idle, b.free) for b in blocks), strict=True)
    )
    assert {b.id for b in blocks if b.idle} == set(moment.idle)
    for block in blocks:
        assert 0 <= block.filled <= block.written <= size
    for row in moment.rows:
        assert sum(place.filled for place in places(timeline, step, row)) == (row.computed if row.table else 0)
        for place in places(timeline, step, row):
            assert row.request in blocks[place.block].owners
            assert blocks[place.block].filled >= place.filled
    assert max((b.id for b in blocks if not b.free), default=-1) < shown(timeline)


def test_numbers_in_the_picture_are_those_of_the_records() -> None:
    timeline = TIMELINES["typical"]
    for step, moment in enumerate(timeline.steps):
        svg = to_svg(timeline, step)
        seen = texts(svg)
        for at in range(step + 1):
            for row in timeline.steps[at].rows:
                mark = f"+{row.emitted}" if row.cycle is not None else f"p{row.fed}" if row.state == "prefill" else ""
                assert not mark or mark in seen
        kept = sum(row.accepted for past in timeline.steps[: step + 1] for row in past.rows)
        drafted = sum(row.drafted for past in timeline.steps[: step + 1] for row in past.rows)
        assert svg.count('height="8.0" fill="url(#specdec-red)"') == drafted - kept
        row = chosen(timeline, step)
        if row is not None:
            lines = seen[seen.index("also held by") + 1 :]
            drawn = [lines[i : i + 2] for i in range(len(lines)) if re.fullmatch(r"\d+–\d+", lines[i])][::2]
            assert drawn == [[f"{8 * i}–{8 * i + 7}", str(block)] for i, block in enumerate(row.table)]
        assert f"step {moment.index}" in seen


def test_a_rejected_draft_leaves_a_stale_slot_until_it_is_overwritten() -> None:
    run = Script((5,), blocks=4, size=4)
    run.step({0: (8,)})
    run.step({0: (0, 2)})  # slots 4, 5, 6 are written; 5 is where the pointer rests
    run.step({0: (0, 0)})
    run.step({0: (3, 3)})
    timeline = run.timeline()
    assert [(b.filled, b.written) for b in blocks_after(timeline, 0)[:2]] == [(4, 4), (0, 0)]
    assert [(b.filled, b.written) for b in blocks_after(timeline, 1)[:2]] == [(4, 4), (1, 3)]
    assert [(b.filled, b.written) for b in blocks_after(timeline, 2)[:2]] == [(4, 4), (2, 3)]
    assert [(b.filled, b.written) for b in blocks_after(timeline, 3)[:3]] == [(4, 4), (4, 4), (2, 2)]


def test_a_block_taken_again_starts_unwritten() -> None:
    run = Script((3, 3), blocks=2, size=4)
    run.step({0: (2,)})
    run.step({0: (0, 1)})
    run.step({0: "c"})
    run.step({1: (2,)})
    timeline = run.timeline()
    assert (blocks_after(timeline, 1)[0].filled, blocks_after(timeline, 1)[0].written) == (3, 4)
    assert blocks_after(timeline, 2)[0].free
    assert blocks_after(timeline, 3)[0] == Block(0, (1,), 2, 2, False, False)


def test_shared_blocks_name_every_owner_and_the_mark() -> None:
    timeline = TIMELINES["typical"]
    blocks = blocks_after(timeline, 7)
    assert [block.owners for block in blocks[:2]] == [(0, 1, 2, 3)] * 2
    assert [words(block, 8) for block in blocks[:2]] == ["shared", "shared"]
    seen = texts(to_svg(timeline, 7))
    assert seen.count("×4") == 2
    row = next(row for row in timeline.steps[7].rows if row.request == 2)
    assert places(timeline, 7, row)[0].others == (0, 1, 3)


def test_evicted_blocks_are_marked_in_their_step_alone() -> None:
    timeline = TIMELINES["typical"]
    for step, moment in enumerate(timeline.steps):
        assert {b.id for b in blocks_after(timeline, step) if b.evicted} == set(moment.evicted)
        assert sum(text.startswith("evicted") for text in texts(to_svg(timeline, step))) == len(moment.evicted)
    assert any(moment.evicted for moment in timeline.steps)


def test_slot_arithmetic_is_that_of_the_table() -> None:
    timeline = TIMELINES["typical"]
    for moment in timeline.steps:
        for row in moment.rows:
            if not row.table:
                assert where(row, 8) == ""
                continue
            at = row.computed - 1
            assert where(row, 8).endswith(f"= {row.table[at // 8] * 8 + at % 8}")
            assert f"block {row.table[at // 8]}," in where(row, 8)


def test_the_sentence_says_what_happened() -> None:
    timeline = TIMELINES["typical"]
    assert sentence(timeline, 8) == (
        "Step 8: ‘Mira’ keeps 4 of 4 drafts and emits 5 tokens; ‘the fox’ keeps 4 of 4 drafts and emits 5 tokens; "
        "‘lantern’ keeps 4 of 4 drafts and emits 5 tokens; ‘river’ gives its 3 blocks back to make room. "
        "13 of 14 blocks are in use, 0 idle and 1 free."
    )
    assert "‘river’ takes 16 tokens over from published blocks and computes 5 tokens again" in sentence(timeline, 10)
    assert "‘the fox’ is cancelled" in sentence(timeline, 9)
    assert "block 8 was evicted to make room" in sentence(timeline, 10)
    assert "keeps 2 of 2 drafts (γ = 2), emits 3 tokens and ends (eos)" in sentence(timeline, 11)
    assert sentence(TIMELINES["crowd"], 26).startswith("Step 26: 8 requests run a cycle, 18 of 32 drafts kept, 26 ")


@pytest.mark.parametrize(("name", "step"), PICTURES)
def test_every_step_has_a_sentence(name: str, step: int) -> None:
    said = sentence(TIMELINES[name], step)
    assert re.fullmatch(r"Step \d+: .+\.", said, re.DOTALL)
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\n]", said)
    assert "stands by" not in said
    assert len(said) < 500


def test_a_request_that_goes_between_two_steps_is_told_and_counted() -> None:
    timeline = TIMELINES["typical"]
    rows = tuple(row for row in timeline.steps[9].rows if row.request != 1)
    timeline = replace(
        timeline, steps=(*timeline.steps[:9], replace(timeline.steps[9], rows=rows), *timeline.steps[10:])
    )
    assert left(timeline, 9) == (1,)
    assert left(timeline, 10) == ()
    assert "‘the fox’ left before it" in sentence(timeline, 9)
    assert sums(timeline, 9).over == 1
    assert "⊘" in texts(to_svg(timeline, 9))


def test_an_ending_is_told_from_going_on() -> None:
    assert ending(Row(0, "cycle", 3, 4, cycle=1, ends="eos")) == "finished"
    assert ending(Row(0, "cycle", 3, 4, cycle=1)) == ""
    assert ending(Row(0, "failed", 0, 4, ends="failed")) == "failed"


def test_a_run_that_kept_its_last_steps_says_since_when() -> None:
    timeline = replace(TIMELINES["typical"], steps=TIMELINES["typical"].steps[6:])
    seen = texts(to_svg(timeline, 0))
    assert "step 6" in seen
    assert any(text.startswith("15 tokens since step 6 · ") for text in seen)
    assert sentence(timeline, 0) == sentence(TIMELINES["typical"], 6)


def test_a_planned_gamma_is_told_as_the_largest() -> None:
    timeline = next(iter(TIMELINES.values()))
    planned = replace(timeline, meta=replace(timeline.meta, gamma=8, planner="auto"))
    assert "· γ ≤ 8 (auto)" in to_svg(planned, 0)
    assert f"· γ = {timeline.meta.gamma}<" in to_svg(timeline, 0)
    old = planned.to_dict()
    del old["meta"]["planner"]  # as runs were kept before there were planners
    assert Timeline.from_dict(old).meta == replace(planned.meta, planner=None)


def test_timings_leave_no_mark() -> None:
    timeline = TIMELINES["typical"]
    slow = replace(timeline, steps=tuple(replace(step, seconds=9.0) for step in timeline.steps))
    assert to_svg(slow, 7) == to_svg(timeline, 7)
    assert image(slow) == image(timeline)


@pytest.mark.parametrize("step", [15, -16, True, "0", None])
def test_a_step_outside_the_run_is_refused_with_the_range(step: int) -> None:
    with pytest.raises(InvalidInput, match="0 to 14"):
        to_svg(TIMELINES["typical"], step)


def test_a_run_without_steps_says_so() -> None:
    with pytest.raises(InvalidInput, match="no step"):
        to_svg(TIMELINES["nothing"], -1)
    assert image(TIMELINES["nothing"]) == ""
    assert gist(TIMELINES["nothing"]) == "TimelinePlayer: 0 requests, 0 steps"


def test_the_record_draws_itself_through_the_renderer() -> None:
    timeline = TIMELINES["typical"]
    assert timeline.to_svg() == to_svg(timeline, 14) == RENDERER.timeline_to_svg(timeline, -1)
    assert telling_step(timeline) == 8


def test_neighbours_differ_in_glyph_colour_and_pattern() -> None:
    for request in range(64):
        one, two = look(request), look(request + 1)
        assert one.glyph != two.glyph
        assert one.color != two.color
        assert one.fill != two.fill


def test_notebook_keeps_a_still_and_a_stable_line() -> None:
    pytest.importorskip("anywidget", reason="the notebook view needs the package anywidget")
    from specdec_widgets.timeline import TimelinePlayer

    for name in ("typical", "nothing"):
        timeline = TIMELINES[name]
        view = RENDERER.show_timeline(timeline)
        assert isinstance(view, TimelinePlayer)
        assert view.timeline == timeline.to_dict()
        view.step = 10**6
        assert view.step == max(0, len(timeline.steps) - 1)
        view.step = -3
        assert view.step == 0
        bundle = view._repr_mimebundle_()
        assert bundle is not None
        assert "application/vnd.jupyter.widget-view+json" in bundle[0]
        assert bundle[0]["text/plain"] == gist(timeline)
        assert ("text/html" in bundle[0]) == bool(timeline.steps)
        view.close()
        assert view.comm is None


def test_a_real_scheduler_s_run_is_drawn_with_its_own_numbers() -> None:
    """Two requests in a pool that cannot hold both to the end: the sums are those that the pool itself gives."""
    from specdec_teach import Engine, Sampling, Scheduler, ScriptedDrafter
    from specdec_teach.testing import TabularLM

    table = [[0.0, 2.0, 1.0, 0.5], [1.0, 0.0, 2.0, 0.5], [2.0, 1.0, 0.0, 0.5], [1.0, 1.0, 1.0, 0.0]]
    engine = Engine(TabularLM(table), drafter=ScriptedDrafter([1, 2, 0] * 9), gamma=3, block_size=4)
    scheduler = Scheduler(engine, max_batch=3, blocks=8, chunk=8)
    prompt = [0, 1, 2, 0, 1, 2, 0, 1, 3]
    requests = [scheduler.submit(prompt, Sampling(seed=seed), max_new_tokens=16) for seed in range(3)]
    seen = []
    while scheduler.step():
        pool = scheduler.pool
        seen.append((scheduler.blocks_in_use, pool.idle, len(pool.published), sum(n > 1 for n in pool.holders)))
    timeline = scheduler.timeline()
    counted = [sums(timeline, step) for step in range(len(timeline.steps))]
    assert seen == [(now.in_use, now.idle, now.published, now.shared) for now in counted]
    assert counted[-1].emitted == sum(len(request.result.tokens) for request in requests)
    assert counted[-1].cycles == sum(len(request.trace.cycles) for request in requests)
    assert counted[-1].preempted > 0
    assert counted[-1].over == 3
    for step in range(len(timeline.steps)):
        assert "stands by" not in sentence(timeline, step)
        ElementTree.fromstring(to_svg(timeline, step))
