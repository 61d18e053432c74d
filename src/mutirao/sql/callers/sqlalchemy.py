"""SQLAlchemy, over any driver that has a caller of its own.

Statements go through SQLAlchemy, so that it begins its transaction, echoes them and wraps their
errors as it would its own. Rows in bulk go to the driver beneath. Only the synchronous face is
here: `AsyncConnection` and `AsyncSession` lend it with `run_sync`.
"""

from typing import cast

from sqlalchemy import Connection
from sqlalchemy.engine import AdaptedConnection

from mutirao.sql.callers.steps import (
    AsyncCaller,
    Execute,
    Request,
    Rows,
    SyncCaller,
)


class SqlAlchemyCaller:
    """Speaks through a SQLAlchemy `Connection`; `driver` through the connection beneath it."""

    def __init__(self, conn: Connection, driver: SyncCaller | AsyncCaller) -> None:
        self._conn = conn
        self._driver = driver

    @property
    def database(self) -> str:
        return self._driver.database

    def native(self, sql: str) -> str:
        return self._driver.native(sql)

    def handle(self, request: Request) -> Rows:
        if not isinstance(request, Execute):
            return self._ask_driver(request)
        result = self._conn.exec_driver_sql(self.native(request.sql), request.params)
        return [tuple(row) for row in result] if result.returns_rows else []

    def _ask_driver(self, request: Request) -> Rows:
        beneath: object = self._conn.connection.dbapi_connection
        if isinstance(beneath, AdaptedConnection):
            driver = cast(AsyncCaller, self._driver)
            return beneath.run_async(lambda _: driver.handle(request))
        return cast(SyncCaller, self._driver).handle(request)
