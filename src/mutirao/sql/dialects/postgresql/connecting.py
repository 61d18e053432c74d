"""Connecting to PostgreSQL: psycopg 3 for everything, asyncpg and psycopg2 for a part.

A peer that has vanished silently is noticed within half a minute: while nothing is sent, by
keepalives, and while something is under way, by the time that it stays unacknowledged. The defaults
of most systems are two hours and a quarter of one.
"""

import socket
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.engine import AdaptedConnection

from mutirao.sql.dialects.connecting import Connecting, Drivers
from mutirao.sql.dialects.postgresql.sets import qualified, schema_refusal

CONNECT_TIMEOUT = 10  # seconds to open a connection, signing in included
# Seconds of silence, seconds between probes, and how many probes.
KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVE_PROBES = 15, 5, 3
UNACKNOWLEDGED_TIMEOUT_MS = 30_000

# https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS
_LIBPQ = {
    "connect_timeout": str(CONNECT_TIMEOUT),
    "keepalives_idle": str(KEEPALIVE_IDLE_SECONDS),
    "keepalives_interval": str(KEEPALIVE_INTERVAL_SECONDS),
    "keepalives_count": str(MAX_KEEPALIVE_PROBES),
    "tcp_user_timeout": str(UNACKNOWLEDGED_TIMEOUT_MS),
    "client_encoding": "utf8",  # else it is the database's, which may lack letters
}
# Nothing of ours is an hstore. Looking for that type opens a transaction of the driver's: one that
# was cancelled there hid its cancellation behind a ProgrammingError, and ended the worker.
_NO_HSTORE = {"use_native_hstore": False}
# Whatever the role, the database or the server has as its default. It travels with the BEGIN.
_READ_COMMITTED = {"isolation_level": "READ COMMITTED"}


def _unprepare(connection: Any) -> None:
    getattr(connection, "driver_connection", connection).prepare_threshold = None


_PSYCOPG = Drivers(
    *("postgresql+psycopg", "postgresql+psycopg", "postgresql", _NO_HSTORE),
    transactional=_READ_COMMITTED,
    usual=_LIBPQ,
    unprepare=_unprepare,
    direct=True,
)
# It prepares and executes without a Sync between, so that a pooler sends both to one server; what
# has no name does not outlive that. The first and third are SQLAlchemy's, the second is its own.
_UNNAMED = {
    "prepared_statement_cache_size": 0,
    "statement_cache_size": 0,
    "prepared_statement_name_func": str,
}
_ASYNCPG = Drivers(
    *(None, "postgresql+asyncpg", "asyncpg"),
    transactional=_READ_COMMITTED,
    arguments={"timeout": float(CONNECT_TIMEOUT)},
    unprepared=_UNNAMED,
)
_PSYCOPG2 = Drivers(
    *("postgresql+psycopg2", None, "psycopg2", _NO_HSTORE),
    transactional=_READ_COMMITTED,
    usual=_LIBPQ,
)


def _prepare(engine: Engine) -> None:
    """Give the sockets of asyncpg, which has no such parameters, the same limits.

    To close a connection it waits for the server, which may be silent, without a limit.
    """
    if engine.driver == "asyncpg":
        event.listen(engine, "connect", _limit)
        event.listen(engine, "do_connect", _use_own_class)
        dialect: Any = engine.dialect
        dialect.do_close = lambda connection: connection.driver_connection.terminate()

    if engine.driver == "psycopg2":
        event.listen(engine, "do_connect", _lendable)

    if engine.driver == "psycopg":
        event.listen(engine, "connect", _iso_dates)
        event.listen(engine, "connect", _randomize_names)
        _connect_as_ours(engine.dialect)


def _iso_dates(connection: Any, record: object) -> None:
    """Set the one date style that psycopg reads; PgBouncer keeps it for our session."""
    driver = getattr(connection, "driver_connection", connection)
    if not (driver.info.parameter_status("DateStyle") or "ISO").startswith("ISO"):
        cursor = connection.cursor()
        cursor.execute("SET DateStyle TO ISO")
        cursor.close()
        connection.commit()


def _randomize_names(connection: Any, record: object) -> None:
    from mutirao.sql.drivers.prepared import randomize_names

    randomize_names(getattr(connection, "driver_connection", connection))


def _connect_as_ours(dialect: Any) -> None:
    """Open connections of our own classes, unless the application says how to open them."""
    from mutirao.sql.drivers.beginning import OwnAsyncConnection, OwnConnection

    if not dialect.is_async:
        dialect.connect = OwnConnection.connect
        return
    connect = dialect.connect
    dialect.connect = lambda *args, **parameters: connect(
        *args, **{"async_creator_fn": OwnAsyncConnection.connect, **parameters}
    )


def _use_own_class(
    dialect: object, record: object, args: object, parameters: dict[str, Any]
) -> None:
    from mutirao.sql.drivers.asyncpg import OwnConnection

    parameters["connection_class"] = OwnConnection


def _lendable(dialect: object, record: object, args: object, parameters: dict[str, Any]) -> None:
    from mutirao.sql.drivers.psycopg2 import OwnConnection

    parameters["connection_factory"] = OwnConnection


def _limit(connection: AdaptedConnection, record: object) -> None:
    driver: Any = connection.driver_connection
    found = driver._transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS:
            if hasattr(socket, name):  # Linux has them all
                found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_OPTIONS = (
    ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
    ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
    ("TCP_KEEPCNT", MAX_KEEPALIVE_PROBES),
    ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_TIMEOUT_MS),
)

CONNECTING = Connecting(
    schemes={
        "postgresql": _PSYCOPG,
        "postgresql+psycopg": _PSYCOPG,
        "postgresql+asyncpg": _ASYNCPG,
        "postgresql+psycopg2": _PSYCOPG2,
    },
    usual="postgresql+psycopg",
    level="READ COMMITTED",
    prepare=_prepare,
    refuse_schema=schema_refusal,
    qualify=qualified,
)
