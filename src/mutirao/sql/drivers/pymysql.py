"""The adapter for PyMySQL, which writes values into statements itself."""

from pymysql import Connection
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from mutirao.sql.drivers.dropping import shut_down
from mutirao.sql.drivers.joining import MULTI_STATEMENTS, say_joined
from mutirao.sql.drivers.placeholders import with_percents
from mutirao.sql.drivers.steps import Autocommits, Execute, Request, Rows


class PyMysqlDriver:
    """The adapter of a `pymysql.Connection`."""

    database = "MySQL or MariaDB"

    def __init__(self, conn: "Connection[Cursor]") -> None:
        self._conn = conn

    def drop(self) -> None:
        shut_down(self._conn._sock.fileno())  # type: ignore[attr-defined]

    def native(self, sql: str) -> str:
        return with_percents(sql)

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            within = self._conn.server_status & SERVER_STATUS_IN_TRANS  # type: ignore[attr-defined]
            return [(self._conn.get_autocommit() and not within,)]
        if not isinstance(request, Execute):
            raise TypeError(f"no statement for MySQL: {request!r}")
        with self._conn.cursor(Cursor) as cursor:
            if request.many:
                cursor.executemany(self.native(request.sql), request.params)
            else:
                cursor.execute(self.native(request.sql), request.params)
            return list(cursor.fetchall()) if request.answers else []


class OwnPyMysqlDriver(PyMysqlDriver):
    """The adapter of a connection of ours that commits each statement by itself.

    Unless it was opened in another way, several may be said to it at once.
    """

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits) and self._conn.client_flag & MULTI_STATEMENTS:
            return [(True, True)]
        if isinstance(request, Execute) and request.then:
            with self._conn.cursor(Cursor) as cursor:
                return say_joined(cursor, self.native, request)
        return super().handle(request)
