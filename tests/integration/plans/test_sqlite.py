"""SQLite reads by the same indexes, whether or not its planner knows the tables' sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from mutirao.sql.connections.engines import Engines
from mutirao.sql.registry import dialect_named
from mutirao.sql.schema.types import to_micros
from mutirao.sql.statements import federation
from tests.integration.plans.cases import CASES, LANES
from tests.integration.plans.kit import TABLES, said, steps_of_sqlite

SQLITE = dialect_named("sqlite")
FINISHED, LIVE = 100_000, 50_000
COUNTS = {
    "all": FINISHED + LIVE,
    "finished": FINISHED,
    "ahead": to_micros(datetime(2100, 1, 1, tzinfo=UTC)),
}
# Steps of SQLite's virtual machine. To look at each live row takes more: go to the next, read a
# column, compare it.
STEPS = 5 * LIVE // 2  # 400 jobs that are enqueued take 109,300: triggers look at the JSON of each
FILL = """
CREATE TEMP TABLE n AS
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :all)
    SELECT i FROM n;
INSERT INTO mutirao_worker (name, host, pid, concurrency, version, started_at, beat_at, expires_at)
    VALUES ('w', 'h', 1, 20, '0', 0, 0, :ahead);
INSERT INTO mutirao_job (task, queue, priority, run_at)
    SELECT 'task ' || i % 20,
           CASE i % 4 WHEN 2 THEN 'mail' WHEN 3 THEN 'reports' ELSE 'default' END,
           CASE i % 4 WHEN 2 THEN 10 WHEN 3 THEN -5 ELSE 0 END,
           CASE i % 4 WHEN 0 THEN :ahead ELSE i END FROM n;
DELETE FROM mutirao_live WHERE id <= :finished;
UPDATE mutirao_live SET worker = 1, run = 1, attempt = 1, claimed_at = 1 WHERE id % 101 = 0;
INSERT INTO mutirao_attempt (job, run, attempt, outcome, started_at, finished_at)
    SELECT i, 2, 2, CASE i % 100 WHEN 0 THEN 'dead' ELSE 'succeeded' END, i, i
    FROM n WHERE i <= :finished
    UNION ALL
    SELECT i, 1, 1, 'retried', i, i FROM n WHERE i <= :finished AND i % 50 = 0
"""
INSTEAD = {LANES: "mutirao_live_waiting"}
SCAN = "SELECT count(*) FROM mutirao_live l WHERE attempt = 99"
_LINE = re.compile(
    r"(?P<how>SEARCH|SCAN) (?:TABLE )?(?P<name>\w+)(?: AS (?P<alias>\w+))?"
    r"(?: USING (?P<index>.*?)(?: \(|$))?"
)


@pytest.fixture(scope="module", params=["never analysed", "analysed"])
def engine(
    request: pytest.FixtureRequest, migrated_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """A file with a long history and many live jobs."""
    path = copy(migrated_file, tmp_path_factory.mktemp("plans") / "mutirao.db")
    engines = Engines(f"sqlite:///{path}")
    with engines.sync().begin() as connection:
        for statement in FILL.split(";\n"):
            connection.exec_driver_sql(statement, COUNTS)
        if request.param == "analysed":
            connection.exec_driver_sql("ANALYZE")
    yield engines.sync()
    engines.close_sync()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """A connection whose transaction is rolled back."""
    with engine.connect() as connection:
        yield connection


@pytest.mark.parametrize("what", CASES)
def test_read_by_index(connection: Connection, what: str) -> None:
    """Each statement on the way searches by the indexes it is meant to; none scans."""
    act = CASES[what].prepare(SQLITE, connection)
    with said(connection) as heard:
        act()
    assert heard
    reads = set[str]().union(*(_reads(connection, *each) for each in heard))
    case = CASES[what]
    assert reads == {INSTEAD.get(index, index) for index in case.on_sqlite or case.reads}


@pytest.mark.parametrize("what", CASES)
def test_steps(connection: Connection, what: str) -> None:
    """All statements on the way together take fewer steps than one look at each live row."""
    act = CASES[what].prepare(SQLITE, connection)
    with steps_of_sqlite(connection) as steps:
        act()
    assert steps[0] < STEPS


def test_a_scan_is_noticed(connection: Connection) -> None:
    """The rules above can fail."""
    assert _reads(connection, SCAN, ()) == {"scan of mutirao_live"}
    with steps_of_sqlite(connection) as steps:
        connection.exec_driver_sql(SCAN)
    assert steps[0] > STEPS


def test_hosts_are_counted_without_the_history(connection: Connection) -> None:
    """Jobs are found by what is live, and by what is dead: which are deliveries, no index tells."""
    with said(connection) as heard:
        federation.listed(connection)
    reads = set[str]().union(*(_reads(connection, *each) for each in heard))
    assert reads == {"mutirao_attempt_outcome", "mutirao_job_pkey"}


def _reads(connection: Connection, statement: str, values: Any) -> set[str]:
    """Return the indexes of jobs' tables that are searched, as PostgreSQL calls them, and scans."""
    aliases = re.findall(r"(mutirao_\w+) (?:AS )?(\w)\b", statement)
    tables = {table: table for table in TABLES} | {alias: table for table, alias in aliases}
    plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).scalars("detail")
    steps = [found for line in plan if (found := _LINE.match(line))]
    return {
        _read(step, tables[step["name"]]) for step in steps if tables.get(step["name"]) in TABLES
    }


def _read(step: re.Match[str], table: str) -> str:
    if step["how"] == "SCAN" or step["index"] is None:
        return f"scan of {table}"
    if step["index"].endswith("PRIMARY KEY"):
        return f"{table}_pkey"
    return step["index"].split()[-1]
