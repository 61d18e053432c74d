"""PostgreSQL, as people and migrations meet it."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from mutirao.sql.dialects.admin import Admin

# "mutirao" in ASCII: the advisory lock that one migration at a time holds.
_MIGRATION_LOCK = 0x6D75746972616F


class PostgresqlAdmin(Admin):
    """PostgreSQL's side of migrating, looking and repairing."""

    name = "postgresql"

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Hold an advisory lock until the transaction ends, however it does."""
        with connection.begin():
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            yield


ADMIN = PostgresqlAdmin()
