"""Finds the adapter of any connection or session that a program holds, and the common parts.

A class is looked up only in modules that are loaded already: if a driver's module is not loaded,
the object cannot be one of its connections, and a missing driver does not matter.
"""

import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import count
from os import dup
from typing import Any, Generic, TypeVar

from mutirao.errors import UnsupportedConnection
from mutirao.sql.drivers.steps import AsyncDriver, Query, R, SyncDriver, Work, adrive, drive

Adapted = TypeVar("Adapted", covariant=True)

MOST_CLASSES = 256  # that are remembered: each `sessionmaker` makes one of its own


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """One class of connections or sessions."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def fits(self, conn: object) -> bool:
        """Return whether `conn` is of this class."""
        cls = getattr(sys.modules.get(self.module), self.name, None)
        return isinstance(cls, type) and isinstance(conn, cls)


@dataclass(frozen=True, slots=True)
class Adapting(ConnectionKind, Generic[Adapted]):
    """A kind with the function that returns its adapter."""

    adapt: Callable[[Any], Adapted]


class Kinds(Generic[Adapted]):
    """Several kinds, with a cache of the kinds of classes, which never change."""

    def __init__(self, *kinds: Adapting[Adapted]) -> None:
        self.each = kinds
        self._met: dict[type, Adapting[Adapted]] = {}

    def __str__(self) -> str:
        return ", ".join(map(str, self.each))

    def of(self, conn: object) -> Adapting[Adapted] | None:
        """Return the kind of `conn`, or None."""
        kind = self._met.get(conn.__class__)
        if kind is None:
            kind = next((each for each in self.each if each.fits(conn)), None)
            if kind is not None:
                if len(self._met) >= MOST_CLASSES:
                    self._met.clear()
                self._met[conn.__class__] = kind
        return kind

    def adapt(self, conn: object) -> Adapted:
        """Return the adapter for `conn`; raise UnsupportedConnection if it is of no kind."""
        kind = self.of(conn)
        if kind is None:
            raise UnsupportedConnection(f"found {_described(conn)}; expected one of {self}")
        return kind.adapt(conn)


def speaking(path: str) -> Callable[[Any], Any]:
    """Return what makes a caller of the class at `file:class`, loaded when it is first needed."""
    file, _, name = path.partition(":")
    return lambda conn: getattr(import_module(f"mutirao.sql.drivers.{file}"), name)(conn)


def _sqlalchemy(conn: Any) -> SyncDriver:
    from mutirao.sql.drivers.sqlalchemy import SqlAlchemyDriver

    driver = conn.connection.driver_connection
    return SqlAlchemyDriver(conn, _beneath_sqlalchemy(driver))


def _sqlalchemy_session(session: Any) -> SyncDriver:
    from mutirao.sql.drivers.sqlalchemy import of_session

    return _sqlalchemy(of_session(session))


def _itself(lender: Any) -> Any:
    return lender


def _scoped(registry: Any) -> Any:
    return registry()


def _beneath_sqlalchemy(driver: object) -> SyncDriver | AsyncDriver:
    kind = _ANY_DRIVER.of(driver)
    if kind is not None:
        return kind.adapt(driver)
    known = dict.fromkeys(each.module.partition(".")[0] for each in _ANY_DRIVER.each)
    raise UnsupportedConnection(
        f"conn= was given a SQLAlchemy connection over {_described(driver)}; expected one over "
        f"one of {', '.join(known)}. Create the engine with a URL such as "
        f"postgresql+psycopg://…, mysql+pymysql://… or sqlite:///…."
    )


def drop(conn: object) -> None:
    """Make whatever a driver's own connection is doing fail now. Harmless if it is closed.

    Cancelling a query needs the same network as the query; this needs none. For asyncpg only in
    the thread of the connection's event loop, for others from any thread.
    """
    with suppress(Exception):  # it is closed already, or has only just been opened
        kind = _ANY_DRIVER.of(conn)
        if kind is not None:
            kind.adapt(conn).drop()


# The one list of drivers.
DRIVERS = Kinds[SyncDriver](
    Adapting("psycopg", "Connection", speaking("psycopg:PsycopgDriver")),
    Adapting("psycopg2.extensions", "connection", speaking("psycopg2:Psycopg2Driver")),
    Adapting("sqlite3", "Connection", speaking("sqlite3:Sqlite3Driver")),
    Adapting("pymysql", "Connection", speaking("pymysql:PyMysqlDriver")),
    Adapting("MySQLdb.connections", "Connection", speaking("mysqldb:MysqldbDriver")),
)
ASYNC_DRIVERS = Kinds[AsyncDriver](
    Adapting("psycopg", "AsyncConnection", speaking("psycopg:AsyncPsycopgDriver")),
    Adapting("asyncpg", "Connection", speaking("asyncpg:AsyncpgDriver")),
    Adapting("asyncpg.pool", "PoolConnectionProxy", speaking("asyncpg:AsyncpgDriver")),
    Adapting("aiosqlite", "Connection", speaking("aiosqlite:AiosqliteDriver")),
    Adapting("aiomysql", "Connection", speaking("aiomysql:AiomysqlDriver")),
)
DJANGO: Adapting[SyncDriver] = Adapting(
    "django.db.backends.base.base", "BaseDatabaseWrapper", speaking("django:DjangoDriver")
)
_SYNC = Kinds[SyncDriver](
    Adapting("sqlalchemy", "Connection", _sqlalchemy),
    Adapting("sqlalchemy.orm", "Session", _sqlalchemy_session),
    Adapting("sqlalchemy.orm", "scoped_session", _sqlalchemy_session),
    *DRIVERS.each,
    DJANGO,
    Adapting("django.utils.connection", "ConnectionProxy", speaking("django:beneath_proxy")),
)
# Their `run_sync` lends the synchronous connection beneath, which `run` accepts.
_GREENLET = Kinds(
    Adapting("sqlalchemy.ext.asyncio", "AsyncConnection", _itself),
    Adapting("sqlalchemy.ext.asyncio", "AsyncSession", _itself),
    Adapting("sqlalchemy.ext.asyncio", "async_scoped_session", _scoped),
)
_ASYNC = Kinds[Any](*_GREENLET.each, *ASYNC_DRIVERS.each)
_ANY_DRIVER = Kinds[SyncDriver | AsyncDriver](*DRIVERS.each, *ASYNC_DRIVERS.each)


def driver(conn: object) -> SyncDriver:
    """Return the adapter for a synchronous connection or session.

    Raises:
        UnsupportedConnection: it is none of the accepted kinds, or is asynchronous.
    """
    kind = _SYNC.of(conn)
    if kind is not None:
        return kind.adapt(conn)
    raise _unsupported(conn, _ASYNC, "is asynchronous: use `aenqueue` or `aremember`, and await it")


def through(conn: object, steps: Query[R]) -> R:
    """Run steps through a synchronous connection or session; see `driver`."""
    return drive(steps, driver(conn))


def run(conn: object, work: Work) -> list[int]:
    """Run `work` through a synchronous connection or session and return the ids.

    Raises:
        UnsupportedConnection: it is none of the accepted kinds, or is asynchronous.
    """
    speaker = driver(conn)
    return drive(work(speaker), speaker)


async def arun(conn: object, work: Work) -> list[int]:
    """Run `work` through an asynchronous connection or session and return the ids; see `run`."""
    lender = _GREENLET.of(conn)
    if lender is not None:
        ids: list[int] = await lender.adapt(conn).run_sync(run, work)
        return ids
    driver = ASYNC_DRIVERS.of(conn)
    if driver is not None:
        speaker = driver.adapt(conn)
        return await adrive(work(speaker), speaker)
    raise _unsupported(conn, _SYNC, "is synchronous: use `enqueue` or `remember`")


def _unsupported(conn: object, other: Kinds[Any], why: str) -> UnsupportedConnection:
    if other.of(conn) is None:
        why = "is no connection or session that jobs can be written through"
    return UnsupportedConnection(
        f"conn= was given {_described(conn)}, which {why}. "
        f"`enqueue` and `enqueue_many` accept {_SYNC}; `aenqueue` and `aenqueue_many` "
        f"accept {_ASYNC}. Pass the one whose transaction the job shall belong to."
    )


def _described(found: object) -> str:
    return f"an object of type {type(found).__module__}.{type(found).__qualname__}"


def shut_down(file: int) -> None:
    """Shut a socket down: a thread that waits for an answer gets an error at once."""
    copy = dup(file)  # closing it leaves the driver's own open
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=copy) as held:
        held.shutdown(socket.SHUT_RDWR)


@lru_cache(maxsize=32)
def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2` … instead of `%s`."""
    first, *rest = sql.split("%s")
    return first + "".join(f"${n}{part}" for n, part in zip(count(1), rest, strict=False))


@lru_cache(maxsize=256)
def with_percents(sql: str) -> str:
    """Return a statement with `%s` instead of `?`; a plain `%` becomes `%%`."""
    return sql.replace("%", "%%").replace("?", "%s")
