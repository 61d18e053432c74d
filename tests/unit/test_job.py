"""The values that jobs are made of: what they hold, and that nobody changes them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields as fields_of
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao.model.jobs.job import (
    FINAL_OUTCOMES,
    UNCOUNTED_OUTCOMES,
    Claim,
    Job,
    JobState,
    NewJob,
    OutcomeKind,
    Wake,
)
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.records import JobFilter

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)
CLAIM = Claim(
    id=7,
    run=3,
    attempt=2,
    task="send",
    args='{"order_id": 7, "note": "olá"}',
    queue="mail",
    priority=-1,
    run_at=MOMENT,
    enqueued_at=MOMENT,
    max_attempts=None,
    timeout=None,
    key="k",
    tags='["a", "b"]',
    metadata='{"tenant": "acme"}',
    traceparent="00-1-2-01",
    redrive_of=5,
    on_dead_of=6,
)


def job_of(claim: Claim, begin: Any = None) -> Job:
    """Return what a handler is given of a claim."""
    return Job(claim, 10, 30.0, begin)


class TestKinds:
    """Outcomes and states."""

    def test_final_outcomes(self) -> None:
        """A job leaves the live table with these, and with no other."""
        final = {kind for kind in OutcomeKind if kind.final}
        assert final == FINAL_OUTCOMES == {
            OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED,
        }  # fmt: skip

    def test_uncounted_outcomes_are_not_final(self) -> None:
        """They give the attempt back to a job that stays."""
        assert {OutcomeKind.SNOOZED, OutcomeKind.RELEASED} == UNCOUNTED_OUTCOMES
        assert not UNCOUNTED_OUTCOMES & FINAL_OUTCOMES

    def test_a_finished_job_s_state_is_its_outcome(self) -> None:
        """The same word: the tables hold no other."""
        assert {kind.value for kind in FINAL_OUTCOMES} < {state.value for state in JobState}

    def test_the_words_that_are_stored(self) -> None:
        """Part of the schema: they may not change."""
        assert [str(kind) for kind in OutcomeKind] == [
            "succeeded", "retried", "snoozed", "dead", "cancelled", "lost", "released",
        ]  # fmt: skip
        assert [str(state) for state in JobState] == [
            "scheduled", "ready", "blocked", "running", "succeeded", "dead", "cancelled",
        ]  # fmt: skip


class TestJob:
    """What a handler sees."""

    def test_it_tells_its_claim(self) -> None:
        """Every field, JSON already read."""
        job = job_of(CLAIM)
        assert (job.id, job.run, job.attempt, job.task) == (7, 3, 2, "send")
        assert (job.queue, job.priority) == ("mail", -1)
        assert (job.run_at, job.enqueued_at) == (MOMENT, MOMENT)
        assert job.args == {"order_id": 7, "note": "olá"}
        assert (job.key, job.tags, job.metadata) == ("k", ("a", "b"), {"tenant": "acme"})
        assert (job.traceparent, job.redrive_of, job.on_dead_of) == ("00-1-2-01", 5, 6)

    def test_limits_are_the_ones_in_force(self) -> None:
        """Not the claim's, which may leave them to the task."""
        job = job_of(CLAIM)
        assert (job.max_attempts, job.timeout) == (10, 30.0)

    def test_what_was_not_given(self) -> None:
        """Is empty, not None, where there could be several."""
        job = job_of(CLAIM._replace(tags=None, metadata=None, key=None))
        assert (job.tags, job.metadata, job.key) == ((), {}, None)

    def test_it_reads_well_in_a_log(self) -> None:
        """Which job, which task, which attempt and which run."""
        assert repr(job_of(CLAIM)) == "<Job 7 'send' attempt 2 run 3>"

    @pytest.mark.parametrize(
        ("asked", "gives"),
        [({}, "session"), ({"session": False}, "connection"), ({"connection": True}, "driver")],
    )
    def test_a_transaction_is_opened_by_the_worker(self, asked: dict[str, Any], gives: str) -> None:
        """It is asked for this job, with a session unless a connection is wanted."""
        calls: list[tuple[Job, str]] = []

        def begin(job: Job, gives: str) -> str:
            calls.append((job, gives))
            return "opened"

        job = job_of(CLAIM, begin)
        opened: Any = job.transaction(**asked)
        assert (opened, calls) == ("opened", [(job, gives)])

    def test_it_cannot_be_changed(self) -> None:
        """What a handler writes to it would be lost."""
        with pytest.raises(AttributeError):
            setattr(job_of(CLAIM), "attempt", 1)  # noqa: B010


class TestValues:
    """The rest."""

    def test_the_least_a_job_can_be(self) -> None:
        """A task; everything else has its default."""
        job = NewJob(task="t")
        assert (job.args, job.queue, job.priority, job.tags) == ("{}", "default", 0, ())
        assert dict(job.metadata) == {}
        assert job == NewJob(task="t", metadata={})

    @pytest.mark.parametrize("value", [NewJob(task="t"), SUCCEEDED, JobFilter()])
    def test_values_are_frozen(self, value: NewJob | Outcome | JobFilter) -> None:
        """They travel between threads and are kept."""
        field = fields_of(value)[0].name
        with pytest.raises(FrozenInstanceError):
            setattr(value, field, None)

    def test_success_says_nothing_more(self) -> None:
        """No wait and no error."""
        assert Outcome(OutcomeKind.SUCCEEDED) == SUCCEEDED
        assert (SUCCEEDED.after, SUCCEEDED.at, SUCCEEDED.error) == (None, None, None)

    def test_a_settlement_is_now_by_default(self) -> None:
        """Started and finished at the write, nothing follows."""
        assert Settlement(1, 2, SUCCEEDED)[3:] == (0.0, 0.0, None, False, False)

    def test_a_wake_without_a_lane_means_everywhere(self) -> None:
        """And is what it is compared with."""
        assert Wake() == Wake(None, 0, None)

    def test_a_filter_of_nothing_narrows_nothing(self) -> None:
        """But for a limit that keeps a listing readable."""
        which = JobFilter()
        assert which.limit == 100
        fields = {field.name for field in fields_of(which)} - {"limit"}
        assert {getattr(which, name) for name in fields} == {None}
