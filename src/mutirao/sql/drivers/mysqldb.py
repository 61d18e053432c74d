"""The adapter for mysqlclient (`MySQLdb`), which writes values into statements itself."""

from MySQLdb import OperationalError
from MySQLdb.connections import Connection
from MySQLdb.cursors import Cursor

from mutirao.sql.drivers.kinds import shut_down
from mutirao.sql.drivers.mysql import MysqlDriver, OwnMysqlDriver

_NO_SAVEPOINT = 1305


class MysqldbDriver(MysqlDriver):
    """The adapter of a `MySQLdb.connections.Connection`."""

    cursors = Cursor

    def drop(self) -> None:
        shut_down(self._conn.fileno())

    def commits_each(self) -> bool:
        return bool(self._conn.get_autocommit() and not keeps_savepoint(self._conn, "mutirao"))


class OwnMysqldbDriver(OwnMysqlDriver, MysqldbDriver):
    """The adapter of a connection of the store."""


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
