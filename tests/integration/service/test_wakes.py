"""Workers sleep for half a minute here: what they start at once, they were told of."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from time import monotonic

import psycopg
import pytest
from sqlalchemy import make_url, select

from mutirao import Job, JobState, Mutirao, Retry
from mutirao.sql.schema.tables import worker
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.postgresql import PostgresServer
from tests.support.waiting import DEADLINE, soon, until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance/test_notifiers.py")

IDLE = {"poll": 10 * DEADLINE, "heartbeat": 0.5, "expiry": DEADLINE}
# A worker of any speed is busy with more jobs than it wants; with few, only one that runs 2,000 a
# second is.
BACKLOG, NEVER_ENOUGH = 500, {"concurrency": 10}
DRIVERS = ["psycopg", "asyncpg", "psycopg2"]


@pytest.fixture
def tables(url: str) -> Tables:
    """The tables of the application's database."""
    return Tables(url)


async def idle(app: Mutirao, tables: Tables) -> None:
    """Wait until a job has been run, and the worker listens and sleeps again."""

    @app.task(name="first")
    async def first() -> None: ...

    await ended(app, (await first.aenqueue()).id)
    await until(lambda: listening(tables))


def listening(tables: Tables) -> bool:
    """Whether the one worker asks to be notified."""
    return [row[0] for row in tables.rows(select(worker.c.listening))] == [True]


