"""Connecting to SQLite: a file that this process opens.

aiosqlite hops to a thread for every statement; the store's own transactions run in a thread as a
whole instead. It serves the coroutines that use `job.transaction()`.
"""

import os
import sqlite3
from typing import Any

from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import InvalidatePoolError

from mutirao.errors import SchemaMissing
from mutirao.model.display import MIGRATE
from mutirao.notifiers.files import Identity, identity_of
from mutirao.sql.dialects.connecting import MAY_CREATE_FILE, SINGLE_STATEMENT, Connecting, Drivers
from mutirao.sql.dialects.sqlite.write_lock import give_back_at_ends, write_lock_of
from mutirao.sql.drivers.lendable import lendable
from mutirao.sql.drivers.sqlite3 import OwnConnection

BUSY_TIMEOUT = 30.0  # seconds a connection waits for another one's write lock
_DRIVERS = Drivers(
    *("sqlite+pysqlite", "sqlite+aiosqlite"),
    arguments={"timeout": BUSY_TIMEOUT, "factory": OwnConnection},
    direct=True,
)


_FILE = "mutirao_file"  # what a pool remembers with a connection: which file that is


def _refuse(url: URL) -> str | None:
    if url.database not in (None, "", ":memory:"):
        return None
    return (
        "a SQLite database in memory belongs to one connection and cannot hold jobs for others;"
        " name a file (sqlite:///mutirao.db), or use mutirao.testing in unit tests"
    )


def _settled(url: URL) -> URL:
    """Make a path absolute: a handler that changes the directory does not change the file."""
    path = url.database or ""
    return url if path.startswith("file:") else url.set(database=os.path.abspath(path))


def _prepare(engine: Engine) -> None:
    database = engine.url.database or ""
    _watch_file(engine, os.path.abspath(database), named=not database.startswith("file:"))

    _spare_commits(engine.dialect)
    give_back_at_ends(engine.dialect)
    write_lock = write_lock_of(database)
    if engine.dialect.is_async:
        from mutirao.sql.dialects.sqlite.opening import open_or_close  # for coroutines only

        open_or_close(engine)

    @event.listens_for(engine, "connect")
    def _take_over(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would be a deferred one
        write_lock.share_with(getattr(connection, "driver_connection", connection))

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        """Take the write lock at once.

        A transaction that reads first and writes later fails when another one wrote in between
        (SQLITE_BUSY_SNAPSHOT, which no timeout waits for).
        """
        if not connection.get_execution_options().get(SINGLE_STATEMENT):
            own = lendable(connection.connection.driver_connection)
            if isinstance(own, OwnConnection):
                own.await_write_lock()
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _spare_commits(dialect: Any) -> None:
    """Commit nothing where nothing is open: of aiosqlite that is a visit to its thread."""
    commit = dialect.do_commit

    def do_commit(connection: Any) -> None:
        if getattr(connection, "driver_connection", connection).in_transaction:
            commit(connection)

    dialect.do_commit = do_commit


def _watch_file(engine: Engine, path: str, *, named: bool) -> None:
    """Open the file again when another one is under its name: what the old one gets is lost.

    Where it is `named`, and no URI, only a migration may create it.
    """
    opened: list[Identity] = []

    @event.listens_for(engine, "do_connect")
    def _make_no_file(*_: object) -> None:
        if identity_of(path) is not None:
            return
        if any(opened):  # it is about to be replaced, or was lost
            raise sqlite3.OperationalError(f"there is no file {path} any more")
        if named and not engine.get_execution_options().get(MAY_CREATE_FILE):
            raise SchemaMissing(
                f"There is no file {path}, and none was made. Run {MIGRATE},"
                " which makes it with its tables; or correct the path, which counts from the"
                " directory in which the program runs."
            )

    @event.listens_for(engine, "connect")
    def _note_file(connection: Any, record: Any) -> None:
        opened[:] = [mine := identity_of(path)]
        record.info[_FILE] = mine
        own = lendable(getattr(connection, "driver_connection", connection))
        if isinstance(own, OwnConnection) and mine is not None:
            own.is_left = lambda: identity_of(path) != mine

    @event.listens_for(engine, "checkout")
    def _leave_old_file(connection: object, record: Any, proxy: object) -> None:
        before = record.info[_FILE]
        if before is not None and identity_of(path) != before:
            raise InvalidatePoolError(f"{path} is another file than it was")


def _refuse_schema(schema: str) -> str:
    return (
        f"schema={schema!r} was given with an SQLite file, which has no schemas: a file is a set of"
        " jobs; leave schema= out, and give each set a file of its own"
    )


CONNECTING = Connecting(
    schemes={"sqlite": _DRIVERS, "sqlite+pysqlite": _DRIVERS, "sqlite+aiosqlite": _DRIVERS},
    usual="sqlite",
    in_thread=True,
    in_file=True,
    separate_autocommit=False,
    refuse=_refuse,
    prepare=_prepare,
    settled=_settled,
    refuse_schema=_refuse_schema,
    called=lambda url: os.path.realpath(url.database or ""),
)
