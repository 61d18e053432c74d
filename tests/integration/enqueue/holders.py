"""Programs that hold a connection: one class for each kind that jobs are enqueued through.

All of them are awaited, so that one test serves synchronous and asynchronous kinds. Each is open
inside `async with`, in a transaction or about to begin one, as its users would have it.
"""

from __future__ import annotations

import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, ClassVar, Self

import aiomysql
import aiosqlite
import asyncpg
import MySQLdb
import psycopg
import psycopg2
import pymysql
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mutirao.model.jobs.job import NewJob
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named


class Holder(ABC):
    """A program with a connection `conn` to the database at `url`."""

    backend: ClassVar[str] = "postgresql"
    conn: Any

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self.intake = SqlIntake(dialect_named(self.backend).intake)

    @property
    def dsn(self) -> str:
        """The URL as libpq and asyncpg read it."""
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def open(self) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...
    @abstractmethod
    async def enqueue(self, jobs: Iterable[NewJob]) -> list[int]: ...
    @abstractmethod
    async def execute(self, sql: str) -> Any: ...

    async def beneath(self) -> Any:
        """Return the driver's own connection."""
        return self.conn

    async def begin(self) -> None:  # noqa: B027  most need nothing
        """Begin the next transaction, where that does not happen by itself."""

    async def commit(self) -> None:
        await self.execute("COMMIT")

    async def rollback(self) -> None:
        await self.execute("ROLLBACK")

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        """Set a savepoint, by the driver's own means if it has any; return the way back."""
        await self.execute("SAVEPOINT shop")
        return partial(self.execute, "ROLLBACK TO SAVEPOINT shop")


class SyncHolder(Holder):
    """One whose connection blocks."""

    async def close(self) -> None:
        self.conn.close()

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[int]:
        return self.intake.enqueue(jobs, self.conn)

    async def execute(self, sql: str) -> Any:
        return self.conn.execute(sql)

    async def commit(self) -> None:
        self.conn.commit()

    async def rollback(self) -> None:
        self.conn.rollback()


class AsyncHolder(Holder):
    """One whose connection is awaited."""

    async def close(self) -> None:
        await self.conn.close()

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[int]:
        return await self.intake.aenqueue(jobs, self.conn)

    async def execute(self, sql: str) -> Any:
        return await self.conn.execute(sql)

    async def commit(self) -> None:
        await self.conn.commit()

    async def rollback(self) -> None:
        await self.conn.rollback()


class Psycopg(SyncHolder):
    options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        self.conn = psycopg.connect(self.dsn, **self.options)

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        block = self.conn.transaction(force_rollback=True)
        block.__enter__()

        async def leave() -> None:
            block.__exit__(None, None, None)

        return leave


class PsycopgAutocommit(Psycopg):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class PsycopgBlock(PsycopgAutocommit):
    """In autocommit mode, with a transaction block around its work."""

    async def open(self) -> None:
        await super().open()
        await self.begin()

    async def begin(self) -> None:
        self.conn.execute("BEGIN")


class PsycopgAsync(AsyncHolder):
    options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        self.conn = await psycopg.AsyncConnection.connect(self.dsn, **self.options)

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        block = self.conn.transaction(force_rollback=True)
        await block.__aenter__()
        return lambda: block.__aexit__(None, None, None)


class PsycopgAsyncAutocommit(PsycopgAsync):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class Psycopg2(SyncHolder):
    async def open(self) -> None:
        self.conn = psycopg2.connect(self.dsn)

    async def execute(self, sql: str) -> Any:
        self.conn.cursor().execute(sql)


class Psycopg2Autocommit(Psycopg2):
    async def open(self) -> None:
        await super().open()
        self.conn.autocommit = True


class AsyncpgAutocommit(AsyncHolder):
    async def open(self) -> None:
        self.conn = await asyncpg.connect(self.dsn)

    async def commit(self) -> None:
        """There is no such call in asyncpg, and outside a transaction no need of it."""

    async def rollback(self) -> None:
        """As `commit`."""


class Asyncpg(AsyncpgAutocommit):
    async def open(self) -> None:
        await super().open()
        await self.begin()

    async def begin(self) -> None:
        self.transaction = self.conn.transaction()
        await self.transaction.start()

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        inner = self.conn.transaction()
        await inner.start()
        return inner.rollback  # type: ignore[no-any-return]


class AsyncpgPool(Asyncpg):
    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.dsn, min_size=1, max_size=1)
        self.conn = await self.pool.acquire()
        await self.begin()

    async def close(self) -> None:
        await self.pool.release(self.conn)
        await self.pool.close()


