"""The administration of SQLite, by people and migrations."""

import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from mutirao.model.findings import Finding
from mutirao.sql.dialects.admin import Admin
from mutirao.sql.dialects.connecting import SINGLE_STATEMENT
from mutirao.sql.dialects.sqlite.connecting import BUSY_TIMEOUT
from mutirao.sql.dialects.sqlite.health_checks import health_checks
from mutirao.sql.dialects.sqlite.mending import mend, remade

_WAL = "PRAGMA journal_mode = WAL"
_FOREIGN_KEYS = "PRAGMA foreign_keys"
# Tables of revision 0100 cannot even be looked at without.
_TRUSTED = "PRAGMA trusted_schema = ON"
_MADE_AGAIN = re.compile(r"^--! made again\n(CREATE TABLE (\w+).*)", re.MULTILINE | re.DOTALL)


class SqliteAdmin(Admin):
    """SQLite's side of migrating, looking and repairing."""

    ddl_preface = f"{_WAL};\n{_TRUSTED};\n"

    @contextmanager
    def migrating(self, connection: Connection) -> Iterator[None]:
        """Put the file in WAL mode and hold its write lock until the block ends.

        The mode cannot be changed inside a transaction, and every other one begins at once; nor can
        it be whether foreign keys are kept, which would have rows of the application's deleted with
        a table of ours that is made again.
        """
        connection.execution_options(**{SINGLE_STATEMENT: True})
        connection.exec_driver_sql(_TRUSTED)
        _write_ahead(connection)
        kept = connection.exec_driver_sql(_FOREIGN_KEYS).scalar()
        connection.exec_driver_sql(f"{_FOREIGN_KEYS} = OFF")
        connection.commit()
        connection.execution_options(**{SINGLE_STATEMENT: False})
        try:
            with connection.begin():
                yield
        finally:
            connection.execution_options(**{SINGLE_STATEMENT: True})
            connection.exec_driver_sql(f"{_FOREIGN_KEYS} = {kept}")

    @contextmanager
    def migrating_within(self, connection: Connection) -> Iterator[None]:
        """Take the write lock by writing first: after a read it may be refused."""
        connection.exec_driver_sql(_TRUSTED)
        connection.exec_driver_sql("CREATE TABLE mutirao_migrating (one)")
        connection.exec_driver_sql("DROP TABLE mutirao_migrating")
        yield

    def prepare_file(self, connection: Connection) -> None:
        """Put the file in WAL mode; a database in memory has none, and stays as it is."""
        _write_ahead(connection)

    def in_place(
        self, statement: str, connection: Connection | None, schema: str | None
    ) -> Sequence[str]:
        """Make a table again, with its rows, if the line before is `--! made again`."""
        again = _MADE_AGAIN.search(statement)
        return (statement,) if again is None else remade(connection, again[2], again[1], {})

    def mend(
        self, connection: Connection, statements: Iterable[str], fills: Mapping[str, str]
    ) -> bool:
        """Make again what differs from a database in memory."""
        return mend(connection, statements, fills)

    def one_at_a_time(self, connection: Connection, what: str) -> None:
        """Nothing to do: every transaction holds the only write lock from its beginning."""

    def clock(self, connection: Connection) -> datetime:
        """Return this machine's time: the database has no other."""
        return datetime.now(UTC)

    def health_checks(self, connection: Connection) -> Iterator[Finding]:
        """Examine the file."""
        return health_checks(connection)


def _write_ahead(connection: Connection) -> None:
    """Put the file in WAL mode, which it remembers.

    If two do so at once, each has read the file already, so SQLite lets neither wait for the other:
    one gets "database is locked", whatever its timeout (29 of 300 processes, five at a time). It
    waits by beginning to write, and tries again.
    """
    until = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            connection.exec_driver_sql(_WAL)
        except OperationalError as error:
            if not _is_busy(error) or time.monotonic() > until:
                raise
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            connection.exec_driver_sql("ROLLBACK")
        else:
            return


def _is_busy(error: OperationalError) -> bool:
    return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


ADMIN = SqliteAdmin()
