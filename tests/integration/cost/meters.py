"""Meters: how many statements, commits and round trips something takes, on each database.

On PostgreSQL they are counted on the wire. SQLite is in this process: there the driver's calls are
counted, of which `executemany` is one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Protocol

import pytest

from mutirao.sql.drivers.sqlite3 import OwnConnection
from tests.integration.plans.wire import Wire


class Cost(NamedTuple):
    """What something costs.

    `statements`: BEGIN and COMMIT included, and COPY. `commits`: of transactions; on SQLite only
    of those that wrote. `round_trips`: to the server, none with SQLite.
    """

    statements: int
    commits: int
    round_trips: int = 0

    def minus(self, other: Cost) -> Cost:
        """Return how much more it is than the other."""
        return Cost(*(mine - its for mine, its in zip(self, other, strict=True)))

    def times(self, number: int) -> Cost:
        """Return what so many of it cost."""
        return Cost(*(number * each for each in self))

    def exceeds(self, most: Cost) -> bool:
        """Whether it is more than recorded, in any respect."""
        return any(found > bound for found, bound in zip(self, most, strict=True))


class Meter(Protocol):
    """Counts from the beginning on."""

    def read(self) -> Cost:
        """Return what everything cost until now."""
        ...


@contextmanager
def metered(meter: Meter) -> Iterator[list[Cost]]:
    """Put what the block cost into the list that is returned."""
    found, before = list[Cost](), meter.read()
    yield found
    found.append(meter.read().minus(before))


class WireMeter:
    """Counts what travels through a relay in front of PostgreSQL."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def read(self) -> Cost:
        """Return what everything cost until now."""
        cost = self._wire.cost
        return Cost(self._wire.statements, cost.commits, cost.round_trips)


class SqliteMeter:
    """Counts what all connections do that `sqlite3` opens while it is installed.

    `looks`: how often somebody asked whether the file has changed. That reads no table; it is no
    statement here.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._statements = self._commits = 0
        self.looks = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Meter every connection from now on."""
        opened = sqlite3.connect

        def connect(*args: Any, **kwargs: Any) -> Any:
            return opened(*args, **kwargs | {"factory": partial(_Connection, self)})

        monkeypatch.setattr(sqlite3, "connect", connect)
        monkeypatch.setattr(sqlite3.dbapi2, "connect", connect)

    def read(self) -> Cost:
        """Return what everything cost until now."""
        return Cost(self._statements, self._commits)

    def said(self, sql: str, committed: bool) -> None:
        """Count a statement."""
        with self._lock:
            if "data_version" in sql:
                self.looks += 1
            else:
                self._statements += 1
                self._commits += committed


class _Connection(OwnConnection):
    def __init__(self, meter: SqliteMeter, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._meter = meter

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(partial(_Cursor, self._meter))

    def execute(self, sql: str, *values: Any) -> Any:
        return self.cursor().execute(sql, *values)

    def commit(self) -> None:
        if self.in_transaction:
            self._meter.said("COMMIT", True)
        super().commit()


class _Cursor(sqlite3.Cursor):
    def __init__(self, meter: SqliteMeter, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._meter = meter

    def execute(self, sql: str, *values: Any) -> Any:
        with self._counted(sql):
            return super().execute(sql, *values)

    def executemany(self, sql: str, rows: Any) -> Any:
        with self._counted(sql):
            return super().executemany(sql, rows)

    @contextmanager
    def _counted(self, sql: str) -> Iterator[None]:
        within, before = self.connection.in_transaction, self.connection.total_changes
        yield
        after = self.connection.in_transaction
        wrote = self.connection.total_changes > before
        self._meter.said(sql, not after and (wrote or (within and sql == "COMMIT")))
