"""Jobs that are not wanted any more after a moment: they end as cancelled, and never start late."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mutirao import Job, JobState, Mutirao, Retry
from mutirao.model.jobs.expiry import EXPIRED, EXPIRES_KEY, REASON
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/expiring.py"
)

NEVER = timedelta(seconds=-1)


def moment(after: timedelta) -> datetime:
    """Return the moment so long from now."""
    return datetime.now(UTC) + after


async def test_what_has_expired_is_not_started(app: Mutirao) -> None:
    """Neither a coroutine, nor a function, nor by a worker with middleware; others are."""
    ran = list[str]()

    @app.task
    async def coroutine(job: Job, name: str) -> None:
        ran.append(name)
        assert (job.expires_at is None) == (name == "plain")

    @app.task
    def function(name: str) -> None:
        ran.append(name)

    late = [
        coroutine.using(expires=moment(NEVER)).enqueue("late").id,
        function.using(expires=moment(NEVER), key="k").enqueue("late").id,
    ]
    wanted = [
        coroutine.using(expires=3600).enqueue("hour").id,
        function.using(expires=timedelta(hours=1)).enqueue("function").id,
        coroutine.enqueue("plain").id,
    ]
    async with working(app):
        found = [await ended(app, id) for id in late]
        done = [await ended(app, id) for id in wanted]
    assert sorted(ran) == ["function", "hour", "plain"]
    for record in found:
        assert (record.state, outcomes(record)) == (JobState.CANCELLED, ["cancelled"])
        assert (record.error_type, record.error) == (EXPIRED, REASON)
    assert [each.state for each in done] == [JobState.SUCCEEDED] * 3


async def test_behind_a_long_one(app: Mutirao) -> None:
    """It was claimed in time, and its moment passed while it waited for a slot."""
    enough, began, ran = threading.Event(), threading.Event(), list[str]()

    @app.task
    def long() -> None:
        began.set()
        enough.wait(100)

    @app.task
    def short() -> None:
        ran.append("short")

    async with working(app, concurrency=1):
        long.enqueue()
        await until(began.is_set)
        until_then = moment(timedelta(seconds=0.2))
        id = short.using(expires=until_then).enqueue().id
        await until(lambda: datetime.now(UTC) > until_then)
        enough.set()
        record = await ended(app, id)
    assert (record.state, record.error_type, ran) == (JobState.CANCELLED, EXPIRED, [])


async def test_a_retry(app: Mutirao) -> None:
    """The attempt that failed stands in its history; there is no other one."""
    until_then = moment(timedelta(seconds=0.3))

    @app.task(retry=Retry.fixed(5, interval=0.4))
    async def fail() -> None:
        raise OSError("no")

    async with working(app):
        id = fail.using(expires=until_then).enqueue().id
        record = await ended(app, id)
    assert outcomes(record)[-1] == "cancelled"
    assert {each.error_type for each in record.attempts[:-1]} <= {"OSError"}
    assert record.state is JobState.CANCELLED
    assert all(each.started_at <= until_then for each in record.attempts[:-1])


async def test_of_a_task_that_nobody_serves(app: Mutirao) -> None:
    """Housekeeping meets it."""

    @app.task
    async def elsewhere() -> None:
        raise AssertionError

    id = elsewhere.using(expires=moment(NEVER)).enqueue().id
    async with working(app, queues=["others"]):
        record = await ended(app, id)
    assert (record.state, record.attempt, record.error_type) == (JobState.CANCELLED, 0, EXPIRED)


async def test_what_others_wrote(app: Mutirao) -> None:
    """A moment that nobody can read is the end of that one job, which says so."""

    @app.task(retry=Retry.never())
    async def work() -> None:
        raise AssertionError

    [id] = app.store.enqueue([replace(work.job(), metadata={EXPIRES_KEY: "tomorrow"})])
    async with working(app):
        record = await ended(app, id)
    assert (record.state, record.error_type) == (JobState.DEAD, "UnreadableJob")
    assert "'tomorrow'; give a moment with a time zone" in (record.error or "")


async def test_in_time(app: Mutirao) -> None:
    """What has started runs to its end, however long that takes; its results are its own."""

    @app.task(keep_result=True)
    async def long(job: Job) -> str:
        expires_at = job.expires_at
        assert expires_at is not None
        await until(lambda: datetime.now(UTC) > expires_at)
        return "done"

    async with working(app):
        for seconds in (0.3, 3.0, 30.0):  # a busy machine may be too late to start it
            handle = await long.using(expires=moment(timedelta(seconds=seconds))).aenqueue()
            if (await ended(app, handle.id)).state is JobState.SUCCEEDED:
                break
        assert await soon(handle.aresult()) == "done"
