"""The adapter for asyncpg: its own connections and those lent by a pool."""

from collections.abc import AsyncIterator
from secrets import token_hex
from typing import Any

from asyncpg import Connection, Record
from asyncpg.pool import PoolConnectionProxy

from mutirao.sql.drivers import copy
from mutirao.sql.drivers.kinds import numbered, shut_down
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows


class OwnConnection(Connection):  # type: ignore[misc]
    """A connection of ours, whose prepared statements have names that no other connection gives.

    asyncpg counts them in each process; `sql.drivers.prepared` has the consequences.
    """

    __slots__ = ("_suffix",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._suffix = token_hex(6)

    def _get_unique_id(self, prefix: str) -> str:
        return f"{super()._get_unique_id(prefix)}{self._suffix}"


class AsyncpgDriver:
    """The adapter of an `asyncpg.Connection` or a pool's proxy of one."""

    database = "PostgreSQL"

    def __init__(self, conn: Connection | PoolConnectionProxy) -> None:
        self._conn = conn

    def drop(self) -> None:
        if self._conn._loop.is_closed():
            shut_down(self._conn._transport.get_extra_info("socket").fileno())
        else:
            self._conn.terminate()

    def native(self, sql: str) -> str:
        return numbered(sql)

    async def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return [(not self._conn.is_in_transaction(),)]
        if isinstance(request, Load):
            await self._conn.copy_to_table(
                request.table,
                schema_name=request.schema,
                columns=request.columns,
                source=_pieces(request),
                format="binary",
            )
            return []
        sql = self.native(request.sql)
        records = await self._conn.fetch(sql, *request.params, record_class=Record)
        return [tuple(record) for record in records]


async def _pieces(load: Load) -> AsyncIterator[bytes]:
    for piece in copy.pieces(load):
        yield piece
