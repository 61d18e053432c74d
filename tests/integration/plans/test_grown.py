"""A queue is empty one second and full the next: its statistics, and the plans kept, are old."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine

from mutirao.sql.registry import dialect_named
from tests.integration.plans import filling
from tests.integration.plans.cases import CASES, Case
from tests.integration.plans.kit import Overheard, overheard, plan_generically
from tests.support.postgresql import PostgresServer

POSTGRESQL = dialect_named("postgresql")
MANY = 100_000
# The rest runs every few seconds at most: among few rows, and soon after, it may as well scan.
PINNED = [what for what, case in CASES.items() if case.pinned]
# Jobs are pruned when they are days old, long after workers have had the tables analysed.
BEFORE_ANALYSING = [what for what in CASES if not what.startswith("prune")]


@pytest.fixture(scope="module")
def fresh(postgres: PostgresServer, migrated_template: str) -> Iterator[Engine]:
    """A database that was analysed while it was empty, and has many jobs now."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            filling.quieten(connection)
            filling.analyse(connection)
            filling.fill(connection, finished=MANY, live=MANY)
        yield engine


@pytest.fixture(params=["planned for the values", "generic plans"])
def in_fresh(request: pytest.FixtureRequest, fresh: Engine) -> Iterator[Connection]:
    """A new session there."""
    with fresh.connect() as connection:
        if request.param == "generic plans":
            plan_generically(connection)
        yield connection


@pytest.fixture(scope="module", params=[(1, 1), (1_000, 12)], ids="{0[0]} finished".format)
def grown(
    request: pytest.FixtureRequest, postgres: PostgresServer, migrated_template: str
) -> Iterator[Connection]:
    """A session that made all its plans while there were few jobs; now there are many."""
    finished, live = request.param
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as other:
            filling.quieten(other)
            filling.fill(other, finished=finished, live=live)
            filling.analyse(other)
            with engine.connect() as connection:
                plan_generically(connection)
                for what in PINNED:
                    _receive(connection, CASES[what])
                filling.fill(other, first=10_000, finished=MANY, live=MANY)
                yield connection


@pytest.fixture(scope="module")
def among_few(postgres: PostgresServer, migrated_template: str) -> Iterator[Connection]:
    """A session where there is a history, and hardly a live job."""
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            filling.quieten(connection)
            filling.fill(connection, finished=10_000, live=12)
            filling.analyse(connection)
            yield connection


@pytest.mark.parametrize("what", BEFORE_ANALYSING)
def test_statistics_of_when_it_was_empty(in_fresh: Connection, what: str) -> None:
    """Nobody has looked since, and autovacuum comes once a minute."""
    heard = _receive(in_fresh, CASES[what])
    assert heard.reads == CASES[what].reads
    assert max(map(heard.rows, heard.reads), default=0) <= CASES[what].most


@pytest.mark.parametrize("what", PINNED)
def test_plans_of_when_there_were_few(grown: Connection, what: str) -> None:
    """A plan is kept until somebody analyses the table: it must have been good for many, too."""
    heard = _receive(grown, CASES[what])
    assert heard.reads == CASES[what].reads
    assert max(map(heard.rows, heard.reads)) <= CASES[what].most


@pytest.mark.parametrize("what", PINNED)
def test_few_live_jobs(among_few: Connection, what: str) -> None:
    """Even where a scan would be as cheap, because there may soon be more."""
    assert _receive(among_few, CASES[what]).reads == CASES[what].reads


def _receive(connection: Connection, case: Case) -> Overheard:
    act = case.prepare(POSTGRESQL, connection)
    with overheard(connection) as heard:
        act()
    connection.rollback()
    return heard
