"""The caller's connection is the caller's: whatever it has set up works, and stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import aiomysql
import MySQLdb.connections
import MySQLdb.cursors
import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras
import pymysql
import pymysql.cursors
import pytest
from sqlalchemy import Integer
from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, scoped_session, sessionmaker

from mutirao.model.jobs.job import NewJob
from tests.integration.enqueue.holders import (
    Aiomysql,
    Aiosqlite,
    AlchemyAiomysqlSession,
    AlchemyAsyncpgSession,
    AlchemyAsyncSession,
    AlchemyMysqlSession,
    AlchemySession,
    AlchemySqliteSession,
    Asyncpg,
    Holder,
    Mysqldb,
    Psycopg,
    Psycopg2,
    PsycopgAsync,
    PsycopgAutocommit,
    Pymysql,
    Sqlite3,
    Sqlite3Autocommit,
)
from tests.integration.enqueue.kit import (
    MANY,
    SEVERAL,
    Observer,
    kinds,
    numbered,
)
from tests.integration.enqueue.settings import settings

pytestmark = pytest.mark.usefixtures("small_chunks")


class Base(DeclarativeBase):
    """For `Order`."""


class Order(Base):
    """A row of the program's own, by the ORM."""

    __tablename__ = "shop_order"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)


def hostile(cursor: Any, row: Any = None) -> Any:
    """Make rows that cannot be read: for any driver's row factory."""
    raise AssertionError("the caller's row factory was used")


def _psycopg_factory(conn: Any) -> None:
    conn.row_factory = psycopg.rows.dict_row


def _psycopg_hostile(conn: Any) -> None:
    conn.row_factory = hostile


def _psycopg_raw(conn: Any) -> None:
    is_async = isinstance(conn, psycopg.AsyncConnection)
    conn.cursor_factory = psycopg.AsyncRawCursor if is_async else psycopg.RawCursor


def _psycopg_client(conn: Any) -> None:
    is_async = isinstance(conn, psycopg.AsyncConnection)
    conn.cursor_factory = psycopg.AsyncClientCursor if is_async else psycopg.ClientCursor


def _psycopg_unprepared(conn: Any) -> None:
    conn.prepare_threshold = None


def _psycopg2_dicts(conn: Any) -> None:
    conn.cursor_factory = psycopg2.extras.RealDictCursor


def _psycopg2_named(conn: Any) -> None:
    conn.cursor_factory = psycopg2.extras.NamedTupleCursor


def _sqlite_rows(conn: Any) -> None:
    conn.row_factory = sqlite3.Row


def _sqlite_hostile(conn: Any) -> None:
    conn.row_factory = hostile


def _sqlite_bytes(conn: Any) -> None:
    conn.text_factory = bytes


@pytest.mark.parametrize(
    ("kind", "prepare"),
    [
        *[
            (kind, prepare)
            for kind in (Psycopg, PsycopgAsync)
            for prepare in (
                _psycopg_factory,
                _psycopg_hostile,
                _psycopg_raw,
                _psycopg_client,
                _psycopg_unprepared,
            )
        ],
        (Psycopg2, _psycopg2_dicts),
        (Psycopg2, _psycopg2_named),
        *[
            (kind, prepare)
            for kind in (Sqlite3, Sqlite3Autocommit, Aiosqlite)
            for prepare in (_sqlite_rows, _sqlite_hostile, _sqlite_bytes)
        ],
    ],
)
async def test_factories(
    holder: Holder, observer: Observer, prepare: Callable[[Any], None]
) -> None:
    """Rows and cursors of the caller's own making are neither used nor changed."""
    prepare(holder.conn)
    before = settings(holder.conn)
    ids = [*await holder.enqueue(numbered(1)), *await holder.enqueue(numbered(MANY))]
    assert settings(holder.conn) == before
    await holder.commit()
    assert observer.ids() == ids


# Quotes and backslashes mean something else; nothing is strict.
MODES = "ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE,NO_BACKSLASH_ESCAPES,NO_UNSIGNED_SUBTRACTION"
LEVELS = "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"


@kinds(Pymysql, Mysqldb, Aiomysql)
async def test_sessions_of_mysql(holder: Holder, observer: Observer) -> None:
    """Whatever mode, level and time zone a session has: jobs are written, and all of it stays."""
    await holder.execute(f"SET SESSION sql_mode = '{MODES}', time_zone = '+13:00'")
    values, ids = "SHOW SESSION VARIABLES WHERE Variable_name <> 'timestamp'", list[int]()
    for level in LEVELS:
        await holder.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        before = await rows_of(holder, values)
        sent = await holder.enqueue([NewJob(task="t", args=r"""{"n": "\\'\"%s ? é"}""")])
        ids += [*sent, *await holder.enqueue(numbered(MANY))]
        changed = {*await rows_of(holder, values)} ^ {*before}
        assert {name for name, _ in changed} <= MOVES
        await holder.commit()
        jobs = observer.jobs()
        assert [job.id for job in jobs] == ids
        assert jobs[-MANY - 1].args == {"n": "\\'\"%s ? é"}
    assert all(row.due == row.enqueued_at for row in jobs)


