"""The adapter for Django's connections, `connections[alias]`.

Statements go through Django's cursor, so that it opens the connection, logs them, calls execute
wrappers, refuses them in a broken transaction, in a test that may not use this database or in
another thread, and wraps their errors as usual. Nothing here imports Django.
"""

from typing import Any

from mutirao.errors import UnsupportedConnection
from mutirao.sql.drivers import copy, kinds
from mutirao.sql.drivers.kinds import with_percents
from mutirao.sql.drivers.steps import Autocommits, Load, Request, Rows, SyncDriver

# By vendor.
_DATABASES = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "mysql": "MySQL or MariaDB"}


class DjangoDriver:
    """The adapter of a `BaseDatabaseWrapper`."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    @property
    def database(self) -> str:
        known = _DATABASES.get(self._conn.vendor)
        return known or f"{self._conn.display_name} through Django"

    @property
    def _beneath(self) -> SyncDriver:
        self._conn.ensure_connection()
        return kinds.DRIVERS.adapt(self._conn.connection)

    def drop(self) -> None:
        self._beneath.drop()

    def forgive(self) -> bool:
        """Return whether Django holds the transaction for failed, and make it forget that.

        The caller goes back to a savepoint.
        """
        failed, self._conn.needs_rollback = self._conn.needs_rollback, False
        return bool(failed)

    def native(self, sql: str) -> str:
        return sql if self._conn.vendor == "postgresql" else with_percents(sql)

    def handle(self, request: Request) -> Rows:
        if isinstance(request, Autocommits):
            return self._beneath.handle(request)
        with self._conn.cursor() as cursor:
            if isinstance(request, Load):
                self._load(cursor, request)
                return []
            if request.many:
                cursor.executemany(self.native(request.sql), request.params)
            else:
                cursor.execute(self.native(request.sql), request.params)
            return [tuple(row) for row in cursor.fetchall()] if request.answers else []

    def _load(self, cursor: Any, load: Load) -> None:
        if self._conn.vendor == "sqlite":
            cursor.executemany(self.native(copy.insertion(load)), load.rows)
            return
        with self._conn.wrap_database_errors:
            if hasattr(cursor, "copy_expert"):  # psycopg2
                cursor.copy_expert(copy.statement(load), copy.File(copy.pieces(load)))
                return
            with cursor.copy(copy.statement(load)) as channel:
                for piece in copy.pieces(load):
                    channel.write(piece)


def beneath_proxy(proxy: Any) -> SyncDriver:
    """Return the adapter for what `django.db.connection` stands for in this thread.

    Raises:
        UnsupportedConnection: it is another such proxy, as `django.core.cache.cache` is.
    """
    conn = proxy._connections[proxy._alias]
    if not kinds.DJANGO.fits(conn):
        raise UnsupportedConnection(
            f"conn= was given a Django proxy of {type(conn).__module__}.{type(conn).__qualname__};"
            " expected django.db.connection, or connections[alias]"
        )
    return DjangoDriver(conn)
