"""The part of the contract that a driver decides, for a further driver of the same database.

A driver binds parameters, reads columns, and says whose transaction a statement is in. So of each
kind of statement there is the test with the most values, besides those of empty values, of very
many, and of refused ones. The rules of the statements themselves are tested with another driver.
"""

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

import pytest
import pytest_asyncio

from mutirao.ports import Store
from mutirao_conformance.claiming import ClaimingContract
from mutirao_conformance.commands import CancelContract
from mutirao_conformance.concurrency import ConcurrencyContract
from mutirao_conformance.enqueueing import EnqueueingContract
from mutirao_conformance.finding import FindContract
from mutirao_conformance.graphs import GraphsContract
from mutirao_conformance.housekeeping import LeaseContract
from mutirao_conformance.inbox import InboxContract
from mutirao_conformance.limits import LimitsContract
from mutirao_conformance.losing import LosingContract
from mutirao_conformance.pausing import PausingContract
from mutirao_conformance.records import CountsContract, RecordsContract
from mutirao_conformance.results import ResultsContract
from mutirao_conformance.schedules import SchedulesContract
from mutirao_conformance.settling import SettlingContract
from mutirao_conformance.staleness import ReleaseContract, StalenessContract
from mutirao_conformance.ticks import TicksContract
from mutirao_conformance.transactions import TransactionContract


