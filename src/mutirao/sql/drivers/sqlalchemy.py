"""The adapter for SQLAlchemy, over any driver that has an adapter of its own.

Statements go through SQLAlchemy, so that it begins its transaction, echoes them and wraps their
errors as usual. Bulk rows go to the driver beneath, whose errors are not wrapped, except for a lost
connection: SQLAlchemy must know of that, and users expect its error. Only the synchronous face is
here: `AsyncConnection` and `AsyncSession` lend it with `run_sync`.
"""

import sys
from typing import Any, cast

from sqlalchemy import Connection
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.exc import OperationalError

from mutirao.sql.drivers.steps import (
    AsyncDriver,
    Execute,
    Request,
    Rows,
    SyncDriver,
)


def of_session(session: Any) -> Connection:
    """Return the connection of a session, or of a scoped one, for writing.

    A transaction manager (`zope.sqlalchemy`) that has joined the session is notified of the
    write: it rolls back what it takes for unchanged, and sees only what the session flushes.
    """
    connection: Connection = session.connection()  # with which the manager joins
    zope = sys.modules.get("zope.sqlalchemy.datamanager")
    if zope is not None:
        joined = session() if callable(session) else session
        if joined in zope._SESSION_STATE:  # mark_changed would let any other session join
            zope.mark_changed(joined)
    return connection


class SqlAlchemyDriver:
    """The adapter of a SQLAlchemy `Connection`; `driver` is that of the connection beneath."""

    def __init__(self, conn: Connection, driver: SyncDriver | AsyncDriver) -> None:
        self._conn = conn
        self._driver = driver

    @property
    def database(self) -> str:
        return self._driver.database

    def drop(self) -> None:
        self._driver.drop()

    def native(self, sql: str) -> str:
        return self._driver.native(sql)

    def handle(self, request: Request) -> Rows:
        if not isinstance(request, Execute):
            return self._ask_driver(request)
        params = list(request.params) if request.many else request.params
        result = self._conn.exec_driver_sql(self.native(request.sql), params)
        # A statement that returns rows by a comment for some servers has none on others.
        return [tuple(row) for row in result] if request.answers and result.returns_rows else []

    def _ask_driver(self, request: Request) -> Rows:
        beneath: Any = self._conn.connection.dbapi_connection
        try:
            if isinstance(beneath, AdaptedConnection):
                driver = cast(AsyncDriver, self._driver)
                return beneath.run_async(lambda _: driver.handle(request))
            return cast(SyncDriver, self._driver).handle(request)
        except Exception as error:
            if not self._conn.dialect.is_disconnect(cast(Any, error), beneath, None):
                raise
            self._conn.invalidate(error)
            raise OperationalError("COPY", None, error, connection_invalidated=True) from error
