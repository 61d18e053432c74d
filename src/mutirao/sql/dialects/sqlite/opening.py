"""Opening a file for a coroutine, which may be cancelled meanwhile.

aiosqlite opens a file in a thread, and forgets the connection if its caller was cancelled
meanwhile: it stays open until it is garbage-collected.
"""

import sqlite3
from functools import partial
from threading import Lock
from typing import Any

from aiosqlite import Connection
from sqlalchemy import Engine, event

_ROWS_AT_ONCE = 64  # of an iteration over a cursor; aiosqlite's own default


def open_or_close(engine: Engine) -> None:
    """Make an engine for coroutines close a connection that no caller waits for any more."""

    @event.listens_for(engine, "do_connect")
    def _open(dialect: object, record: object, args: object, params: dict[str, Any]) -> None:
        params["async_creator_fn"] = _opened


class _Opening:
    """A connection that a thread opens, and that another one may give up."""

    def __init__(self, open_file: partial[sqlite3.Connection]) -> None:
        self._open_file = open_file
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._given_up = False

    def connect(self) -> sqlite3.Connection:
        """Open it; close it at once if it is given up."""
        connection = self._open_file()
        with self._lock:
            self._connection = connection
            if self._given_up:
                connection.close()
        return connection

    def give_up(self) -> None:
        """Close it, as soon as it is open."""
        with self._lock:
            self._given_up = True
            if self._connection is not None:
                self._connection.close()


async def _opened(database: str, **arguments: Any) -> Connection:
    # A cancelled caller closes it in another thread than the one that opened it.
    arguments["check_same_thread"] = False
    opening = _Opening(partial(sqlite3.connect, database, **arguments))
    connection = Connection(opening.connect, _ROWS_AT_ONCE)
    # As SQLAlchemy does with its own. Before aiosqlite 0.22 the connection is the thread.
    thread: Any = getattr(connection, "_thread", connection)
    thread.daemon = True
    try:
        return await connection
    except BaseException:
        opening.give_up()
        raise
