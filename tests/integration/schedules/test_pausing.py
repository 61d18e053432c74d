"""Handlers that stop or pause the schedule that made their job, and schedules that pause alone."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from mutirao import Cancel, Job, JobState, Mutirao, Retry
from mutirao.errors import InvalidJob, UnknownSchedule, WrongState
from mutirao.model.schedules.schedule import ScheduleRecord, ScheduleStatus
from tests.integration.worker import children
from tests.integration.worker.kit import ended, never_polling
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/pausing.py"
)

PAUSED, ACTIVE = ScheduleStatus.PAUSED, ScheduleStatus.ACTIVE
FAST: dict[str, Any] = {"heartbeat": 0.2}  # and the usual expiry: a busy machine stands still


async def the(app: Mutirao, name: str) -> ScheduleRecord:
    """Return a schedule."""
    [record] = [each for each in await app.schedules.alist() if each.name == name]
    return record


async def test_a_cancel_that_stops_the_schedule(app: Mutirao) -> None:
    """Raised by a coroutine, in a thread, or in a child process."""

    @app.schedule(every=3600, name="coroutine")
    @app.task
    async def coroutine() -> None:
        raise Cancel("all done", schedule=True)

    @app.schedule(every=3600, name="thread")
    @app.task
    def thread() -> None:
        raise Cancel("all done", schedule=True)

    children.register(app)
    async with never_polling(app):
        await app.schedules.aput("child", children.stop.job(), every=3600)
        for name in ("coroutine", "thread", "child"):
            job = await ended(app, (await app.schedules.arun_now(name)).id)
            assert job.state is JobState.CANCELLED
            record = await the(app, name)
            assert (record.status, record.reason) == (PAUSED, f"job {job.id}: all done")
        other = await ended(app, coroutine.enqueue().id)
        assert other.state is JobState.CANCELLED
        resumed = await app.schedules.aresume("thread")
        assert (resumed.paused, resumed.reason) == (False, None)


async def test_a_plain_cancel_stops_nothing(app: Mutirao) -> None:
    """Only the job is cancelled."""

    @app.schedule(every=3600)
    async def sweep() -> None:
        raise Cancel("not today")

    async with never_polling(app):
        await ended(app, (await app.schedules.arun_now("sweep")).id)
    assert (await the(app, "sweep")).status is ACTIVE


async def test_a_handler_pauses_its_schedule(app: Mutirao) -> None:
    """At once and from both kinds of handler; the job goes on. None where no schedule made it."""
    seen: list[Any] = []

    @app.schedule(every=3600)
    @app.task
    async def coroutine(job: Job) -> None:
        seen.append(job.schedule and job.schedule.name)
        if job.schedule is not None:
            await job.schedule.apause("nothing left")
            seen.append((await the(app, "coroutine")).status)

    @app.schedule(every=3600)
    @app.task
    def thread(job: Job) -> None:
        assert job.schedule is not None
        job.schedule.pause()
        seen.append({each.name: each.status for each in app.schedules.list()}["thread"])

    async with never_polling(app):
        jobs = [await app.schedules.arun_now(name) for name in ("coroutine", "thread")]
        for handle in (*jobs, coroutine.enqueue()):
            assert (await ended(app, handle.id)).state is JobState.SUCCEEDED
    assert sorted(seen, key=str) == sorted(["coroutine", PAUSED, PAUSED, None], key=str)
    reasons = [(await the(app, name)).reason for name in ("coroutine", "thread")]
    assert reasons == [f"job {jobs[0].id}: nothing left", f"job {jobs[1].id}"]


async def test_where_a_schedule_cannot_be_paused(app: Mutirao) -> None:
    """In the event loop by the form that waits, in a child process, and when it was removed."""
    errors: list[Exception] = []

    @app.schedule(every=3600)
    @app.task(max_attempts=1)
    async def sweep(job: Job) -> None:
        assert job.schedule is not None
        try:
            job.schedule.pause()
        except WrongState as refused:
            errors.append(refused)
        await app.schedules.aremove("sweep")
        try:
            await job.schedule.apause()
        except UnknownSchedule as gone:
            errors.append(gone)

    children.register(app)
    async with never_polling(app):
        await app.schedules.aput("child", children.pause.job(), every=3600)
        job = await ended(app, (await app.schedules.arun_now("child")).id)
        assert (job.state, job.error_type) == (JobState.DEAD, "WrongState")
        assert "raise Cancel(…, schedule=True)" in str(job.error)
        await ended(app, (await app.schedules.arun_now("sweep")).id)
    assert [type(each) for each in errors] == [WrongState, UnknownSchedule]
    assert "await job.schedule.apause()" in str(errors[0])


async def test_deaths_in_a_row(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """The schedule pauses itself, says so in the log and the list, and goes on when resumed."""
    ran: list[int] = []

    @app.schedule(every=timedelta(milliseconds=20), overlap="after", pause_after=3)
    @app.task(retry=Retry.never())
    async def sweep(job: Job) -> None:
        ran.append(job.id)
        raise ValueError

    async def paused() -> bool:
        return (await the(app, "sweep")).status is PAUSED

    async with never_polling(app, **FAST):
        await until(paused)
        assert (len(ran), (await the(app, "sweep")).reason) == (3, "its last 3 jobs died")
        await until(lambda: "is paused" in caplog.text)  # which is logged after the commit
        said = [each for each in caplog.records if "is paused" in each.getMessage()]
        assert [(each.levelno, each.getMessage()) for each in said] == [
            (logging.ERROR, "schedule sweep is paused: its last 3 jobs died")
        ]
        await app.schedules.aresume("sweep")
        await until(lambda: len(ran) > 3)
        await until(paused)
        assert len(ran) == 6


async def test_people_give_reasons_too(app: Mutirao) -> None:
    """They are checked like other texts."""

    @app.schedule(every=3600)
    async def sweep() -> None: ...

    await app.schedules.aput("s", sweep.job(), every=60)
    await app.schedules.apause("s", reason="the bank is closed")
    assert (await the(app, "s")).reason == "the bank is closed"
    for wrong in ("", "x" * 1_001, 5):
        with pytest.raises(InvalidJob, match="the reason"):
            await app.schedules.apause("s", reason=wrong)  # type: ignore[arg-type]
