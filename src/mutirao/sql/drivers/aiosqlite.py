"""The adapter for aiosqlite, which runs sqlite3 in a thread."""

from typing import TypeVar

from aiosqlite import Connection

from mutirao.sql.drivers.sqlite3 import Sqlite3Driver
from mutirao.sql.drivers.steps import Query, Request, Rows, drive

R = TypeVar("R")


class AiosqliteDriver:
    """The adapter of an `aiosqlite.Connection`."""

    database = "SQLite"

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def drop(self) -> None:
        self._conn._conn.interrupt()  # its own waits for the thread that is to be freed

    def native(self, sql: str) -> str:
        return sql

    async def handle(self, request: Request) -> Rows:
        # aiosqlite has no public way to run a function in its thread, and only there sqlite3
        # reports its transaction mode completely. SQLAlchemy does the same. One call is faster.
        within = Sqlite3Driver(self._conn._conn)
        rows: Rows = await self._conn._execute(within.handle, request)  # type: ignore[no-untyped-call]
        return rows

    async def run(self, steps: Query[R]) -> R:
        """Run steps in one visit to the thread; a visit costs more than a statement."""
        within = Sqlite3Driver(self._conn._conn)
        result: R = await self._conn._execute(lambda: drive(steps, within))  # type: ignore[no-untyped-call]
        return result
