"""The lock to write to a file, among the connections of one process.

A writer that finds SQLite's lock taken sleeps and asks again, at last every 0.1 s. Threads of
one process that wait for one another instead commit two to four times as often. Connections of
coroutines wait in the threads in which aiosqlite runs them.
"""

import os
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

from mutirao.sql.drivers.lendable import lendable
from mutirao.sql.drivers.sqlite3 import OwnConnection

MAX_WAIT = 1.0  # seconds; then SQLite decides, which knows of other processes and of deadlines


class WriteLock:
    """The lock to write to one file."""

    def __init__(self) -> None:
        self._free = Lock()

    def share_with(self, connection: object) -> None:
        """Share the lock with a new connection."""
        own = lendable(connection)
        if isinstance(own, OwnConnection):
            own.lock = lambda: self._free.acquire(timeout=MAX_WAIT)
            own.unlock = self._free.release


_LOCKS: WeakValueDictionary[str, WriteLock] = WeakValueDictionary()
os.register_at_fork(after_in_child=_LOCKS.clear)  # who had one is not in the child


def write_lock_of(path: str) -> WriteLock:
    """Return the lock to write to a file."""
    return _LOCKS.setdefault(os.path.realpath(path), WriteLock())


def give_back_at_ends(dialect: Any) -> None:
    """Release the lock when a connection's transaction ends, or the connection itself."""
    for end in ("do_commit", "do_rollback", "do_close", "do_terminate"):
        setattr(dialect, end, _giving_back(getattr(dialect, end)))


def _giving_back(end: Any) -> Any:
    def ended(connection: Any) -> None:
        own = lendable(getattr(connection, "driver_connection", connection))
        try:
            end(connection)
        finally:
            if isinstance(own, OwnConnection):
                own.take_back()

    return ended
