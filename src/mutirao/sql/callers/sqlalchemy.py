"""SQLAlchemy, over any driver that has a caller of its own.

Statements go through SQLAlchemy, so that it begins its transaction, echoes them and wraps their
errors as it would its own. Rows in bulk go to the driver beneath, whose errors stay its own, but
for a lost connection: that SQLAlchemy must know of, and people look out for its error. Only the
synchronous face is here: `AsyncConnection` and `AsyncSession` lend it with `run_sync`.
"""

from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.exc import OperationalError

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
        return [tuple(row) for row in result] if request.answers else []

    def _ask_driver(self, request: Request) -> Rows:
        beneath: Any = self._conn.connection.dbapi_connection
        try:
            if isinstance(beneath, AdaptedConnection):
                driver = cast(AsyncCaller, self._driver)
                return beneath.run_async(lambda _: driver.handle(request))
            return cast(SyncCaller, self._driver).handle(request)
        except Exception as error:
            if not self._conn.dialect.is_disconnect(cast(Any, error), beneath, None):
                raise
            self._conn.invalidate(error)
            raise OperationalError("COPY", None, error, connection_invalidated=True) from error
