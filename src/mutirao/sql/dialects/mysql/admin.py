"""MariaDB, as people and migrations meet it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, text

from mutirao.errors import ConfigurationError, StoreBusy
from mutirao.model.findings import Finding
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.mysql.health_checks import health_checks
from mutirao.sql.dialects.mysql.moments import NOW
from mutirao.sql.schema.instant import from_micros

OLDEST_VERSION = (10, 6)
_MIGRATION_LOCK_TIMEOUT = 600  # seconds that one migration waits for another one
_TAKE = text("SELECT GET_LOCK(concat('mutirao ', database()), :seconds)")
_GIVE_BACK = text("SELECT RELEASE_LOCK(concat('mutirao ', database()))")
_HOLD = text("SELECT name FROM mutirao_lock WHERE name = :name FOR UPDATE")


class MysqlAdmin(Admin):
    """MariaDB's side of migrating, looking and repairing."""

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Hold a named lock: DDL commits, and would end a lock of a transaction.

        A migration that was cut off is done again from its beginning, which does no harm.
        """
        _require_mariadb(connection)
        if connection.scalar(_TAKE, {"seconds": _MIGRATION_LOCK_TIMEOUT}) != 1:
            raise StoreBusy(
                f"another migration has not ended within {_MIGRATION_LOCK_TIMEOUT} s; try again"
            )
        connection.commit()
        try:
            with connection.begin():
                yield
        except BaseException as error:
            try:
                connection.execute(_GIVE_BACK)
            except Exception as failure:  # noqa: BLE001 (added as a note to the original error)
                error.add_note(f"Giving the migration's lock back failed too: {failure!r}")
            raise
        connection.execute(_GIVE_BACK)

    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Lock the row of its name until the transaction ends."""
        connection.execute(_HOLD, {"name": what}).all()

    def clock(self, connection: Connection) -> datetime:
        """Ask the server."""
        return from_micros(connection.exec_driver_sql(f"SELECT {NOW}").scalar_one())

    def health_checks(self, connection: Connection) -> Iterator[Finding]:
        """Examine the plan of a claim, and how often transactions were given up."""
        return health_checks(connection)


def _require_mariadb(connection: Connection) -> None:
    said = connection.exec_driver_sql("SELECT version()").scalar_one()
    is_mariadb = getattr(connection.dialect, "is_mariadb", False)
    version = connection.dialect.server_version_info or ()
    if not is_mariadb or version[:2] < OLDEST_VERSION:
        raise ConfigurationError(
            f"the server is {said}; mysql+pymysql and mariadb+pymysql need MariaDB"
            f" {'.'.join(map(str, OLDEST_VERSION))} or newer. Nothing was changed."
        )


ADMIN = MysqlAdmin()
