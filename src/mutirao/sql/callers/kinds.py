"""Which connections and sessions are accepted, and who speaks through each.

A class is looked for in modules that are loaded already: if a driver's module is not, the
object cannot be one of its connections, and a driver that is missing never matters.
"""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mutirao.errors import UnsupportedConnection
from mutirao.sql.callers.steps import AsyncCaller, SyncCaller, Work, adrive, drive

Adapted = TypeVar("Adapted", covariant=True)


@dataclass(frozen=True, slots=True)
class Kind:
    """One class of connections or sessions."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    def fits(self, conn: object) -> bool:
        """Whether `conn` is of this class."""
        cls = getattr(sys.modules.get(self.module), self.name, None)
        return isinstance(cls, type) and isinstance(conn, cls)


@dataclass(frozen=True, slots=True)
class Adapting(Kind, Generic[Adapted]):
    """A kind with the caller that speaks through it."""

    adapt: Callable[[Any], Adapted]


def _psycopg(conn: Any) -> SyncCaller:
    from mutirao.sql.callers.psycopg import PsycopgCaller

    return PsycopgCaller(conn)


def _psycopg_async(conn: Any) -> AsyncCaller:
    from mutirao.sql.callers.psycopg import AsyncPsycopgCaller

    return AsyncPsycopgCaller(conn)


def _psycopg2(conn: Any) -> SyncCaller:
    from mutirao.sql.callers.psycopg2 import Psycopg2Caller

    if conn.async_:
        raise UnsupportedConnection(
            "conn= was given a psycopg2 connection in its asynchronous mode, which sends and does "
            "not wait; expected a plain one. Connect without async_, or use psycopg 3 or asyncpg."
        )
    return Psycopg2Caller(conn)


def _asyncpg(conn: Any) -> AsyncCaller:
    from mutirao.sql.callers.asyncpg import AsyncpgCaller

    return AsyncpgCaller(conn)


def _sqlite3(conn: Any) -> SyncCaller:
    from mutirao.sql.callers.sqlite3 import Sqlite3Caller

    return Sqlite3Caller(conn)


def _aiosqlite(conn: Any) -> AsyncCaller:
    from mutirao.sql.callers.aiosqlite import AiosqliteCaller

    return AiosqliteCaller(conn)


def _sqlalchemy(conn: Any) -> SyncCaller:
    from mutirao.sql.callers.sqlalchemy import SqlAlchemyCaller

    driver = conn.connection.driver_connection
    return SqlAlchemyCaller(conn, _beneath_sqlalchemy(driver))


def _sqlalchemy_session(session: Any) -> SyncCaller:
    return _sqlalchemy(session.connection())


def _itself(lender: Any) -> Any:
    return lender


def _scoped(registry: Any) -> Any:
    return registry()


def _beneath_sqlalchemy(driver: object) -> SyncCaller | AsyncCaller:
    for kind in (*_DRIVERS, *_ASYNC_DRIVERS):
        if kind.fits(driver):
            return kind.adapt(driver)
    raise UnsupportedConnection(
        f"conn= was given a SQLAlchemy connection over {_described(driver)}; expected one over "
        f"psycopg, psycopg2, asyncpg, sqlite3 or aiosqlite. Create the engine with a URL such as "
        f"postgresql+psycopg://… or sqlite:///…."
    )


_DRIVERS = (
    Adapting("psycopg", "Connection", _psycopg),
    Adapting("psycopg2.extensions", "connection", _psycopg2),
    Adapting("sqlite3", "Connection", _sqlite3),
)
_ASYNC_DRIVERS = (
    Adapting("psycopg", "AsyncConnection", _psycopg_async),
    Adapting("asyncpg", "Connection", _asyncpg),
    Adapting("asyncpg.pool", "PoolConnectionProxy", _asyncpg),
    Adapting("aiosqlite", "Connection", _aiosqlite),
)
_SYNC = (
    Adapting("sqlalchemy", "Connection", _sqlalchemy),
    Adapting("sqlalchemy.orm", "Session", _sqlalchemy_session),
    Adapting("sqlalchemy.orm", "scoped_session", _sqlalchemy_session),
    *_DRIVERS,
)
# Their `run_sync` lends what is synchronous beneath them, and `run` takes that.
_GREENLET = (
    Adapting("sqlalchemy.ext.asyncio", "AsyncConnection", _itself),
    Adapting("sqlalchemy.ext.asyncio", "AsyncSession", _itself),
    Adapting("sqlalchemy.ext.asyncio", "async_scoped_session", _scoped),
)
_ASYNC = (*_GREENLET, *_ASYNC_DRIVERS)


def run(conn: object, work: Work) -> list[int]:
    """Do `work` through a synchronous connection or session and return the ids.

    Raises:
        UnsupportedConnection: it is none of the accepted kinds, or an asynchronous one.
    """
    for kind in _SYNC:
        if kind.fits(conn):
            return drive(work, kind.adapt(conn))
    raise _unsupported(conn, _ASYNC, "is asynchronous: use `aenqueue`, and await it")


async def arun(conn: object, work: Work) -> list[int]:
    """As `run`, through an asynchronous connection or session."""
    for kind in _GREENLET:
        if kind.fits(conn):
            ids: list[int] = await kind.adapt(conn).run_sync(run, work)
            return ids
    for driver in _ASYNC_DRIVERS:
        if driver.fits(conn):
            return await adrive(work, driver.adapt(conn))
    raise _unsupported(conn, _SYNC, "is synchronous: use `enqueue`")


def _unsupported(conn: object, other: Iterable[Kind], why: str) -> UnsupportedConnection:
    if not any(kind.fits(conn) for kind in other):
        why = "is no connection or session that jobs can be written through"
    return UnsupportedConnection(
        f"conn= was given {_described(conn)}, which {why}. "
        f"`enqueue` and `enqueue_many` accept {_listed(_SYNC)}; `aenqueue` and `aenqueue_many` "
        f"accept {_listed(_ASYNC)}. Pass the one whose transaction the job shall belong to."
    )


def _described(found: object) -> str:
    return f"an object of type {type(found).__module__}.{type(found).__qualname__}"


def _listed(kinds: Iterable[Kind]) -> str:
    return ", ".join(str(kind) for kind in kinds)
