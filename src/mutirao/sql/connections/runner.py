"""The runner of synchronous database functions for asynchronous callers.

A statement is written once, as a function of a `Connection`. If the driver has an asynchronous
form, SQLAlchemy runs the function in a greenlet on it; if it has none, or (on SQLite) if a thread
is cheaper, one thread runs it. Errors of drivers become the library's, as `failures` defines, and a
call may have a time limit, as `deadlines` defines.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from copy import copy
from types import GeneratorType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

from sqlalchemy import Connection, Engine
from sqlalchemy.util import greenlet_spawn

from mutirao.errors import StoreBusy, StoreUnavailable
from mutirao.sql.connections.deadlines import Calls, is_limited, report, within
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.thread import OneThread
from mutirao.sql.drivers import kinds
from mutirao.sql.drivers.failures import (
    NOT_SERIALIZABLE,
    is_no_text,
    judge,
    lost_error,
    translate_errors,
    was_ended,
    was_given_up,
)
from mutirao.sql.drivers.first_request import AsyncFirstAgain, FirstAgain
from mutirao.sql.drivers.naming import named
from mutirao.sql.drivers.own import aown, own
from mutirao.sql.drivers.resting import is_closed
from mutirao.sql.drivers.steps import AsyncDriver, Query, SyncDriver, adrive, drive

log = logging.getLogger("mutirao")

# FIRST_PAUSE: seconds before the second try, doubled before each further one.
MAX_TRIES, FIRST_PAUSE = 5, 0.02
P = ParamSpec("P")
R = TypeVar("R")
Body = Callable[Concatenate[Connection, P], R]


def _connected(engine: Engine, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    pool = engine.pool
    with engine.connect() as connection:
        try:
            return body(connection, *args, **kwargs)
        finally:
            # A pool that was replaced meanwhile no longer closes connections.
            if pool is not engine.pool and not connection.invalidated:
                connection.invalidate()


def _in_transaction(engine: Engine, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a body in one transaction; an error of a lost connection says if it may be committed."""
    pool, committing = engine.pool, False
    with engine.connect() as connection:
        try:
            with connection.begin():
                result = body(connection, *args, **kwargs)
                committing = True
            return result
        except Exception as error:
            if (lost := lost_error(error, may_be_committed=committing)) is not None:
                raise lost from error
            raise
        finally:
            if pool is not engine.pool and not connection.invalidated:
                connection.invalidate()


