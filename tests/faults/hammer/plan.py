"""What is to happen: the options of a run."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.kit.databases import Database, Driver


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of a run. All lengths of time are seconds.

    Parameters:
        database: `mysql` is a MariaDB, `real-mysql` a MySQL.
        driver: of everybody, on PostgreSQL.
        seed: which operations each connection does, in which order and to which keys.
        seconds: how long operations are begun.
        connections: how many do operations at the same time.
        workers: processes.
        crowd: live jobs; where there are more, nothing is done that makes them still more.
        circle: after how long the server looks for a deadlock; the sooner, the more it can find.
        leave_out: operations that are not done, by name, so that what others meet is seen.
        patience: what an operation may take, and the wait for quiet at the end.
    """

    database: Database = "postgresql"
    driver: Driver = "psycopg"
    seed: int = 1
    seconds: float = 600.0
    connections: int = 8
    workers: int = 2
    crowd: int = 1_000
    circle: float = 0.1
    leave_out: tuple[str, ...] = ()
    patience: float = 120.0
