"""The adapter for aiomysql: PyMySQL's protocol, awaited, with PyMySQL's errors."""

from aiomysql import Connection, Cursor

from mutirao.sql.drivers.kinds import shut_down, with_percents
from mutirao.sql.drivers.steps import Autocommits, Execute, Request, Rows


class _Quiet(Cursor):  # type: ignore[misc]
    """A cursor that asks for no warnings, of which it would make Python's."""

    async def _show_warnings(self, conn: Connection) -> None:
        """Do nothing."""


class AiomysqlDriver:
    """The adapter of an `aiomysql.Connection`."""

    database = "MySQL or MariaDB"

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def drop(self) -> None:
        transport = self._conn._writer.transport
        if self._conn._loop.is_closed():
            shut_down(transport.get_extra_info("socket").fileno())
            self._conn._writer = None  # its `__del__` would need the loop to close it
        else:
            transport.abort()

    def native(self, sql: str) -> str:
        return with_percents(sql)

    async def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            within = self._conn.get_transaction_status()
            return [(self._conn.get_autocommit() and not within,)]
        if not isinstance(request, Execute):
            raise TypeError(f"no statement for MySQL: {request!r}")
        async with self._conn.cursor(_Quiet) as cursor:
            if request.many:
                await cursor.executemany(self.native(request.sql), request.params)
            else:
                await cursor.execute(self.native(request.sql), request.params)
            return list(await cursor.fetchall()) if request.answers else []