@pytest.mark.asyncio
class DriverContract(TransactionContract, InboxContract):
    """The behaviour of a driver: binding and reading values, and joining a transaction.

    For a further driver of a database on which another one passes the whole of `StoreContract`:
    the SQL is the same there.

    A backend gives the fixture `store`: an empty store. It may give `other_store` too, a second
    handle on the same data; otherwise that is `store.clone()`. One that lacks a synchronous or an
    asynchronous form says so in `faces` and `handlers`, and shows elsewhere what it does instead.
    """

    faces = EnqueueingContract.faces
    too_large: ClassVar[Sequence[str]] = FindContract.too_large

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in the forms that the backend has."""
        for name, forms in (("face", self.faces), ("handler", self.handlers)):
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, forms)

    @pytest_asyncio.fixture
    async def other_store(self, store: Store) -> AsyncIterator[Store]:
        """A second handle on the same data."""
        clone = store.clone()
        yield clone
        await clone.close()

    # Enqueueing: each field, with its values and without; one statement, and COPY.
    test_ids_are_returned_in_order = EnqueueingContract.test_ids_are_returned_in_order
    test_nothing_to_enqueue = EnqueueingContract.test_nothing_to_enqueue
    test_all_or_none_when_the_iterable_fails = (
        EnqueueingContract.test_all_or_none_when_the_iterable_fails
    )
    test_all_or_none_when_a_job_is_refused = (
        EnqueueingContract.test_all_or_none_when_a_job_is_refused
    )
    test_everything_that_was_asked_is_kept = (
        EnqueueingContract.test_everything_that_was_asked_is_kept
    )
    test_what_was_not_asked_is_absent = EnqueueingContract.test_what_was_not_asked_is_absent
    test_mixed_jobs_in_one_call = EnqueueingContract.test_mixed_jobs_in_one_call
    test_a_delay_counts_from_now = EnqueueingContract.test_a_delay_counts_from_now
    test_moments_keep_their_microseconds_and_their_meaning = (
        EnqueueingContract.test_moments_keep_their_microseconds_and_their_meaning
    )
    test_awkward_names = EnqueueingContract.test_awkward_names
    test_payloads_come_back_as_they_went_in = (
        EnqueueingContract.test_payloads_come_back_as_they_went_in
    )
    test_seen_by_others_at_once = EnqueueingContract.test_seen_by_others_at_once
    test_many_callers_at_once = EnqueueingContract.test_many_callers_at_once

    # Claiming: lists of lanes, tasks and ids, empty ones too; moments, with and without.
    test_nothing_is_asked_for = ClaimingContract.test_nothing_is_asked_for
    test_lanes_in_the_order_given = ClaimingContract.test_lanes_in_the_order_given
    test_claims_by_the_database_s_clock = ClaimingContract.test_claims_by_the_database_s_clock
    test_each_lane_has_its_own_bound = ClaimingContract.test_each_lane_has_its_own_bound
    test_moments_of_any_time_zone = ClaimingContract.test_moments_of_any_time_zone
    test_without_some_tasks = ClaimingContract.test_without_some_tasks
    test_a_taken_job_is_nobody_else_s = ClaimingContract.test_a_taken_job_is_nobody_else_s
    test_held_are_the_jobs_of_this_worker = ClaimingContract.test_held_are_the_jobs_of_this_worker
    test_what_nobody_has_locked = LosingContract.test_what_nobody_has_locked
    test_a_worker_that_is_gone_claims_nothing = (
        LosingContract.test_a_worker_that_is_gone_claims_nothing
    )

    # Settling: each field of an outcome; a batch as one transaction; what is given back or lost.
    test_nothing_to_settle = SettlingContract.test_nothing_to_settle
    test_success_has_no_error = SettlingContract.test_success_has_no_error
    test_at_a_moment = SettlingContract.test_at_a_moment
    test_a_batch_of_every_kind = SettlingContract.test_a_batch_of_every_kind
    test_a_large_batch = SettlingContract.test_a_large_batch
    test_errors_are_kept_as_they_are = SettlingContract.test_errors_are_kept_as_they_are
    test_settled_by_the_database_s_clock = SettlingContract.test_settled_by_the_database_s_clock
    test_every_follow_up_of_a_batch = SettlingContract.test_every_follow_up_of_a_batch
    test_all_in_one_transaction = SettlingContract.test_all_in_one_transaction
    test_thousands_given_back = ReleaseContract.test_thousands_given_back
    test_a_run_that_was_begun_is_lost = LosingContract.test_a_run_that_was_begun_is_lost

    # Staleness: how many rows a statement has written.
    test_twice_in_one_batch = StalenessContract.test_twice_in_one_batch
    test_a_run_that_was_rescued_from = StalenessContract.test_a_run_that_was_rescued_from
    test_a_job_never_claimed = StalenessContract.test_a_job_never_claimed
    test_stale_and_current_in_one_batch = StalenessContract.test_stale_and_current_in_one_batch

    # Concurrency: connections of several tasks or threads, and what each of them sees.
    test_every_job_is_claimed_once = ConcurrencyContract.test_every_job_is_claimed_once
    test_every_job_is_settled_once = ConcurrencyContract.test_every_job_is_settled_once
    test_a_record_is_of_one_moment = ConcurrencyContract.test_a_record_is_of_one_moment

    # What people see and order: each field, each filter, and percent signs, bound by each driver.
    test_an_unknown_job = RecordsContract.test_an_unknown_job
    test_a_fresh_job = RecordsContract.test_a_fresh_job
    test_every_state = RecordsContract.test_every_state
    test_by_id = RecordsContract.test_by_id
    test_by_queue_task_and_tag = RecordsContract.test_by_queue_task_and_tag
    test_by_error_type_without_its_module = RecordsContract.test_by_error_type_without_its_module
    test_by_age = RecordsContract.test_by_age
    test_everything_narrows = RecordsContract.test_everything_narrows
    test_by_each_value = FindContract.test_by_each_value
    test_by_equal_numbers = FindContract.test_by_equal_numbers
    test_by_arguments_with_any_name = FindContract.test_by_arguments_with_any_name
    test_by_key = FindContract.test_by_key
    test_by_several_states = FindContract.test_by_several_states
    test_every_queue_by_state = CountsContract.test_every_queue_by_state
    test_the_oldest = CountsContract.test_the_oldest
    test_waiting_jobs_of_unknown_tasks = CountsContract.test_waiting_jobs_of_unknown_tasks
    test_every_attempt_is_recorded = CountsContract.test_every_attempt_is_recorded
    test_waiting_ones_end = CancelContract.test_waiting_ones_end
    test_running_ones_are_flagged = CancelContract.test_running_ones_are_flagged
    test_parts_of_a_second = LeaseContract.test_parts_of_a_second
    test_leases_by_the_database_s_clock = LeaseContract.test_leases_by_the_database_s_clock

    # Schedules: each field of one, several at once, and one that the database refuses.
    test_what_is_kept_of_a_schedule = SchedulesContract.test_what_is_kept_of_a_schedule
    test_an_error_writes_nothing = SchedulesContract.test_an_error_writes_nothing
    test_the_agenda_by_the_database_s_clock = (
        SchedulesContract.test_the_agenda_by_the_database_s_clock
    )
    test_commands = SchedulesContract.test_commands
    test_the_list = SchedulesContract.test_the_list
    test_confirming = SchedulesContract.test_confirming
    test_jobs_of_all_kinds = TicksContract.test_jobs_of_all_kinds
    test_those_that_the_database_refuses = TicksContract.test_those_that_the_database_refuses
    test_very_many_jobs = TicksContract.test_very_many_jobs
    test_workers_beside_each_other = TicksContract.test_workers_beside_each_other
    test_a_job_stops_its_schedule = PausingContract.test_a_job_stops_its_schedule

    # Limits, graphs and results: each statement of them once, also in a handler's transaction.
    test_so_many_at_once = LimitsContract.test_so_many_at_once
    test_each_value_alone = LimitsContract.test_each_value_alone
    test_mixed_endings = LimitsContract.test_mixed_endings
    test_in_a_transaction = LimitsContract.test_in_a_transaction
    test_shown = LimitsContract.test_shown
    test_a_chain = GraphsContract.test_a_chain
    test_a_transaction_releases = GraphsContract.test_a_transaction_releases
    test_redriving_goes_on = GraphsContract.test_redriving_goes_on
    test_compensate = GraphsContract.test_compensate
    test_cancelling_a_graph = GraphsContract.test_cancelling_a_graph
    test_listing = GraphsContract.test_listing
    test_pruning = GraphsContract.test_pruning
    test_endings = ResultsContract.test_endings
    test_results_expire = ResultsContract.test_results_expire
    test_progress = ResultsContract.test_progress
