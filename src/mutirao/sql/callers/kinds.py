"""Which connections and sessions are accepted, and who speaks through each.

A class is looked for in modules that are loaded already: if a driver's module is not, the
object cannot be one of its connections, and a driver that is missing never matters.
"""

import sys
from collections.abc import Callable
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


class Kinds(Generic[Adapted]):
    """Some kinds, and which of them are the classes that were met, which never changes."""

    def __init__(self, *kinds: Adapting[Adapted]) -> None:
        self.each = kinds
        self._met: dict[type, Adapting[Adapted]] = {}

    def __str__(self) -> str:
        return ", ".join(map(str, self.each))

    def of(self, conn: object) -> Adapting[Adapted] | None:
        """Return which of them `conn` is, if any."""
        kind = self._met.get(conn.__class__)
        if kind is None:
            kind = next((each for each in self.each if each.fits(conn)), None)
            if kind is not None:
                self._met[conn.__class__] = kind
        return kind

    def adapt(self, conn: object) -> Adapted:
        """Return who speaks through `conn`. Raises UnsupportedConnection if it is none of them."""
        kind = self.of(conn)
        if kind is None:
            raise UnsupportedConnection(f"found {_described(conn)}; expected one of {self}")
        return kind.adapt(conn)


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
    kind = _ANY_DRIVER.of(driver)
    if kind is not None:
        return kind.adapt(driver)
    raise UnsupportedConnection(
        f"conn= was given a SQLAlchemy connection over {_described(driver)}; expected one over "
        f"psycopg, psycopg2, asyncpg, sqlite3 or aiosqlite. Create the engine with a URL such as "
        f"postgresql+psycopg://… or sqlite:///…."
    )


DRIVERS = Kinds(
    Adapting("psycopg", "Connection", _psycopg),
    Adapting("psycopg2.extensions", "connection", _psycopg2),
    Adapting("sqlite3", "Connection", _sqlite3),
)
ASYNC_DRIVERS = Kinds(
    Adapting("psycopg", "AsyncConnection", _psycopg_async),
    Adapting("asyncpg", "Connection", _asyncpg),
    Adapting("asyncpg.pool", "PoolConnectionProxy", _asyncpg),
    Adapting("aiosqlite", "Connection", _aiosqlite),
)
_SYNC = Kinds(
    Adapting("sqlalchemy", "Connection", _sqlalchemy),
    Adapting("sqlalchemy.orm", "Session", _sqlalchemy_session),
    Adapting("sqlalchemy.orm", "scoped_session", _sqlalchemy_session),
    *DRIVERS.each,
)
# Their `run_sync` lends what is synchronous beneath them, and `run` takes that.
_GREENLET = Kinds(
    Adapting("sqlalchemy.ext.asyncio", "AsyncConnection", _itself),
    Adapting("sqlalchemy.ext.asyncio", "AsyncSession", _itself),
    Adapting("sqlalchemy.ext.asyncio", "async_scoped_session", _scoped),
)
_ASYNC = Kinds[Any](*_GREENLET.each, *ASYNC_DRIVERS.each)
_ANY_DRIVER = Kinds[SyncCaller | AsyncCaller](*DRIVERS.each, *ASYNC_DRIVERS.each)


def caller(conn: object) -> SyncCaller:
    """Return who speaks through a synchronous connection or session.

    Raises:
        UnsupportedConnection: it is none of the accepted kinds, or an asynchronous one.
    """
    kind = _SYNC.of(conn)
    if kind is not None:
        return kind.adapt(conn)
    raise _unsupported(conn, _ASYNC, "is asynchronous: use `aenqueue`, and await it")


def run(conn: object, work: Work) -> list[int]:
    """Do `work` through a synchronous connection or session and return the ids.

    Raises:
        UnsupportedConnection: it is none of the accepted kinds, or an asynchronous one.
    """
    speaker = caller(conn)
    return drive(work(speaker), speaker)


async def arun(conn: object, work: Work) -> list[int]:
    """As `run`, through an asynchronous connection or session."""
    lender = _GREENLET.of(conn)
    if lender is not None:
        ids: list[int] = await lender.adapt(conn).run_sync(run, work)
        return ids
    driver = ASYNC_DRIVERS.of(conn)
    if driver is not None:
        speaker = driver.adapt(conn)
        return await adrive(work(speaker), speaker)
    raise _unsupported(conn, _SYNC, "is synchronous: use `enqueue`")


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
