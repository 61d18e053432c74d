"""Engines over one connection of the caller's, in the transaction that is open there.

A transaction of an engine is a savepoint here, so the caller's own commit or rollback decides about
all of it. Each is a SQLAlchemy connection over the same connection of the driver.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url
from sqlalchemy.exc import MissingGreenlet
from sqlalchemy.util import await_only

from mutirao.model.row_json import shown
from mutirao.sql.connections.engines import Database, Engines
from mutirao.sql.connections.keeping import refuse_kept
from mutirao.sql.drivers.borrowing import Borrowed, Lent
from mutirao.sql.registry import DIALECTS, dialect_named

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine


class BorrowedEngines(Engines):
    """The engines of the database in which `borrowed` is.

    `put_back` gives the session the settings that it had; to be called before it is given back.
    """

    borrowed = True

    def __init__(self, database: Database, schema: str | None, borrowed: Borrowed) -> None:
        super().__init__(database, schema=schema)
        self.autocommits = False  # single statements are in the caller's transaction, too
        schemes = self._connecting.schemes
        scheme = next(each for each in schemes if each.endswith(f"+{borrowed.driver}"))
        url = self.given.set(drivername=scheme)
        self.put_back = self._connecting.lent(borrowed.raw)
        self._lent = _engine(url, borrowed, schemes[scheme].alone, _Savepoints())
        if self.names is not None:
            event.listen(self._lent, "before_cursor_execute", self.names.say, retval=True)

    @property
    def has_sync(self) -> bool:
        """True: borrowed connections are synchronous."""
        return True

    @property
    def separate_autocommit(self) -> bool:
        """False: there is one connection."""
        return False

    @property
    def in_thread(self) -> bool:
        """True: coroutines wait for synchronous calls."""
        return True

    @property
    def lends_directly(self) -> bool:
        """False: handlers get the caller's connection."""
        return False

    def sync(self, *, alone: bool = False) -> Engine:
        """Return the one engine."""
        return self._lent

    def asynchronous(self, *, alone: bool = False) -> "AsyncEngine":
        """Return what looks like an asynchronous engine to the connections made from it."""
        return cast("AsyncEngine", SimpleNamespace(sync_engine=self._lent))

    def close_sync(self) -> None:
        """Leave the connection open: it is the caller's."""


@contextmanager
def lent_connection(lent: Lent) -> Iterator[Connection]:
    """Give a SQLAlchemy connection that begins and ends nothing: its transaction is the caller's.

    Or none, where the caller commits each statement.
    """
    backend = next(
        name
        for name in DIALECTS
        if f"{name}+{lent.driver}" in dialect_named(name).connecting.schemes
    )
    engine = _engine(make_url(f"{backend}+{lent.driver}://"), lent, {}, _NoSavepoints())
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        lent.give_back()


class _NoSavepoints:
    """Of a transaction that is the caller's."""

    def begin(self, connection: Any) -> None:
        """Begin nothing."""

    release = undo = begin


def _engine(
    url: URL, borrowed: Lent, options: Mapping[str, Any], savepoints: "_Savepoints | _NoSavepoints"
) -> Engine:
    engine: Engine = create_engine(
        url,
        creator=lambda: borrowed.connection(engine.dialect.create_connect_args(url)[1]),
        poolclass=NullPool,
        pool_reset_on_return=None,
        json_deserializer=shown,
        **options,
    )
    dialect = cast(Any, engine.dialect)
    dialect.do_begin, dialect.do_commit = savepoints.begin, savepoints.release
    dialect.do_rollback, dialect.do_close = savepoints.undo, _leave_open
    dialect.do_terminate, dialect.on_connect = _leave_open, lambda: None
    refuse_kept(engine)
    event.listen(engine, "before_cursor_execute", _meet)

    @event.listens_for(engine, "before_cursor_execute")
    def _prepare(_: object, cursor: Any, *more: object) -> None:
        borrowed.prepare_cursor(cursor, shown)

    return engine


class _Savepoints:
    """The open savepoints, which replace transactions; the last one begun ends first."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._begun = 0

    def begin(self, connection: Any) -> None:
        self._begun += 1
        name = f"mutirao_{self._begun}"
        _say(connection, f"SAVEPOINT {name}")
        self._open.append(name)

    def release(self, connection: Any) -> None:
        _say(connection, f"RELEASE SAVEPOINT {self._open.pop()}")

    def undo(self, connection: Any) -> None:
        if self._open:  # SQLAlchemy rolls back after its first look at the server, too
            name = self._open.pop()
            _say(connection, f"ROLLBACK TO SAVEPOINT {name}")
            _say(connection, f"RELEASE SAVEPOINT {name}")


def _say(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()


def _leave_open(connection: Any) -> None:
    """Do nothing: the connection is the caller's."""


def _meet(*_: object) -> None:
    """Wait for nothing, in a greenlet: an `AsyncSession` insists that something is waited for."""
    nothing = _nothing()
    try:
        await_only(nothing)
    except MissingGreenlet:  # called without one, by a plain function
        nothing.close()


async def _nothing() -> None:
    """Be over at once."""
