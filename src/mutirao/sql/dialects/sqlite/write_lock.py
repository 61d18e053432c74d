"""The lock to write, among the threads of one process.

SQLite has a writer who finds the lock taken sleep and ask again, at last every 0.1 s. Threads of
one process that wait for one another instead commit two to four times as often. Coroutines do not
take part: each of their statements visits a thread, and they would hold the lock meanwhile.
"""

from threading import Lock
from typing import Any

from mutirao.sql.drivers.sqlite3 import OwnConnection

MAX_WAIT = 1.0  # seconds; then SQLite decides, which knows of other processes and of deadlines


class WriteLock:
    """A lock of the connections of one engine, which is synchronous."""

    def __init__(self, dialect: Any) -> None:
        self._free = Lock()
        for end in ("do_commit", "do_rollback", "do_close", "do_terminate"):
            setattr(dialect, end, self._giving_back(getattr(dialect, end)))

    def take(self, connection: object) -> None:
        """Wait for the lock, which is given back with the transaction or the connection."""
        if isinstance(connection, OwnConnection) and not connection.has_write_lock:
            connection.has_write_lock = self._free.acquire(timeout=MAX_WAIT)

    def _giving_back(self, end: Any) -> Any:
        def ended(connection: Any) -> None:
            try:
                end(connection)
            finally:
                self._give_back(getattr(connection, "driver_connection", connection))

        return ended

    def _give_back(self, connection: object) -> None:
        if isinstance(connection, OwnConnection) and connection.has_write_lock:
            connection.has_write_lock = False
            self._free.release()
