"""The standard library's sqlite3."""

import sqlite3

from mutirao.sql.callers.steps import Load, Request, Rows

_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


def autocommits(conn: sqlite3.Connection) -> bool:
    """Tell whether each statement would commit by itself, in any of sqlite3's modes."""
    mode = getattr(conn, "autocommit", _LEGACY)
    standing = conn.isolation_level is None if mode == _LEGACY else bool(mode)
    return standing and not conn.in_transaction


def insert(load: Load) -> str:
    """Return the statement that inserts one of the rows."""
    columns = ", ".join(f'"{column}"' for column in load.columns)
    marks = ", ".join("?" for _ in load.columns)
    return f'INSERT INTO "{load.table}" ({columns}) VALUES ({marks})'  # noqa: S608


class Sqlite3Caller:
    """Speaks through a `sqlite3.Connection`."""

    database = "SQLite"

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    @property
    def autocommits(self) -> bool:
        return autocommits(self._conn)

    def native(self, sql: str) -> str:
        return sql

    def handle(self, request: Request) -> Rows:
        cursor = self._conn.cursor()
        cursor.row_factory = None
        try:
            if isinstance(request, Load):
                cursor.executemany(insert(request), request.rows)
                return []
            cursor.execute(request.sql, request.params)
            return cursor.fetchall()
        finally:
            cursor.close()
