"""A claim reads what it takes: not what is scheduled ahead, in other lanes, or gone already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from mutirao.model.jobs.job import Claim, Lane
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_named
from mutirao.sql.statements import workers
from tests.integration.plans import filling
from tests.integration.plans.cases import BATCH, BEGINNING, CANCELLED, JOB, LANES, LIVE, join
from tests.integration.plans.kit import Overheard, overheard
from tests.support.postgresql import PostgresServer

POSTGRESQL = dialect_named("postgresql")
GONE, DUE, AHEAD, ELSEWHERE = 10_000, 20_000, 50_000, 25_000
FEW_PAGES = 20  # for BATCH rows: the way down, a leaf or two, the rows of the table
FILL = """
INSERT INTO mutirao_job (task, queue, run_at)
    SELECT 't', 'mail', now() - interval '1 hour' + n * interval '1 ms'
    FROM generate_series(1, :due) n;
INSERT INTO mutirao_job (task, queue, run_at)
    SELECT 't', 'mail', now() + interval '1 hour' FROM generate_series(1, :ahead);
INSERT INTO mutirao_job (task, queue, run_at)
    SELECT 't', 'reports', now() - interval '2 hours' FROM generate_series(1, :elsewhere);
INSERT INTO mutirao_job (task, queue, priority, run_at)
    SELECT 't', 'mail', 10, now() - interval '2 hours' FROM generate_series(1, :elsewhere);
INSERT INTO mutirao_live (id, queue, priority, run_at)
    SELECT id, queue, priority, run_at FROM mutirao_job
"""


@pytest.fixture(scope="module")
def engine(postgres: PostgresServer, migrated_template: str) -> Iterator[Engine]:
    """A lane with jobs due and jobs scheduled ahead, among others; its first jobs are gone.

    They are still in the index: somebody else's transaction might see them.
    """
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection, engine.connect() as elsewhere:
            filling.quieten(connection)
            counts = {"due": GONE + DUE, "ahead": AHEAD, "elsewhere": ELSEWHERE}
            for statement in FILL.split(";"):
                connection.execute(text(statement), counts)
            connection.commit()
            filling.analyse(connection)
            elsewhere.execution_options(isolation_level="REPEATABLE READ")
            elsewhere.execute(text("SELECT FROM mutirao_live LIMIT 1"))
            _finish_the_first(connection)
            yield engine


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """A connection whose transaction is rolled back."""
    with engine.connect() as connection:
        yield connection


def test_a_claim_reads_what_it_takes(connection: Connection) -> None:
    """As many index entries as jobs, by every index; and few pages."""
    claims, heard = _claim(connection, _reached(connection))
    assert len(claims) == BATCH
    assert {index: heard.rows(index) for index in heard.reads} == {
        LANES: BATCH,
        LIVE: BATCH,
        JOB: BATCH,
    }
    assert heard.pages(LANES) <= FEW_PAGES


def test_the_lower_bound_spares_the_entries_of_finished_jobs(connection: Connection) -> None:
    """Without it every claim walks over all of them again, and looks each up in the table."""
    _, bounded = _claim(connection, _reached(connection))
    connection.rollback()
    claims, unbounded = _claim(connection, Lane("mail", 0, BEGINNING, 0))
    assert len(claims) == BATCH
    assert unbounded.pages(LANES) > GONE / 100 > FEW_PAGES >= bounded.pages(LANES)


def test_jobs_that_others_hold_are_passed_over_once(engine: Engine, connection: Connection) -> None:
    """What other workers are claiming right now is read and skipped, not what lies behind."""
    with engine.connect() as other:
        taken, _ = _claim(other, _reached(other))
        claims, heard = _claim(connection, _reached(connection))
    assert len({claim.id for claim in (*taken, *claims)}) == 2 * BATCH
    assert heard.rows(LANES) == 2 * BATCH


def test_what_is_scheduled_ahead_is_not_read(connection: Connection) -> None:
    """A claim in a lane whose due jobs are all taken stops at the first that is not due."""
    taken, _ = _claim(connection, _reached(connection), DUE + 1)
    assert len(taken) == DUE
    claims, heard = _claim(connection, Lane("mail", 0, taken[-1].run_at, taken[-1].id))
    assert claims == []
    assert heard.rows(LANES) == 1  # the last one taken, which runs
    assert heard.pages(LANES) <= FEW_PAGES


def test_a_heartbeat_does_not_read_the_entries_of_finished_jobs(connection: Connection) -> None:
    """Whoever has finished so many looks for something to cancel where nothing else is."""
    worker = connection.execute(text("SELECT min(id) FROM mutirao_worker")).scalar_one()
    with overheard(connection) as heard:
        assert workers.beat(connection, POSTGRESQL, worker, 60.0, 0, 0.0, None, None).alive
    assert heard.reads == {CANCELLED}
    assert heard.pages(CANCELLED) <= FEW_PAGES


def _finish_the_first(connection: Connection) -> None:
    worker = join(POSTGRESQL, connection)
    lane = Lane("mail", 0, BEGINNING, 0)
    claims = through(connection, POSTGRESQL.rules.claim(worker, [lane], GONE, (), None))
    done = [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims]
    assert len(through(connection, POSTGRESQL.rules.finish(done, None))) == GONE
    connection.commit()


def _reached(connection: Connection) -> Lane:
    """Return the lane with the bound that reading its head gives."""
    heads = through(connection, POSTGRESQL.rules.lanes(["mail"], None))
    return next(head.lane for head in heads if head.lane.priority == 0)


def _claim(connection: Connection, lane: Lane, most: int = BATCH) -> tuple[list[Claim], Overheard]:
    worker = join(POSTGRESQL, connection)
    with overheard(connection) as heard:
        claims = through(connection, POSTGRESQL.rules.claim(worker, [lane], most, (), None))
    return claims, heard
