"""What people ask is read by index, however long the history is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, literal, text

from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.connections.engines import Engines
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_named
from mutirao.sql.schema.types import Instant
from mutirao.sql.statements import change, job_admin, records
from tests.conftest import DATABASES
from tests.integration.plans.kit import said, steps_of_sqlite

FINISHED = 200_000
LIVE = {"postgresql": 200_000, "sqlite": 2_000}  # SQLite reads them all, to tell their states
NOW = literal(datetime.now(UTC), Instant)
DEAD = JobFilter(state=JobState.DEAD, limit=None)
WAITING = (JobState.READY, JobState.SCHEDULED)
HUNDRED = JobFilter(ids=tuple(range(1, 100)))

# What PostgreSQL must not plan. All live jobs it may read where a state is asked for, or who runs
# what.
SCAN = re.compile(r"Seq Scan on mutirao_(job|attempt)\b")
SCAN_OF_LIVE = re.compile(r"Seq Scan on mutirao_live\b")
BY_STATE = {
    *("dead jobs", "redrive", "redrive the dead", "workers", "the newest dead or cancelled"),
    *("dead jobs by an argument", "waiting jobs by an argument", "cancel by an argument"),
    "change by an argument",
}
# SQLite says "SCAN" also of reading the newest few in order; there the steps of its virtual machine
# are counted. Reading all of the history takes at least as many as it has rows.
STEPS = FINISHED

FILL = {
    "postgresql": """
INSERT INTO mutirao_job (task) SELECT 't' FROM generate_series(1, {all});
INSERT INTO mutirao_attempt (job, run, attempt, outcome, started_at, finished_at)
    SELECT n, 1, 1, CASE WHEN n % 1000 = 0 THEN 'dead' ELSE 'succeeded' END, now(), now()
    FROM generate_series(1, {finished}) n;
INSERT INTO mutirao_live (id, queue, priority, run_at)
    SELECT n, 'default', 0, now() FROM generate_series({finished} + 1, {all}) n;
ANALYZE;
""",
    "sqlite": """
CREATE TEMP TABLE n AS
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {all})
    SELECT i FROM n;
INSERT INTO mutirao_job (task) SELECT 't' FROM n;
DELETE FROM mutirao_live WHERE id <= {finished};
INSERT INTO mutirao_attempt (job, run, attempt, outcome, started_at, finished_at)
    SELECT i, 1, 1, CASE WHEN i % 1000 = 0 THEN 'dead' ELSE 'succeeded' END, 0, 0
    FROM n WHERE i <= {finished};
ANALYZE;
""",
}


@pytest.fixture(scope="module", params=DATABASES)
def engines(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Engines]:
    """Engines of a database with a long history, made once on each kind of database."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('plans') / 'mutirao.db'}"
        yield from _filled(url, request.param)
    else:
        postgres = request.getfixturevalue("postgres")
        with postgres.database(request.getfixturevalue("migrated_template")) as name:
            yield from _filled(postgres.url(name), request.param)


def dialect(conn: Connection) -> Dialect:
    """Return the one of a connection."""
    return dialect_named(conn.dialect.name)


def nothing(jobs: Iterable[NewJob], conn: object) -> list[int]:
    """Write nothing; return an id for each job, as enqueueing does."""
    return [-n for n, _ in enumerate(jobs, 1)]


