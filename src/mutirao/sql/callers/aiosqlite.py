"""aiosqlite, which runs sqlite3 in a thread."""

from aiosqlite import Connection

from mutirao.sql.callers.sqlite3 import autocommits, insert
from mutirao.sql.callers.steps import Load, Request, Rows


class AiosqliteCaller:
    """Speaks through an `aiosqlite.Connection`."""

    database = "SQLite"

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    @property
    def autocommits(self) -> bool:
        # aiosqlite shows everything of this but `autocommit`; SQLAlchemy reaches in likewise.
        return autocommits(self._conn._conn)

    def native(self, sql: str) -> str:
        return sql

    async def handle(self, request: Request) -> Rows:
        async with self._conn.cursor() as cursor:
            cursor.row_factory = None
            if isinstance(request, Load):
                await cursor.executemany(insert(request), request.rows)
                return []
            await cursor.execute(request.sql, request.params)
            return [tuple(row) for row in await cursor.fetchall()]