def for_people(body: Body[P, R]) -> Body[P, R]:
    """Return a body that reads bytes that are no valid text with escapes, instead of failing."""

    def reading(connection: Connection, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return body(connection, *args, **kwargs)
        except Exception as error:
            if not is_no_text(error):
                raise
        from mutirao.sql.drivers.sqlite3 import bytes_escaped  # other databases load none of it

        with bytes_escaped(connection.connection.driver_connection):
            return body(connection, *args, **kwargs)

    return reading


def _unfit(engines: Engines, engine: Engine, lent: Any, error: BaseException) -> bool:
    """Return whether a connection must not be used again: it is lost, or a call was interrupted.

    Or its session has another isolation level than it had: a new one is asked for its own.
    """
    if not isinstance(error, Exception):
        return True
    failure = judge(error)
    if engines.note(failure) or failure is NOT_SERIALIZABLE:
        return True
    return engine.dialect.is_disconnect(cast(Any, error), lent.dbapi_connection, None)


class Runner:
    """A runner of bodies against one database: `run` in a transaction, `alone` without one.

    Both are coroutines; `run_sync` and `alone_sync` are for synchronous callers. A body is a
    function of a SQLAlchemy `Connection` or, for `alone`, steps: these use the fastest connection.

    `seconds`: the maximum duration of each call of a coroutine; None: no limit.
    """

    def __init__(self, engines: Engines, seconds: float | None = None) -> None:
        self._engines = engines
        self._calls = Calls(seconds)
        self._tries = 1
        self._threads: list[OneThread] = []  # at most one

    def having(self, *, seconds: float | None = None, again: bool = False) -> "Runner":
        """Return a runner that shares everything, but has another limit or retries.

        Parameters:
            seconds: the maximum duration of each call, if calls are limited at all.
            again: whether `run` and `insist` retry what the database aborted for another
                transaction.
        """
        other = copy(self)
        if seconds is not None and self._calls.seconds is not None:
            other._calls = Calls(seconds)
        other._tries = MAX_TRIES if again else 1
        return other

    async def run(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body in one transaction and commit it; see `having` for retries."""
        return await self.insist(lambda: self._run(body, *args, **kwargs))

    async def insist(self, call: Callable[[], Awaitable[R]]) -> R:
        """Make a call, and make it again if the database aborted it for another transaction.

        Retries should not be needed, because all transactions lock rows in one order. The database
        counts them.

        Parameters:
            call: a call of a runner, in one transaction or of one statement.
        """
        for n in range(self._tries - 1):
            try:
                return await call()
            except StoreBusy as error:
                if not was_given_up(error):
                    raise
                log.warning("trying again: %s", error)
            await self.alone(self._engines.dialect.count_retry)
            await asyncio.sleep(random.uniform(0.5, 1.5) * FIRST_PAUSE * 2**n)
        return await call()

    def run_sync(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body in one transaction and commit it, for synchronous callers."""
        with translate_errors():
            return _in_transaction(self._engines.sync(), body, *args, **kwargs)

    @overload
    async def alone(self, body: Query[R], /, *, keep: bool = True) -> R: ...
    @overload
    async def alone(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def alone(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a body of single statements in autocommit mode: no BEGIN and no COMMIT are sent.

        `keep`: the connection that steps used is kept at hand, for callers that close in the end,
        as workers do.
        """
        with within(self._calls):
            if (share := self._engines.share) is None:
                return await self._send_alone(body, *args, **kwargs)
            give_back = await share.for_statement(self._calls.seconds)
            try:
                return await self._send_alone(body, *args, **kwargs)
            finally:
                give_back()

    async def read(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a body like `alone` that writes nothing: once more, if the session had been ended."""
        try:
            return await self.alone(body, *args, **kwargs)
        except StoreUnavailable as error:
            if error.__cause__ is None or not was_ended(error.__cause__):
                raise
        return await self.alone(body, *args, **kwargs)

    @overload
    def alone_sync(self, body: Query[R], /, *, keep: bool = True) -> R: ...
    @overload
    def alone_sync(self, body: Body[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    def alone_sync(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run a body like `alone`, for synchronous callers, whose connections are always kept."""
        if isinstance(body, GeneratorType):
            if self._engines.separate_autocommit and self._engines.autocommits:
                return self._step_sync(body)
            body, args, kwargs = kinds.through, (body,), {}
        if not self._engines.autocommits:
            return self.run_sync(body, *args, **kwargs)
        with translate_errors():
            return _connected(self._engines.sync(alone=True), body, *args, **kwargs)

    async def _send_alone(self, body: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self._engines.in_thread:
            return await self._in_thread(lambda: self.alone_sync(body, *args, **kwargs))
        if isinstance(body, GeneratorType) and self._engines.autocommits:
            return await self._step(body, **kwargs)
        if isinstance(body, GeneratorType):
            body, args, kwargs = kinds.through, (body,), {}
        if not self._engines.autocommits:
            return await self._send_transaction(body, *args, **kwargs)
        engine = self._engines.asynchronous(alone=True).sync_engine
        # One greenlet for everything: AsyncEngine needs three, 0.2 ms more for an idle process.
        return await greenlet_spawn(lambda: _connected(engine, body, *args, **kwargs))

    async def _run(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with within(self._calls):
            if (share := self._engines.share) is None:
                return await self._send_transaction(body, *args, **kwargs)
            give_back = await share.for_transaction(self._calls.seconds)
            try:
                return await self._send_transaction(body, *args, **kwargs)
            finally:
                give_back()

    async def _send_transaction(self, body: Body[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._engines.in_thread:
            return await self._in_thread(lambda: self.run_sync(body, *args, **kwargs))
        engine = self._engines.asynchronous().sync_engine
        return await greenlet_spawn(lambda: _in_transaction(engine, body, *args, **kwargs))

    def _step_sync(self, steps: Query[R]) -> R:
        """Run steps through the driver's own connection, in no transaction.

        SQLAlchemy takes longer (90 µs) than everything else in this process.
        """
        with translate_errors():
            spare = self._engines.spare()
            lent = spare.take()
            if not self._engines.autocommits:  # which this connection has shown
                spare.give_back(lent)
                return self.run_sync(kinds.through, steps)
            if is_limited():
                report(lent.driver_connection)
            gone = False

            def renew(error: Exception) -> Any:
                nonlocal lent, gone
                self._engines.note(judge(error))
                lent.invalidate(error)
                spare.dispose()  # the others are as old
                spare.give_back(lent)
                gone = True  # there may be no other one
                lent, gone = spare.take(), False
                report(lent.driver_connection)
                return own(lent, self._engines.prepares)

            try:
                driver = FirstAgain(own(lent, self._engines.prepares), renew)
                return drive(named(self._engines.names, steps), cast(SyncDriver, driver))
            except BaseException as error:
                if not gone and _unfit(self._engines, spare.engine, lent, error):
                    lent.invalidate(error)
                    if isinstance(error, Exception):
                        spare.dispose()  # the others are as old
                if (lost := lost_error(error, may_be_committed=True)) is not None:
                    raise lost from error
                raise
            finally:
                if not gone:
                    spare.give_back(lent)

    async def _step(self, steps: Query[R], *, keep: bool = True) -> R:
        spare = self._engines.async_spare()
        # AsyncEngine's own handling of connections takes 0.1 ms more.
        lent = spare.at_hand() if keep else None
        connection = None if lent is None else lent.driver_connection
        if lent is not None and is_closed(connection):
            await greenlet_spawn(spare.give_up, lent)
            lent = await greenlet_spawn(spare.take)
            connection = lent.driver_connection
        if lent is None:
            lent = await greenlet_spawn(spare.open)
            connection = lent.driver_connection
        if not self._engines.autocommits:  # which this connection has shown
            await greenlet_spawn(spare.give_back, lent)
            return await self._send_transaction(kinds.through, steps)
        report(connection)
        unfit = gone = False

        async def renew(error: Exception) -> Any:
            nonlocal lent, gone
            self._engines.note(judge(error))
            await greenlet_spawn(cast(Any, lent).invalidate, error)
            await greenlet_spawn(spare.dispose)
            await greenlet_spawn(spare.close, cast(Any, lent))
            gone = True  # there may be no other one
            lent = await greenlet_spawn(spare.open)
            gone = False
            report(lent.driver_connection)
            return aown(lent, self._engines.prepares)

        try:
            asked = named(self._engines.names, steps)
            driver = AsyncFirstAgain(aown(lent, self._engines.prepares), renew)
            return await adrive(asked, cast(AsyncDriver, driver))
        except BaseException as error:
            unfit = not gone and _unfit(self._engines, spare.engine, lent, error)
            if unfit:
                await greenlet_spawn(lent.invalidate, error)
                if isinstance(error, Exception):
                    await greenlet_spawn(spare.dispose)
            if (lost := lost_error(error, may_be_committed=True)) is not None:
                raise lost from error
            raise
        finally:
            if not gone and (unfit or not (keep and spare.keep(lent))):
                await greenlet_spawn(spare.close, lent)

    def cut(self) -> None:
        """Make the running calls of this event loop fail now."""
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
