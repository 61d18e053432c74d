"""Many jobs stream: read once, lazily, a chunk at a time; interrupted, they leave nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from mutirao.errors import StoreRefused
from mutirao.model.jobs.job import NewJob
from mutirao.sql.dialects.postgresql import enqueue as on_postgresql
from mutirao.sql.drivers import steps
from tests.integration.enqueue.holders import (
    Aiomysql,
    Aiosqlite,
    AiosqliteAutocommit,
    AlchemyAiomysql,
    AlchemyAiosqlite,
    AlchemyAsyncConnection,
    AlchemyAsyncpg,
    AlchemyAsyncpgAutocommit,
    AlchemyConnection,
    AlchemyPsycopg2,
    Asyncpg,
    AsyncpgAutocommit,
    Holder,
    Psycopg,
    Psycopg2,
    PsycopgAsync,
    PsycopgAsyncAutocommit,
    PsycopgAutocommit,
    Pymysql,
    PymysqlAutocommit,
    Sqlite3,
)
from tests.integration.enqueue.kit import AT_ONCE, CHUNK, MANY, Observer, kinds, numbered, varied


class Counted(NewJob):
    """A job that tells how many of its kind are in memory."""

    __slots__ = ("census",)
    census: Counter[str]

    def __del__(self) -> None:
        self.census["alive"] -= 1


def counted(count: int, census: Counter[str], args: str = "{}") -> Iterator[NewJob]:
    """Yield jobs, and note how many were in memory at most."""
    for _ in range(count):
        job = Counted(task="t", args=args)
        object.__setattr__(job, "census", census)
        census["alive"] += 1
        census["most"] = max(census["most"], census["alive"])
        yield job


@pytest.mark.repeats("Sqlite3", "Pymysql", decided="tests/integration/enqueue/test_streaming.py")
@pytest.mark.repeats(
    "Psycopg2", "Asyncpg", "Aiosqlite", decided="tests/integration/enqueue/test_transactions.py"
)
@kinds(Psycopg, Psycopg2, Asyncpg, Sqlite3, Aiosqlite, Pymysql)
async def test_a_hundred_thousand(holder: Holder, observer: Observer) -> None:
    """All in the caller's transaction, with no more than two chunks of them in memory."""
    census: Counter[str] = Counter()
    ids = await holder.enqueue(counted(100_000, census))
    assert len(ids) == 100_000
    assert census["most"] <= 2 * steps.MAX_JOBS_IN_MEMORY + on_postgresql.MAX_JOBS_PER_INSERT + 2
    assert observer.ids() == []
    await holder.commit()
    assert observer.ids() == ids


@kinds(Psycopg, Sqlite3, Pymysql)
async def test_large_payloads_make_small_chunks(holder: Holder, observer: Observer) -> None:
    """Memory is bounded by what the arguments weigh too: a chunk is four of these."""
    census: Counter[str] = Counter()
    args = f'{{"big": "{"x" * (1 << 20)}"}}'
    ids = await holder.enqueue(counted(40, census, args))
    await holder.commit()
    assert observer.ids() == ids
    assert census["most"] <= 3 * 4 + 1


@kinds(Psycopg, Psycopg2, AlchemyConnection, Sqlite3)
@pytest.mark.usefixtures("small_chunks")
async def test_written_while_it_is_read(holder: Holder) -> None:
    """Each chunk is in the database before the next one is read; nothing is read twice."""
    read: list[int] = []
    conn = holder.conn if isinstance(holder, AlchemyConnection) else None
    cursor = holder.conn.cursor() if conn is None else conn.connection.cursor()

    def watched() -> Iterator[NewJob]:
        for n, job in enumerate(numbered(MANY)):
            cursor.execute("SELECT count(*) FROM mutirao_job")
            [written] = cursor.fetchone()
            read.append(n)
            assert written == n - n % CHUNK
            yield job

    jobs = watched()
    assert len(await holder.enqueue(jobs)) == MANY
    assert read == list(range(MANY))
    assert list(jobs) == []


