"""Connecting to SQLite: a file that this process opens.

aiosqlite hops to a thread for every statement; the store's own transactions run in a thread as a
whole instead. It serves the coroutines that use `job.transaction()`.
"""

from typing import Any

from sqlalchemy import URL, Connection, Engine, event

from mutirao.sql.dialects.connecting import ALONE, Connecting, Drivers

BUSY_TIMEOUT = 30.0  # seconds a connection waits for another one's write lock
_DRIVERS = Drivers("sqlite+pysqlite", "sqlite+aiosqlite")


def _refuse(url: URL) -> str | None:
    if url.database not in (None, "", ":memory:"):
        return None
    return (
        "a SQLite database in memory belongs to one connection and cannot hold jobs for others;"
        " name a file (sqlite:///mutirao.db), or use mutirao.testing in unit tests"
    )


def _prepare(engine: Engine) -> None:
    """Make transactions take the write lock when they begin.

    One that reads first and writes later fails at once when another one wrote in between
    (SQLITE_BUSY_SNAPSHOT, which no timeout waits for).
    """

    @event.listens_for(engine, "connect")
    def _take_over(connection: Any, record: object) -> None:
        connection.isolation_level = None  # the driver's own BEGIN would be a deferred one

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(ALONE):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


CONNECTING = Connecting(
    database="sqlite",
    schemes={"sqlite": _DRIVERS, "sqlite+pysqlite": _DRIVERS, "sqlite+aiosqlite": _DRIVERS},
    in_thread=True,
    apart=False,
    arguments={"timeout": BUSY_TIMEOUT},
    refuse=_refuse,
    prepare=_prepare,
)
