"""A long plain function asks whether it shall end, and returns: that is no success."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mutirao import Job, JobState, Mutirao, Retry
from tests.integration.worker.kit import ended, outcomes, until_attempts, until_state, working


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


class Polling:
    """A handler that goes on until it is told to end."""

    def __init__(self, app: Mutirao, timeout: float | None = None) -> None:
        self.begun, self.told = threading.Event(), threading.Event()
        self.task = app.task(name="polling", timeout=timeout, retry=Retry.never())(self.work)

    def work(self, job: Job) -> None:
        """Ask and ask again."""
        self.begun.set()
        while not job.cancelled:
            threading.Event().wait(0.001)
        self.told.set()


async def test_cancelled_by_a_person(app: Mutirao) -> None:
    """The thread returns, and its slot is free again."""
    polling = Polling(app)
    async with working(app, concurrency=1, heartbeat=0.1) as worker:
        id = polling.task.enqueue().id
        await until_state(app, id, JobState.RUNNING)
        await app.acancel(id)
        assert outcomes(await ended(app, id)) == ["cancelled"]
        assert await asyncio.to_thread(polling.told.wait, 60)
        assert worker.health().alive


async def test_timed_out(app: Mutirao) -> None:
    """Likewise: the next job has the slot."""
    polling = Polling(app, timeout=0.2)

    @app.task
    def following() -> None:
        pass

    async with working(app, concurrency=1):
        first, second = polling.task.enqueue().id, following.enqueue().id
        assert outcomes(await ended(app, second)) == ["succeeded"]
        job = await ended(app, first)
    assert [each.error_type for each in job.attempts] == ["AttemptTimeout"]
    assert polling.told.is_set()


async def test_the_worker_stops(app: Mutirao) -> None:
    """At once, long before the grace period is over; what is given back costs no attempt."""
    polling = Polling(app)
    async with working(app, concurrency=1, grace=3_600.0):
        id = polling.task.enqueue().id
        assert await asyncio.to_thread(polling.begun.wait, 60)
    assert polling.told.is_set()
    job = await until_attempts(app, id, 1)
    assert (job.state, outcomes(job)) == (JobState.READY, ["released"])


async def test_who_does_not_ask_succeeds(app: Mutirao) -> None:
    """Who returns within the grace period, and was not told, has done all its work."""
    polling, begun = Polling(app), threading.Event()

    @app.task
    def handler(job: Job) -> None:
        begun.set()
        assert polling.told.wait(60)  # the worker stops

    async with working(app, concurrency=2, grace=3_600.0):
        polling.task.enqueue()
        id = handler.enqueue().id
        assert await asyncio.to_thread(begun.wait, 60)
        assert await asyncio.to_thread(polling.begun.wait, 60)
    assert outcomes(await ended(app, id)) == ["succeeded"]
