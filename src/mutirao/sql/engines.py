"""SQLAlchemy engines for a URL, made when first used: one synchronous, one for each event loop.

Pooled connections belong to the process and, with asynchronous drivers, to the event loop that
opened them. After a fork the child forgets its parent's engines without closing their sockets.
"""

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from mutirao.errors import ConfigurationError, MissingDriver

ALONE = "mutirao_alone"  # execution option: a single statement, which needs no BEGIN
SQLITE_BUSY_TIMEOUT = 30.0  # seconds a SQLite connection waits for another one's write lock

# URL scheme → (synchronous driver, asynchronous driver, the extra that installs them)
DRIVERS: dict[str, tuple[str | None, str | None, str]] = {
    "sqlite": ("sqlite+pysqlite", "sqlite+aiosqlite", ""),
    "sqlite+pysqlite": ("sqlite+pysqlite", "sqlite+aiosqlite", ""),
    "sqlite+aiosqlite": ("sqlite+pysqlite", "sqlite+aiosqlite", ""),
    "postgresql": ("postgresql+psycopg", "postgresql+psycopg", "postgresql"),
    "postgresql+psycopg": ("postgresql+psycopg", "postgresql+psycopg", "postgresql"),
    "postgresql+asyncpg": (None, "postgresql+asyncpg", "asyncpg"),
    "postgresql+psycopg2": ("postgresql+psycopg2", None, "psycopg2"),
}


def parse_url(url: str | URL) -> URL:
    """Return the URL, or raise ConfigurationError saying which ones are possible."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            f"{url!r} is no database URL; give one like sqlite:///mutirao.db or"
            " postgresql+psycopg://user@host/database"
        ) from None
    if parsed.drivername not in DRIVERS:
        raise ConfigurationError(
            f"the database URL begins with {parsed.drivername!r}; known are {', '.join(DRIVERS)}"
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise ConfigurationError(
            "a SQLite database in memory belongs to one connection and cannot hold jobs for"
            " others; name a file (sqlite:///mutirao.db), or use mutirao.testing in unit tests"
        )
    return parsed


class Engines:
    """The engines of one URL. `pool_size` bounds the connections each of them keeps."""

    def __init__(self, url: str | URL, pool_size: int = 5) -> None:
        self.url = parse_url(url)
        self._sync_driver, self._async_driver, self._extra = DRIVERS[self.url.drivername]
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._sync: Engine | None = None
        self._async: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncEngine] = WeakKeyDictionary()

    @property
    def has_async(self) -> bool:
        """Whether the driver has an asynchronous form that workers use (SQLite's is slower)."""
        return self._async_driver is not None and not self.is_sqlite

    @property
    def has_sync(self) -> bool:
        """Whether the driver has a synchronous form."""
        return self._sync_driver is not None

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file opened by this process, not a server."""
        return self.url.get_backend_name() == "sqlite"

    def sync(self) -> Engine:
        """Return the synchronous engine. Raises ConfigurationError if the driver has none."""
        self._forget_if_forked()
        if self._sync is None:
            if self._sync_driver is None:
                raise ConfigurationError(
                    f"{self.url.drivername} has no synchronous form; use the asynchronous call,"
                    " or a postgresql+psycopg:// URL"
                )
            engine: Engine = self._create(create_engine, self._sync_driver)
            _prepare(engine)
            self._sync = engine
        return self._sync

    def asynchronous(self) -> AsyncEngine:
        """Return the running loop's engine. Raises ConfigurationError if the driver has none."""
        self._forget_if_forked()
        loop = asyncio.get_running_loop()
        if loop not in self._async:
            if self._async_driver is None:
                raise ConfigurationError(
                    f"{self.url.drivername} has no asynchronous form; use a plain (not async)"
                    " handler, or a postgresql+psycopg:// URL"
                )
            engine = self._create(create_async_engine, self._async_driver)
            _prepare(engine.sync_engine)
            self._async[loop] = engine
        return self._async[loop]

    async def close(self) -> None:
        """Close the connections of the synchronous engine and of the running loop's."""
        self._forget_if_forked()
        engine = self._async.pop(asyncio.get_running_loop(), None)
        if engine is not None:
            await engine.dispose()
        self.close_sync()

    def close_sync(self) -> None:
        """Close the synchronous engine's connections."""
        self._forget_if_forked()
        sync, self._sync = self._sync, None
        if sync is not None:
            sync.dispose()

    def _create(self, factory: Any, driver: str) -> Any:
        options: dict[str, Any] = {"pool_size": self._pool_size, "max_overflow": 64}
        if self.is_sqlite:
            options["connect_args"] = {"timeout": SQLITE_BUSY_TIMEOUT}
        try:
            return factory(self.url.set(drivername=driver), **options)
        except ModuleNotFoundError as missing:
            raise MissingDriver(
                f"the URL asks for {driver}, whose driver is not installed ({missing});"
                f" run: pip install 'mutirao[{self._extra}]'"
            ) from missing
        except NoSuchModuleError as unknown:
            raise ConfigurationError(str(unknown)) from unknown

    def _forget_if_forked(self) -> None:
        if self._pid == os.getpid():
            return
        # The sockets are shared with the parent: closing them properly would end its sessions.
        if self._sync is not None:
            self._sync.dispose(close=False)
        for engine in self._async.values():
            engine.sync_engine.dispose(close=False)
        self._pid, self._sync, self._async = os.getpid(), None, WeakKeyDictionary()


def _prepare(engine: Engine) -> None:
    """Make SQLite transactions take the write lock when they begin.

    A transaction that reads first and writes later fails at once when another one wrote in
    between (SQLITE_BUSY_SNAPSHOT, which no timeout waits for).
    """
    if engine.dialect.name != "sqlite":
        return

    @event.listens_for(engine, "connect")
    def _take_over(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would be a deferred one
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(ALONE):
            connection.exec_driver_sql("BEGIN IMMEDIATE")
