"""Runs synchronous database functions for asynchronous callers.

A statement is written once, as a function of a `Connection`. Where the driver has an
asynchronous form, SQLAlchemy runs the function in a greenlet over it; where it has none, or (on
SQLite) where a thread is cheaper, one thread runs it. Drivers' errors become the library's, as
`failures` says, and a call may have a time limit, as `deadlines` says.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from copy import copy
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import StoreBusy
from mutirao.sql.callers import kinds
from mutirao.sql.callers.own import aown, own
from mutirao.sql.callers.steps import Asking, AsyncCaller, SyncCaller, adrive, drive
from mutirao.sql.deadlines import Calls, tell, within
from mutirao.sql.engines import Engines
from mutirao.sql.failures import judge, translate_errors, was_given_up
from mutirao.sql.thread import OneThread

log = logging.getLogger("mutirao")

TRIES, PAUSE = 5, 0.02  # seconds before the second try, twice as many before each further one
P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[Connection, P], R]


def _connected(engine: Engine, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    pool = engine.pool
    with engine.connect() as connection:
        try:
            return body(connection, *args, **kwargs)
        finally:
            # A pool that was replaced meanwhile closes nothing any more.
            if pool is not engine.pool and not connection.invalidated:
                connection.invalidate()


def _unfit(engines: Engines, engine: Engine, lent: Any, error: BaseException) -> bool:
    """Whether a connection is not to be used again: it is lost, or was left in mid-sentence."""
    if not isinstance(error, Exception) or engines.note(judge(error)):
        return True
    return engine.dialect.is_disconnect(cast(Any, error), lent.dbapi_connection, None)


class Runner:
    """Runs bodies against one database: `run` in a transaction, `alone` without one.

    `seconds`: how long each of the asynchronous calls may take; None sets no limit.
    """

    def __init__(self, engines: Engines, seconds: float | None = None) -> None:
        self._engines = engines
        self._calls = Calls(seconds)
        self._threads: list[OneThread] = []  # one at most

    def within(self, seconds: float) -> "Runner":
        """Return one that shares everything, and allows a call so long, if there is a limit."""
        other = copy(self)
        other._calls = Calls(None if self._calls.seconds is None else seconds)
        return other

    async def run(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body in one transaction and commit it."""
        with within(self._calls):
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.run_sync(body, *args, **kwargs))
            async with self._engines.asynchronous().begin() as connection:
                return await connection.run_sync(body, *args, **kwargs)

    async def insist(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `run`, and again where the database gave the transaction up for others.

        That should not be: everybody locks rows in one order. Not for callers' own writes.
        """
        for n in range(TRIES - 1):
            try:
                return await self.run(body, *args, **kwargs)
            except StoreBusy as error:
                if not was_given_up(error):
                    raise
                log.warning("trying again: %s", error)
            await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE * 2**n)
        return await self.run(body, *args, **kwargs)

    async def alone(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body whose statements stand each for itself: no BEGIN and no COMMIT travel."""
        with within(self._calls):
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.alone_sync(body, *args, **kwargs))
            if not self._engines.autocommits:
                async with self._engines.asynchronous().begin() as connection:
                    return await connection.run_sync(body, *args, **kwargs)
            engine = self._engines.asynchronous(alone=True).sync_engine
            # One greenlet for all of it: AsyncEngine takes three, 0.2 ms more for an idle process.
            return await greenlet_spawn(lambda: _connected(engine, body, *args, **kwargs))

    def run_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `run`, for synchronous callers."""
        with translate_errors(), self._engines.sync().begin() as connection:
            return body(connection, *args, **kwargs)

    def alone_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As `alone`, for synchronous callers."""
        if not self._engines.autocommits:
            return self.run_sync(body, *args, **kwargs)
        with translate_errors():
            return _connected(self._engines.sync(alone=True), body, *args, **kwargs)

    def lend_sync(self, body: Callable[[SyncCaller], R]) -> R:
        """Call a body that needs no transaction with who speaks through the quickest connection.

        It is the driver's own, in no transaction, where such statements have connections apart:
        SQLAlchemy takes longer (90 µs) than everything else in this process.
        """
        if not (self._engines.apart and self._engines.autocommits):
            return self.alone_sync(lambda connection: body(kinds.caller(connection)))
        with translate_errors():
            kept = self._engines.kept()
            lent = kept.take()
            tell(lent.driver_connection)
            try:
                return body(own(lent, self._engines.prepares))
            except BaseException as error:
                if _unfit(self._engines, kept.engine, lent, error):
                    lent.invalidate(error)
                    if isinstance(error, Exception):
                        kept.dispose()  # the others are as old
                raise
            finally:
                kept.give_back(lent)

    async def lend(
        self, body: Callable[[AsyncCaller], Awaitable[R]], sync: Callable[[SyncCaller], R]
    ) -> R:
        """As `lend_sync`, to `body`, or in the thread to `sync` where workers use one."""
        with within(self._calls):
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.lend_sync(sync))
            if not self._engines.autocommits:
                return await self.alone(lambda connection: sync(kinds.caller(connection)))
            return await self._lend(body, keep=False)

    async def _lend(self, body: Callable[[AsyncCaller], Awaitable[R]], *, keep: bool) -> R:
        kept = self._engines.asynchronously_kept()
        # What AsyncEngine does around its connections takes 0.1 ms more.
        lent = kept.at_hand() if keep else None
        if lent is None:
            lent = await greenlet_spawn(kept.open)
        tell(lent.driver_connection)
        unfit = False
        try:
            return await body(aown(lent, self._engines.prepares))
        except BaseException as error:
            unfit = _unfit(self._engines, kept.engine, lent, error)
            if unfit:
                await greenlet_spawn(lent.invalidate, error)
                if isinstance(error, Exception):
                    await greenlet_spawn(kept.dispose)
            raise
        finally:
            if unfit or not (keep and kept.keep(lent)):
                await greenlet_spawn(kept.close, lent)

    async def ask(self, steps: Asking[R]) -> R:
        """Run steps that need no transaction, through the quickest connection.

        For workers, which close in the end: asynchronous connections are kept at hand for them.
        """
        with within(self._calls):
            if self._engines.in_thread:
                return await self._in_thread(lambda: self.lend_sync(partial(drive, steps)))
            if not self._engines.autocommits:
                return await self.alone(lambda connection: drive(steps, kinds.caller(connection)))
            return await self._lend(partial(adrive, steps), keep=True)

    def cut(self) -> None:
        """Make the calls that are under way in this event loop fail now."""
        self._calls.cut()

    async def close(self) -> None:
        """End the thread and close the connections; the next call opens them again."""
        while self._threads:
            self._threads.pop().shutdown()
        await self._engines.close()

    async def _in_thread(self, call: Callable[[], R]) -> R:
        if not self._threads:
            self._threads.append(OneThread("mutirao-store"))
        loop, context = asyncio.get_running_loop(), copy_context()
        return await loop.run_in_executor(self._threads[0], context.run, call)
