"""The store's SQLAlchemy engines: for a URL, or beside an application's engine; created on use.

There are synchronous ones, and some for each event loop.

There are two of each: for transactions, and for single statements in autocommit mode. Switching a
connection of the first kind to autocommit for one statement, and back, cost 0.1 ms.

Pooled connections belong to the process and, with asynchronous drivers, to the event loop that
opened them. After a fork the child forgets its parent's engines, whose sockets it does not have.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from sqlalchemy import URL, Dialect as SqlAlchemyDialect, Engine, Pool, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.util import await_only, greenlet_spawn

from mutirao.aio import ByLoop
from mutirao.errors import ConfigurationError
from mutirao.forks import keep_from_children
from mutirao.sql.connections.application import Application
from mutirao.sql.connections.budget import Budget, Share
from mutirao.sql.connections.creating import created
from mutirao.sql.connections.deadlines import report_lent
from mutirao.sql.connections.keeping import leave_closed, refuse_kept
from mutirao.sql.connections.options import refuse_unknown
from mutirao.sql.connections.spare import SpareConnections, abandon_idle, close_idle
from mutirao.sql.connections.urls import parse_url
from mutirao.sql.dialects.connecting import SINGLE_STATEMENT, Place
from mutirao.sql.drivers.failures import (
    UNPREPARED,
    WRONG_ISOLATION,
    Failure,
    judge,
    translate_errors,
)
from mutirao.sql.drivers.naming import Names
from mutirao.sql.drivers.resting import file_of

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

log = logging.getLogger("mutirao")

# Connections kept open after use: as many as a worker has slots by default, each of which may hold
# a transaction. 16 producers that shared 5 connections had to connect again for two jobs of three,
# at 0.4k jobs/s instead of 1.2k.
POOL_SIZE = 20
# Lost prepared statements; a single one may have been deallocated by a user.
MAX_LOST_STATEMENTS = 2
# Seconds between tries to connect in the place of what was closed just now: the server counts a
# session until its process has ended, which took longer than a connection on a busy machine.
ENDING_SESSION_WAITS = (0.01, 0.05, 0.2, 0.5)
_AUTOCOMMIT: dict[str, Any] = {"isolation_level": "AUTOCOMMIT", SINGLE_STATEMENT: True}
_Async = dict[bool, "AsyncEngine"]
_Spare = dict[bool, SpareConnections]
Database = Union[str, URL, Engine, "AsyncEngine"]  # where it is: a URL, or an application's engine


class Engines:
    """Our engines for one database. `pool_size` limits the connections that each of them keeps.

    `database` says where it is: a URL, or an engine of the application, whose way of opening
    connections is ours then, and which is never disposed of. `schema` is the one of the tables;
    None: the one that connections find them in. `given` is the URL as it was given, for display;
    `url` has everything that a connection needs. `dialect` is that of the database. `creates`: a
    database that is a file may be made. `keeps`: connections for transactions are kept after use.
    """

    borrowed = False  # whether transactions are parts of a caller's

    def __init__(
        self,
        database: Database,
        pool_size: int = POOL_SIZE,
        *,
        creates: bool = False,
        schema: str | None = None,
        keeps: bool = True,
    ) -> None:
        self._creates, self._keeps = creates, keeps
        self.database, self.schema = database, schema
        self._application: Application | None = None
        if not isinstance(database, str | URL):
            self._application = Application(database)
            database = self._application.url
        self.given, self.dialect = parse_url(database)
        self._connecting = self.dialect.connecting
        self.names = self._named(schema)
        self._drivers = self._connecting.schemes[self.given.drivername]
        if self._application is not None:
            self._drivers = self._application.forms(self._drivers)
        if self._drivers.sync is None and self._connecting.in_thread:
            raise ConfigurationError(
                f"{self._described()} has no synchronous form, which workers need on"
                f" {self.dialect.intake.database}; give a plain Engine, or the URL"
            )
        self.url = self._drivers.completed(self._connecting.settled(self.given))
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._sync: dict[bool, Engine] = {}
        self._spare: _Spare = {}
        self._async, self._async_spare = self._by_loops()
        self._unprepared = 0  # how often a prepared statement was lost
        self.share: Share | None = None  # of the connections of a process; None: no limit
        self.autocommits = True  # False: single statements need a transaction around them

    def limit(self, budget: Budget | None) -> None:
        """Open connections only as a budget allows; raises what `Budget.join` does."""
        if budget is not None and not self.in_file:
            self._share_in(budget.join())

    def share_with(self, whole: "Engines") -> None:
        """Use the heartbeat's part of the budget of other engines of this database."""
        if whole.share is not None:
            self._share_in(whole.share.beside())

    def _share_in(self, share: Share) -> None:
        self.share, self._pool_size, self._keeps = share, 1, False

    @property
    def in_file(self) -> bool:
        """True if the database is a file."""
        return self._connecting.in_file

    @property
    def has_sync(self) -> bool:
        """True if the driver has a synchronous form."""
        return self._drivers.sync is not None

    @property
    def separate_autocommit(self) -> bool:
        """True if single statements have connections of their own."""
        return self._connecting.separate_autocommit

    @property
    def in_thread(self) -> bool:
        """True if workers use the synchronous engine, in a thread."""
        return self._connecting.in_thread or self._drivers.asynchronous is None

    def sync(self, *, alone: bool = False) -> Engine:
        """Return the synchronous engine; `alone`: the one for single statements.

        Raises:
            ConfigurationError: the driver has no synchronous form.
        """
        self._forget_if_forked()
        if alone not in self._sync:
            if self._drivers.sync is None:
                raise ConfigurationError(
                    f"{self._described()} has no synchronous form; use the asynchronous call,"
                    f" or a {self._connecting.usual}:// URL"
                )
            if alone and not self._connecting.separate_autocommit:
                self._sync[alone] = self.sync().execution_options(**_AUTOCOMMIT)
                return self._sync[alone]
            engine: Engine = self._create(create_engine, self._drivers.sync, alone)
            self._prepare(engine, alone)
            # Threads that come here at the same time must all use one engine: connections of
            # another pool would be lost with it.
            return self._sync.setdefault(alone, engine)
        return self._sync[alone]

    def spare(self, *, alone: bool = True) -> SpareConnections:
        """Return the connections of `sync(alone=…)` that are lent past SQLAlchemy."""
        self._forget_if_forked()
        if alone not in self._spare:
            new = SpareConnections(self.sync(alone=alone), self._most_spare(alone))
            return self._spare.setdefault(alone, new)  # one of several threads' is used by all
        return self._spare[alone]

    def async_spare(self, *, alone: bool = True) -> SpareConnections:
        """Return those of `asynchronous(alone=…)` in the running loop; see `spare`."""
        self._forget_if_forked()
        spare = self._async_spare.here(dict)
        if alone not in spare:
            engine = self.asynchronous(alone=alone).sync_engine
            spare[alone] = SpareConnections(engine, self._most_spare(alone))
        return spare[alone]

    def _most_spare(self, alone: bool) -> int:
        """Return half of them for single statements: the pool keeps the others for its callers."""
        return self._pool_size // 2 if alone else self._pool_size

    @property
    def lends_directly(self) -> bool:
        """True if handlers get the driver's own connections from `spare(alone=False)`.

        Not where a budget wants each closed after use.
        """
        return self._drivers.direct and self.share is None

    def asynchronous(self, *, alone: bool = False) -> "AsyncEngine":
        """Return the running loop's engine; `alone`: the one for single statements.

        Raises:
            ConfigurationError: the driver has no asynchronous form.
        """
        self._forget_if_forked()
        engines = self._async.here(dict)
        if alone not in engines:
            if self._drivers.asynchronous is None:
                raise ConfigurationError(
                    f"{self._described()} has no asynchronous form; use a plain (not async)"
                    f" handler, or a {self._connecting.usual}:// URL"
                )
            # This imports SQLAlchemy's ORM, which takes a tenth of the import time of the package.
            from sqlalchemy.ext.asyncio import create_async_engine

            driver = self._drivers.asynchronous
            engine: AsyncEngine = self._create(create_async_engine, driver, alone)
            self._prepare(engine.sync_engine, alone)
            engines[alone] = engine
        return engines[alone]

    async def opened(self) -> Any:
        """Open a connection as the others are, outside of the pools; return the driver's own.

        It commits each statement by itself, and the caller closes it.
        """
        with translate_errors():
            if self.in_thread:
                lent = await asyncio.to_thread(self.sync(alone=True).raw_connection)
            else:
                engine = self.asynchronous(alone=True).sync_engine
                lent = await greenlet_spawn(engine.raw_connection)
        driver = lent.driver_connection
        lent.detach()
        return driver

    @property
    def called(self) -> str:
        """A name of this set of jobs, for others that use it, without secrets."""
        name = self._connecting.called(self.url)
        return name if self.schema is None else f"{name}#{self.schema}"

    def place(self) -> Place:
        """Return what a notifier needs to know of the database."""
        opened = None if self._application is None else self.opened
        return Place(self.url, opened, self.schema)

    async def close(self) -> None:
        """Close the connections of the synchronous engines and of the running loop's engines."""
        self._forget_if_forked()
        spares, engines = self._async_spare.pop() or {}, self._async.pop() or {}
        for spare in spares.values():
            await greenlet_spawn(spare.dispose)
        try:
            for engine in engines.values():
                await engine.dispose()
            self.close_sync()
        finally:
            if self.share is not None:
                self.share.leave()

    def close_sync(self) -> None:
        """Close the synchronous engines' connections, and those that closed loops have left."""
        self._forget_if_forked()
        self._async_spare.forget_closed()
        self._async.forget_closed()
        engines, self._sync = self._sync, {}
        spares, self._spare = self._spare, {}
        for spare in spares.values():
            spare.dispose()
        for engine in engines.values():
            engine.dispose()

    def note(self, failure: Failure | None) -> bool:
        """Record the failure of a statement; return whether its connection must be replaced."""
        if failure is UNPREPARED:
            self._unprepared += 1
            if self._unprepared == MAX_LOST_STATEMENTS:
                log.warning("statements are not prepared any more, as a pooler forgets them")
        if failure is WRONG_ISOLATION and self.autocommits:
            self.autocommits = False
            log.warning("single statements travel in transactions from now on, which takes longer")
        return failure is not None and failure.reconnect

    @property
    def prepares(self) -> bool:
        """True while statements are prepared; not behind a pooler that does not support it."""
        return self._unprepared < MAX_LOST_STATEMENTS

    def _named(self, schema: str | None) -> Names | None:
        if schema is None:
            return None
        if (reason := self._connecting.refuse_schema(schema)) is not None:
            raise ConfigurationError(reason)
        return Names(schema, self._connecting.qualify)

    def _prepare(self, engine: Engine, alone: bool) -> None:
        self._connecting.prepare(engine)
        refuse_unknown(engine.dialect, engine.url.drivername)  # it wraps what `prepare` put there
        event.listen(engine, "handle_error", self._give_up_connection)
        if self.names is not None:
            event.listen(engine, "before_cursor_execute", self.names.say, retval=True)
        if self._application is not None:
            event.listen(engine, "do_connect", self._application.complete)
        event.listen(engine, "do_connect", self._complete)
        if alone:
            event.listen(engine, "do_connect", self._insist_on_connecting)
        else:
            refuse_kept(engine)
        if self._application is not None and not alone:
            event.listen(engine, "do_connect", self._application.connect)
        if self._connecting.set_up is not None:
            event.listen(engine, "connect", self._set_up, insert=True)
        elif self._application is not None:
            event.listen(engine, "connect", self._application.prepare)
        event.listen(engine, "connect", self._unprepare)
        if alone and self._connecting.level is not None:
            event.listen(engine, "connect", partial(self._look_at_level, engine.dialect))
        report_lent(engine)
        leave_closed(engine)
        event.listen(engine, "connect", _keep_from_children)

    def _give_up_connection(self, context: ExceptionContext) -> None:
        """Replace a connection after an error which shows that it, or its server, is unfit."""
        if self.note(judge(context.original_exception)):
            context.is_disconnect = True

    def _look_at_level(self, dialect: SqlAlchemyDialect, connection: Any, _: object) -> None:
        """Send single statements in transactions if a session has another isolation level.

        Each is asked while they travel alone: the default may change while a process runs.
        """
        if self.autocommits and dialect.get_isolation_level(connection) != self._connecting.level:
            self.note(WRONG_ISOLATION)

    def _set_up(self, connection: Any, record: object) -> None:
        """Set up a session after the application's listeners, before SQLAlchemy examines it."""
        if self._application is not None:
            self._application.prepare(connection, record)
        if self._connecting.set_up is not None:
            self._connecting.set_up(connection)

    def _complete(
        self, dialect: object, record: object, args: object, parameters: dict[str, Any]
    ) -> None:
        parameters.update(self._drivers.fixed)
        if not self.prepares:
            parameters.update(self._drivers.unprepared)

    def _unprepare(self, connection: Any, record: object) -> None:
        if not self.prepares:
            self._drivers.unprepare(connection)

    def _insist_on_connecting(
        self, dialect: SqlAlchemyDialect, record: Any, args: Any, parameters: dict[str, Any]
    ) -> Any:
        """Connect; if that fails, first close idle connections that are kept for transactions.

        The server may have no more connections for us. A worker that kept twenty of them and could
        not claim or settle would be alive and do nothing.
        """
        try:
            return self._connect(dialect, record, args, parameters)
        except Exception:
            closed = [close_idle(pool) for pool in self._pools_of_transactions()]
            if not any(closed):
                raise
        for wait in ENDING_SESSION_WAITS:
            try:
                return self._connect(dialect, record, args, parameters)
            except Exception:  # noqa: BLE001 (the last try raises)
                await_only(asyncio.sleep(wait)) if dialect.is_async else time.sleep(wait)
        return self._connect(dialect, record, args, parameters)

    def _connect(
        self, dialect: SqlAlchemyDialect, record: Any, args: Any, parameters: dict[str, Any]
    ) -> Any:
        if self._application is not None:
            return self._application.connect(dialect, record, args, parameters)
        return dialect.connect(*args, **parameters)

    def _described(self) -> str:
        """Return the driver or engine that lacks the other form, for an error's message."""
        if self._application is None or self._drivers in self._connecting.schemes.values():
            return self.given.drivername
        return "the application's engine, which opens connections with a creator of its own,"

    def _pools_of_transactions(self) -> Iterator[Pool]:
        """Yield the pools, with all unused connections in them."""
        spares, engines = [self._spare], list(self._sync.items())
        with suppress(RuntimeError):  # no event loop runs in this thread
            spares.append(self._async_spare.get() or {})
            engines += [(alone, e.sync_engine) for alone, e in (self._async.get() or {}).items()]
        for spare in spares:
            if False in spare:
                spare[False].release()
        yield from (engine.pool for alone, engine in engines if not alone)

    def _create(self, factory: Any, driver: str, alone: bool) -> Any:
        """Create an engine; those for transactions keep no connection where these are few."""
        url, size = self.url.set(drivername=driver), self._pool_size if self._keeps or alone else 0
        return created(factory, url, self._drivers, size, alone=alone, creates=self._creates)

    def _forget_if_forked(self) -> None:
        if self._pid == os.getpid():
            return
        for spare in [self._spare, *self._async_spare.values()]:
            for kept in spare.values():
                kept.forget()  # collected, they would be rolled back
        for engine in self._sync.values():
            engine.dispose(close=False)
        for engines in self._async.values():
            for each in engines.values():
                each.sync_engine.dispose(close=False)
        self._pid, self._sync, self._spare = os.getpid(), {}, {}
        self._async, self._async_spare = self._by_loops()

    def _by_loops(self) -> tuple[ByLoop[_Async], ByLoop[_Spare]]:
        """Return where those of event loops are; a closed loop cannot close its own any more."""
        pid = os.getpid()

        def abandon(engines: _Async) -> None:
            for each in engines.values() if os.getpid() == pid else ():
                abandon_idle(each.sync_engine.pool)

        def abandon_spare(spares: _Spare) -> None:
            for each in spares.values() if os.getpid() == pid else ():
                each.abandon()

        return ByLoop(abandon), ByLoop(abandon_spare)


def _keep_from_children(connection: Any, record: object) -> None:
    driver = getattr(connection, "driver_connection", connection)
    if (file := file_of(driver)) is not None:
        keep_from_children(driver, file)
