"""A page looks at a bounded number of jobs, however little its filter finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy import Connection, NullPool, create_engine

from mutirao.model.filters.filter import parse
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.dialects.postgresql.running_jobs import running_near
from mutirao.sql.registry import dialect_named
from mutirao.sql.statements.finding import figures, paging
from tests.integration.plans import filling
from tests.integration.plans.kit import overheard
from tests.support.postgresql import PostgresServer

FINISHED, LIVE = 300_000, 60_000
MOST = 50_000  # rows that a statement may read of a table
POSTGRESQL = dialect_named("postgresql")
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
FILTERS = [
    "", "task:none", "task:*none*", "queue:none", "tag:none", "tenant:none", "arg.n:none",
    "error:None", "message:none", "-task:*", "state:succeeded task:none", "state:dead",
    "state:dead error:None", "state:dead,cancelled task:none", "state:ready task:none",
    "state:scheduled task:none", "state:blocked", "state:ready,dead task:none", "older:9000d",
    "attempt:>99", "priority:99", "id:1..9", "id:7", "key:none", "graph:7", "-state:succeeded",
]  # fmt: skip
PAGES: dict[str, Callable[[Connection], object]] = {
    "count all": lambda conn: paging.how_many(conn, JobFilter(), 10_000),
    "count of a task": lambda conn: paging.how_many(conn, _asked("task:none"), 10_000),
    "figures": lambda conn: figures.figures(conn),
    "minutes": lambda conn: figures.minutes(conn, LONG_AGO),
    "waits": lambda conn: figures.waits(conn, 1_000),
    "running": lambda conn: figures.running(conn, None, 100),
    "workers": lambda conn: figures.workers(conn, running_near()),
}


def _asked(text: str) -> JobFilter:
    return parse(text).at(datetime.now(UTC))


@pytest.fixture(scope="module")
def connection(postgres: PostgresServer, migrated_template: str) -> Iterator[Connection]:
    """A database with many jobs, of which nothing is added up."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            filling.quieten(connection)
            filling.fill(connection, finished=FINISHED, live=LIVE)
            filling.analyse(connection)
            connection.exec_driver_sql("SET max_parallel_workers_per_gather = 0")
            yield connection


@pytest.mark.parametrize("text", FILTERS)
def test_a_page_of_a_filter(connection: Connection, text: str) -> None:
    """Each table is read within bounds, for the first page and for one further down."""
    for before in (None, FINISHED // 2):
        with overheard(connection) as heard:
            page = paging.page(connection, _asked(text), before, 50)
        assert page.searched_all or page.next is not None
        _check(heard, MOST)


@pytest.mark.parametrize("text", ["id:1..9", "id:..40 task:none", "key:none", "graph:7"])
def test_what_an_index_knows_needs_one_page(connection: Connection, text: str) -> None:
    """Far below the newest jobs, too."""
    assert paging.page(connection, _asked(text), None, 50).searched_all


@pytest.mark.parametrize("what", PAGES)
def test_figures(connection: Connection, what: str) -> None:
    """Likewise counts and figures, though no worker adds anything up."""
    with overheard(connection) as heard:
        PAGES[what](connection)
    _check(heard, MOST)


def test_what_runs_is_found_near_the_front(connection: Connection) -> None:
    """The oldest of a lane run, far below the newest ids; all windows together have them, too."""
    run = _only_the_oldest_run(connection)
    with overheard(connection) as heard:
        page = paging.page(connection, _asked("state:running"), None, 50)
    _check(heard, MOST)
    assert [each.id for each in page.jobs] == run
    assert not page.searched_all  # among some
    found = {each.id for each in figures.running(connection, None, 1_000)}
    assert found == {*run}
    assert _all_ids(connection, "state:running") == run
    assert figures.workers(connection, running_near())[0].running == len(run)
    connection.rollback()


def _only_the_oldest_run(conn: Connection) -> list[int]:
    """Let 30 jobs run at worker 1; return them, the newest first. It is not committed."""
    conn.exec_driver_sql("UPDATE mutirao_live SET worker = NULL WHERE worker IS NOT NULL")
    run = conn.exec_driver_sql(
        "UPDATE mutirao_live SET worker = 1 WHERE id IN (SELECT id FROM mutirao_live"
        " WHERE queue = 'default' AND priority = 0 ORDER BY run_at, id LIMIT 30) RETURNING id"
    )
    return sorted(run.scalars(), reverse=True)


def _all_ids(conn: Connection, text: str) -> list[int]:
    found: list[int] = []
    before: int | None = None
    while True:
        with overheard(conn) as heard:
            some, before = paging.ids(conn, _asked(text), before, 1_000)
        _check(heard, MOST)
        found += some
        if before is None:
            return found


def _check(heard: object, most: int) -> None:
    read: dict[str, int] = {}
    for node in heard:  # type: ignore[attr-defined]
        if "Relation Name" in node.facts:
            name = f"{node.facts['Relation Name']} by {node.reads}"
            read[name] = read.get(name, 0) + node.rows
    assert {name: rows for name, rows in read.items() if rows > most} == {}
