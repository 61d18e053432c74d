"""aiosqlite, which runs sqlite3 in a thread."""

from aiosqlite import Connection

from mutirao.sql.callers.sqlite3 import Sqlite3Caller
from mutirao.sql.callers.steps import Request, Rows


class AiosqliteCaller:
    """Speaks through an `aiosqlite.Connection`."""

    database = "SQLite"

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def native(self, sql: str) -> str:
        return sql

    async def handle(self, request: Request) -> Rows:
        # aiosqlite has no public way to run a function in its thread, where alone sqlite3 tells
        # all of its mode. SQLAlchemy reaches in likewise. One visit to the thread is also faster.
        within = Sqlite3Caller(self._conn._conn)
        rows: Rows = await self._conn._execute(within.handle, request)  # type: ignore[no-untyped-call]
        return rows
