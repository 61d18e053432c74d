"""Which rows of which tables PostgreSQL touches for a job: exactly those, and none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, NullPool, create_engine, text

from mutirao.model.jobs.job import NewJob
from mutirao.sql.enqueue.intake import SqlIntake
from mutirao.sql.registry import dialect_named
from tests.integration.cost import recorded
from tests.integration.plans.cases import BATCH, CASES, MANY, Act
from tests.support.postgresql import PostgresServer

POSTGRESQL = dialect_named("postgresql")
JOBS = 5 * BATCH
# Counted by the server while the transaction is open.
TOUCHED = text("""
    SELECT relname, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del, idx_tup_fetch, seq_tup_read
    FROM pg_stat_xact_user_tables
    WHERE relname IN ('mutirao_job', 'mutirao_live', 'mutirao_attempt')
""")
HOT = "n_tup_hot_upd"
Touched = dict[str, dict[str, int]]


@pytest.fixture
def connection(postgres: PostgresServer, migrated_template: str) -> Iterator[Connection]:
    """A connection to a database with jobs."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            SqlIntake(dialect_named("postgresql").intake).enqueue(
                [NewJob(task="t")] * JOBS, connection
            )
            connection.commit()
            yield connection


@pytest.mark.parametrize("what", recorded.ROWS)
def test_rows_touched(connection: Connection, what: str) -> None:
    """For each job of a batch, as many as recorded."""
    jobs = MANY if what == "enqueue many" else BATCH
    touched = _touched(connection, CASES[what].prepare(POSTGRESQL, connection))
    per_job = {
        table: {how: number / jobs for how, number in rows.items()}
        for table, rows in touched.items()
    }
    expected = recorded.ROWS[what]
    if HOT not in expected.get("live", {}):  # then it depends on what room others have left
        per_job.get("live", {}).pop(HOT, None)
    assert per_job == expected


def test_a_scan_is_noticed(connection: Connection) -> None:
    """The rule above can fail."""
    scan = "SELECT count(*) FROM mutirao_live WHERE attempt = 99"
    touched = _touched(connection, lambda: connection.execute(text(scan)))
    assert touched == {"live": {"seq_tup_read": JOBS}}


def _touched(connection: Connection, act: Callable[[], object] | Act) -> Touched:
    """Return how many rows of each table an act touches, and how; what is none is left out."""
    before = _read(connection)
    act()
    found: Touched = {}
    for table, counts in _read(connection).items():
        rows = {how: n - before[table][how] for how, n in counts.items() if n != before[table][how]}
        if rows:
            found[table] = rows
    return found


def _read(connection: Connection) -> Touched:
    rows = connection.execute(TOUCHED).mappings()
    return {
        row["relname"].removeprefix("mutirao_"): {
            how: number for how, number in row.items() if how != "relname"
        }
        for row in rows
    }