class AlchemyConnection(SyncHolder):
    driver: ClassVar[str] = "postgresql+psycopg"
    isolation: ClassVar[str | None] = None

    async def open(self) -> None:
        options = {"isolation_level": self.isolation} if self.isolation else {}
        self.engine = create_engine(self.url.set(drivername=self.driver), **options)
        self.prepare(self.engine)
        self.conn = self.hold(self.engine)

    def prepare(self, engine: Engine) -> None: ...

    def hold(self, engine: Engine) -> Any:
        return engine.connect()

    async def beneath(self) -> Any:
        return self.conn.connection.driver_connection

    async def close(self) -> None:
        self.conn.close()
        self.engine.dispose()

    async def execute(self, sql: str) -> Any:
        return self.conn.execute(text(sql))

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        nested = self.conn.begin_nested()

        async def leave() -> None:
            nested.rollback()

        return leave


class AlchemyAutocommit(AlchemyConnection):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemyPsycopg2(AlchemyConnection):
    driver: ClassVar[str] = "postgresql+psycopg2"


class AlchemySession(AlchemyConnection):
    def hold(self, engine: Engine) -> Any:
        return Session(engine)

    async def beneath(self) -> Any:
        return self.conn.connection().connection.driver_connection


class AlchemyAsyncConnection(AsyncHolder):
    driver: ClassVar[str] = "postgresql+psycopg"
    isolation: ClassVar[str | None] = None

    async def open(self) -> None:
        options = {"isolation_level": self.isolation} if self.isolation else {}
        self.engine = create_async_engine(self.url.set(drivername=self.driver), **options)
        self.conn = await self.hold()

    async def hold(self) -> Any:
        return await self.engine.connect()

    async def beneath(self) -> Any:
        return (await self.conn.get_raw_connection()).driver_connection

    async def close(self) -> None:
        await self.conn.close()
        await self.engine.dispose()

    async def execute(self, sql: str) -> Any:
        return await self.conn.execute(text(sql))

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        inner = await self.conn.begin_nested()
        return inner.rollback  # type: ignore[no-any-return]


class AlchemyAsyncpg(AlchemyAsyncConnection):
    driver: ClassVar[str] = "postgresql+asyncpg"


class AlchemyAsyncpgAutocommit(AlchemyAsyncpg):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemyAsyncSession(AlchemyAsyncConnection):
    async def hold(self) -> Any:
        return AsyncSession(self.engine)

    async def beneath(self) -> Any:
        connection = await self.conn.connection()
        return (await connection.get_raw_connection()).driver_connection


class AlchemyAsyncpgSession(AlchemyAsyncSession):
    driver: ClassVar[str] = "postgresql+asyncpg"


class AlchemyLent(AlchemyAsyncConnection):
    """A synchronous connection in the greenlet of an asynchronous one."""

    async def enqueue(self, jobs: Iterable[NewJob]) -> list[int]:
        ids: list[int] = await self.conn.run_sync(lambda lent: self.intake.enqueue(jobs, lent))
        return ids


class AlchemyLentAsyncpg(AlchemyLent):
    driver: ClassVar[str] = "postgresql+asyncpg"


class Sqlite3(SyncHolder):
    backend = "sqlite"
    options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        self.conn = sqlite3.connect(self.url.database or "", **self.options)


class Sqlite3Immediate(Sqlite3):
    options: ClassVar[dict[str, Any]] = {"isolation_level": "IMMEDIATE"}


class Sqlite3Autocommit(Sqlite3):
    options: ClassVar[dict[str, Any]] = {"isolation_level": None}


class Sqlite3Block(Sqlite3Autocommit):
    """In autocommit mode, with BEGIN and COMMIT of its own."""

    async def open(self) -> None:
        await super().open()
        await self.begin()

    async def begin(self) -> None:
        self.conn.execute("BEGIN")


class Sqlite3Pep249(Sqlite3):
    """In the mode of Python 3.12 where a transaction is always open."""

    options: ClassVar[dict[str, Any]] = {"autocommit": False}


class Sqlite3NewAutocommit(Sqlite3):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class Aiosqlite(AsyncHolder):
    backend = "sqlite"
    options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        self.conn = await aiosqlite.connect(self.url.database or "", **self.options)


class AiosqliteAutocommit(Aiosqlite):
    options: ClassVar[dict[str, Any]] = {"isolation_level": None}


class AiosqlitePep249(Aiosqlite):
    options: ClassVar[dict[str, Any]] = {"autocommit": False}


class AiosqliteNewAutocommit(Aiosqlite):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class AlchemySqlite(AlchemyConnection):
    backend = "sqlite"
    driver: ClassVar[str] = "sqlite"


class AlchemySqliteBegin(AlchemySqlite):
    """Takes transactions out of the driver's hands, as SQLAlchemy's documentation shows."""

    def prepare(self, engine: Engine) -> None:
        @event.listens_for(engine, "connect")
        def _take_over(connection: Any, record: object) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN")


