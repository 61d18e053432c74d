"""The adapter for the standard library's sqlite3."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

from mutirao.sql.drivers import copy
from mutirao.sql.drivers.failures import translate_errors
from mutirao.sql.drivers.lendable import Lendable
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows

_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, from Python 3.12 on


class OwnConnection(Lendable, sqlite3.Connection):
    """A connection of ours.

    `lock` waits until it is the one of its process that may write, and returns whether it is;
    `unlock` ends that. `has_write_lock`: it is. `is_left`: its file is not the one of that name.
    """

    has_write_lock = False
    lock: Callable[[], bool] = staticmethod(lambda: False)
    unlock: Callable[[], object] = staticmethod(lambda: None)
    is_left: Callable[[], bool] = staticmethod(lambda: False)
    _closed = _owes = _waits = False

    def __enter__(self) -> Self:
        """Refuse where a commit is refused: `with connection:` commits without calling it."""
        self._refuse("commit")
        return super().__enter__()

    def executescript(self, script: str, /) -> sqlite3.Cursor:
        """Refuse where a commit is refused: a script commits before it begins."""
        self._refuse("executescript")
        return super().executescript(script)

    def _refuse(self, name: str) -> None:
        if self.refuse is not None:
            self.refuse(name)

    def close(self) -> None:
        """Close it."""
        self._closed, self._owes = True, False
        try:
            super().close()
        finally:
            self.take_back()

    # All statements come through these methods: sqlite3's own `execute` asks for no cursor.
    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """Return a cursor, in the transaction."""
        self._prepare()
        return super().cursor(*args, **kwargs)

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement, in the transaction."""
        self._prepare()
        return super().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement for each row, in the transaction."""
        self._prepare()
        return super().executemany(*args)

    def blobopen(self, *args: Any, **kwargs: Any) -> sqlite3.Blob:
        """Open a BLOB, in the transaction."""
        self._prepare()
        return super().blobopen(*args, **kwargs)

    def lend(self) -> None:
        """Begin the transaction with the first statement."""
        self._owes = True

    def await_write_lock(self) -> None:
        """Make the next statement, which begins a transaction, wait for the write lock."""
        self._waits = True

    def _prepare(self) -> None:
        """Wait for the write lock, and begin, where that is due."""
        if not (self._waits or self._owes):
            return
        owes, self._owes, self._waits = self._owes, False, False
        # If nothing is owed, SQLAlchemy has begun, and translates errors itself.
        with translate_errors() if owes else nullcontext():
            self.has_write_lock = self.has_write_lock or self.lock()
            try:
                if owes:
                    self.cursor().execute("BEGIN IMMEDIATE")
            except BaseException:
                self.take_back()
                raise

    def take_back(self) -> None:
        """Release the write lock for the next writer."""
        self._owes = self._waits = False
        if self.has_write_lock:
            self.has_write_lock = False
            self.unlock()

    def is_open(self) -> bool:
        """Return whether a statement would be in a transaction."""
        return not self._closed and (self._owes or self.in_transaction)

    def must_roll_back(self) -> bool:
        """Begin nothing any more; return whether a transaction is open: SQLite ends some itself."""
        self._owes = False
        return self.is_open()

    def is_lost(self) -> bool:
        """Return whether it is closed, or its file is not the one of that name any more."""
        return self._closed or self.is_left()

    def is_idle(self) -> bool:
        """Return whether it is in no transaction."""
        return not self._closed and not self.in_transaction


@contextmanager
def bytes_escaped(connection: Any) -> Iterator[None]:
    """Within the block, read `\\xff` where a text in a row is not UTF-8.

    In JSON that is unreadable, so it is not taken for the intended value.
    """
    connection.text_factory = _escaped
    try:
        yield
    finally:
        connection.text_factory = str


def _escaped(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")


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
