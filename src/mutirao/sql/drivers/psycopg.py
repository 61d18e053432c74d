"""The adapters for psycopg 3, synchronous and asynchronous.

In psycopg's pipeline mode a few jobs can be enqueued; many cannot, because it refuses COPY there.
"""

import asyncio
import logging
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from mutirao.sql.drivers import copy, ending
from mutirao.sql.drivers.kinds import numbered, shut_down
from mutirao.sql.drivers.prepared import Prepared
from mutirao.sql.drivers.steps import COMMIT, ROLLBACK, Autocommits, Load, Request, Rows


def _is_not_of_a_worker(record: logging.LogRecord) -> bool:
    """Return whether a record of psycopg is news: not for loops of a worker that ends.

    They are cancelled when their connections have been cut, and psycopg closes those correctly.
    """
    if not str(record.msg).startswith("query cancellation interrupted"):
        return True
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True
    return task is None or not task.get_name().startswith("mutirao-")


logging.getLogger("psycopg").addFilter(_is_not_of_a_worker)


class _Psycopg:
    database = "PostgreSQL"

    def __init__(self, conn: Connection[Any] | AsyncConnection[Any]) -> None:
        self._base = conn

    def autocommits(self) -> bool:
        idle = self._base.info.transaction_status == TransactionStatus.IDLE
        return self._base.autocommit and idle

    def drop(self) -> None:
        shut_down(self._base.fileno())

    def native(self, sql: str) -> str:
        # Raw cursors, which a caller may have chosen for the connection, accept only `$1`.
        raw = issubclass(self._base.cursor_factory, (RawCursor, AsyncRawCursor))
        return numbered(sql) if raw else sql


class PsycopgDriver(_Psycopg):
    """The adapter of a `psycopg.Connection`."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self._conn = conn

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(self.autocommits(),)]
        with self._conn.cursor(row_factory=tuple_row) as cursor:
            if isinstance(request, Load):
                with cursor.copy(copy.statement(request)) as channel:
                    for piece in copy.pieces(request):
                        channel.write(piece)
                return []
            cursor.execute(self.native(request.sql), request.params)
            return cursor.fetchall() if request.answers else []


class OwnPsycopgDriver(PsycopgDriver):
    """The adapter of a connection of the store, which prepares statements."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self._prepared = Prepared(conn)

    def handle(self, request: Request) -> Rows:
        if self._prepared.takes(request):
            return Connection.wait(self._conn, self._prepared.answer(request))  # owes no BEGIN
        return super().handle(request)


class LentPsycopgDriver(PsycopgDriver):
    """The adapter of a connection of the store that a handler had."""

    def handle(self, request: Request) -> Rows:
        if ending.can_end(request, self._conn):
            with self._conn.lock:
                return self._conn.wait(ending.end(self._conn, request))
        if request is COMMIT:
            self._conn.commit()
            return []
        if request is ROLLBACK:
            self._conn.rollback()
            return []
        return super().handle(request)


class AsyncPsycopgDriver(_Psycopg):
    """The adapter of a `psycopg.AsyncConnection`."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        super().__init__(conn)
        self._conn = conn

    async def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(self.autocommits(),)]
        async with self._conn.cursor(row_factory=tuple_row) as cursor:
            if isinstance(request, Load):
                async with cursor.copy(copy.statement(request)) as channel:
                    for piece in copy.pieces(request):
                        await channel.write(piece)
                return []
            await cursor.execute(self.native(request.sql), request.params)
            return await cursor.fetchall() if request.answers else []


class OwnAsyncPsycopgDriver(AsyncPsycopgDriver):
    """The adapter of an asynchronous connection of the store, which prepares statements."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        super().__init__(conn)
        self._prepared = Prepared(conn)

    async def handle(self, request: Request) -> Rows:
        if self._prepared.takes(request):
            return await AsyncConnection.wait(self._conn, self._prepared.answer(request))
        return await super().handle(request)


class LentAsyncPsycopgDriver(AsyncPsycopgDriver):
    """The adapter of an asynchronous connection of the store that a handler had."""

    async def handle(self, request: Request) -> Rows:
        if ending.can_end(request, self._conn):
            async with self._conn.lock:
                return await self._conn.wait(ending.end(self._conn, request))
        if request is COMMIT:
            await self._conn.commit()
            return []
        if request is ROLLBACK:
            await self._conn.rollback()
            return []
        return await super().handle(request)
