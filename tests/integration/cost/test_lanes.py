"""A thousand lanes cost a claim no more than one does, nor do jobs that are scheduled for later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, text

from mutirao.model.jobs.job import Claim, Lane, NewWorker
from mutirao.sql.drivers.kinds import through
from mutirao.sql.registry import dialect_named
from mutirao.sql.statements import workers
from tests.integration.cost import recorded
from tests.integration.plans.filling import analyse, quieten
from tests.integration.plans.kit import Overheard, overheard, plan_generically
from tests.support.postgresql import PostgresServer

POSTGRESQL = dialect_named("postgresql")
QUEUES, PRIORITIES = 100, 10
DUE, AHEAD = 20, 60  # jobs in each lane
BATCH = 500
LANES, LIVE, JOB = "mutirao_live_lanes", "mutirao_live_pkey", "mutirao_job_pkey"
FILL = """
INSERT INTO mutirao_job (task, queue, priority, run_at)
    SELECT 't', 'queue ' || q::text, p, now() + n * interval '1 minute' - :due * interval '1 minute'
    FROM generate_series(1, :due + :ahead) n, generate_series(1, :queues) q,
         generate_series(1, :priorities) p
    ORDER BY md5(n::text || q::text || ' ' || p::text);
INSERT INTO mutirao_live (id, queue, priority, run_at)
    SELECT id, queue, priority, run_at FROM mutirao_job
"""


@pytest.fixture(scope="module")
def filled(postgres: PostgresServer, migrated_template: str) -> Iterator[Engine]:
    """A database with many lanes: in each some jobs are due, and more are scheduled for later."""
    counts = {"due": DUE, "ahead": AHEAD, "queues": QUEUES, "priorities": PRIORITIES}
    with postgres.database(migrated_template) as name:
        engine = create_engine(postgres.url(name), poolclass=NullPool)
        with engine.connect() as connection:
            quieten(connection)
            for statement in FILL.split(";"):
                connection.execute(text(statement), counts)
            connection.commit()
            analyse(connection)
        yield engine


@pytest.fixture(params=["planned for the values", "generic plans"])
def connection(request: pytest.FixtureRequest, filled: Engine) -> Iterator[Connection]:
    """A connection of its own, whose transaction is rolled back."""
    with filled.connect() as connection:
        if request.param == "generic plans":
            plan_generically(connection)
        yield connection


def test_reading_the_heads(connection: Connection) -> None:
    """One descent of the index for each lane, however many jobs are in it."""
    with overheard(connection) as heard:
        heads = through(connection, POSTGRESQL.rules.lanes(None, None))
    assert len(heads) == QUEUES * PRIORITIES
    assert heard.reads == {LANES}
    assert heard.rows(LANES) <= len(heads) + 1  # the server rounds: none came after the last
    assert heard.pages(LANES) <= len(heads) * recorded.PAGES_A_LANE


def test_claiming_from_all_lanes(connection: Connection) -> None:
    """As many index entries as jobs, the same of each lane in front: of those behind them, none."""
    claims, heard = _claim(connection, _lanes(connection))
    of_each = Counter((claim.queue, claim.priority) for claim in claims)
    assert of_each == {(f"queue {n}", 1): BATCH / QUEUES for n in range(1, QUEUES + 1)}
    assert {index: heard.rows(index) for index in heard.reads} == {
        LANES: BATCH,
        LIVE: BATCH,
        JOB: BATCH,
    }
    # Rows of the table lie as they came: each is in a page of its own.
    assert heard.pages(LANES) <= QUEUES * recorded.PAGES_A_LANE + BATCH


def test_claiming_where_all_is_scheduled_for_later(connection: Connection) -> None:
    """A look at each lane, and no row."""
    lanes = _lanes(connection)
    taken, _ = _claim(connection, lanes, len(lanes) * DUE + 1)
    assert len(taken) == len(lanes) * DUE
    reached = {(claim.queue, claim.priority): claim for claim in taken}
    behind = [
        Lane(lane.queue, lane.priority, last.run_at, last.id)
        for lane in lanes
        for last in [reached[lane.queue, lane.priority]]
    ]
    claims, heard = _claim(connection, behind)
    assert claims == []
    # The last one taken of each, which runs; lanes in front are looked into twice.
    assert heard.rows(LANES) == len(lanes) + QUEUES
    assert heard.pages(LANES) <= len(lanes) * recorded.PAGES_A_LANE


def _lanes(connection: Connection) -> list[Lane]:
    """Return all lanes as a worker's claim has them: by priority, equal ones in any order."""
    lanes = [head.lane for head in through(connection, POSTGRESQL.rules.lanes(None, None))]
    Random(1).shuffle(lanes)
    return sorted(lanes, key=lambda lane: lane.priority)


def _claim(
    connection: Connection, lanes: list[Lane], most: int = BATCH
) -> tuple[list[Claim], Overheard]:
    new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=20, version="0")
    worker = workers.register(connection, POSTGRESQL, new, 60.0, None)
    with overheard(connection) as heard:
        claims = through(connection, POSTGRESQL.rules.claim(worker, lanes, most, (), None))
    return claims, heard