class AlchemySqliteAutocommit(AlchemySqlite):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemySqliteSession(AlchemySession):
    backend = "sqlite"
    driver: ClassVar[str] = "sqlite"


class AlchemyAiosqlite(AlchemyAsyncConnection):
    backend = "sqlite"
    driver: ClassVar[str] = "sqlite+aiosqlite"


class AlchemyAiosqliteAutocommit(AlchemyAiosqlite):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemyAiosqliteSession(AlchemyAsyncSession):
    backend = "sqlite"
    driver: ClassVar[str] = "sqlite+aiosqlite"


class AlchemyLentAiosqlite(AlchemyLent):
    backend = "sqlite"
    driver: ClassVar[str] = "sqlite+aiosqlite"


class Pymysql(SyncHolder):
    """As a program connects to it: in REPEATABLE READ."""

    backend = "mysql"
    options: ClassVar[dict[str, Any]] = {}

    @property
    def parameters(self) -> dict[str, Any]:
        url = self.url
        values = {
            "host": url.host,
            "port": url.port,
            "user": url.username,
            "password": url.password,
        }
        return {**values, "database": url.database, "charset": "utf8mb4", **self.options}

    async def open(self) -> None:
        self.conn = pymysql.connect(**self.parameters)

    async def execute(self, sql: str) -> Any:
        cursor = self.conn.cursor()
        cursor.execute(sql)
        return cursor


class PymysqlAutocommit(Pymysql):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class PymysqlBlock(PymysqlAutocommit):
    """In autocommit mode, with BEGIN and COMMIT of its own."""

    async def open(self) -> None:
        await super().open()
        await self.begin()

    async def begin(self) -> None:
        self.conn.begin()


class Mysqldb(Pymysql):
    async def open(self) -> None:
        self.conn = MySQLdb.connect(**self.parameters)


class MysqldbAutocommit(Mysqldb):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class MysqldbBlock(MysqldbAutocommit):
    """In autocommit mode, with BEGIN and COMMIT of its own."""

    async def open(self) -> None:
        await super().open()
        await self.begin()

    async def begin(self) -> None:
        self.conn.cursor().execute("BEGIN")


class Aiomysql(AsyncHolder):
    backend = "mysql"
    options: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None:
        parameters = Pymysql(self.url.render_as_string(hide_password=False)).parameters
        parameters["db"] = parameters.pop("database")
        self.conn = await aiomysql.connect(**parameters, **self.options)

    async def close(self) -> None:
        await self.conn.ensure_closed()

    async def execute(self, sql: str) -> Any:
        async with self.conn.cursor() as cursor:
            await cursor.execute(sql)


class AiomysqlAutocommit(Aiomysql):
    options: ClassVar[dict[str, Any]] = {"autocommit": True}


class AlchemyMysql(AlchemyConnection):
    backend = "mysql"
    driver: ClassVar[str] = "mysql+pymysql"


class AlchemyMariadb(AlchemyMysql):
    driver: ClassVar[str] = "mariadb+pymysql"


class AlchemyMysqldb(AlchemyMysql):
    driver: ClassVar[str] = "mysql+mysqldb"


class AlchemyMysqlAutocommit(AlchemyMysql):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemyMysqlSession(AlchemySession):
    backend = "mysql"
    driver: ClassVar[str] = "mysql+pymysql"


class AlchemyAiomysql(AlchemyAsyncConnection):
    backend = "mysql"
    driver: ClassVar[str] = "mysql+aiomysql"


class AlchemyAiomysqlAutocommit(AlchemyAiomysql):
    isolation: ClassVar[str | None] = "AUTOCOMMIT"


class AlchemyAiomysqlSession(AlchemyAsyncSession):
    backend = "mysql"
    driver: ClassVar[str] = "mysql+aiomysql"


class AlchemyLentAiomysql(AlchemyLent):
    backend = "mysql"
    driver: ClassVar[str] = "mysql+aiomysql"


class Django(SyncHolder):
    """A Django connection, as `connections[alias]` gives it, in one of its transactions."""

    engine: ClassVar[str] = "postgresql"
    autocommits: ClassVar[bool] = False

    async def open(self) -> None:
        _set_django_up()
        from django.db.utils import ConnectionHandler

        url = self.url
        settings = {
            "ENGINE": f"django.db.backends.{self.engine}",
            "NAME": url.database,
            "USER": url.username or "",
            "PASSWORD": url.password or "",
            "HOST": url.host or "",
            "PORT": url.port or "",
            "AUTOCOMMIT": self.autocommits,
        }
        self.conn = ConnectionHandler({"default": settings})["default"]

    async def execute(self, sql: str) -> Any:
        with self.conn.cursor() as cursor:
            cursor.execute(sql)

    async def beneath(self) -> Any:
        self.conn.ensure_connection()
        return self.conn.connection

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        id = self.conn.savepoint()

        async def leave() -> None:
            self.conn.savepoint_rollback(id)

        return leave


