"""What a piece of work took: time, CPU of both sides, and what it made the database write."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import monotonic, perf_counter, process_time, sleep
from typing import Any
from unittest.mock import patch

from sqlalchemy import URL, Engine, event

from benchmarks.gauges import Gauges, Instruments, instruments
from mutirao.client.portal import Portal
from mutirao.model.jobs.job import Claim
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.runner import Runner
from mutirao.sql.drivers import own
from mutirao.sql.store.jobs import SqlStore

PATIENCE = 2.0  # seconds that sessions may take to end, and with it to report what they did


@dataclass(slots=True)
class Spent:
    """What was spent in the block; filled in when it ends.

    Parameters:
        seconds: on the clock.
        client_cpu: seconds of processor time of this process, and of children that ended.
        statements: how many this process sent through connections of the store's own; COPY, BEGIN
            and COMMIT not counted.
        claims: how often workers of this process claimed, in `counted_claims`.
        server_cpu: seconds of processor time of the database's server; None if it runs elsewhere,
            or inside the client as SQLite does.
        wal_bytes, commits, dead_tuples: as in `Gauges`.
    """

    seconds: float = 0.0
    client_cpu: float = 0.0
    statements: int = 0
    claims: int = 0
    server_cpu: float | None = None
    wal_bytes: int | None = None
    commits: int | None = None
    dead_tuples: int | None = None


@contextmanager
def measured(url: str | URL) -> Iterator[Spent]:
    """Measure what the block spends on the database at `url`, a SQLAlchemy URL.

    Counts what everybody does on the server meanwhile: let nobody else use it. Close the block's
    connections before it ends: PostgreSQL tells of dead rows when a session has ended.

    Raises:
        ConfigurationError: the database is of an unknown kind, or its driver is missing.
        StoreUnavailable: the database cannot be reached.
    """
    spent = Spent()
    with _gauge(url) as gauge:
        before = gauge.read()
        with counted(spent):
            cpu, started = client_cpu(), perf_counter()
            yield spent
            spent.seconds, spent.client_cpu = perf_counter() - started, client_cpu() - cpu
        after = gauge.read_when_quiet()
        spent.server_cpu = _difference(after.cpu, before.cpu)
        spent.wal_bytes = _difference(after.wal_bytes, before.wal_bytes)
        spent.commits = _difference(after.commits, before.commits)
        spent.dead_tuples = _difference(after.dead_tuples, before.dead_tuples)


@contextmanager
def counted(spent: Spent) -> Iterator[None]:
    """Count the statements that this process sends meanwhile, whatever the engine."""

    def count(*_: object) -> None:
        spent.statements += 1

    event.listen(Engine, "before_cursor_execute", count)
    try:
        with own.counted(count):
            yield
    finally:
        event.remove(Engine, "before_cursor_execute", count)


@contextmanager
def counted_claims(spent: Spent) -> Iterator[None]:
    """Count the claims of this process's workers meanwhile."""
    claim = SqlStore.claim

    async def counting(self: SqlStore, *args: Any, **kwargs: Any) -> list[Claim]:
        spent.claims += 1
        return await claim(self, *args, **kwargs)

    with patch.object(SqlStore, "claim", counting):
        yield


def client_cpu() -> float:
    """Return the processor time of this process and of its children that ended, in seconds."""
    times = os.times()
    return process_time() + times.children_user + times.children_system


class _Gauge:
    """Reads a database's counters, from synchronous code and with any driver."""

    def __init__(self, call: Any, instruments: Instruments) -> None:
        self._call, self._instruments = call, instruments
        self._others: frozenset[int] = call(instruments.others)

    def read(self) -> Gauges:
        gauges: Gauges = self._call(self._instruments.read)
        return gauges

    def read_when_quiet(self) -> Gauges:
        """Wait until those who came after us have left, but not for ever."""
        until = monotonic() + PATIENCE
        while self._call(self._instruments.others) - self._others and monotonic() < until:
            sleep(0.02)
        return self.read()


@contextmanager
def _gauge(url: str | URL) -> Iterator[_Gauge]:
    engines, portal = Engines(url, pool_size=1), Portal()
    runner: Any = Runner(engines)
    try:
        yield _Gauge(partial(portal.call, runner.alone), instruments(engines.dialect.name))
    finally:
        portal.call(runner.close)
        portal.close()


def _difference(after: Any, before: Any) -> Any:
    return None if after is None or before is None else after - before
