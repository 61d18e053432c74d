"""What a connection has set, as far as its kind shows it: enqueueing leaves all of it as it was."""

from __future__ import annotations

import sqlite3
from typing import Any

import MySQLdb.connections
import psycopg
import pymysql
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS

from mutirao.sql.drivers.mysqldb import keeps_savepoint

SETTINGS = (
    "autocommit", "isolation_level", "row_factory", "text_factory", "cursor_factory",
    "server_cursor_factory", "prepare_threshold", "read_only", "deferrable", "readonly",
    "encoding", "cursorclass", "_cursor_cls", "autocommit_mode", "sql_mode", "charset",
)  # fmt: skip


def settings(conn: Any) -> dict[str, Any]:
    """Return what can be set on a connection or session, as far as it has any of it."""
    found: dict[str, Any] = {}
    for name in SETTINGS:
        try:
            found[name] = getattr(conn, name)
        except (AttributeError, sqlite3.ProgrammingError):
            continue  # not of this kind; or, of aiosqlite, not to be seen from this thread
    return found


def in_transaction(conn: Any) -> bool:
    """Whether a transaction is open, as the kind of connection tells it."""
    if isinstance(conn, psycopg.Connection | psycopg.AsyncConnection):
        return conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
    if isinstance(conn, pymysql.Connection):
        return bool(conn.server_status & SERVER_STATUS_IN_TRANS)  # type: ignore[attr-defined]
    if isinstance(conn, MySQLdb.connections.Connection):
        return keeps_savepoint(conn, "test")
    if hasattr(conn, "get_transaction_status"):
        return bool(conn.get_transaction_status())
    found = getattr(conn, "is_in_transaction", None) or conn.in_transaction
    return bool(found() if callable(found) else found)
