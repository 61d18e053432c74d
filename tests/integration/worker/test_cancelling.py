"""Cancelling jobs: those that wait, those that run, and those claimed but not started."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from mutirao import Job, JobState, Mutirao, Retry
from tests.integration.worker import children
from tests.integration.worker.kit import ended, outcomes, until_state, working
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/commands.py"
)

BEATING = {"heartbeat": 0.05, "expiry": 60}


async def test_a_waiting_job(app: Mutirao) -> None:
    """Finished at once, whether due or scheduled; it never runs."""

    @app.task
    async def send() -> None:
        raise AssertionError

    ids = [send.enqueue().id, send.using(delay=3600).enqueue().id]
    assert sorted(await app.acancel(*ids)) == ids
    async with working(app):
        for id in ids:
            job = await app.ajob(id)
            assert (job.state, outcomes(job)) == (JobState.CANCELLED, ["cancelled"])
            assert (job.attempt, job.attempts[0].attempt) == (0, 0)
    assert await app.acancel(*ids) == []


async def test_a_running_coroutine(app: Mutirao) -> None:
    """Cancelled where it waits; what cleans up runs; no further attempt."""
    began, cleaned_up = asyncio.Event(), asyncio.Event()

    @app.task
    async def send() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    async with working(app, **BEATING):
        id = send.enqueue().id
        await soon(began.wait())
        assert await app.acancel(id) == [id]
        job = await ended(app, id)
        assert cleaned_up.is_set()
    assert (job.state, outcomes(job)) == (JobState.CANCELLED, ["cancelled"])
    assert job.error == "cancelled on request"


async def test_a_running_thread(app: Mutirao) -> None:
    """The job is cancelled though its thread goes on; the slot is lost until it returns."""
    began, enough = threading.Event(), threading.Event()

    @app.task
    def send() -> None:
        began.set()
        enough.wait(100)

    async with working(app, **BEATING):
        id = send.enqueue().id
        await until(began.is_set)
        await app.acancel(id)
        job = await ended(app, id)
        assert (job.state, outcomes(job)) == (JobState.CANCELLED, ["cancelled"])

        async def stuck() -> int:
            return sum(worker.stuck for worker in await app.store.workers())

        assert await until(stuck) == 1
        enough.set()
        await until(lambda: _none(stuck))
    assert outcomes(await app.ajob(id)) == ["cancelled"]


async def _none(count: Any) -> bool:
    return not await count()


async def test_a_running_process(app: Mutirao, tmp_path: Path) -> None:
    """Killed."""
    children.register(app)
    path = tmp_path / "pid"
    async with working(app, **BEATING):
        id = app.submit(children.hang_once.job(str(path))).id
        await until(path.exists)
        await app.acancel(id)
        job = await ended(app, id)
        assert (job.state, outcomes(job)) == (JobState.CANCELLED, ["cancelled"])
        assert children.is_gone(int(path.read_text()))


async def test_jobs_in_the_prefetch_buffer(app: Mutirao) -> None:
    """Claimed, but not started: they are cancelled without being run."""
    began, enough = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    @app.task
    async def hold() -> None:
        began.set()
        await enough.wait()

    @app.task
    async def send(job: Job) -> None:
        ran.append(job.id)

    async with working(app, concurrency=1, prefetch=1000.0, **BEATING):
        [first, *behind] = app.enqueue_many([hold.job(), *[send.job()] * 4])
        await soon(began.wait())
        claimed = [id for id in behind if (await app.ajob(id)).state is JobState.RUNNING]
        assert await app.acancel(*behind) == behind
        for _ in range(2):  # the first may have been on its way when they were cancelled
            await _next_beat(app)
        enough.set()
        states = [(await ended(app, id)).state for id in (first, *behind)]
    assert states == [JobState.SUCCEEDED, *[JobState.CANCELLED] * 4]
    assert claimed != []
    assert ran == []


async def _first_beat(app: Mutirao) -> None:
    """Wait for the heartbeat at the start: a worker hears of cancellations only when it beats."""
    [worker] = await app.store.workers()
    await _beat_after(app, worker.started_at)


async def _next_beat(app: Mutirao) -> None:
    """Wait for the next heartbeat of the only worker."""
    [worker] = await app.store.workers()
    await _beat_after(app, worker.beat_at)


async def _beat_after(app: Mutirao, moment: datetime) -> None:
    async def later() -> bool:
        [worker] = await app.store.workers()
        return worker.beat_at > moment

    await until(later)


async def test_a_job_that_fails_instead(app: Mutirao) -> None:
    """A job whose cancellation comes while it ends with a retry is cancelled at its next claim."""
    began, enough = asyncio.Event(), asyncio.Event()

    @app.task(retry=Retry.fixed(interval=3600))
    async def send() -> None:
        began.set()
        await enough.wait()
        raise ValueError

    async with working(app, heartbeat=3600, expiry=7200, poll=0.2):
        await _first_beat(app)
        id = send.enqueue().id
        await soon(began.wait())
        await app.acancel(id)
        enough.set()
        job = await ended(app, id)
    assert outcomes(job) == ["retried", "cancelled"]


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_a_job_that_succeeds_instead(app: Mutirao, kind: str) -> None:
    """What is done is done."""
    began, enough = threading.Event(), threading.Event()

    @app.task
    async def coroutine() -> None:
        began.set()
        await until(enough.is_set)

    @app.task
    def plain() -> None:
        began.set()
        enough.wait(100)

    async with working(app, heartbeat=3600, expiry=7200):
        await _first_beat(app)
        id = {"coroutine": coroutine, "plain": plain}[kind].enqueue().id
        await until(began.is_set)
        assert await app.acancel(id) == [id]
        enough.set()
        job = await ended(app, id)
    assert outcomes(job) == ["succeeded"]


async def test_cancelling_by_filter(app: Mutirao) -> None:
    """Waiting and running ones of a task; the others are left alone."""
    began = asyncio.Event()

    @app.task
    async def send() -> None:
        began.set()
        await asyncio.Event().wait()

    @app.task
    async def other() -> None:
        pass

    later, kept = send.using(delay=3600).enqueue().id, other.using(delay=3600).enqueue().id
    async with working(app, **BEATING):
        running = send.enqueue().id
        await soon(began.wait())
        assert sorted(await app.acancel(task="send")) == [later, running]
        assert (await ended(app, running)).state is JobState.CANCELLED
        assert (await app.ajob(later)).state is JobState.CANCELLED
        await until_state(app, kept, JobState.SCHEDULED)
