"""The adapter for PyMySQL, which writes values into statements itself; and our own connections."""

from ssl import SSLContext
from typing import Any, ClassVar, cast

from pymysql.connections import Connection
from pymysql.constants.COMMAND import COM_QUERY
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from mutirao.sql.drivers.kinds import shut_down
from mutirao.sql.drivers.mysql import MysqlDriver, OwnMysqlDriver
from mutirao.sql.drivers.pymysql_wire import Columns, results, written
from mutirao.sql.drivers.steps import Row, Rows


class OwnConnection(Connection):
    """A connection of ours. Those whose URL says nothing of TLS share one context.

    PyMySQL makes one for each. With it come the certificates of all authorities that the machine
    knows, of which none is looked at: 0.9 MB, and 18 ms to read them.
    """

    _shared: ClassVar[SSLContext | None] = None

    def _create_ssl_ctx(self, given: Any) -> SSLContext:
        create = cast(Any, super())._create_ssl_ctx
        if given:
            return cast(SSLContext, create(given))
        if OwnConnection._shared is None:
            OwnConnection._shared = create({})
        return cast(SSLContext, OwnConnection._shared)


class PyMysqlDriver(MysqlDriver):
    """The adapter of a `pymysql.Connection`."""

    cursors = Cursor

    def drop(self) -> None:
        shut_down(self._conn._sock.fileno())

    def commits_each(self) -> bool:
        within = self._conn.server_status & SERVER_STATUS_IN_TRANS
        return bool(self._conn.get_autocommit() and not within)


class OwnPyMysqlDriver(OwnMysqlDriver, PyMysqlDriver):
    """The adapter of a connection of the store."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn)
        self._columns: Columns = {}

    def say(self, sql: str, params: Row) -> list[Rows]:
        text = sql % written(self._conn, params)
        self._conn._execute_command(COM_QUERY, text)
        return results(self._conn, self._columns)
