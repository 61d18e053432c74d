"""Views of the whole history say what counting it would: added up or not, whatever is deleted."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, create_engine, select, text

from mutirao.model.jobs.job import NewJob, NewWorker, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import LimitOrigin, Rule
from mutirao.sql.schema import tables
from mutirao.sql.store import jobs as sql_store
from mutirao.sql.store.jobs import SqlStore
from tests.integration.views.history_kit import FINAL, Ledger, finished
from tests.support.history import opened

QUEUES, TASKS = ("default", "mail"), ("send", "bill", "index")
SEEDS, STEPS = 8, 40
KINDS = (
    *(OutcomeKind.SUCCEEDED,) * 3,
    *(OutcomeKind.RETRIED, OutcomeKind.DEAD, OutcomeKind.SNOOZED, OutcomeKind.CANCELLED),
)
MESSAGES = ("no such order\nwith a traceback", "no such order\nwith another one", "late")
Step = Callable[[], Awaitable[object]]


@pytest.fixture
def connection(migrated_url: str) -> Iterator[Connection]:
    """A connection that sees what is committed at each moment."""
    engine = create_engine(migrated_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A store."""
    async with opened(migrated_url) as store:
        yield store


class Life:
    """All that may befall jobs, at random, on a clock that jumps."""

    def __init__(self, store: SqlStore, connection: Connection, seed: int) -> None:
        self.store, self.connection, self.chance = store, connection, random.Random(seed)
        self.clock = datetime.now(UTC).replace(microsecond=0)
        self.ledger, self.worker, self.deleted = Ledger(), 0, False
        self.steps: list[Step] = [
            *(self.enqueue, self.settle, self.settle, self.roll_up, self.roll_up, self.jump),
            *(self.cancel, self.pause),
        ]
        # Where no trigger tells of it, history deleted by hand is counted on, and so are attempts
        # that end before what was added up by a clock that was ahead (docs/mysql.md).
        self.triggers = connection.dialect.name != "mysql"
        self.jumps = (-150, -20, 1, 5, 40, 130) if self.triggers else (1, 5, 40, 130)
        if seed % 2:
            self.steps += [self.prune, self.redrive]
        if seed % 2 and self.triggers:
            self.steps += [self.delete_attempts, self.delete_jobs]

    async def live(self) -> None:
        """Do one thing after another; the views are right after each."""
        new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=9, version="1")
        self.worker = await self.store.register(new, expiry=1e6)
        for _ in range(STEPS):
            await self.chance.choice(self.steps)()
            self.ledger.check(self.connection, deleted=self.deleted)

    async def enqueue(self) -> None:
        delays = (None, None, 3_600.0)
        await self.store.aenqueue(
            NewJob(
                task=self.chance.choice(TASKS),
                queue=self.chance.choice(QUEUES),
                delay=self.chance.choice(delays),
            )
            for _ in range(self.chance.randrange(12))
        )

    async def settle(self) -> None:
        """End some attempts, now or some hours ago; leave some running."""
        lanes = [head.lane for head in await self.store.lanes(None)]
        claims = (
            await self.store.claim(self.worker, lanes, self.chance.randrange(1, 9)) if lanes else []
        )
        ended = [
            Settlement(claim.id, claim.run, self.outcome(), *self.times())
            for claim in claims
            if self.chance.random() < 0.8
        ]
        await self.store.settle(self.worker, ended, now=self.clock)

    def outcome(self) -> Outcome:
        kind, failed = self.chance.choice(KINDS), self.chance.random() < 0.7
        return Outcome(
            kind,
            after=0.0,
            error_type=self.chance.choice(("ValueError", "KeyError")) if failed else None,
            error=self.chance.choice(MESSAGES) if failed else None,
        )

    def times(self) -> tuple[float, float]:
        ago = self.chance.choice((0.0, 0.0, 50.0, 9_000.0))
        return ago + self.chance.choice((0.0, 0.004321, 1.0, 64.9)) * self.chance.random(), ago

    async def roll_up(self) -> None:
        for _ in range(self.chance.randrange(1, 5)):
            await self.store.roll_up(None, now=self.clock)

    async def jump(self) -> None:
        """Mostly ahead."""
        self.clock += timedelta(minutes=self.chance.choice(self.jumps))

    async def cancel(self) -> None:
        await self.store.cancel(JobFilter(task=self.chance.choice(TASKS), limit=2), now=self.clock)

    async def pause(self) -> None:
        """Pause a queue, or let it go on."""
        name = self.chance.choice(QUEUES)
        if not await self.store.limits.remove(f"pause {name}"):
            rule = Rule(name=f"pause {name}", queue=name, most=0)
            await self.store.limits.put(rule, origin=LimitOrigin.PAUSE)

    async def prune(self) -> None:
        self.about_to_delete()
        kind, age = self.chance.choice(KINDS), self.chance.choice((0.0, 3_600.0))
        await self.store.prune(kind, age, self.chance.randrange(1, 9), now=self.clock)

    async def redrive(self) -> None:
        await self.store.redrive(JobFilter(limit=2))

    async def delete_attempts(self) -> None:
        """By hand."""
        self.about_to_delete()
        self.connection.execute(
            tables.attempt.delete().where(tables.attempt.c.job.in_(self.some()))
        )

    async def delete_jobs(self) -> None:
        """By hand, and leave their attempts."""
        self.about_to_delete()
        self.connection.execute(tables.job.delete().where(tables.job.c.id.in_(self.some())))

    def some(self) -> list[int]:
        live = select(tables.live.c.id)
        ended = self.connection.scalars(
            select(tables.job.c.id).where(tables.job.c.id.not_in(live)).order_by(tables.job.c.id)
        ).all()
        return self.chance.sample(ended, min(3, len(ended)))

    def about_to_delete(self) -> None:
        self.deleted = True
        self.ledger.note(self.connection)


@pytest.mark.repeats("4", "5", "6", "7", decided="tests/integration/views/test_whole_history.py")
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_whatever_happens(store: SqlStore, connection: Connection, seed: int) -> None:
    """After each of many random steps all views say what counting says."""
    await Life(store, connection, seed).live()


async def test_with_all_added_up(
    store: SqlStore, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all of it is added up, and live jobs have been counted before."""
    life = Life(store, connection, 4)
    await life.live()
    life.clock = max(life.clock, datetime.now(UTC)) + timedelta(days=1)
    monkeypatch.setattr(sql_store, "MAX_LIVE_JOBS_COUNTED", 0)
    while await store.roll_up(None, now=life.clock):
        pass
    await store.roll_up(None, now=datetime.now(UTC))
    life.ledger.check(connection, deleted=life.deleted)
    rows = connection.execute(text("SELECT count(*), min(jobs) FROM mutirao_kept")).one()
    assert rows[0] <= len(QUEUES) * 3 * 24 * 3
    assert rows[1] > 0


async def test_hours_are_forgotten(store: SqlStore, connection: Connection) -> None:
    """And errors, when they are older than they are to be kept; jobs are counted all the same."""
    life = Life(store, connection, 12)
    await life.live()
    later = max(life.clock, datetime.now(UTC)) + timedelta(days=1)
    rows = text("SELECT (SELECT count(*) FROM mutirao_hour), (SELECT count(*) FROM mutirao_error)")
    for keep, expected in ((3e7, True), (0.0, False)):
        while await store.roll_up(keep, now=later):
            pass
        assert [bool(number) for number in connection.execute(rows).one()] == [expected] * 2
    ended = select(tables.attempt).where(tables.attempt.c.outcome.in_(FINAL))
    assert sum(finished(connection).values()) == len(connection.execute(ended).all()) > 0