def enqueue_by_hand(url: str) -> None:
    """Enqueue a job `note` as programs in other languages do, in a transaction of their own."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(make_url(url).database or "")) as lite, lite:
            lite.execute("INSERT INTO mutirao_job (task) VALUES ('note')")
    else:
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute("SELECT mutirao_enqueue('note')")


@pytest.mark.parametrize("how", ["one", "in a transaction", "many", "by hand"])
async def test_a_new_job_starts_at_once(app: Mutirao, url: str, tables: Tables, how: str) -> None:
    """However it came."""
    noted = asyncio.Event()

    @app.task
    async def note() -> None:
        noted.set()

    async with working(app, **IDLE):
        await idle(app, tables)
        if how == "one":
            await note.aenqueue()
        elif how == "many":
            await app.aenqueue_many([note.job() for _ in range(1_500)])
        elif how == "by hand":
            await asyncio.to_thread(enqueue_by_hand, url)
        else:
            await asyncio.to_thread(_in_a_transaction, app)
        await soon(noted.wait())


def _in_a_transaction(app: Mutirao) -> None:
    engine = app.store.engines.sync()  # type: ignore[attr-defined]
    with engine.begin() as connection:
        app.task_named("note").using(conn=connection).enqueue()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_with_each_driver(pg_url: str, driver: str) -> None:
    """Of PostgreSQL: each listens in its own way."""
    app, tables = Mutirao(pg_url.replace("psycopg", driver)), Tables(pg_url)
    noted = asyncio.Event()

    @app.task
    async def note() -> None:
        noted.set()

    async with working(app, **IDLE):
        await idle(app, tables)
        await asyncio.to_thread(enqueue_by_hand, pg_url)
        await soon(noted.wait())
    await app.aclose()


@pytest.mark.parametrize("already_idle", [True, False])
async def test_a_scheduled_job_starts_on_time(
    app: Mutirao, tables: Tables, already_idle: bool
) -> None:
    """Neither before its time nor at the next poll; enqueued before the worker began, or after."""
    started: list[float] = []

    @app.task
    async def note() -> None:
        started.append(monotonic())

    if not already_idle:
        await note.using(delay=0.6).aenqueue()
    enqueued = monotonic()
    async with working(app, **IDLE):
        if already_idle:
            await idle(app, tables)
            enqueued = monotonic()
            await note.using(delay=0.6).aenqueue()
        await until(lambda: started)
    assert 0.5 < started[0] - enqueued < DEADLINE


async def test_a_retry_starts_on_time(app: Mutirao, tables: Tables) -> None:
    """The worker that settled it knows when."""

    @app.task(retry=Retry.fixed(3, interval=0.2))
    async def fail_twice(job: Job) -> None:
        if job.attempt < 3:
            raise ValueError("not yet")

    async with working(app, **IDLE):
        id = (await fail_twice.aenqueue()).id
        begun = monotonic()
        assert outcomes(await ended(app, id)) == ["retried", "retried", "succeeded"]
        assert 0.3 < monotonic() - begun < DEADLINE


async def test_only_the_idle_listen(pg_app: Mutirao, pg_url: str) -> None:
    """A busy worker spares others the price of NOTIFY, and listens again when it has nothing."""
    tables = Tables(pg_url)
    stop = asyncio.Event()

    @pg_app.task
    async def again(job: Job) -> None:
        if not stop.is_set():
            await again.aenqueue()

    async with working(pg_app, **IDLE, **NEVER_ENOUGH):
        await until(lambda: listening(tables))
        await pg_app.aenqueue_many([again.job() for _ in range(BACKLOG)])
        await until(lambda: not listening(tables))
        stop.set()
        await until(lambda: tables.number_live() == 0)
        await until(lambda: listening(tables))


async def test_a_full_worker_does_not_listen(pg_app: Mutirao, pg_url: str) -> None:
    """Nothing could start if it were told; it listens again when it has room."""
    tables = Tables(pg_url)
    finish = asyncio.Event()

    @pg_app.task
    async def long() -> None:
        await finish.wait()

    async with working(pg_app, **IDLE, concurrency=2):
        await idle(pg_app, tables)
        await pg_app.aenqueue_many([long.job() for _ in range(20)])
        await until(lambda: not listening(tables))
        finish.set()
        await until(lambda: tables.number_live() == 0)
        await until(lambda: listening(tables))


async def test_a_transaction_that_commits_late(
    pg_app: Mutirao, pg_url: str, postgres: PostgresServer, shared_database: str
) -> None:
    """Its jobs are older than what the worker has read already, and are found all the same."""
    tables = Tables(pg_url)

    @pg_app.task
    async def note() -> None: ...

    async with working(pg_app, **IDLE):
        await idle(pg_app, tables)
        with postgres.connect(shared_database) as late:
            late.execute("BEGIN")
            row = late.execute("SELECT mutirao_enqueue('note')").fetchone()
            assert row is not None
            for _ in range(3):
                younger = await ended(pg_app, (await note.aenqueue()).id)
            await until(lambda: listening(tables))
            late.execute("COMMIT")
            committed = monotonic()
        older = await ended(pg_app, row[0])
        assert monotonic() - committed < DEADLINE
    assert older.run_at < younger.run_at


async def test_one_that_commits_late_in_busy_times(
    pg_app: Mutirao, pg_url: str, postgres: PostgresServer, shared_database: str
) -> None:
    """Nobody listens then; the worker looks below its bounds again before it sleeps."""
    tables = Tables(pg_url)
    stop = asyncio.Event()

    @pg_app.task
    async def again(job: Job) -> None:
        if not stop.is_set():
            await again.aenqueue()

    async with working(pg_app, **IDLE, **NEVER_ENOUGH):
        with postgres.connect(shared_database) as late:
            late.execute("BEGIN")
            late.execute("SELECT mutirao_enqueue('again')")
            await pg_app.aenqueue_many([again.job() for _ in range(BACKLOG)])
            await until(lambda: not listening(tables))
            late.execute("COMMIT")
        stop.set()
        await until(lambda: tables.number_live() == 0)


async def test_a_job_put_back_in_time(pg_app: Mutirao, pg_url: str) -> None:
    """One with an old `run_at` in a lane whose bound is past it is named, and found."""
    tables = Tables(pg_url)

    @pg_app.task
    async def note(job: Job) -> None: ...

    async with working(pg_app, **IDLE):
        await idle(pg_app, tables)
        first = await ended(pg_app, (await note.aenqueue()).id)
        await until(lambda: listening(tables))
        long_ago = first.run_at.replace(year=2020)
        id = (await note.using(run_at=long_ago).aenqueue()).id
        asked = monotonic()
        record = await ended(pg_app, id)
        assert monotonic() - asked < DEADLINE
    assert record.state is JobState.SUCCEEDED


async def test_jobs_that_are_made_due(app: Mutirao, tables: Tables) -> None:
    """A job that somebody makes due now is started now."""

    @app.task
    async def note() -> None: ...

    async with working(app, **IDLE):
        await idle(app, tables)
        id = (await note.using(delay=3_600).aenqueue()).id
        await until(lambda: listening(tables))
        assert await app.aretry(id) == [id]
        asked = monotonic()
        await ended(app, id)
        assert monotonic() - asked < DEADLINE
    await all_finished(tables, 2)
