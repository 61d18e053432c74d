"""Connections of PyMySQL, for adapters on MariaDB."""

from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql


def connected(url: str, *, autocommit: bool = False) -> "pymysql.Connection[Any]":
    """Return a connection in READ COMMITTED, as all that claim by SKIP LOCKED want it."""
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=unquote(parts.password or ""),
        database=parts.path[1:],
        charset="utf8mb4",
        autocommit=autocommit,
        init_command="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )


class Asked:
    """A connection that executes by itself."""

    def __init__(self, conn: "pymysql.Connection[Any]") -> None:
        self._conn = conn

    def execute(self, query: str) -> Any:
        cursor = self._conn.cursor()
        cursor.execute(query)
        return cursor

    def close(self) -> None:
        self._conn.close()
