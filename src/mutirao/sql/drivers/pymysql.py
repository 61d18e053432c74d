"""The adapter for PyMySQL, which writes values into statements itself."""

from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from mutirao.sql.drivers.dropping import shut_down
from mutirao.sql.drivers.mysql import MysqlDriver, OwnMysqlDriver


class PyMysqlDriver(MysqlDriver):
    """The adapter of a `pymysql.Connection`."""

    cursors = Cursor

    def drop(self) -> None:
        shut_down(self._conn._sock.fileno())

    def commits_each(self) -> bool:
        within = self._conn.server_status & SERVER_STATUS_IN_TRANS
        return bool(self._conn.get_autocommit() and not within)


class OwnPyMysqlDriver(OwnMysqlDriver, PyMysqlDriver):
    """The adapter of a connection of ours."""
