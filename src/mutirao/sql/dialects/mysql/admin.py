"""The administration of MySQL and MariaDB, by people and migrations."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from sqlalchemy import Connection, text

from mutirao.errors import ConfigurationError, StoreBusy
from mutirao.model.findings import Finding
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.mysql import server
from mutirao.sql.dialects.mysql.health_checks import health_checks, lax_sessions, unfit
from mutirao.sql.dialects.mysql.mending import mend
from mutirao.sql.dialects.mysql.moments import NOW
from mutirao.sql.dialects.mysql.session import lent
from mutirao.sql.schema.types import from_micros

log = logging.getLogger("mutirao")

_MIGRATION_LOCK_TIMEOUT = 600  # seconds that one migration waits for another one
_TAKE = text("SELECT GET_LOCK(concat('mutirao ', database()), :seconds)")
_GIVE_BACK = text("SELECT RELEASE_LOCK(concat('mutirao ', database()))")
# Scripts that are released are not changed any more, and were written where no MySQL was: what it
# takes in another way is changed where they are executed, or printed, and MariaDB reads the same.
# `lag` is a reserved word, and where sql_require_primary_key is on each table needs such a key.
_FOR_MYSQL = (
    (re.compile(r"(?<![\w`'])lag(?![\w`'(])"), "`lag`"),
    (
        re.compile(r"(CREATE TABLE IF NOT EXISTS mutirao_kept \()"),
        r"\1\n    /*!80023 `row` bigint PRIMARY KEY AUTO_INCREMENT INVISIBLE, */",
    ),
)
_HOLD = text("SELECT name FROM mutirao_lock WHERE name = :name FOR UPDATE")


class MysqlAdmin(Admin):
    """Their side of migrating, looking and repairing."""

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Hold a named lock: DDL commits, and would end a lock of a transaction.

        A migration that was cut off is done again from its beginning, which does no harm.
        """
        _require_server(connection)
        for loose in lax_sessions(connection):
            log.warning("%s; %s", loose.found, loose.advice)
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

    @contextmanager
    def migrating_within(self, connection: Connection) -> Iterator[None]:
        """Hold the same lock, in a session with our settings."""
        connection.commit()  # of what SQLAlchemy has asked: it ends nothing of the caller's
        put_back = lent(connection.connection.driver_connection)
        try:
            with self.migrating(connection):
                yield
        finally:
            put_back()

    def mend(
        self, connection: Connection, statements: Iterable[str], fills: Mapping[str, str]
    ) -> bool:
        """Compare with a table of the right form, and alter what differs."""
        return mend(connection, statements, fills)

    def in_place(
        self, statement: str, connection: Connection | None, schema: str | None
    ) -> Sequence[str]:
        """Return it in words that MySQL takes, too: see `_FOR_MYSQL`."""
        for found, instead in _FOR_MYSQL:
            statement = found.sub(instead, statement)
        return (statement,)

    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Lock the row of its name until the transaction ends."""
        connection.execute(_HOLD, {"name": what}).all()

    def clock(self, connection: Connection) -> datetime:
        """Query the server."""
        return from_micros(connection.exec_driver_sql(f"SELECT {NOW}").scalar_one())

    def unfit(self, connection: Connection) -> Iterator[Finding]:
        """Query the settings of the server and of this session."""
        return unfit(connection)

    def health_checks(self, connection: Connection) -> Iterator[Finding]:
        """Examine the server, its tables, and how often transactions were given up."""
        return health_checks(connection)


def _require_server(connection: Connection) -> None:
    for fault in server.faults(connection):
        raise ConfigurationError(f"{fault.found}; {fault.remedy}. Nothing was changed.")
    server.allow_making(connection)


ADMIN = MysqlAdmin()
