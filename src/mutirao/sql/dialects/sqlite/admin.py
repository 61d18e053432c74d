"""SQLite, as people and migrations meet it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from mutirao.sql.dialects.admin import Admin

_WAL = "PRAGMA journal_mode = WAL"
_MIGRATION_PATIENCE = 60_000  # milliseconds to wait for another process that migrates


class SqliteAdmin(Admin):
    """SQLite's side of migrating, looking and repairing."""

    name = "sqlite"
    ddl_preface = f"{_WAL};\n"

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Put the file in WAL mode and hold its write lock until the block ends.

        The driver would begin no transaction before DDL, so it is told to leave that to us.
        """
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {_MIGRATION_PATIENCE}")
        connection.exec_driver_sql(_WAL)
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


ADMIN = SqliteAdmin()
