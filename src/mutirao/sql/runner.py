"""Runs synchronous database functions for asynchronous callers.

A statement is written once, as a function of a `Connection`. Where the driver has an
asynchronous form, SQLAlchemy runs the function in a greenlet over it; where it has none, or (on
SQLite) where a thread is cheaper, one thread runs it. Errors that mean "the database cannot be
reached now" become `StoreUnavailable`, which the engine's loops know how to wait out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine, PoolProxiedConnection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import StoreUnavailable
from mutirao.sql.callers import kinds
from mutirao.sql.callers.own import aown, own
from mutirao.sql.callers.steps import Asking, AsyncCaller, SyncCaller, adrive, drive
from mutirao.sql.engines import Engines
from mutirao.sql.thread import OneThread

P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[Connection, P], R]


# The classes of SQLSTATE that pass: the connection, a deadlock, no resources, a lock, the operator,
# the system. Most drivers call them OperationalError; asyncpg leaves them without a kind. And a
# statement that a pooler has prepared elsewhere, or that somebody has deallocated.
PASSING = ("08", "40", "53", "55", "57", "58", "26", "42P05")


class unavailable_when_lost:  # noqa: N801 (used like `contextlib.suppress`)
    """Turn the drivers' ways of saying that the server is gone into StoreUnavailable.

    A class, as it is in the way of every job that is enqueued: a generator takes 1 µs more.
    """

    def __enter__(self) -> None:
        """Nothing has to be done."""

    def __exit__(self, _: Any, error: BaseException | None, trace: Any) -> None:
        """Raise StoreUnavailable instead of what means just that."""
        if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError):
            raise StoreUnavailable(f"the database cannot be reached: {_short(error)}") from error
        if isinstance(error, Exception):
            # SQLAlchemy 2.0 lets through as it is what asyncpg raises while it connects.
            lost = isinstance(error, DBAPIError) and error.connection_invalidated
            if lost or _passes(error):
                raise StoreUnavailable(f"the connection was lost: {_short(error)}") from error


@contextmanager
def unavailable_when_cut_off() -> Iterator[None]:
    """As `unavailable_when_lost`, around a handler's own statements: only a lost connection counts.

    What the handler itself did wrong, a missing table among it, stays as it is.
    """
    try:
        yield
    except DBAPIError as error:
        committing = error.statement is None and isinstance(error, OperationalError)
        if error.connection_invalidated or committing:
            raise StoreUnavailable(f"the connection was lost: {_short(error)}") from error
        raise


def _broken(
    engine: Engine, lent: PoolProxiedConnection, error: BaseException
) -> StoreUnavailable | None:
    """As `unavailable_when_lost`, of what a driver raises without SQLAlchemy."""
    if not isinstance(error, Exception):
        return None
    driver = engine.dialect.loaded_dbapi
    if isinstance(error, driver.OperationalError | driver.InterfaceError):
        return StoreUnavailable(f"the database cannot be reached: {_short(error)}")
    beneath: Any = lent.dbapi_connection
    if _passes(error) or engine.dialect.is_disconnect(cast(Any, error), beneath, None):
        return StoreUnavailable(f"the connection was lost: {_short(error)}")
    return None


def _connected(engine: Engine, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    pool = engine.pool
    with engine.connect() as connection:
        try:
            return body(connection, *args, **kwargs)
        finally:
            # A pool that was replaced meanwhile closes nothing any more.
            if pool is not engine.pool and not connection.invalidated:
                connection.invalidate()


def _breaks(error: BaseException) -> bool:
    """Whether what was raised says that the connection, and others as old, may be broken.

    Not a deadlock, no resources, a lock or a timeout: then the server was heard.
    """
    return not str(getattr(error, "sqlstate", None)).startswith(("40", "53", "55", "57014"))


def _unfit(error: BaseException, broken: StoreUnavailable | None) -> bool:
    """Whether a connection is not to be used again: it is lost, or was left in mid-sentence."""
    return (broken is not None and _breaks(error)) or not isinstance(error, Exception)


def _passes(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    # asyncpg's word for a connection that the server has ended while it was idle, and the words of
    # all drivers while SQLAlchemy sets a connection up, where nobody wraps what is raised.
    confused = type(cause).__name__ in (
        "ConnectionTimeout",
        "InternalClientError",
        "InterfaceError",
        "OperationalError",
    )
    return confused or str(getattr(cause, "sqlstate", None)).startswith(PASSING)


def _short(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__


class Runner:
    """Runs bodies against one database: `run` in a transaction, `alone` without one."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._thread: OneThread | None = None

    async def run(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body in one transaction and commit it."""
        with unavailable_when_lost():
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.run_sync(body, *args, **kwargs))
            async with self._engines.asynchronous().begin() as connection:
                return await connection.run_sync(body, *args, **kwargs)

    async def alone(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body whose statements stand each for itself: no BEGIN and no COMMIT travel."""
        with unavailable_when_lost():
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.alone_sync(body, *args, **kwargs))
            engine = self._engines.asynchronous(alone=True).sync_engine
            # One greenlet for all of it: AsyncEngine takes three, 0.2 ms more for an idle process.
            return await greenlet_spawn(lambda: _connected(engine, body, *args, **kwargs))

    def run_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `run`, for synchronous callers."""
        with unavailable_when_lost(), self._engines.sync().begin() as connection:
            return body(connection, *args, **kwargs)

    def alone_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `alone`, for synchronous callers."""
        with unavailable_when_lost():
            return _connected(self._engines.sync(alone=True), body, *args, **kwargs)

    def lend_sync(self, body: Callable[[SyncCaller], R]) -> R:
        """Call a body that needs no transaction with who speaks through the quickest connection.

        It is the driver's own, in no transaction, where such statements have connections apart:
        SQLAlchemy takes longer (90 µs) than everything else in this process.
        """
        if not self._engines.apart:
            return self.alone_sync(lambda connection: body(kinds.caller(connection)))
        with unavailable_when_lost():
            kept = self._engines.kept()
            lent = kept.take()
            try:
                return body(own(lent))
            except BaseException as error:
                broken = _broken(kept.engine, lent, error)
                unfit = _unfit(error, broken)
                if unfit:
                    lent.invalidate(error)
                if broken is not None:
                    if unfit:
                        kept.dispose()  # the others are as old
                    raise broken from error
                raise
            finally:
                kept.give_back(lent)

    async def lend(
        self, body: Callable[[AsyncCaller], Awaitable[R]], sync: Callable[[SyncCaller], R]
    ) -> R:
        """As `lend_sync`, to `body`, or in the thread to `sync` where workers use one."""
        with unavailable_when_lost():
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.lend_sync(sync))
            return await self._lend(body, keep=False)

    async def _lend(self, body: Callable[[AsyncCaller], Awaitable[R]], *, keep: bool) -> R:
        kept = self._engines.asynchronously_kept()
        # What AsyncEngine does around its connections takes 0.1 ms more.
        lent = kept.at_hand() if keep else None
        if lent is None:
            lent = await greenlet_spawn(kept.open)
        unfit = False
        try:
            return await body(aown(lent))
        except BaseException as error:
            broken = _broken(kept.engine, lent, error)
            unfit = _unfit(error, broken)
            if unfit:
                await greenlet_spawn(lent.invalidate, error)
            if broken is not None:
                if unfit:
                    await greenlet_spawn(kept.dispose)
                raise broken from error
            raise
        finally:
            if unfit or not (keep and kept.keep(lent)):
                await greenlet_spawn(kept.close, lent)

    async def ask(self, steps: Asking[R]) -> R:
        """Run steps that need no transaction, through the quickest connection.

        For workers, which close in the end: asynchronous connections are kept at hand for them.
        """
        with unavailable_when_lost():
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.lend_sync(partial(drive, steps)))
            return await self._lend(partial(adrive, steps), keep=True)

    async def close(self) -> None:
        """End the thread and close the connections; the next call opens them again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()
        await self._engines.close()

    async def _in_thread(self, call: Callable[[], R]) -> R:
        if self._thread is None:
            self._thread = OneThread("mutirao-store")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)
