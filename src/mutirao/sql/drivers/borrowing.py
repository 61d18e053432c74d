"""Borrows a caller's connection for statements of the store: its settings stay unchanged."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mutirao.errors import UnsupportedConnection, WrongState
from mutirao.sql.drivers import kinds
from mutirao.sql.drivers.django import DjangoDriver
from mutirao.sql.drivers.kinds import Adapting, Kinds
from mutirao.sql.drivers.steps import Autocommits, Execute, command

_KEPT = "mutirao_attempt"  # the savepoint to which a transaction goes back that has failed


ReadJson = Callable[[str | bytes], Any]


@dataclass(frozen=True, slots=True)
class _Way:
    """How connections of a driver are borrowed.

    `name`: the driver's in a URL. `connection`: returns what SQLAlchemy gets, of the driver's own
    connection and the arguments with which it would open one. `cursor`: is called with each cursor
    and what decodes JSON. `begin`: begins a transaction where the driver does not by itself.
    `closed`: returns whether the driver's own connection has been closed.
    """

    name: str
    connection: Callable[[Any, Mapping[str, Any]], Any] = lambda raw, arguments: raw
    cursor: Callable[[Any, ReadJson], None] = lambda cursor, read: None
    begin: Callable[[Any], None] = lambda raw: None
    closed: Callable[[Any], bool] = lambda raw: bool(raw.closed)


class Lent:
    """A driver's own connection, for a SQLAlchemy connection over it that leaves it as it is.

    Parameters:
        raw: the connection.

    Raises:
        UnsupportedConnection: it is of no driver that is known here.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = self._raw = raw
        self._way = _WAYS.adapt(raw)
        self._made: Any = None
        self.driver, self.prepare_cursor = self._way.name, self._way.cursor

    def connection(self, arguments: Mapping[str, Any]) -> Any:
        """Return what SQLAlchemy speaks through: the driver's own, or another one over the same."""
        if self._made is None:
            self._made = self._way.connection(self._raw, arguments)
        return self._made

    def give_back(self) -> None:
        """Leave the connection to the caller."""
        if self._made is not None and self._made is not self._raw:
            del self._made.pgconn  # else psycopg warns that nobody has closed it


class Borrowed(Lent):
    """A connection or session of the caller's, with an open transaction.

    Parameters:
        conn: the connection or session, synchronous.
        database: the product in which the jobs are, as drivers' adapters say it.

    `raw` is the driver's own connection beneath.

    Raises:
        UnsupportedConnection: it is asynchronous, or connected to another product, or none.
        WrongState: it has no transaction, as it commits each statement.
    """

    def __init__(self, conn: object, database: str) -> None:
        beneath = _BENEATH.of(conn)
        if beneath is None:
            raise UnsupportedConnection(
                f"conn= was given an object of type {type(conn).__module__}."
                f"{type(conn).__qualname__}; jobs are drained on a synchronous one: {_BENEATH}"
            )
        session: Any = conn
        self._session = session if hasattr(session, "expire_all") else None
        if self._session is not None:
            self._session.flush()  # handlers look for it
        self._speaker = kinds.driver(conn)
        if self._speaker.database != database:
            raise UnsupportedConnection(
                f"conn= was given a connection to {self._speaker.database}, but this application"
                f" keeps its jobs in {database}: pass a connection to that, or leave conn= out"
            )
        self._speaker.handle(Execute("SELECT 1"))  # some layers connect and begin only now
        if self._speaker.handle(Autocommits())[0][0]:
            raise WrongState(
                "conn= commits each statement by itself, so it has no transaction for jobs to run"
                " in; begin one (in Django: use a TestCase, or transaction.atomic()), or leave"
                " conn= out"
            )
        super().__init__(beneath.adapt(conn))
        self._way.begin(self._raw)
        self._beneath = kinds.DRIVERS.adapt(self._raw)  # Django's cursor minds a running loop

    def keep(self) -> None:
        """Remember the present state, before a handler is called."""
        self._beneath.handle(command(f"SAVEPOINT {_KEPT}"))

    def mend(self) -> bool:
        """Go back to where `keep` was called if the transaction has failed since; return whether.

        Elsewhere a statement that fails costs no more than its own transaction.
        """
        if not (isinstance(self._speaker, DjangoDriver) and self._speaker.forgive()):
            with suppress(Exception):  # its failure shows that the transaction has failed
                self._beneath.handle(command(f"RELEASE SAVEPOINT {_KEPT}"))
                return False
        self._beneath.handle(command(f"ROLLBACK TO SAVEPOINT {_KEPT}"))
        self._beneath.handle(command(f"RELEASE SAVEPOINT {_KEPT}"))
        return True

    def refuse_closed(self) -> None:
        """Raise WrongState if the connection was closed since it was borrowed."""
        if self._way.closed(self._raw):
            raise WrongState(
                "a handler, or a hook around it, has closed the connection that was given to drain"
                " as conn=, and with it the test's transaction. In Django close_old_connections()"
                " does so: have the hook leave out connections whose in_atomic_block is true"
            )

    def give_back(self) -> None:
        """Leave the connection to the caller; a session then reads its objects again."""
        super().give_back()
        if self._session is not None:
            self._session.expire_all()


