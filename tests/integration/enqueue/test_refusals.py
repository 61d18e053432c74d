"""What jobs cannot be written through is refused at the caller, before anything is written."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg2
import psycopg2.extras
import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from mutirao.errors import MutiraoError, SchemaMissing, UnsupportedConnection
from mutirao.model.jobs.job import NewJob
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named
from tests.integration.enqueue.holders import (
    OF_EACH_TYPE,
    AlchemyAsyncConnection,
    AlchemyConnection,
    Holder,
    Psycopg,
    Sqlite3,
    SyncHolder,
)
from tests.integration.enqueue.kit import (
    MANY,
    SEVERAL,
    Observer,
    each_driver,
    kinds,
    numbered,
)

ACCEPTED = [
    "sqlalchemy.Connection", "sqlalchemy.orm.Session", "sqlalchemy.ext.asyncio.AsyncConnection",
    "sqlalchemy.ext.asyncio.AsyncSession", "psycopg.Connection", "psycopg.AsyncConnection",
    "psycopg2.extensions.connection", "asyncpg.Connection", "asyncpg.pool.PoolConnectionProxy",
    "sqlite3.Connection", "aiosqlite.Connection", "pymysql.Connection",
    "MySQLdb.connections.Connection", "aiomysql.Connection",
]  # fmt: skip


class Untouched:
    """Jobs that must not be read: a refusal comes first."""

    def __iter__(self) -> Iterator[NewJob]:
        raise AssertionError("the jobs were read")


def things() -> dict[str, Any]:
    """Return what people pass by mistake, by how its type is called."""
    engine = create_engine("sqlite://")
    return {
        "sqlalchemy.engine.base.Engine": engine,
        "sqlalchemy.ext.asyncio.engine.AsyncEngine": create_async_engine("sqlite+aiosqlite://"),
        "sqlalchemy.orm.session.sessionmaker": sessionmaker(engine),
        "builtins.str": "postgresql://localhost/shop",
        "builtins.NoneType": None,
        "builtins.type": sqlite3.Connection,
    }


@pytest.mark.parametrize("name", things())
async def test_other_things(name: str) -> None:
    """The error names what was given and everything that is accepted."""
    intake, thing = SqlIntake(dialect_named("postgresql").intake), things()[name]
    with pytest.raises(UnsupportedConnection) as sync:
        intake.enqueue(Untouched(), thing)
    with pytest.raises(UnsupportedConnection) as asynchronous:
        await intake.aenqueue(Untouched(), thing)
    for error in (sync.value, asynchronous.value):
        assert isinstance(error, TypeError)
        assert isinstance(error, MutiraoError)
        assert [word for word in [name, *ACCEPTED] if word not in str(error)] == []


@kinds(*OF_EACH_TYPE)
async def test_the_wrong_colour(holder: Holder) -> None:
    """A connection of the other colour is sent to the other face."""
    if isinstance(holder, SyncHolder):
        with pytest.raises(UnsupportedConnection, match="is synchronous: use `enqueue`"):
            await holder.intake.aenqueue(Untouched(), holder.conn)
    else:
        with pytest.raises(UnsupportedConnection, match="is asynchronous: use `aenqueue`"):
            holder.intake.enqueue(Untouched(), holder.conn)


@each_driver
async def test_another_database(holder: Holder) -> None:
    """A connection to another kind of database than the application's is refused."""
    names = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "mysql": "MySQL or MariaDB"}
    given = names[holder.backend]
    kept = "SQLite" if given == "PostgreSQL" else "PostgreSQL"
    holder.intake = SqlIntake(dialect_named(kept.lower()).intake)
    with pytest.raises(UnsupportedConnection, match=f"to {given}, but .* its jobs in {kept}"):
        await holder.enqueue(Untouched())


@kinds(Psycopg)
def test_psycopg2_in_its_asynchronous_mode(observer: Observer) -> None:
    """It would send the jobs without waiting to hear whether they were written."""
    conn = psycopg2.connect(observer.url.replace("+psycopg", ""), async_=True)
    psycopg2.extras.wait_select(conn)
    with pytest.raises(UnsupportedConnection, match="asynchronous mode"):
        SqlIntake(dialect_named("postgresql").intake).enqueue(Untouched(), conn)
    conn.close()


class Wrapped:
    """A driver that nobody has heard of."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


def test_an_unknown_driver_under_sqlalchemy() -> None:
    """SQLAlchemy alone is not enough: the driver beneath must be a known one."""
    engine = create_engine("sqlite://", creator=lambda: Wrapped(sqlite3.connect(":memory:")))
    with engine.connect() as conn, pytest.raises(UnsupportedConnection) as refused:
        SqlIntake(dialect_named("sqlite").intake).enqueue(Untouched(), conn)
    drivers = {"psycopg", "psycopg2", "asyncpg", "sqlite3", "aiosqlite", "aiomysql", "MySQLdb"}
    for word in {"Wrapped", "pymysql"} | drivers:
        assert word in str(refused.value)
    engine.dispose()


def test_another_database_of_django() -> None:
    """Django has connections to others, too, through drivers that are none of ours."""
    names = {"vendor": "oracle", "display_name": "Oracle"}
    kind: Any = type("DatabaseWrapper", (BaseDatabaseWrapper,), names)
    with pytest.raises(UnsupportedConnection, match=r"to Oracle through Django, but .* MariaDB:"):
        SqlIntake(dialect_named("mariadb").intake).enqueue(Untouched(), kind.__new__(kind))


@each_driver
@pytest.mark.usefixtures("small_chunks")
async def test_a_database_without_the_tables(empty_url: str, kind: type[Holder]) -> None:
    """The error says which command to run, and keeps the driver's own as its cause."""
    async with kind(empty_url) as holder:
        for size in (MANY, 1, SEVERAL):
            with pytest.raises(SchemaMissing, match="mutirao migrate") as missing:
                await holder.enqueue(numbered(size))
            cause = str(missing.value.__cause__)
            assert "mutirao_" in cause or "sqlite_" in str(missing.value)
            await holder.rollback()
            await holder.begin()


@kinds(Psycopg, Sqlite3, AlchemyConnection, AlchemyAsyncConnection)
async def test_a_missing_table_of_the_callers_own(holder: Holder) -> None:
    """Is no word about Mutirão's tables."""

    def failing() -> Iterator[NewJob]:
        yield NewJob(task="t")
        raise sqlite3.OperationalError("no such table: shop_customer")

    with pytest.raises(sqlite3.OperationalError, match="shop_customer"):
        await holder.enqueue(failing())


def test_drivers_that_are_not_used_are_not_imported() -> None:
    """A program on sqlite3 needs no other driver, and one that is missing does not matter."""
    program = """
import json, sqlite3, sys
from mutirao.errors import UnsupportedConnection
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named
try:
    SqlIntake(dialect_named("postgresql").intake).enqueue([], sqlite3.connect(":memory:"))
except UnsupportedConnection as error:
    drivers = {"psycopg", "psycopg2", "asyncpg", "aiosqlite", "pymysql", "MySQLdb", "aiomysql"}
    print(json.dumps([str(error), sorted(drivers & sys.modules.keys())]))
"""
    output = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    refusal, imported = json.loads(output.stdout)
    assert "a connection to SQLite" in refusal
    assert imported == []
