"""psycopg 3, synchronous and asynchronous.

In its pipeline mode a few jobs can be enqueued; many cannot, because psycopg refuses COPY there.
"""

from typing import Any, NamedTuple

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.abc import PQGen, Transformer
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as Adapter
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from mutirao.sql.callers import copy
from mutirao.sql.callers.placeholders import numbered
from mutirao.sql.callers.steps import Autocommits, Execute, Load, Request, Row, Rows

PREPARED = 100  # statements on one connection, as psycopg has it: more go without


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
    """Speaks through a connection of ours, whose few statements are prepared when first asked.

    A cursor would do with 30 µs more for each, and raw SQL by cursors takes 110 for a job.
    """

    def __init__(self, conn: Connection[Any]) -> None:
        super().__init__(conn)
        self._prepared: dict[str, _Prepared] = {}

    def handle(self, request: Request) -> Rows:
        if not isinstance(request, Execute) or not request.answers:
            return super().handle(request)
        known = self._prepared.get(request.sql)
        if known is None:
            if len(self._prepared) >= PREPARED:
                return super().handle(request)
            known = self._conn.wait(self._prepare(request.sql))
        return self._conn.wait(self._answered(known, request.params))

    def _prepare(self, sql: str) -> PQGen["_Prepared"]:
        new = _Prepared(b"mutirao_%d" % len(self._prepared), Adapter(self._conn))
        self._conn.pgconn.send_prepare(new.name, numbered(sql).encode())
        yield from self._result()
        self._prepared[sql] = new
        return new

    def _answered(self, known: "_Prepared", params: Row) -> PQGen[Rows]:
        values = known.adapter.dump_sequence(params, [PyFormat.TEXT] * len(params))
        self._conn.pgconn.send_query_prepared(known.name, values)
        result = yield from self._result()
        known.adapter.set_pgresult(result)
        return known.adapter.load_rows(0, result.ntuples, tuple)

    def _result(self) -> PQGen[PGresult]:
        result: PGresult
        (result,) = yield from execute(self._conn.pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding=self._conn.info.encoding)
        return result


class _Prepared(NamedTuple):
    """A statement that the server knows, and what remembers how its values are adapted."""

    name: bytes
    adapter: Transformer


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
