"""psycopg 3, synchronous and asynchronous.

In its pipeline mode a few jobs can be enqueued; many cannot, because psycopg refuses COPY there.
"""

from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from mutirao.sql.callers import copy
from mutirao.sql.callers.placeholders import numbered
from mutirao.sql.callers.prepared import Prepared
from mutirao.sql.callers.steps import Autocommits, Load, Request, Rows


class _Psycopg:
    database = "PostgreSQL"

    def __init__(self, conn: Connection[Any] | AsyncConnection[Any]) -> None:
        self._base = conn

    def autocommits(self) -> bool:
        idle = self._base.info.transaction_status == TransactionStatus.IDLE
        return self._base.autocommit and idle

    def native(self, sql: str) -> str:
        # Raw cursors, which a caller may have chosen for the connection, know only `$1`.
        raw = issubclass(self._base.cursor_factory, (RawCursor, AsyncRawCursor))
        return numbered(sql) if raw else sql


class PsycopgCaller(_Psycopg):
    """Speaks through a `psycopg.Connection`."""

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


class OwnPsycopgCaller(PsycopgCaller):
    """Speaks through a connection of ours."""

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self._prepared = Prepared(conn)

    def handle(self, request: Request) -> Rows:
        if self._prepared.takes(request):
            return self._conn.wait(self._prepared.answer(request))
        return super().handle(request)


class AsyncPsycopgCaller(_Psycopg):
    """Speaks through a `psycopg.AsyncConnection`."""

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


class OwnAsyncPsycopgCaller(AsyncPsycopgCaller):
    """Speaks through a connection of ours."""

    def __init__(self, conn: AsyncConnection[Any]) -> None:
        super().__init__(conn)
        self._prepared = Prepared(conn)

    async def handle(self, request: Request) -> Rows:
        if self._prepared.takes(request):
            return await self._conn.wait(self._prepared.answer(request))
        return await super().handle(request)
