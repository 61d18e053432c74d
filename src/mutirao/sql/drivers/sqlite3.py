"""The adapter for the standard library's sqlite3."""

import sqlite3
from typing import Self

from mutirao.sql.drivers import copy
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows

_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


class OwnConnection(sqlite3.Connection):
    """A connection of ours: what `lending` refuses is refused here, too.

    `with connection:` commits without calling `commit`. `has_write_lock`: it is the one of its
    process that may write.
    """

    has_write_lock = False

    def __enter__(self) -> Self:
        """Refuse where a commit is refused."""
        refused = vars(self).get("commit")
        if refused is not None:
            refused()
        return super().__enter__()


class Sqlite3Driver:
    """The adapter of a `sqlite3.Connection`."""

    database = "SQLite"

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def drop(self) -> None:
        self._conn.interrupt()  # the connection stays

    def native(self, sql: str) -> str:
        return sql

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(_autocommits(self._conn),)]
        cursor = self._conn.cursor()
        cursor.row_factory = None
        try:
            if isinstance(request, Load):
                cursor.executemany(copy.insertion(request), request.rows)
            elif request.many:
                cursor.executemany(request.sql, request.params)
            else:
                cursor.execute(request.sql, request.params)
            return cursor.fetchall()
        finally:
            cursor.close()


def _autocommits(conn: sqlite3.Connection) -> bool:
    mode = getattr(conn, "autocommit", _LEGACY)
    standing = conn.isolation_level is None if mode == _LEGACY else bool(mode)
    return standing and not conn.in_transaction
