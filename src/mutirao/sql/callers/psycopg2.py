"""psycopg2."""

from io import BytesIO

from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection, cursor

from mutirao.sql.callers import copy
from mutirao.sql.callers.steps import Autocommits, Load, Request, Rows


class Psycopg2Caller:
    """Speaks through a `psycopg2.extensions.connection`."""

    database = "PostgreSQL"

    def __init__(self, conn: connection) -> None:
        self._conn = conn

    def native(self, sql: str) -> str:
        return sql

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            idle = self._conn.get_transaction_status() == TRANSACTION_STATUS_IDLE
            return [(self._conn.autocommit and idle,)]
        with self._conn.cursor(cursor_factory=cursor) as plain:
            if isinstance(request, Load):
                plain.copy_expert(copy.statement(request), BytesIO(copy.encode(request)))
                return []
            plain.execute(request.sql, request.params)
            return plain.fetchall() if request.answers else []
