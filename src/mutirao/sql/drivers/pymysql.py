"""The adapter for PyMySQL, which writes values into statements itself."""

from functools import lru_cache

from pymysql import Connection
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from mutirao.sql.drivers.dropping import shut_down
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows


class PyMysqlDriver:
    """The adapter of a `pymysql.Connection`."""

    database = "MariaDB"

    def __init__(self, conn: "Connection[Cursor]") -> None:
        self._conn = conn

    def drop(self) -> None:
        shut_down(self._conn._sock.fileno())  # type: ignore[attr-defined]

    def native(self, sql: str) -> str:
        return _native(sql)

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            within = self._conn.server_status & SERVER_STATUS_IN_TRANS  # type: ignore[attr-defined]
            return [(self._conn.get_autocommit() and not within,)]
        with self._conn.cursor(Cursor) as cursor:
            if isinstance(request, Load):
                cursor.executemany(_insert(request), [*request.rows])
                return []
            if request.many:
                cursor.executemany(self.native(request.sql), request.params)
            else:
                cursor.execute(self.native(request.sql), request.params)
            return list(cursor.fetchall()) if request.answers else []


@lru_cache(maxsize=256)
def _native(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def _insert(load: Load) -> str:
    columns = ", ".join(f"`{column}`" for column in load.columns)
    marks = ", ".join("%s" for _ in load.columns)
    return f"INSERT INTO `{load.table}` ({columns}) VALUES ({marks})"  # noqa: S608
