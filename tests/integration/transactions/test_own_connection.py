"""What `connection=True` lends: connections that are kept, and are the application's if it says."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from mutirao.errors import StoreError, WrongState
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, job_of, join, put, take_one
from mutirao_conformance.transactions import Watched
from tests.support.waiting import until

KINDS = ["plain", "coroutine"]
OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lent'"
END = "SELECT pg_terminate_backend(pg_backend_pid())"
each_kind = pytest.mark.parametrize("kind", KINDS)


async def say(store: SqlStore, kind: str, sql: str, *, refused: bool = False) -> int:
    """Have a job of this kind of handler say something; return its connection's process."""
    await put(store, due())
    claim = await take_one(store, await join(store, now=None))
    transaction = store.transaction(job_of(claim), Watched(), gives="driver")
    if kind == "plain":
        with transaction as own:
            if refused:
                with pytest.raises(WrongState, match=r"commit\(\) would end"):
                    own.commit()
            own.execute(sql)
            return int(own.info.backend_pid)
    async with transaction as own:
        if refused:
            with pytest.raises(WrongState, match=r"commit\(\) would end"):
                await own.commit()
        await own.execute(sql)
        return int(own.info.backend_pid)


@each_kind
async def test_is_kept_and_closed(migrated_postgresql_url: str, kind: str) -> None:
    """One serves one job after the other, also after an error; a closed store has none."""
    store = SqlStore(f"{migrated_postgresql_url}?application_name=lent")
    plain = migrated_postgresql_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as outside:
        first = await say(store, kind, "SELECT 1")
        with pytest.raises(psycopg.errors.DivisionByZero):
            await say(store, kind, "SELECT 1 / 0")
        assert await say(store, kind, "SELECT 1") == first
        await store.close()
        await until(lambda: outside.execute(OTHERS).fetchall() == [(0,)])  # the server ends them
        assert await say(store, kind, "SELECT 1") != first
    await store.close()


@each_kind
async def test_is_replaced_when_lost(migrated_postgresql_url: str, kind: str) -> None:
    """The job that lost it is not completed; the next one has another."""
    store = SqlStore(migrated_postgresql_url)
    first = await say(store, kind, "SELECT 1")
    with pytest.raises(StoreError):
        await say(store, kind, END)
    assert await say(store, kind, "SELECT 1") != first
    states = [job.state for job in await store.jobs(JobFilter())]
    assert states == [JobState.SUCCEEDED, JobState.RUNNING, JobState.SUCCEEDED]
    await store.close()


@each_kind
async def test_that_the_application_opens(migrated_postgresql_url: str, kind: str) -> None:
    """A connection of a `creator`'s own class is lent as well, in a transaction; it has no ends."""
    plain, bare = migrated_postgresql_url.replace("+psycopg", ""), URL.create("postgresql+psycopg")

    async def connected() -> Any:
        return await psycopg.AsyncConnection.connect(plain)

    engine: Any = create_async_engine(bare, async_creator=connected)
    if kind == "plain":
        engine = create_engine(bare, creator=lambda: psycopg.connect(plain))
    migrated = SqlStore(migrated_postgresql_url)
    store = SqlStore(engine)
    await put(migrated, due())
    claim = await take_one(migrated, await join(migrated, now=None))
    transaction = store.transaction(job_of(claim), Watched(), gives="driver")
    if kind == "plain":
        with transaction as own:
            assert type(own) is psycopg.Connection
            with pytest.raises(WrongState), own.transaction():
                own.commit()
    else:
        async with transaction as own:
            assert type(own) is psycopg.AsyncConnection
            with pytest.raises(WrongState):
                await own.commit()
    assert [job.state for job in await migrated.jobs(JobFilter())] == [JobState.SUCCEEDED]
    await store.close()
    await migrated.close()


@each_kind
async def test_that_is_left_in_a_pipeline(migrated_postgresql_url: str, kind: str) -> None:
    """Completes nothing by halves; the next job has another connection."""
    store = SqlStore(migrated_postgresql_url)
    first = await say(store, kind, "SELECT 1", refused=True)
    await put(store, due())
    claim = await take_one(store, await join(store, now=None))
    transaction = store.transaction(job_of(claim), Watched(), gives="driver")
    with pytest.raises((StoreError, psycopg.Error)), translate_errors():  # noqa: PT012
        if kind == "plain":
            with transaction as own:
                own.pgconn.enter_pipeline_mode()
        else:
            async with transaction as own:
                own.pgconn.enter_pipeline_mode()
    assert await say(store, kind, "SELECT 1") != first
    await store.close()
