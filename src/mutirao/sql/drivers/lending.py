"""Lends the driver's own connection to a handler, in a transaction of the store.

The transaction is begun before it is lent, so the driver's nested transactions make savepoints. The
methods that would end it are refused meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Connection
from sqlalchemy.util import await_only

from mutirao.errors import ConfigurationError, WrongState
from mutirao.sql.drivers.kinds import Adapting, Kinds
from mutirao.sql.drivers.lendable import Lendable, lendable
from mutirao.sql.drivers.own import alent, lent
from mutirao.sql.drivers.steps import Query, adrive, drive

_ENDING = ("commit", "rollback", "executescript")  # the last one, of sqlite3, commits first
_MARK = "mutirao_lent"  # a savepoint
_INTRANS = 2  # libpq's PQTRANS_INTRANS


def complete(conn: Connection, steps: Query[set[int]]) -> set[int]:
    """Run the last steps of a transaction on the driver's connection beneath; return their result.

    Unless that is empty the transaction may be committed, where the COMMIT can travel with them. Of
    an asynchronous connection in a greenlet.
    """
    return _lent(conn).complete(conn, steps)


def begin(conn: Connection) -> None:
    """Begin the transaction on the server that SQLAlchemy has only begun in the client."""
    _lent(conn).begin(conn)


def owe(conn: Connection) -> bool:
    """Send BEGIN with the first statement; return False if the connection cannot do that."""
    driver: Any = conn.connection.driver_connection
    if not hasattr(driver, "owes"):
        return False
    driver.owes = True
    return True


def release(conn: Connection) -> None:
    """Forget a BEGIN that was not sent."""
    driver: Any = conn.connection.driver_connection
    if hasattr(driver, "owes"):
        driver.owes = False


def is_open(conn: Connection) -> bool:
    """Return whether the driver's connection is in a transaction that has not failed."""
    return bool(_lent(conn).is_open(conn.connection.driver_connection))


def is_lost(conn: Connection) -> bool:
    """Return whether the driver's connection is closed."""
    return bool(_lent(conn).is_lost(conn.connection.driver_connection))


def would_end(name: str) -> WrongState:
    """Return the error of a method that would end a transaction of the store."""
    return WrongState(
        f"{name}() would end the transaction of a job.transaction(), which is committed"
        " when its block ends, together with the job; leave it out, or raise an exception"
        " to roll back"
    )


@contextmanager
def refusing_ends(driver: Any) -> Iterator[Callable[[], bool]]:
    """Refuse methods that end the transaction; yield a function: was a rollback tried?"""
    tried: list[str] = []

    def refuse(name: str) -> NoReturn:
        tried.append(name)
        raise would_end(name)

    own = lendable(driver)
    with _refusing_each(driver, refuse) if own is None else _refusing(own, refuse):
        yield lambda: "rollback" in tried


@contextmanager
def _refusing(own: Lendable, refuse: Callable[[str], NoReturn]) -> Iterator[None]:
    own.refuse = refuse
    try:
        yield
    finally:
        own.refuse = None


@contextmanager
def _refusing_each(driver: Any, refuse: Callable[[str], NoReturn]) -> Iterator[None]:
    """Refuse by methods of the connection itself, where its class is not ours."""

    def refusal(name: str) -> Callable[..., NoReturn]:
        return lambda *_, **__: refuse(name)

    names = [name for name in _ENDING if hasattr(driver, name)]
    if names and not hasattr(driver, "__dict__"):
        raise ConfigurationError(
            f"job.transaction(connection=True) cannot lend a {type(driver).__module__} connection"
            " that the application has opened itself, as nothing of it can be refused;"
            " use the session"
        )
    for name in names:
        setattr(driver, name, refusal(name))
    try:
        yield
    finally:
        for name in names:
            del vars(driver)[name]  # mysqlclient's connections refuse delattr


def _step_by_step(conn: Connection, steps: Query[set[int]]) -> set[int]:
    if conn.dialect.is_async:
        return await_only(adrive(steps, alent(conn.connection)))
    return drive(steps, lent(conn.connection))


