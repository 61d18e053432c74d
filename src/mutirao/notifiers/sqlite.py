"""`PRAGMA data_version` on a connection of its own: it changes when another connection wrote.

One check takes microseconds and reads no table; what is new is read after a change only. If the
system notifies of writes to the file, checks are made only then: waking up to check costs an idle
process more than the check.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress

from sqlalchemy import URL, make_url

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import Wake
from mutirao.notifiers.files import FileWatch, Identity, identity_of, watching
from mutirao.notifiers.new_jobs import NewJobs

# Seconds from a write to the checks after it: a commit is visible only when its data have reached
# the disk, and the write that was notified may belong to another commit.
CHECKS_AFTER_WRITE = (0.005, 0.02, 0.08, 0.32)
# Seconds between checks if the system does not notify of writes. Measured on a small virtual
# machine in an idle worker: 1.2 % of a core; with 0.01 s it was 2.25 %.
POLL_INTERVAL = 0.02
CHECK_EVERY = 5.0  # seconds between checks if it does: the file itself may be replaced


class SqliteNotifier:
    """The changes of the SQLite file at `url`."""

    def __init__(self, url: str | URL) -> None:
        self._path = make_url(url).database or ""

    async def listen(self) -> AsyncIterator[Wake]:
        """Yield a wake whenever a connection has written; raise StoreUnavailable if that fails."""
        try:
            with closing(_connect(self._path)) as connection:
                file, seen = identity_of(self._path), _version(connection)
                new_jobs = NewJobs(connection)
                with watching([self._path, f"{self._path}-wal"]) as watch:
                    yield Wake()
                    pauses = Pauses(watch)
                    while True:
                        await pauses.next()
                        self._require(file)
                        now = _version(connection)
                        if now != seen:
                            seen = now
                            pauses.again()
                            yield new_jobs.look()
        except sqlite3.OperationalError as gone:
            raise StoreUnavailable(f"the database file cannot be read: {gone}") from gone

    def _require(self, file: Identity) -> None:
        """Raise StoreUnavailable if the path now leads to another file, or to none."""
        if identity_of(self._path) != file:
            raise StoreUnavailable(f"{self._path} is another file than it was, or is gone")


class Pauses:
    """The pauses between checks: until the file is written to, and a few short ones after that."""

    def __init__(self, watch: FileWatch | None) -> None:
        self._watch = watch
        self.again()

    def again(self) -> None:
        """Begin with the short pauses again: another commit may be on its way to the disk."""
        self._left = [*CHECKS_AFTER_WRITE]

    async def next(self) -> None:
        """Wait until it is time to check."""
        if self._watch is None:
            await asyncio.sleep(POLL_INTERVAL)
            return
        if len(self._left) == len(
            CHECKS_AFTER_WRITE
        ):  # so that many writers do not cause many checks
            await asyncio.sleep(self._left.pop(0))
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._left.pop(0) if self._left else CHECK_EVERY):
                    await self._watch.written.wait()
        if self._watch.written.is_set():
            self._watch.forget()
            self.again()


def _connect(path: str) -> sqlite3.Connection:
    """Open the file for looks that never wait, as they are made in the event loop."""
    return sqlite3.connect(path, timeout=0.0, isolation_level=None)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
