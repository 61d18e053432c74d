"""The adapter for psycopg2."""

from psycopg2.extensions import TRANSACTION_STATUS_IDLE, connection, cursor

from mutirao.errors import UnsupportedConnection
from mutirao.sql.drivers import copy
from mutirao.sql.drivers.kinds import shut_down
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows


class OwnConnection(connection):  # type: ignore[misc]
    """A connection of the store, whose methods `lending` can replace."""


class Psycopg2Driver:
    """The adapter of a `psycopg2.extensions.connection`."""

    database = "PostgreSQL"

    def __init__(self, conn: connection) -> None:
        if conn.async_:
            raise UnsupportedConnection(
                "conn= was given a psycopg2 connection in its asynchronous mode, which sends and"
                " does not wait; expected a plain one. Connect without async_, or use psycopg 3 or"
                " asyncpg."
            )
        self._conn = conn

    def drop(self) -> None:
        shut_down(self._conn.fileno())

    def native(self, sql: str) -> str:
        return sql

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            idle = self._conn.get_transaction_status() == TRANSACTION_STATUS_IDLE
            return [(self._conn.autocommit and idle,)]
        with self._conn.cursor(cursor_factory=cursor) as plain:
            if isinstance(request, Load):
                plain.copy_expert(copy.statement(request), copy.File(copy.pieces(request)))
                return []
            plain.execute(request.sql, request.params)
            return plain.fetchall() if request.answers else []
