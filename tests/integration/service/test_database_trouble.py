"""The database goes away under a worker at work: no job is lost, and none run twice."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from time import monotonic

import pytest
from sqlalchemy import func, select

from mutirao import Job, Mutirao
from mutirao.sql.schema.tables import duty
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import working
from tests.support.log_records import ours
from tests.support.postgresql import PostgresServer, StopMode
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats(
    "psycopg2", decided="tests/integration/service/test_database_trouble.py"
)

DRIVERS = ["psycopg", "asyncpg", "psycopg2"]
JOBS = 200
QUICK = {"heartbeat": 0.2, "expiry": 5.0, "poll": 0.2, "batch": 10}


@pytest.fixture
def tables(pg_url: str) -> Tables:
    """The tables of the server that is disturbed."""
    return Tables(pg_url)


@pytest.fixture(autouse=True)
def _standing(postgres: PostgresServer) -> Iterator[None]:
    """Leave the server running for the next test."""
    yield
    postgres.start()


@pytest.fixture(params=DRIVERS)
async def troubled(request: pytest.FixtureRequest, pg_url: str) -> AsyncIterator[Mutirao]:
    """An application that reaches the server through each driver."""
    application = Mutirao(pg_url.replace("psycopg", request.param))
    yield application
    await application.aclose()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_the_server_restarts(
    troubled: Mutirao,
    tables: Tables,
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
    mode: StopMode,
) -> None:
    """Jobs are running, waiting and being settled; each runs once, in the worker that was there."""
    calls: Counter[int] = Counter()
    many, back = asyncio.Event(), asyncio.Event()

    @troubled.task
    async def step(job: Job) -> None:
        calls[job.id] += 1
        if len(calls) > JOBS // 2:
            many.set()
            await back.wait()

    await troubled.aenqueue_many([step.job() for _ in range(JOBS)])
    async with working(troubled, **QUICK):
        await soon(many.wait())
        before = tables.workers()
        await asyncio.to_thread(postgres.restart, mode)
        back.set()
        await all_finished(tables, JOBS)
        # A heart that rested meanwhile need not notice: it looks before it uses its connection.
        await until(lambda: _said(caplog, "the database is back; listening again"))
    assert set(calls.values()) == {1}
    assert tables.outcomes() == {"succeeded"}
    assert tables.workers_of_attempts() == before


async def test_a_restart_right_before_the_end(
    troubled: Mutirao,
    tables: Tables,
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The worker's connections are of the time before it; it signs off all the same."""

    @troubled.task
    async def step() -> None: ...

    async with working(troubled, **QUICK):
        await troubled.aenqueue_many([step.job()])
        await all_finished(tables, 1)
        await asyncio.to_thread(postgres.restart, "fast")
    assert tables.workers() == set()
    assert not _said(caplog, "the row of worker")


async def test_connections_are_cut_again_and_again(
    troubled: Mutirao,
    tables: Tables,
    postgres: PostgresServer,
    shared_database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every one of them, at any moment: the worker does not end, and runs each job once."""
    calls: Counter[int] = Counter()
    with postgres.connect(shared_database) as administrator:

        @troubled.task
        async def cut(job: Job) -> None:
            calls[job.id] += 1
            if len(calls) % (JOBS // 10) == 0:
                administrator.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            await asyncio.sleep(0)

        await troubled.aenqueue_many([cut.job() for _ in range(JOBS)])
        async with working(troubled, **QUICK, concurrency=4):
            await all_finished(tables, JOBS)
            assert _said(caplog, "the database is back; ")
    assert set(calls.values()) == {1}
    assert tables.outcomes() == {"succeeded"}
    assert not [record for record in ours(caplog) if record.levelno > logging.WARNING]


@pytest.mark.repeats("asyncpg", decided="tests/integration/service/test_database_trouble.py")
async def test_the_server_is_away_for_longer_than_the_expiry(
    troubled: Mutirao,
    tables: Tables,
    postgres: PostgresServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Every heartbeat looks old then. Workers give each other time, and nobody is rescued from."""
    begun, finish = asyncio.Event(), asyncio.Event()

    @troubled.task
    async def long() -> None:
        begun.set()
        await finish.wait()

    await troubled.aenqueue_many([long.job()])
    patient = {"heartbeat": 0.3, "expiry": 1.5, "poll": 0.2}
    async with working(troubled, **patient), working(troubled, **patient):
        await soon(begun.wait())
        before = tables.workers()
        await asyncio.to_thread(postgres.stop)
        away_until = monotonic() + 2.0  # more than the expiry
        await until(lambda: monotonic() > away_until)
        assert _said(caplog, "no heartbeat: ")
        postgres.start()
        judging = _now(tables) + timedelta(seconds=1.5)
        await until(lambda: _rescued_after(tables, judging))
        assert tables.workers() == before
        finish.set()
        await all_finished(tables, 1)
    assert tables.outcomes() == {"succeeded"}
    assert not _said(caplog, "taken for gone")


async def test_stopping_while_the_server_is_away(
    pg_app: Mutirao, tables: Tables, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Outcomes wait for the server, and are written before the worker ends."""
    begun, finish = asyncio.Event(), asyncio.Event()

    @pg_app.task
    async def last() -> None:
        begun.set()
        await finish.wait()

    await last.aenqueue()
    worker = working(pg_app, **QUICK)
    await worker.__aenter__()
    await soon(begun.wait())
    await asyncio.to_thread(postgres.stop)
    stopped = asyncio.create_task(worker.__aexit__(None, None, None))
    finish.set()
    await until(lambda: _said(caplog, "cannot settle 1 jobs: "))
    postgres.start()
    await soon(stopped)
    await all_finished(tables, 1)
    assert tables.workers() == set()


def _now(tables: Tables) -> datetime:
    found: datetime = tables.rows(select(func.statement_timestamp()))[0][0]
    return found


def _rescued_after(tables: Tables, moment: datetime) -> bool:
    """Whether somebody had the duty to rescue since; before the server went, nobody may have."""
    last = select(duty.c.taken_at).where(duty.c.name == "rescue", duty.c.taken_at > moment)
    return bool(tables.rows(last))


def _said(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if text in record.getMessage() and record.levelno >= logging.WARNING
    ]