# What a session has for others to see, and what each statement moves.
MOVES = {"insert_id", "identity", "in_transaction", "rand_seed1", "rand_seed2", "pseudo_thread_id"}
MOVES |= {"last_insert_id", "gtid_binlog_pos", "last_gtid", "statement_id", "warning_count"}


async def rows_of(holder: Holder, sql: str) -> list[tuple[str, str]]:
    """Return rows by the driver's own cursor."""
    if not isinstance(holder, Aiomysql):
        return [*(await holder.execute(sql)).fetchall()]
    async with holder.conn.cursor() as cursor:
        await cursor.execute(sql)
        return [*await cursor.fetchall()]


@pytest.mark.parametrize(
    ("kind", "cursor"),
    [
        (Pymysql, pymysql.cursors.DictCursor),
        (Pymysql, pymysql.cursors.SSCursor),
        (Mysqldb, MySQLdb.cursors.DictCursor),
        (Mysqldb, MySQLdb.cursors.SSCursor),
        (Aiomysql, aiomysql.DictCursor),
        (Aiomysql, aiomysql.SSCursor),
    ],
)
async def test_cursors_of_mysql(
    holder: Holder, observer: Observer, kind: type[Holder], cursor: type
) -> None:
    """The class of the caller's cursors is neither used nor changed."""
    name = "_cursor_cls" if kind is Aiomysql else "cursorclass"
    setattr(holder.conn, name, cursor)
    ids = [*await holder.enqueue(numbered(1)), *await holder.enqueue(numbered(MANY))]
    assert getattr(holder.conn, name) is cursor
    await holder.commit()
    assert observer.ids() == ids


@kinds(AlchemySession, AlchemySqliteSession)
async def test_scoped_sessions(holder: Holder, observer: Observer) -> None:
    """The thread's session, as web frameworks hand it out, is a session."""
    assert isinstance(holder, AlchemySession)
    scoped = scoped_session(sessionmaker(holder.engine))
    ids = holder.intake.enqueue(numbered(SEVERAL), scoped)
    assert observer.ids() == []
    scoped.commit()
    scoped.remove()
    assert observer.ids() == ids


@kinds(AlchemyAsyncpgSession)
async def test_async_scoped_sessions(holder: Holder, observer: Observer) -> None:
    """So is a task's."""
    assert isinstance(holder, AlchemyAsyncSession)
    scoped = async_scoped_session(async_sessionmaker(holder.engine), scopefunc=lambda: 1)
    ids = await holder.intake.aenqueue(numbered(SEVERAL), scoped)
    assert observer.ids() == []
    await scoped.commit()
    await scoped.remove()
    assert observer.ids() == ids


@kinds(
    *(AlchemySession, AlchemySqliteSession, AlchemyMysqlSession),
    *(AlchemyAsyncSession, AlchemyAsyncpgSession, AlchemyAiomysqlSession),
)
async def test_pending_objects_are_not_flushed(holder: Holder, observer: Observer) -> None:
    """They go with the session's own flush, into the same transaction."""
    order = Order(id=1)
    holder.conn.add(order)
    ids = await holder.enqueue(numbered(MANY))
    assert order in holder.conn.new
    await holder.commit()
    assert (observer.orders(), observer.ids()) == ([1], ids)


@kinds(Asyncpg)
async def test_asyncpg_without_a_statement_cache(holder: Holder, observer: Observer) -> None:
    """As programs behind PgBouncer set it: nothing is prepared under a name."""
    import asyncpg

    conn = await asyncpg.connect(holder.dsn, statement_cache_size=0)
    ids = await holder.intake.aenqueue(numbered(1), conn)
    ids += await holder.intake.aenqueue(numbered(MANY), conn)
    assert await conn.fetch("SELECT name FROM pg_prepared_statements") == []
    await conn.close()
    assert observer.ids() == ids


@pytest.mark.parametrize("size", [1, SEVERAL])
@kinds(Psycopg, PsycopgAutocommit)
async def test_psycopg_pipelines(holder: Holder, observer: Observer, size: int) -> None:
    """A few jobs can be enqueued in a pipeline, and their ids are known at once."""
    with holder.conn.pipeline():
        ids = await holder.enqueue(numbered(size))
        assert len(ids) == size
    await holder.commit()
    assert observer.ids() == ids


@kinds(Psycopg, PsycopgAutocommit)
async def test_psycopg_pipelines_have_no_copy(holder: Holder, observer: Observer) -> None:
    """Many jobs cannot: psycopg says so, and none of them is written."""
    with pytest.raises(psycopg.NotSupportedError), holder.conn.pipeline():
        await holder.enqueue(numbered(MANY))
    await holder.commit()
    assert observer.ids() == []
