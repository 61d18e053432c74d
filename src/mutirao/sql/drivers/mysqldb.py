"""The adapter for mysqlclient (`MySQLdb`), which writes values into statements itself."""

from MySQLdb import OperationalError
from MySQLdb.connections import Connection
from MySQLdb.cursors import Cursor

from mutirao.sql.drivers.dropping import shut_down
from mutirao.sql.drivers.joining import MULTI_STATEMENTS, say_joined
from mutirao.sql.drivers.placeholders import with_percents
from mutirao.sql.drivers.steps import Autocommits, Execute, Request, Rows

_NO_SAVEPOINT = 1305


class MysqldbDriver:
    """The adapter of a `MySQLdb.connections.Connection`."""

    database = "MySQL or MariaDB"

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def drop(self) -> None:
        shut_down(self._conn.fileno())

    def native(self, sql: str) -> str:
        return with_percents(sql)

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(self._conn.get_autocommit() and not keeps_savepoint(self._conn, "mutirao"),)]
        if not isinstance(request, Execute):
            raise TypeError(f"no statement for MySQL: {request!r}")
        with self._conn.cursor(Cursor) as cursor:
            if request.many:
                cursor.executemany(self.native(request.sql), request.params)
            else:
                cursor.execute(self.native(request.sql), request.params)
            return list(cursor.fetchall()) if request.answers else []


class OwnMysqldbDriver(MysqldbDriver):
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


def keeps_savepoint(conn: Connection, name: str) -> bool:
    """Return whether a savepoint outlives its statement: then a transaction is open.

    The driver does not show what the server says of that.
    """
    with conn.cursor(Cursor) as cursor:
        cursor.execute(f"SAVEPOINT {name}")
    return release(conn, name)


def release(conn: Connection, name: str) -> bool:
    """Release a savepoint; return whether there was one."""
    with conn.cursor(Cursor) as cursor:
        try:
            cursor.execute(f"RELEASE SAVEPOINT {name}")
        except OperationalError as error:
            if error.args[0] != _NO_SAVEPOINT:
                raise
            return False
    return True
