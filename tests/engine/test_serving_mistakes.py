"""An exam of the tests: each mistake of a batch or a scheduler is put in and has to be caught by an assertion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import specdec_teach as sd
from specdec_teach import events

from . import serving_mistakes as wrong
from . import test_batch as batch
from . import test_batch_failures as failures
from . import test_leaving as leaving
from . import test_scheduler as scheduling
from .neighbours import Ask, drain, submit, table_engine

Patch = pytest.MonkeyPatch


def rows() -> None:
    """Rows over tables and of a Llama."""
    batch.test_rows_over_tables_are_exactly_what_they_are_alone("contiguous", "rejection")


def llama_rows() -> None:
    batch.test_rows_of_a_llama_are_what_they_are_alone("auto", "contiguous", "rejection")


def padded_rows() -> None:
    batch.test_rows_of_a_llama_are_what_they_are_alone("hf", "contiguous", "rejection")


def accepted_differently() -> None:
    batch.test_rows_that_accept_none_two_and_four("contiguous")


def storm() -> None:
    scheduling.test_a_storm_of_preemptions_changes_no_text("rejection", 3, 1)


def arrivals() -> None:
    """A long prompt waits behind a running request, and short ones come after it."""
    scheduler = sd.Scheduler(table_engine(), max_batch=3, blocks=7)
    for length, cap in ((6, 14), (16, 6), (2, 4), (1, 3)):
        submit(scheduler, Ask([1] * length, sd.Sampling.greedy(), cap))
    drain(scheduler)


def cancelled() -> None:
    leaving.test_cancelled_from_inside_any_event(events.Drafted, 2)


def rejected_are_not_published() -> None:
    for at in (1, 2, 3, 4):
        scheduling.test_only_committed_tokens_are_found_by_others(at)


def beginnings() -> None:
    scheduling.test_equal_tokens_behind_another_beginning_are_not_shared()


def fits() -> None:
    """Nobody is short of blocks in the middle of a cycle."""
    try:
        scheduling.test_the_pool_is_never_asked_for_more_than_it_has()
    except sd.EngineFailure as error:
        raise AssertionError("the scheduler promised blocks that it did not have") from error


def grows() -> None:
    scheduling.test_gamma_grows_back_when_there_is_room_again()


def settled_again() -> None:
    failures.test_an_error_while_one_row_is_settled("paged", 1)


def told_again() -> None:
    failures.test_an_observer_that_raises_at_any_event_of_a_batch("contiguous")


def stumbles() -> None:
    failures.test_drafts_asked_for_again_use_the_same_numbers("contiguous")


def seeds() -> None:
    batch.test_seeds_alone_together_reordered_and_beside_an_aborted_row()


def fails_alone() -> None:
    leaving.test_a_request_that_fails_fails_alone()


def interrupted() -> None:
    leaving.test_interrupted_steps_go_on(2, 60)


EXAM: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (wrong.shortest_acceptance_for_all, rows),
    (wrong.shortest_acceptance_for_all, accepted_differently),
    (wrong.longest_rewind_for_all, rows),
    (wrong.one_position_vector, padded_rows),
    (wrong.one_pad_is_seen, padded_rows),
    (wrong.one_position_for_all, llama_rows),
    (wrong.draft_kept_when_preempted, storm),
    (wrong.small_ones_first, arrivals),
    (wrong.cancelled_keeps_its_blocks, cancelled),
    (wrong.published_before_the_rollback, rejected_are_not_published),
    (wrong.found_by_its_own_tokens, beginnings),
    (wrong.room_ignored, fits),
    (wrong.gamma_never_grows_back, grows),
    (wrong.committed_again_when_settled_again, settled_again),
    (wrong.counted_again_when_told_again, told_again),
    (wrong.numbers_skipped_after_a_stumble, stumbles),
    (wrong.one_generator_for_all, seeds),
    (wrong.a_failure_stops_the_step, fails_alone),
    (wrong.finished_without_a_row, interrupted),
]


@pytest.mark.parametrize(("mistake", "check"), EXAM, ids=[f"{m.__name__}-{c.__name__}" for m, c in EXAM])
def test_a_mistake_is_caught(mistake: Callable[[Patch], None], check: Callable[[], None], monkeypatch: Patch) -> None:
    """The check fails by its own assertion; a crash would not count."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize("check", [arrivals, fits], ids=lambda check: check.__name__)
def test_the_honest_scheduler_passes(check: Callable[[], None]) -> None:
    """No false alarm; the other checks are tests of their own."""
    check()
