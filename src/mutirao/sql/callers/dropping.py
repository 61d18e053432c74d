"""Ends a connection from outside, without a word to the server.

Cancelling a query needs the same network as the query. Shutting the socket down needs none: whoever
waits for an answer, in whatever thread, is told at once that the connection is over.
"""

import socket
from contextlib import suppress
from os import dup
from typing import Any


def drop(connection: Any) -> None:
    """Make whatever a driver's own connection is doing fail now. Harmless if it is closed.

    For asyncpg only in the thread of the connection's event loop, for others from any thread.
    SQLite's statement is interrupted, and the connection stays.
    """
    driver = type(connection).__module__.partition(".")[0]
    with suppress(Exception):  # it is closed already, or has only just been opened
        _WAYS[driver](connection)


def _shut_down(connection: Any) -> None:
    copy = dup(connection.fileno())  # closing it leaves the driver's own open
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=copy) as held:
        held.shutdown(socket.SHUT_RDWR)


def _terminate(connection: Any) -> None:
    connection.terminate()


def _interrupt(connection: Any) -> None:
    connection.interrupt()


def _interrupt_beneath(connection: Any) -> None:
    connection._conn.interrupt()  # its own `interrupt` waits for the thread that is to be freed


_WAYS = {
    "psycopg": _shut_down,
    "psycopg2": _shut_down,
    "asyncpg": _terminate,
    "sqlite3": _interrupt,
    "aiosqlite": _interrupt_beneath,
}
