"""The exam of the cache tests: each must fail on a cache that has the mistake it is there for.

"walk", "machine" and the names of kinds stand for the random walks; everything else is a test of this folder.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from . import machine, mistakes, test_every_kind, test_paged, test_published

CAUGHT = (AssertionError, pytest.fail.Exception)  # a crash does not count


def _machine() -> None:
    """The Hypothesis machine, without looking for a shorter story."""
    quick = settings(
        max_examples=60,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine.PagedMachine, settings=quick)


def _rejections() -> None:
    for rejected_at in range(5):
        test_published.test_only_committed_and_computed_tokens_are_published(rejected_at)


CHECKS: dict[str, Callable[[], None]] = {
    "walk": lambda: [machine.walk(seed) for seed in range(40)] and None,
    "machine": _machine,
    **{
        kind: lambda kind=kind: [test_every_kind.walk(kind, seed) for seed in range(12)] and None  # type: ignore[misc]
        for kind in test_every_kind.KINDS
    },
    "trims": lambda: test_paged.test_a_rollback_trims_whole_blocks_or_keeps_them("trim", (0, 1)),
    "copies": lambda: test_paged.test_a_shared_partial_block_is_copied_by_whoever_writes_first("old"),
    "forks": test_paged.test_a_fork_of_a_fork_and_room_that_was_only_reserved,
    "refuses": test_paged.test_a_refusal_changes_nothing,
    "account": test_paged.test_the_account_of_blocks_begins_at_the_mark,
    "abandoned": test_paged.test_an_abandoned_request_gives_its_blocks_back,
    "rejections": _rejections,
    "rewinds": test_published.test_a_rollback_into_a_published_block_leaves_it_right_for_others,
    "compacts": test_published.test_a_compaction_over_published_blocks_takes_them_off_the_list,
    "adopts": test_published.test_adoption_takes_a_chain_from_its_beginning_only,
    "evicts": test_published.test_the_longest_unused_is_evicted_first_and_a_beginning_last,
    "stale": test_every_kind.test_masked_returns_stale_slots_until_they_are_overwritten,
    "settles": test_every_kind.test_selective_settles_only_what_is_kept,
    "positions": lambda: test_every_kind.test_what_is_refused_changes_nothing("contiguous"),
}

EXAM: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (mistakes.rollback_does_not_trim, "machine walk trims account"),
    (mistakes.rollback_trims_the_partial_block, "machine walk paged trims rejections"),
    (mistakes.written_to_a_shared_block, "machine walk paged copies forks account"),
    (mistakes.copied_without_the_old_tokens, "walk paged copies forks"),
    (mistakes.stale_index, "walk paged copies"),
    (mistakes.written_to_a_published_block, "walk rewinds compacts"),
    (mistakes.published_when_committed, "machine walk rejections account"),
    (mistakes.published_when_computed, "machine walk rejections account"),
    (mistakes.partial_blocks_published, "machine walk rejections account"),
    (mistakes.nothing_published, "machine walk rejections"),
    (mistakes.keys_outlive_a_rollback, "machine walk rewinds"),
    (mistakes.keys_without_a_chain, "machine walk adopts"),
    (mistakes.compaction_keeps_the_keys, "compacts"),
    (mistakes.adopted_without_holding, "walk"),
    (mistakes.never_dropped, "machine walk forks abandoned"),
    (mistakes.release_forgets_the_last_block, "machine walk abandoned"),
    (mistakes.released_from_the_beginning, "evicts"),
    (mistakes.last_used_is_evicted_first, "evicts"),
    (mistakes.evicted_and_still_found, "machine walk evicts"),
    (mistakes.taken_before_refusing, "machine walk refuses"),
    (mistakes.poison_in_shared_blocks, "walk paged rewinds"),
    (mistakes.fork_takes_what_is_reserved, "machine walk forks"),
    (mistakes.twins_share_memory, "contiguous masked selective recompute"),
    (mistakes.masked_like_contiguous, "stale"),
    (mistakes.stale_slots_read_after_a_release, "stale"),
    (mistakes.recompute_keeps_the_beginning, "recompute"),
    (mistakes.selective_copies_everything, "settles"),
    (mistakes.selective_compacts_behind_what_is_settled, "selective"),
    (mistakes.anything_can_be_kept, "positions"),
]


@pytest.mark.parametrize(("mistake", "check"), [(mistake, check) for mistake, names in EXAM for check in names.split()])
def test_a_mistake_is_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(CAUGHT):
        CHECKS[check]()


def test_every_mistake_is_examined() -> None:
    known = {name for name, value in vars(mistakes).items() if getattr(value, "__module__", "") == mistakes.__name__}
    assert {mistake.__name__ for mistake, _ in EXAM} == {name for name in known if not name.startswith("_")}
