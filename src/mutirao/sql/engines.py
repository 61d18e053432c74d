"""SQLAlchemy engines for a URL, made when first used: synchronous, and for each event loop.

There are two of each: for transactions, and for statements that stand each for itself. Taking a
connection of the first kind out of its transactions for one statement, and back, cost 0.1 ms.

Pooled connections belong to the process and, with asynchronous drivers, to the event loop that
opened them. After a fork the child forgets its parent's engines without closing their sockets.
"""

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.sql.deadlines import tell_lent
from mutirao.sql.dialects import all_connecting
from mutirao.sql.dialects.connecting import ALONE, Connecting
from mutirao.sql.failures import UNPREPARED, WEAKER, Failure, judge
from mutirao.sql.kept import Kept
from mutirao.sql.reading import read_json

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

log = logging.getLogger("mutirao")

# Connections that are kept once they were needed: as many as a worker has slots by default, each of
# which may hold a transaction. 16 producers that shared 5 connected anew for two jobs of three, at
# 0.4k jobs/s instead of 1.2k.
KEPT = 20
FORGOTTEN = 2  # statements; one may have been deallocated by somebody
MAX_OVERFLOW = 64  # connections beyond those, closed after use
_STANDING: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", ALONE: True}
_Async = WeakKeyDictionary[asyncio.AbstractEventLoop, "dict[bool, AsyncEngine]"]
_AsyncKept = WeakKeyDictionary[asyncio.AbstractEventLoop, Kept]