ASKED: dict[str, Callable[[Connection], object]] = {
    "a job": lambda conn: records.job(conn, 7),
    "jobs by id": lambda conn: records.jobs(conn, HUNDRED),
    "the newest jobs": lambda conn: records.jobs(conn, JobFilter()),
    "the newest of a task": lambda conn: records.jobs(conn, JobFilter(task="t")),
    "jobs of a key": lambda conn: records.jobs(conn, JobFilter(key="k")),
    "jobs of a key and an argument": lambda conn: records.jobs(
        conn, JobFilter(key="k", args={"n": 1}, states=(JobState.DEAD, JobState.READY))
    ),
    "the newest dead or cancelled": lambda conn: records.jobs(
        conn, JobFilter(states=(JobState.DEAD, JobState.CANCELLED))
    ),
    "dead jobs by an argument": lambda conn: records.jobs(
        conn, JobFilter(state=JobState.DEAD, args={"n": 1})
    ),
    "waiting jobs by an argument": lambda conn: records.jobs(
        conn, JobFilter(states=WAITING, args={"n": 1})
    ),
    "cancel by an argument": lambda conn: job_admin.cancel(
        conn, dialect(conn), nothing, JobFilter(args={"n": 1}), None
    ),
    "cancel by a key": lambda conn: job_admin.cancel(
        conn, dialect(conn), nothing, JobFilter(key="k"), None
    ),
    "change by an argument": lambda conn: change.change(
        conn, dialect(conn), JobFilter(args={"n": 1}), Change(priority=1), None
    ),
    "dead jobs": lambda conn: records.jobs(conn, DEAD),
    "workers": records.workers,
    "cancel by id": lambda conn: job_admin.cancel(conn, dialect(conn), nothing, HUNDRED, None),
    "run now by id": lambda conn: job_admin.run_now(conn, HUNDRED, NOW),
    "cancel some": lambda conn: job_admin.cancel(
        conn, dialect(conn), nothing, JobFilter(ids=(FINISHED + 1, FINISHED + 2)), None
    ),
    "equal jobs": lambda conn: records.jobs(conn, JobFilter(task="t", fingerprint="f")),
    "redrive": lambda conn: job_admin.redrive(conn, HUNDRED, nothing),
    "redrive the dead": lambda conn: job_admin.redrive(conn, DEAD, nothing),
    "prune": lambda conn: job_admin.prune(conn, OutcomeKind.SUCCEEDED, NOW, 500),
}


@pytest.fixture
def connection(engines: Engines) -> Iterator[Connection]:
    """A connection whose transaction is rolled back."""
    with engines.sync().connect() as connection:
        yield connection
        connection.rollback()


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("engines", ["postgresql"], indirect=True)
def test_postgresql_plans_no_scan(connection: Connection, what: str) -> None:
    """Every statement that is said on the way is explained, and its plan searched for scans."""
    with said(connection) as heard:
        ASKED[what](connection)
    plans = [_plan(connection, statement, values) for statement, values in heard]
    assert plans
    assert [plan for plan in plans if SCAN.search(plan)] == []
    if what not in BY_STATE:
        assert [plan for plan in plans if SCAN_OF_LIVE.search(plan)] == []


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize("engines", ["sqlite"], indirect=True)
def test_sqlite_reads_little(connection: Connection, what: str) -> None:
    """All statements on the way together take fewer steps than one reading of the history."""
    with steps_of_sqlite(connection) as steps:
        ASKED[what](connection)
    assert steps[0] < STEPS


@pytest.mark.parametrize("engines", ["postgresql"], indirect=True)
def test_a_scan_is_noticed_on_postgresql(connection: Connection) -> None:
    """The rule above can fail."""
    assert SCAN.search(_plan(connection, "SELECT count(*) FROM mutirao_job WHERE task = 'x'", ()))


@pytest.mark.parametrize("engines", ["sqlite"], indirect=True)
def test_a_scan_is_noticed_on_sqlite(connection: Connection) -> None:
    """The rule above can fail."""
    with steps_of_sqlite(connection) as steps:
        connection.execute(text("SELECT count(*) FROM mutirao_job WHERE task = 'x'"))
    assert steps[0] > STEPS


def _filled(url: str, dialect: str) -> Iterator[Engines]:
    from mutirao.sql import migrations

    migrations.upgrade(url)
    engines = Engines(url)
    with engines.sync().begin() as connection:
        counts = {"finished": FINISHED, "all": FINISHED + LIVE[dialect]}
        for statement in FILL[dialect].format_map(counts).split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
    yield engines
    engines.close_sync()


def _plan(connection: Connection, statement: str, values: Any) -> str:
    rows = connection.exec_driver_sql(f"EXPLAIN {statement}", values).scalars()
    return "\n".join(rows)
