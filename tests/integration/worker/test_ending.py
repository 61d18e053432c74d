"""Workers that end by themselves, and jobs that no worker shall end by."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import create_engine, update

from mutirao import Job, JobState, Mutirao, Retry
from mutirao.errors import WorkerFailed, WorkerStuck
from mutirao.model.jobs import lost_workers
from mutirao.sql.schema.tables import live
from tests.integration.worker.kit import ended, outcomes, until_attempts, working
from tests.integration.worker.signalling import enqueue, running
from tests.support.engine import LOST_RUNS_OF_SUSPECT, MAX_LOST_RUNS, EmbeddedWorker, Health
from tests.support.waiting import soon, until, wait_until


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


def change(app: Mutirao, id: int, **values: int) -> None:
    """Change the live row of a job."""
    engine = create_engine(app.url)
    with engine.begin() as connection:
        connection.execute(update(live).where(live.c.id == id).values(values))
    engine.dispose()


@asynccontextmanager
async def without_slots(app: Mutirao) -> AsyncIterator[EmbeddedWorker]:
    """Start a worker in a thread; it loses its one slot, and ends soon."""
    go = threading.Event()

    @app.task(timeout=0.2, max_attempts=1)
    def overstay() -> None:
        go.wait()

    await overstay.aenqueue()
    worker = working(app, concurrency=1, exit_when_stuck=0.2, heartbeat=0.2)
    try:
        yield worker
    finally:
        go.set()


async def test_a_process_without_slots(app: Mutirao) -> None:
    """Ends with a status of its own, and its supervisor starts another: it would serve nobody."""
    [id] = enqueue(app, "overstay")
    async with running(app, concurrency=1, exit_when_stuck=0.5) as worker:
        await worker.says(f"begun {id}")
        await worker.logs("all 1 slots were lost for 0.5 s")
        assert await worker.ends() == 6
    job = await app.ajob(id)
    assert (job.state, job.error_type, outcomes(job)) == (
        JobState.DEAD,
        "AttemptTimeout",
        ["dead"],
    )
    assert await app.store.workers() == []


async def test_in_a_program_s_loop(app: Mutirao) -> None:
    """The program is told: whoever waits for it, probes, and the end of the block."""
    async with without_slots(app) as worker:
        with pytest.raises(WorkerStuck, match="all 1 slots"):  # noqa: PT012 (the end raises it)
            async with worker:
                assert worker.health().alive
                with pytest.raises(WorkerStuck):
                    await soon(worker.failed)
                health = worker.health()
                assert (health.alive, health.stuck) == (False, 1)
                assert "all 1 slots" in (health.reason or "")
    assert await app.store.workers() == []


async def test_in_a_thread(app: Mutirao) -> None:
    """The same, without a loop."""
    async with without_slots(app) as worker:
        with pytest.raises(WorkerFailed, match="all 1 slots"), worker:
            wait_until(lambda: not worker.health().alive)
        worker.start()  # another one
        assert worker.health().alive
        await asyncio.to_thread(worker.stop)


async def test_before_and_after(app: Mutirao) -> None:
    """A worker that was not started, or was stopped, does not pass for one that works."""

    @app.task
    async def step() -> None: ...

    worker = working(app)
    assert worker.health() == Health(False, "it has not been started", {})
    async with worker:
        await until(lambda: "producer" in worker.health().ages or None)
        assert worker.health().alive
    assert worker.health() == Health(False, "it has been stopped", {})


def test_before_and_after_in_a_thread(app: Mutirao) -> None:
    """The reason is that of the last worker; of one that starts again, its own."""

    @app.task
    async def step() -> None: ...

    worker = working(app)
    for _ in range(2):
        with worker:
            assert worker.health().alive
        assert worker.health() == Health(False, "it has been stopped", {})


async def test_a_job_that_takes_workers_with_it(app: Mutirao) -> None:
    """Dead after a few, however many attempts it may have; its handler is not called again."""

    @app.task(retry=Retry.fixed(max_attempts=100, interval=0.1))
    async def crash() -> None:
        raise AssertionError

    id = (await crash.aenqueue()).id
    change(app, id, lost=lost_workers.noted(MAX_LOST_RUNS - 1) + 1)
    async with working(app):
        job = await ended(app, id)
    assert (job.state, job.error_type) == (JobState.DEAD, "WorkerLost")
    assert job.error == f"{MAX_LOST_RUNS} workers in a row ended while they had this job"


async def test_a_job_that_never_began(app: Mutirao) -> None:
    """Eleven workers were killed while they held it: it has all of its attempts but one."""
    attempts = list[int]()

    @app.task(retry=Retry.fixed(max_attempts=3, interval=0.01))
    def plain(job: Job) -> None:
        attempts.append(job.attempt)
        if job.attempt < 3:
            raise OSError("not yet")

    id = (await plain.aenqueue()).id
    change(app, id, lost=11, attempt=11)
    async with working(app):
        job = await ended(app, id)
    assert (job.state, attempts) == (JobState.SUCCEEDED, [2, 3])


async def test_suspects_run_one_at_a_time(app: Mutirao) -> None:
    """So that those that are innocent do not die of the one that is not."""
    suspects, together = set[int](), list[int]()
    inside = set[int]()

    @app.task
    async def step(job: Job) -> None:
        inside.add(job.id)
        for _ in range(20):
            await asyncio.sleep(0)
            together.append(len(inside & suspects))
        inside.discard(job.id)

    ids = list(await app.aenqueue_many([step.job() for _ in range(12)]))
    suspects |= {ids[3], ids[4], ids[11]}
    for id in suspects:
        change(app, id, lost=lost_workers.noted(LOST_RUNS_OF_SUSPECT - 1) + 1)
    async with working(app, concurrency=4):
        for id in ids:
            assert (await ended(app, id)).state is JobState.SUCCEEDED
    assert max(together) == 1


async def test_fewer_attempts_than_a_job_has_had(app: Mutirao) -> None:
    """A new version allows two where four were made: the job has its attempt, and dies of that."""

    @app.task(retry=Retry.fixed(max_attempts=2, interval=0.1))
    async def fail() -> None:
        raise ValueError

    id = (await fail.aenqueue()).id
    change(app, id, attempt=4)
    async with working(app):
        job = await until_attempts(app, id, 1)
    assert (job.state, job.error_type, outcomes(job)) == (JobState.DEAD, "ValueError", ["dead"])