@kinds(Psycopg)
@pytest.mark.usefixtures("small_chunks")
async def test_others_enqueue_meanwhile(holder: Holder, observer: Observer) -> None:
    """Ids that others draw between ours are not ours; ours stay in order."""
    async with PsycopgAutocommit(holder.url.render_as_string(hide_password=False)) as other:
        theirs: list[int] = []

        def interleaved() -> Iterator[NewJob]:
            for n, job in enumerate(numbered(MANY)):
                if n in (AT_ONCE, CHUNK + 1, 2 * CHUNK + 1):
                    theirs.extend(other.intake.enqueue(numbered(CHUNK + n), other.conn))
                yield job

        ours = await holder.enqueue(interleaved())
    await holder.commit()
    assert observer.ids() == sorted(ours + theirs)
    assert ours == sorted(ours)
    assert not set(ours) & set(theirs)
    assert [observer.places()[id] for id in ours] == list(range(MANY))


@kinds(Pymysql, PymysqlAutocommit)
async def test_larger_than_a_server_takes(holder: Holder, observer: Observer) -> None:
    """The call says how large it is and how large it may be; the connection goes on."""
    kept = await holder.enqueue(numbered(1))
    with observer._engine.connect() as conn:
        most = conn.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one()
    large = NewJob(task="shop.print", args=f'{{"page": "{"x" * most}"}}')
    for jobs in ([large], [*numbered(MANY), large]):
        with pytest.raises(StoreRefused, match=f"shop.print takes .* accepts {most:,} ") as told:
            await holder.enqueue(jobs)
        assert f"{most // 1_000_000}," in str(told.value).partition("accepts")[0]
    # What is not ASCII travels as hexadecimal digits: é has two bytes and takes four. It just fits.
    fits = NewJob(task="shop.print", args=f'{{"page": "{"é" * ((most - (1 << 13)) // 4)}"}}')
    kept += await holder.enqueue([*numbered(3), fits])
    await holder.commit()
    assert observer.ids() == kept


@kinds(Aiomysql)
async def test_aiomysql_cancelled(holder: Holder, observer: Observer) -> None:
    """A cancelled task has enqueued nothing. The driver closes the connection, and says so."""
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(_enqueue(holder, cancelling(CHUNK)))
    with pytest.raises(pymysql.InterfaceError, match="Cancelled during execution"):
        await holder.enqueue(numbered(1))
    assert observer.ids() == []


# Each way in which an asynchronous call waits.
CANCELLED = (
    PsycopgAsync,
    PsycopgAsyncAutocommit,
    Asyncpg,
    AsyncpgAutocommit,
    Aiosqlite,
    AiosqliteAutocommit,
    AlchemyAsyncConnection,
    AlchemyAsyncpg,
    AlchemyAsyncpgAutocommit,
    AlchemyAiosqlite,
    AlchemyAiomysql,
)


def cancelling(at: int) -> Iterator[NewJob]:
    """Yield jobs, and cancel the task that reads them on the way."""
    for n, job in enumerate(numbered(MANY)):
        if n == at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        yield job


@varied(CANCELLED, "at", CHUNK + 1, 0, AT_ONCE, MANY - 1, few=(PsycopgAsync, Asyncpg, Aiosqlite))
@pytest.mark.usefixtures("small_chunks")
async def test_cancelled(holder: Holder, observer: Observer, at: int) -> None:
    """A cancelled task has enqueued nothing, and after a rollback its connection goes on."""
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(_enqueue(holder, cancelling(at)))
    await holder.rollback()
    if isinstance(holder, Asyncpg):
        await holder.begin()
    kept = await holder.enqueue(numbered(1))
    await holder.commit()
    assert observer.ids() == kept


@kinds(AlchemyConnection, AlchemyPsycopg2, AlchemyAsyncConnection, AlchemyAsyncpg)
@pytest.mark.usefixtures("small_chunks")
async def test_a_connection_lost_in_a_copy(holder: Holder, observer: Observer) -> None:
    """SQLAlchemy learns that the connection is gone: its own error, and a new one next time."""
    assert isinstance(holder, AlchemyConnection | AlchemyAsyncConnection)
    engine = getattr(holder.engine, "sync_engine", holder.engine)
    victim = (await holder.execute("SELECT pg_backend_pid()")).scalar()

    @event.listens_for(engine, "after_cursor_execute")
    def _kill(conn: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "mutirao_next_id" in statement:
            observer.kill(victim)

    with pytest.raises(OperationalError) as lost:
        await holder.enqueue(numbered(MANY))
    assert lost.value.connection_invalidated
    event.remove(engine, "after_cursor_execute", _kill)
    await holder.rollback()
    kept = await holder.enqueue(numbered(MANY))
    await holder.commit()
    assert observer.ids() == kept


async def _enqueue(holder: Holder, jobs: Iterator[NewJob]) -> list[int]:
    return await holder.enqueue(jobs)
