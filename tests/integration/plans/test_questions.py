"""What people and dashboards ask again and again reads little, however long the history is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy

import pytest
from sqlalchemy import Connection, NullPool, create_engine, make_url, text

from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_named
from mutirao.sql.statements import records
from tests.integration.plans import filling
from tests.integration.plans.kit import overheard, steps_of_sqlite
from tests.integration.plans.test_sqlite import COUNTS, FILL, STEPS
from tests.integration.views.test_views import documented_sql
from tests.support.postgresql import PostgresServer

FINISHED, LIVE = 300_000, 60_000
MOST = 12_000  # rows: so many lines of hours, queues and states there are
NEWEST = "SELECT id, task FROM mutirao_jobs WHERE state = '{}' ORDER BY id DESC LIMIT 20"
EXAMPLES = {sql.split("FROM ")[1].split()[0]: sql for sql in documented_sql()}
QUESTIONS = {
    **EXAMPLES,
    **{f"newest {state}": NEWEST.format(state) for state in JobState},
    "attempts of a job": "SELECT * FROM mutirao_attempts WHERE job = 7",
    "attempts of some jobs": "SELECT * FROM mutirao_attempts WHERE job IN (7, 70, 700)",
    "attempts that failed": (
        "SELECT job, message FROM mutirao_attempts"
        " WHERE outcome = 'dead' ORDER BY job DESC LIMIT 20"
    ),
    "newest": "SELECT id, task FROM mutirao_jobs ORDER BY id DESC LIMIT 20",
    "all queues": "SELECT * FROM mutirao_queues",
    "a day": "SELECT * FROM mutirao_throughput WHERE hour > '2999-01-01'",
}
[RUNNING] = [sql for sql in documented_sql("postgresql") if "FROM mutirao_workers" in sql]
# Of moments SQLite shows the text, which no index knows.
ON_POSTGRESQL = {
    "attempts that failed last": (
        "SELECT job, message FROM mutirao_attempts WHERE outcome = 'retried'"
        " ORDER BY finished_at DESC LIMIT 20"
    ),
    "attempts of an hour": (
        "SELECT job, message FROM mutirao_attempts"
        " WHERE outcome = 'dead' AND finished_at > now() - interval '1 hour'"
    ),
    "those that run": RUNNING.replace(":", r"\:"),
}
# Nothing tells who runs what: it looks through all live jobs.
ALL_LIVE = {"mutirao_workers", "those that run"}


def add_up(connection: Connection) -> None:
    """Do what workers do every minute."""
    rules = dialect_named(connection.dialect.name).rules
    for _ in range(100):
        through(connection, rules.roll_up(None, datetime.now(UTC)))
        connection.commit()
    through(connection, rules.count_backlog(1_000, None))
    connection.commit()
    connection.exec_driver_sql("ANALYZE")
    connection.commit()
    rolled = connection.execute(text("SELECT sum(attempts) FROM mutirao_hour")).scalar_one()
    assert rolled >= FINISHED / 3


@pytest.fixture(scope="module")
def postgresql(postgres: PostgresServer, migrated_template: str) -> Iterator[Connection]:
    """A database in which all of that is added up."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            filling.quieten(connection)
            filling.fill(connection, finished=FINISHED, live=LIVE)
            filling.analyse(connection)
            add_up(connection)
            connection.exec_driver_sql("SET max_parallel_workers_per_gather = 0")
            yield connection


@pytest.fixture(scope="module")
def sqlite(migrated_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A file in which all of that is added up."""
    path = copy(migrated_file, tmp_path_factory.mktemp("questions") / "mutirao.db")
    engine = create_engine(make_url(f"sqlite:///{path}"))
    with engine.connect() as connection:
        for statement in FILL.split(";\n"):
            connection.exec_driver_sql(statement, COUNTS)
        connection.commit()
        add_up(connection)
        yield connection
    engine.dispose()


@pytest.mark.parametrize("what", QUESTIONS | ON_POSTGRESQL)
def test_on_postgresql(postgresql: Connection, what: str) -> None:
    """It reads fewer rows than there are jobs, and compiles nothing."""
    with overheard(postgresql) as heard:
        postgresql.execute(text((QUESTIONS | ON_POSTGRESQL)[what]))
    read = sum(node.rows for node in heard if "Relation Name" in node.facts)
    assert read <= (2 * LIVE if what in ALL_LIVE else MOST)
    assert heard[0].facts["Total Cost"] < 100_000  # from which on it would


def test_those_that_run_among_many_that_wait(postgresql: Connection) -> None:
    """One look at the live rows finds them, not the way from the newest job on."""
    with overheard(postgresql) as heard:
        found = records.jobs(postgresql, JobFilter(state=JobState.RUNNING, limit=20))
    assert len(found) == 20
    assert heard.reads >= {"Seq Scan of mutirao_live", "mutirao_live_pkey"}
    assert heard.rows("Seq Scan of mutirao_live") == LIVE
    assert heard.rows("mutirao_live_pkey") <= LIVE / 20


def test_tasks_that_nobody_knows(postgresql: Connection) -> None:
    """Those in front of each lane are looked at."""
    with overheard(postgresql) as heard:
        found = records.unserved_tasks(postgresql, ["task 1", "task 3"])
    assert len(found) > 9
    assert {"task 1", "task 3"}.isdisjoint(found)
    assert sum(node.rows for node in heard if "Relation Name" in node.facts) <= MOST


@pytest.mark.parametrize("what", QUESTIONS)
def test_on_sqlite(sqlite: Connection, what: str) -> None:
    """It takes fewer steps than a look at each job of the history.

    Which live jobs are deliveries nothing tells: the view of subscriptions looks at each of them.
    """
    with steps_of_sqlite(sqlite) as steps:
        sqlite.execute(text(QUESTIONS[what])).all()
    looks = STEPS if what == "mutirao_subscriptions" else 0
    assert steps[0] < COUNTS["finished"] + looks
