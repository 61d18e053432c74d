"""Statements that a psycopg connection of ours prepares when first asked, past its cursors.

With a cursor for each a job that is enqueued takes 30 µs more in the client, of 150. The first of a
kind takes two round trips, every other one.
"""

from typing import Any, NamedTuple, TypeGuard

from psycopg import AsyncConnection, Connection
from psycopg.abc import PQGen, Transformer
from psycopg.adapt import PyFormat
from psycopg.adapt import Transformer as Adapter
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from mutirao.sql.callers.placeholders import numbered
from mutirao.sql.callers.steps import Execute, Request, Rows

MOST = 100  # on one connection, as psycopg has it; further kinds go by a cursor


class _Statement(NamedTuple):
    """A statement by the name that the server knows, and what remembers how values are adapted."""

    name: bytes
    adapter: Transformer


class Prepared:
    """The statements of one connection. Generators, which the connection's `wait` drives."""

    def __init__(self, conn: Connection[Any] | AsyncConnection[Any]) -> None:
        self._conn = conn
        self._statements: dict[str, _Statement] = {}

    def takes(self, request: Request) -> TypeGuard[Execute]:
        """Tell whether this is, or can become, one of them."""
        if not isinstance(request, Execute) or not request.answers:
            return False
        return request.sql in self._statements or len(self._statements) < MOST

    def answer(self, request: Execute) -> PQGen[Rows]:
        """Execute a statement and return its rows."""
        known = self._statements.get(request.sql) or (yield from self._prepare(request.sql))
        formats = [PyFormat.TEXT] * len(request.params)
        values = known.adapter.dump_sequence(request.params, formats)
        self._conn.pgconn.send_query_prepared(known.name, values)
        result = yield from self._result()
        known.adapter.set_pgresult(result)
        return known.adapter.load_rows(0, result.ntuples, tuple)

    def _prepare(self, sql: str) -> PQGen[_Statement]:
        new = _Statement(b"mutirao_%d" % len(self._statements), Adapter(self._conn))
        self._conn.pgconn.send_prepare(new.name, numbered(sql).encode())
        yield from self._result()
        self._statements[sql] = new
        return new

    def _result(self) -> PQGen[PGresult]:
        result: PGresult
        (result,) = yield from execute(self._conn.pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result, encoding=self._conn.info.encoding)
        return result
