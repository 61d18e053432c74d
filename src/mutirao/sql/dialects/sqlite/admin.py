"""SQLite, as people and migrations meet it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from mutirao.sql.dialects.admin import Admin
from mutirao.sql.engines import ALONE

_WAL = "PRAGMA journal_mode = WAL"


class SqliteAdmin(Admin):
    """SQLite's side of migrating, looking and repairing."""

    name = "sqlite"
    ddl_preface = f"{_WAL};\n"

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Put the file in WAL mode and hold its write lock until the block ends.

        The mode cannot be changed inside a transaction, and every other one begins at once.
        """
        connection.execution_options(**{ALONE: True})
        connection.exec_driver_sql(_WAL)
        connection.commit()
        connection.execution_options(**{ALONE: False})
        with connection.begin():
            yield


ADMIN = SqliteAdmin()