class DjangoAutocommit(Django):
    autocommits: ClassVar[bool] = True


class DjangoSqlite(Django):
    backend = "sqlite"
    engine: ClassVar[str] = "sqlite3"

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        return await Holder.savepoint(self)  # Django's own does nothing outside of `atomic` there


class DjangoSqliteAutocommit(DjangoSqlite):
    autocommits: ClassVar[bool] = True


class DjangoMysql(Django):
    backend = "mysql"
    engine: ClassVar[str] = "mysql"

    async def savepoint(self) -> Callable[[], Awaitable[None]]:
        return await Holder.savepoint(self)  # Django's own does nothing outside of `atomic` there


class DjangoMysqlAutocommit(DjangoMysql):
    autocommits: ClassVar[bool] = True


def _set_django_up() -> None:
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup(set_prefix=False)


# Those whose work is in a transaction of their own.
TRANSACTIONAL: list[type[Holder]] = [
    Psycopg,
    PsycopgBlock,
    PsycopgAsync,
    Psycopg2,
    Asyncpg,
    AsyncpgPool,
    AlchemyConnection,
    AlchemyPsycopg2,
    AlchemySession,
    AlchemyAsyncConnection,
    AlchemyAsyncpg,
    AlchemyAsyncSession,
    AlchemyAsyncpgSession,
    AlchemyLent,
    AlchemyLentAsyncpg,
    Sqlite3,
    Sqlite3Immediate,
    Sqlite3Block,
    Aiosqlite,
    AlchemySqlite,
    AlchemySqliteBegin,
    AlchemySqliteSession,
    AlchemyAiosqlite,
    AlchemyAiosqliteSession,
    AlchemyLentAiosqlite,
    Pymysql,
    PymysqlBlock,
    Mysqldb,
    MysqldbBlock,
    Aiomysql,
    AlchemyMysql,
    AlchemyMariadb,
    AlchemyMysqldb,
    AlchemyMysqlSession,
    AlchemyAiomysql,
    AlchemyAiomysqlSession,
    AlchemyLentAiomysql,
    Django,
    DjangoSqlite,
    DjangoMysql,
]
# Those whose every statement commits by itself.
AUTOCOMMITTING: list[type[Holder]] = [
    PsycopgAutocommit,
    PsycopgAsyncAutocommit,
    Psycopg2Autocommit,
    AsyncpgAutocommit,
    AlchemyAutocommit,
    AlchemyAsyncpgAutocommit,
    Sqlite3Autocommit,
    AiosqliteAutocommit,
    AlchemySqliteAutocommit,
    AlchemyAiosqliteAutocommit,
    PymysqlAutocommit,
    MysqldbAutocommit,
    AiomysqlAutocommit,
    AlchemyMysqlAutocommit,
    AlchemyAiomysqlAutocommit,
    DjangoAutocommit,
    DjangoSqliteAutocommit,
    DjangoMysqlAutocommit,
]
if sys.version_info >= (3, 12):
    TRANSACTIONAL += [Sqlite3Pep249, AiosqlitePep249]
    AUTOCOMMITTING += [Sqlite3NewAutocommit, AiosqliteNewAutocommit]

# One for each way of talking to a database: for what SQL decides, in whoever's transaction it is.
OF_EACH_DRIVER: list[type[Holder]] = [
    Psycopg,
    PsycopgAsync,
    Psycopg2,
    Asyncpg,
    AlchemyConnection,
    AlchemyAsyncpg,
    Sqlite3,
    Aiosqlite,
    AlchemySqlite,
    Pymysql,
    Mysqldb,
    Aiomysql,
    AlchemyMysql,
]

# One for each type of connection that is accepted: for what is decided by the type.
OF_EACH_TYPE: list[type[Holder]] = [
    *(Psycopg, PsycopgAsync, Psycopg2, Asyncpg, AsyncpgPool, Sqlite3, Aiosqlite),
    *(Pymysql, Mysqldb, Aiomysql),
    *(AlchemyConnection, AlchemySession, AlchemyAsyncConnection, AlchemyAsyncSession),
]

# One for each way of writing jobs, for what varies with their number or with a mode.
FEW = {
    *(Psycopg, AlchemyAsyncpg, Sqlite3, Pymysql),
    *(PsycopgAutocommit, AlchemyAsyncpgAutocommit, Sqlite3Autocommit, PymysqlAutocommit),
}
