"""Looking into the database from outside: one snapshot at a time, and never for long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, create_engine, event, func, make_url, select
from sqlalchemy.exc import SQLAlchemyError

from mutirao.sql.dialects.mysql.session import SETTING

T = TypeVar("T")

AWAY = SQLAlchemyError  # what reading raises while the database cannot be read
PATIENCE = 2.0  # seconds that a read waits for a lock
_POSTGRESQL = {
    "connect_timeout": 5,
    "options": f"-c lock_timeout={PATIENCE:g}s -c statement_timeout=60s"
    " -c application_name=faults-reader",
}
_PATIENCE: dict[str, dict[str, Any]] = {
    "postgresql": _POSTGRESQL,
    "mysql": {"connect_timeout": 5, "read_timeout": 60},  # reads wait for tables only
    "sqlite": {"timeout": PATIENCE},
}
_SOME = 500  # values in one list


class Reader:
    """Reads the database at `url`, on connections that are made anew when they are broken."""

    def __init__(self, url: str) -> None:
        kind = make_url(url).get_backend_name()
        lite = kind == "sqlite"
        more: dict[str, Any] = {} if lite else {"isolation_level": "REPEATABLE READ"}
        self._engine = create_engine(url, pool_pre_ping=True, connect_args=_PATIENCE[kind], **more)
        if kind == "mysql":  # whatever the server gives to a session
            event.listen(self._engine, "connect", _set_up)
        if lite:  # the driver itself begins no transaction to read in
            event.listen(self._engine, "begin", lambda conn: conn.exec_driver_sql("BEGIN"))

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Lend a connection whose statements all see the same moment. Raises `AWAY`."""
        with self._engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Close its connections."""
        self._engine.dispose()


def _set_up(connection: Any, record: object) -> None:
    _, values = SETTING  # the level is set by now
    with connection.cursor() as cursor:
        for statement in (values, f"SET SESSION lock_wait_timeout = {PATIENCE:g}"):
            cursor.execute(statement)


def some(values: Iterable[T]) -> Iterator[Sequence[T]]:
    """Yield values in lists that fit into a statement."""
    left = iter(values)
    while found := list(islice(left, _SOME)):
        yield found


def count_of(connection: Connection, table: Table) -> int:
    """Return how many rows a table has."""
    return connection.execute(select(func.count()).select_from(table)).scalar_one()
