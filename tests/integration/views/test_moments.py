"""Moments at which an attempt could be counted twice, or never: forced, on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, select, text

from mutirao.model.jobs.job import NewJob, NewWorker
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.sql.schema import tables
from mutirao.sql.store.jobs import SqlStore
from tests.integration.views.history_kit import Ledger, finished
from tests.support.history import opened

FINISH = text("""
SELECT mutirao_finish(
    CAST(:ids AS bigint[]), CAST(:runs AS integer[]), NULL, CAST(:ago AS bigint[]),
    CAST(:ago AS bigint[]), NULL, NULL, CAST(:now AS timestamptz)
)
""")
LATE = text("SELECT count(*) FROM mutirao_attempt WHERE came_late")
NOW = datetime.now(UTC).replace(microsecond=0)
LATER = NOW + timedelta(hours=3)


@pytest.fixture
def engine(migrated_postgresql_url: str) -> Iterator[Engine]:
    """Connections of others."""
    engine = create_engine(migrated_postgresql_url)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """A connection that sees what is committed at each moment."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


class Past:
    """A store with jobs that run, and some that have ended."""

    def __init__(self, store: SqlStore, connection: Connection) -> None:
        self.store, self.connection, self.ledger = store, connection, Ledger()

    async def prepare(self) -> list[Any]:
        """Let four of eight jobs end; return the claims of the others."""
        new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=9, version="1")
        worker = await self.store.register(new, expiry=1e6)
        await self.store.aenqueue([NewJob(task="t")] * 8)
        lanes = [head.lane for head in await self.store.lanes(None)]
        claims = await self.store.claim(worker, lanes, 8)
        ended = [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims[:4]]
        await self.store.settle(worker, ended, now=NOW)
        return claims[4:]

    async def roll_up(self, until: datetime) -> None:
        """Add up all that finished before."""
        while self.until() != until:
            await self.store.roll_up(None, now=until + timedelta(minutes=1))

    def until(self) -> datetime | None:
        """Return the moment before which all is added up."""
        return self.connection.scalar(select(tables.rolled.c.until))

    def check(self, number: int) -> None:
        """So many jobs have succeeded, and all views say so."""
        assert finished(self.connection) == ({("default", "succeeded"): number} if number else {})
        self.ledger.check(self.connection, deleted=False)


@pytest.fixture
async def past(migrated_postgresql_url: str, connection: Connection) -> AsyncIterator[Past]:
    """The store, and what it knows."""
    async with opened(migrated_postgresql_url) as store:
        yield Past(store, connection)


def finish(conn: Connection, claims: list[Any], now: datetime) -> None:
    """Settle as a worker does, in the transaction of this connection."""
    ids, runs = [claim.id for claim in claims], [claim.run for claim in claims]
    conn.execute(FINISH, {"ids": ids, "runs": runs, "ago": [0] * len(ids), "now": now})


async def test_what_is_under_way_is_waited_for(past: Past, engine: Engine) -> None:
    """An open transaction has settled before the hour was closed: it is not passed."""
    claims = await past.prepare()
    await past.roll_up(NOW - timedelta(hours=1))
    with engine.begin() as other:
        finish(other, claims, NOW)
        for _ in range(9):
            await past.store.roll_up(None, now=LATER)
        assert past.until() == NOW - timedelta(hours=1)
        past.check(4)
    past.check(8)
    await past.roll_up(LATER)
    past.check(8)
    assert past.connection.scalar(LATE) == 0


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
async def test_what_comes_later_says_so(past: Past, engine: Engine, level: Any) -> None:
    """Also in a transaction whose snapshot is older, and knows nothing of it."""
    claims = await past.prepare()
    with engine.connect().execution_options(isolation_level=level) as other, other.begin():
        other.scalar(LATE)  # takes the snapshot
        await past.roll_up(LATER)
        past.check(4)
        finish(other, claims, NOW)
    assert past.connection.scalar(LATE) == 4
    past.check(8)
    await past.roll_up(LATER + timedelta(minutes=1))
    assert past.connection.scalar(LATE) == 0
    past.check(8)


async def test_nothing_is_added_up_while_somebody_deletes(past: Past, engine: Engine) -> None:
    """Otherwise nobody could tell whether what is being deleted was."""
    await past.prepare()
    await past.roll_up(NOW - timedelta(hours=1))
    with engine.begin() as other:
        other.execute(text("DELETE FROM mutirao_attempt WHERE job % 2 = 0"))
        assert not await past.store.roll_up(None, now=LATER)
        assert past.until() == NOW - timedelta(hours=1)
        past.check(4)
    past.check(2)
    await past.roll_up(LATER)
    past.ledger.note(past.connection)
    with engine.begin() as other:
        other.execute(text("DELETE FROM mutirao_job WHERE id = (SELECT min(id) FROM mutirao_job)"))
    past.check(1)


async def test_all_is_deleted_at_once(past: Past) -> None:
    """By TRUNCATE, the numbers of finished jobs are gone, too."""
    await past.prepare()
    await past.roll_up(LATER)
    past.ledger.note(past.connection)
    past.connection.execute(text("TRUNCATE mutirao_attempt, mutirao_job, mutirao_live"))
    past.check(0)


async def test_one_at_a_time(past: Past, engine: Engine) -> None:
    """Whoever comes while another one adds up goes away at once."""
    await past.prepare()
    await past.roll_up(NOW)
    with engine.begin() as other:
        other.execute(text("SELECT FROM mutirao_rolled FOR UPDATE"))
        assert not await past.store.roll_up(None, now=LATER)
        assert past.until() == NOW