def _parse(url: str | URL) -> tuple[URL, Connecting]:
    """Return the URL and how to connect to it; ConfigurationError says which are possible."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            f"{url!r} is no database URL; give one like sqlite:///mutirao.db or"
            " postgresql+psycopg://user@host/database"
        ) from None
    known = {scheme: each for each in all_connecting() for scheme in each.schemes}
    if parsed.drivername not in known:
        raise ConfigurationError(
            f"the database URL begins with {parsed.drivername!r}; known are {', '.join(known)}"
        )
    connecting = known[parsed.drivername]
    if (reason := connecting.refuse(parsed)) is not None:
        raise ConfigurationError(reason)
    return parsed, connecting


class Engines:
    """The engines of one URL. `pool_size` bounds the connections each of them keeps.

    `given` is the URL as it was given, to be shown; `url` has all that a connection needs.
    """

    def __init__(self, url: str | URL, pool_size: int = KEPT) -> None:
        self.given, self._connecting = _parse(url)
        self._drivers = self._connecting.schemes[self.given.drivername]
        self.url = self._drivers.completed(self.given)
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._sync: dict[bool, Engine] = {}
        self._async: _Async = WeakKeyDictionary()
        self._kept: Kept | None = None
        self._akept: _AsyncKept = WeakKeyDictionary()
        self._unprepared = 0  # times that a prepared statement was not as it was left
        self.autocommits = True  # else single statements travel in transactions, as they need one

    @property
    def database(self) -> str:
        """The database's name: that of its package in `dialects`."""
        return self._connecting.database

    @property
    def has_sync(self) -> bool:
        """Whether the driver has a synchronous form."""
        return self._drivers.sync is not None

    @property
    def apart(self) -> bool:
        """Whether statements that stand for themselves have connections of their own."""
        return self._connecting.apart

    @property
    def in_thread(self) -> bool:
        """Whether workers use the synchronous engine, in a thread."""
        return self._connecting.in_thread or self._drivers.asynchronous is None

    def sync(self, *, alone: bool = False) -> Engine:
        """Return the synchronous engine; `alone`: the one of statements without a transaction.

        Raises:
            ConfigurationError: the driver has no synchronous form.
        """
        self._forget_if_forked()
        if alone not in self._sync:
            if self._drivers.sync is None:
                raise ConfigurationError(
                    f"{self.url.drivername} has no synchronous form; use the asynchronous call,"
                    " or a postgresql+psycopg:// URL"
                )
            if alone and not self._connecting.apart:
                self._sync[alone] = self.sync().execution_options(**_STANDING)
                return self._sync[alone]
            engine: Engine = self._create(create_engine, self._drivers.sync, alone)
            self._prepare(engine)
            # Of threads that come first together, all use one: connections of another pool would
            # be lost with it.
            return self._sync.setdefault(alone, engine)
        return self._sync[alone]

    def kept(self) -> Kept:
        """Return the connections of `sync(alone=True)` that are lent for one statement each."""
        self._forget_if_forked()
        if self._kept is None:
            # Half of them: the pool has others for who asks it.
            self._kept = Kept(self.sync(alone=True), self._pool_size // 2)
        return self._kept

    def asynchronously_kept(self) -> Kept:
        """As `kept`, of `asynchronous(alone=True)`, in the running loop."""
        self._forget_if_forked()
        loop = asyncio.get_running_loop()
        if loop not in self._akept:
            engine = self.asynchronous(alone=True).sync_engine
            self._akept[loop] = Kept(engine, self._pool_size // 2)
        return self._akept[loop]

    def asynchronous(self, *, alone: bool = False) -> "AsyncEngine":
        """Return the running loop's engine; `alone`: as for `sync`.

        Raises:
            ConfigurationError: the driver has no asynchronous form.
        """
        self._forget_if_forked()
        engines = self._async.setdefault(asyncio.get_running_loop(), {})
        if alone not in engines:
            if self._drivers.asynchronous is None:
                raise ConfigurationError(
                    f"{self.url.drivername} has no asynchronous form; use a plain (not async)"
                    " handler, or a postgresql+psycopg:// URL"
                )
            # Brings SQLAlchemy's ORM, which takes a tenth of the time that importing takes.
            from sqlalchemy.ext.asyncio import create_async_engine

            driver = self._drivers.asynchronous
            engine: AsyncEngine = self._create(create_async_engine, driver, alone)
            self._prepare(engine.sync_engine)
            engines[alone] = engine
        return engines[alone]

    async def close(self) -> None:
        """Close the connections of the synchronous engines and of the running loop's."""
        self._forget_if_forked()
        loop = asyncio.get_running_loop()
        kept, engines = self._akept.pop(loop, None), self._async.pop(loop, {})
        if kept is not None:
            await greenlet_spawn(kept.dispose)
        for engine in engines.values():
            await engine.dispose()
        self.close_sync()

    def close_sync(self) -> None:
        """Close the synchronous engines' connections."""
        self._forget_if_forked()
        engines, self._sync = self._sync, {}
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.dispose()
        for engine in engines.values():
            engine.dispose()

    def note(self, failure: Failure | None) -> bool:
        """Note what a statement met; return whether its connection is to be given up."""
        if failure is UNPREPARED:
            self._unprepared += 1
            if self._unprepared == FORGOTTEN:
                log.warning("statements are not prepared any more, as a pooler forgets them")
        if failure is WEAKER and self.autocommits:
            self.autocommits = False
            log.warning("single statements travel in transactions from now on, which takes longer")
        return failure is not None and failure.reconnect

    @property
    def prepares(self) -> bool:
        """Whether statements are prepared; not behind a pooler that does not know of it."""
        return self._unprepared < FORGOTTEN

    def _prepare(self, engine: Engine) -> None:
        self._connecting.prepare(engine)
        event.listen(engine, "handle_error", self._give_up_connection)
        event.listen(engine, "do_connect", self._without_preparing)
        tell_lent(engine)

    def _give_up_connection(self, context: ExceptionContext) -> None:
        """Have a connection replaced after an error that says that it, or its server, is unfit."""
        if self.note(judge(context.original_exception)):
            context.is_disconnect = True

    def _without_preparing(
        self, dialect: object, record: object, args: object, parameters: dict[str, Any]
    ) -> None:
        if not self.prepares:
            parameters.update(self._drivers.unprepared)

    def _create(self, factory: Any, driver: str, alone: bool) -> Any:
        # What stands for itself leaves nothing to roll back when its connection is returned.
        standing: dict[str, Any] = (
            {"isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None, **self._drivers.alone}
            if alone
            else dict(self._drivers.together)
        )
        try:
            return factory(
                self.url.set(drivername=driver),
                pool_size=self._pool_size,
                max_overflow=MAX_OVERFLOW,
                # The connection used last has its plans and the processor's caches warm.
                pool_use_lifo=True,
                json_deserializer=read_json,
                connect_args=dict(self._drivers.arguments),
                **standing,
            )
        except ModuleNotFoundError as missing:
            raise MissingDriver(
                f"the URL asks for {driver}, whose driver is not installed ({missing});"
                f" run: pip install 'mutirao[{self._drivers.extra}]'"
            ) from missing
        except NoSuchModuleError as unknown:
            raise ConfigurationError(str(unknown)) from unknown

    def _forget_if_forked(self) -> None:
        if self._pid == os.getpid():
            return
        # The sockets are shared with the parent: closing them properly would end its sessions.
        for engine in self._sync.values():
            engine.dispose(close=False)
        for engines in self._async.values():
            for each in engines.values():
                each.sync_engine.dispose(close=False)
        self._pid, self._sync, self._async = os.getpid(), {}, WeakKeyDictionary()
        self._kept, self._akept = None, WeakKeyDictionary()