class _Lent(NamedTuple):
    """How a transaction is begun on the server, whether one is open, and the connection closed.

    `complete`: how the last steps of a transaction are run.
    """

    begin: Callable[[Connection], None]
    is_open: Callable[[Any], Any]
    is_lost: Callable[[Any], Any]
    complete: Callable[[Connection, Query[set[int]]], set[int]] = _step_by_step


# Each driver's own way to begin, as it or SQLAlchemy does before the first statement through them.
def _begin_psycopg(conn: Connection) -> None:
    driver: Any = conn.connection.driver_connection
    begun = driver.wait(driver._start_query())
    if conn.dialect.is_async:
        await_only(begun)


def _begin_asyncpg(conn: Connection) -> None:
    adapted: Any = conn.connection.dbapi_connection
    await_only(adapted._start_transaction())


def _begin_psycopg2(conn: Connection) -> None:
    conn.connection.cursor().execute("SELECT")  # it has no other way


_PSYCOPG = _Lent(
    _begin_psycopg,
    lambda conn: conn.pgconn.transaction_status == _INTRANS or getattr(conn, "owes", False),
    lambda conn: conn.closed,
)
_PSYCOPG2 = _Lent(
    _begin_psycopg2,
    lambda conn: conn.get_transaction_status() == _INTRANS,
    lambda conn: conn.closed,
)
_ASYNCPG = _Lent(
    _begin_asyncpg, lambda conn: conn.is_in_transaction(), lambda conn: conn.is_closed()
)


def _complete_aiosqlite(conn: Connection, steps: Query[set[int]]) -> set[int]:
    """Run the steps and commit in one visit to its thread; a visit costs more than a statement."""
    from mutirao.sql.drivers.sqlite3 import Sqlite3Driver  # other databases load none of it

    lent: Any = conn.connection.driver_connection

    def visit() -> set[int]:
        settled = drive(steps, Sqlite3Driver(lent._conn))
        if settled:
            lent._conn.commit()
        return settled

    return await_only(lent._execute(visit))


_SQLITE = _Lent(  # BEGIN IMMEDIATE was sent
    lambda conn: None, lambda conn: conn.in_transaction, lambda conn: False
)
_AIOSQLITE = _SQLITE._replace(complete=_complete_aiosqlite)


def _begin_pymysql(conn: Connection) -> None:
    conn.connection.cursor().execute("START TRANSACTION")


def _begin_mysqldb(conn: Connection) -> None:
    _begin_pymysql(conn)
    conn.connection.cursor().execute(f"SAVEPOINT {_MARK}")


def _is_marked(driver: Any) -> bool:
    from mutirao.sql.drivers.mysqldb import release

    return release(driver, _MARK)


_PYMYSQL = _Lent(_begin_pymysql, lambda conn: conn.server_status & 1, lambda conn: not conn.open)
_AIOMYSQL = _Lent(
    _begin_pymysql, lambda conn: conn.get_transaction_status(), lambda conn: conn.closed
)
# The driver does not show the server's transaction state: releasing a savepoint of ours does.
_MYSQLDB = _Lent(_begin_mysqldb, _is_marked, lambda conn: not conn.open)


def _kind(module: str, name: str, lent: _Lent) -> Adapting[_Lent]:
    return Adapting(module, name, lambda _: lent)


_KINDS = Kinds(
    _kind("psycopg", "Connection", _PSYCOPG),
    _kind("psycopg", "AsyncConnection", _PSYCOPG),
    _kind("psycopg2.extensions", "connection", _PSYCOPG2),
    _kind("asyncpg", "Connection", _ASYNCPG),
    _kind("sqlite3", "Connection", _SQLITE),
    _kind("aiosqlite", "Connection", _AIOSQLITE),
    _kind("pymysql", "Connection", _PYMYSQL),
    _kind("aiomysql", "Connection", _AIOMYSQL),
    _kind("MySQLdb.connections", "Connection", _MYSQLDB),
)


def _lent(conn: Connection) -> _Lent:
    return _KINDS.adapt(conn.connection.driver_connection)