def _second_psycopg(raw: Any, arguments: Mapping[str, Any]) -> Any:
    """Return another `psycopg.Connection` over the same session.

    The caller's settings of cursors (how rows, dates and JSON are read) do not apply to ours.
    """
    from psycopg import Connection
    from psycopg.adapt import AdaptersMap

    handlers = raw.pgconn.notice_handler, raw.pgconn.notify_handler
    other = Connection(raw.pgconn)
    raw.pgconn.notice_handler, raw.pgconn.notify_handler = handlers
    other._adapters = AdaptersMap(arguments["context"].adapters)
    other.prepare_threshold = None  # names of prepared statements are the caller's
    return other


def _read_json(cursor: Any, read: ReadJson) -> None:
    """Make a cursor of psycopg2 decode JSON, which Django's connections leave as it is."""
    from psycopg2.extras import register_default_json, register_default_jsonb

    register_default_json(cursor, loads=read)
    register_default_jsonb(cursor, loads=read)


def _plain_rows(cursor: Any, read: ReadJson) -> None:
    cursor.row_factory = None


def _begin_sqlite(raw: Any) -> None:
    if not raw.in_transaction:  # sqlite3 begins before it writes, and not before a savepoint
        raw.execute("BEGIN IMMEDIATE")


def _sqlite_is_closed(raw: Any) -> bool:
    from sqlite3 import ProgrammingError

    try:
        raw.total_changes  # noqa: B018 (it is a property, which asks the open file)
    except ProgrammingError:
        return True
    return False


def _of(kind: str, take: Callable[[Any], Any]) -> Adapting[Any]:
    module, _, name = kind.rpartition(".")
    return Adapting(module, name, take)


def _itself(conn: Any) -> Any:
    return conn


def _of_sqlalchemy(conn: Any) -> Any:
    return conn.connection.driver_connection


_WAYS = Kinds[_Way](
    _of("psycopg.Connection", lambda _: _Way("psycopg", connection=_second_psycopg)),
    _of("psycopg2.extensions.connection", lambda _: _Way("psycopg2", cursor=_read_json)),
    _of(
        "sqlite3.Connection",
        lambda _: _Way(
            "pysqlite", cursor=_plain_rows, begin=_begin_sqlite, closed=_sqlite_is_closed
        ),
    ),
    _of("pymysql.Connection", lambda _: _Way("pymysql", closed=lambda raw: not raw.open)),
    _of(
        "MySQLdb.connections.Connection",
        lambda _: _Way("mysqldb", closed=lambda raw: not raw.open),
    ),
)
_BENEATH = Kinds[Any](
    _of("sqlalchemy.Connection", _of_sqlalchemy),
    _of("sqlalchemy.orm.Session", lambda session: _of_sqlalchemy(session.connection())),
    _of("sqlalchemy.orm.scoped_session", lambda scoped: _of_sqlalchemy(scoped.connection())),
    *(Adapting(each.module, each.name, _itself) for each in kinds.DRIVERS.each),
    Adapting(kinds.DJANGO.module, kinds.DJANGO.name, lambda conn: conn.connection),
    _of("django.utils.connection.ConnectionProxy", lambda proxy: proxy.connection),
)
