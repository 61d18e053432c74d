"""Schedules that are due together: in batches, by several workers, whatever one of them brings."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert, text, update

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.records import JobFilter
from mutirao.model.schedules.schedule import MAX_DUE_NAMES, Agenda, TickResult
from mutirao.sql.schema.tables import schedule
from mutirao.sql.statements.ticking import Batch
from mutirao.sql.store.jobs import SqlStore
from mutirao.sql.store.schedules import SqlSchedules
from mutirao.sql.store.sender import StatementSender
from mutirao_conformance.kit import NOW, at, join
from mutirao_conformance.schedules import plan, scheduled
from tests.integration.schedules.test_plans import rows
from tests.integration.schedules.test_working import scheduler
from tests.support.engine import MAX_SCHEDULES_PER_BATCH, Scheduler
from tests.support.log_records import ours

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")


def fill(store: SqlStore, name: str, many: int, **columns: Any) -> None:
    """Write schedules that are due at NOW, with these columns, which nobody has checked."""
    with store.engines.sync().begin() as conn:
        some = rows(name, next_at=NOW)[:many]
        conn.execute(insert(schedule), [row | columns for row in some])


async def made(store: SqlStore) -> Counter[str]:
    """Return how many jobs each schedule has made."""
    jobs = await store.jobs(JobFilter(limit=None))
    return Counter(job.metadata["schedule"] for job in jobs)


async def look(mine: Scheduler, seconds: float = 0) -> list[float]:
    """Look until there is a pause; return what was to be waited each time."""
    waits = [await mine.run_once(at(seconds))]
    while waits[-1] == 0:
        waits.append(await mine.run_once(at(seconds)))
    return waits


async def test_more_than_a_batch(url: str) -> None:
    """All of them tick, one batch after the other."""
    store = SqlStore(url)
    fill(store, "s", MAX_SCHEDULES_PER_BATCH + 50)
    assert await look(scheduler(store, await join(store))) == [0, 0, 5]
    assert await made(store) == {f"s {n}": 1 for n in range(MAX_SCHEDULES_PER_BATCH + 50)}
    await store.close()


async def test_beside_one_that_hangs(pg_url: str) -> None:
    """While a worker is held up in the middle of its batch, another one, without a lease, goes on.

    Where so many are due; few are left to the one that has the lease.
    """
    store, engine = SqlStore(pg_url), create_engine(pg_url)
    many = MAX_SCHEDULES_PER_BATCH + MAX_DUE_NAMES
    fill(store, "s", many)
    assert await store.lease("schedule", await join(store), ttl=60, every=0, now=NOW)
    with engine.connect() as conn:
        first = Batch(
            store._sender.dialect, store._intake.enqueue, MAX_SCHEDULES_PER_BATCH, (), NOW
        ).write(conn)
        assert len(first) == MAX_SCHEDULES_PER_BATCH
        assert await look(scheduler(store, await join(store))) == [0, 5]
        assert len(await made(store)) == MAX_DUE_NAMES
        conn.commit()
    assert await made(store) == {f"s {n}": 1 for n in range(many)}
    fill(store, "t", MAX_DUE_NAMES - 1)
    assert await look(scheduler(store, await join(store))) == [5]
    engine.dispose()
    await store.close()


async def test_one_that_dies_in_the_middle(pg_url: str) -> None:
    """What it has not committed is done by another."""
    store, engine = SqlStore(pg_url), create_engine(pg_url)
    fill(store, "s", 50)
    with engine.connect() as conn:
        Batch(store._sender.dialect, store._intake.enqueue, 30, (), NOW).write(conn)
        conn.invalidate()
    assert await look(scheduler(store, await join(store))) == [0, 5]
    assert await made(store) == {f"s {n}": 1 for n in range(50)}
    engine.dispose()
    await store.close()


SPOILT: dict[str, dict[str, Any]] = {
    "'now and then' is no cron line": {"cron": "now and then", "every": None},
    "no time zone 'Nowhere'": {"cron": "* * * * *", "every": None, "timezone": "Nowhere"},
    "its options cannot be read": {"options": "[}"},
}


@pytest.mark.parametrize("said", SPOILT)
async def test_one_that_cannot_tick(url: str, said: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is told of at each look, and keeps no other from its tick, today or tomorrow."""
    store = SqlStore(url)
    fill(store, "bad", 1, **SPOILT[said])
    for name in ("a", "c"):
        await plan(store, scheduled(name))
    mine = scheduler(store, await join(store))
    assert await look(mine, 10) == [0, 5]
    assert await look(mine, 18) == [2]
    assert await look(mine, 20) == [0, 5]
    assert await made(store) == {"a": 2, "c": 2}
    logged = [each.getMessage() for each in ours(caplog) if each.levelno >= logging.ERROR]
    assert len(logged) == 1
    assert logged[0].startswith("schedule bad 0 cannot tick: ")
    assert said in logged[0]
    assert await look(scheduler(store, await join(store)), 20) == [5]  # not its turn
    await store.close()


async def test_one_that_the_database_refuses(pg_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Arguments that are no JSON: the others of its batch tick, and are enqueued once."""
    store = SqlStore(pg_url)
    fill(store, "s", 40)
    with store.engines.sync().begin() as conn:
        conn.execute(update(schedule).where(schedule.c.name == "s 17").values(args="{"))
    assert await look(scheduler(store, await join(store))) == [0, 5]
    assert await made(store) == {f"s {n}": 1 for n in range(40) if n != 17}
    assert "schedule s 17 cannot tick: the database refuses a value: " in caplog.text
    await store.close()


@contextmanager
def broken(store: SqlStore, task: str) -> Iterator[None]:
    """Let a trigger of the application fail for the jobs of a task, as one with a defect does."""
    beginning = "CREATE TRIGGER broken BEFORE INSERT ON mutirao_job"
    creation = [f"{beginning} WHEN NEW.task = '{task}' BEGIN SELECT json(NEW.task); END"]
    if not store.engines.in_thread:
        creation = [
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM 1 FROM nowhere; RETURN NEW; END'",
            f"{beginning} FOR EACH ROW WHEN (NEW.task = '{task}') EXECUTE FUNCTION broken()",
        ]
    with store.engines.sync().begin() as conn:
        for statement in creation:
            conn.execute(text(statement))
    try:
        yield
    finally:
        with store.engines.sync().begin() as conn:
            removal = "TRIGGER broken" if store.engines.in_thread else "FUNCTION broken CASCADE"
            conn.execute(text(f"DROP {removal}"))


async def test_a_task_whose_statement_is_refused(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its schedules are told of, more than a batch of them; the others tick on time."""
    store = SqlStore(url)
    fill(store, "bad", MAX_SCHEDULES_PER_BATCH + 10, task="bad")
    await plan(store, scheduled("good"))
    with broken(store, "bad"):
        mine = scheduler(store, await join(store))
        assert await look(mine, 10) == [0, 0, 5]
        assert await look(mine, 18) == [2]
        assert await look(mine, 20) == [0, 5]
    assert await made(store) == {"good": 2}
    logged = [each.getMessage() for each in ours(caplog) if each.levelno >= logging.ERROR]
    assert len(logged) == MAX_SCHEDULES_PER_BATCH + 10
    assert "schedule bad 7 cannot tick: the database refuses a statement: " in caplog.text
    await store.close()


async def test_what_undoes_the_whole_transaction(lite_url: str) -> None:
    """Its error is raised, not the one about the savepoint that is gone with it."""
    store = SqlStore(lite_url)
    fill(store, "s", 1_000)
    received: list[int] = []

    def interrupted(jobs: Iterable[NewJob], conn: Connection) -> list[int]:
        def once() -> bool:
            received.append(len(received))
            return received == [0]

        raw: Any = conn.connection.driver_connection
        raw.set_progress_handler(once, 1_000)  # in the middle of the statement
        conn.execute(update(schedule).values(paused=True))
        raise AssertionError("it was not interrupted")

    batch = Batch(store._sender.dialect, interrupted, 10, (), NOW)
    with pytest.raises(StoreUnavailable, match="interrupted"):
        store._sender.runner.run_sync(batch.write)
    assert len((await store.schedules.agenda(now=NOW)).due) == MAX_DUE_NAMES
    await store.close()


async def test_more_that_cannot_tick_than_a_batch(url: str) -> None:
    """The others get their turn, and are not late for it."""
    store = SqlStore(url)
    fill(store, "bad", MAX_SCHEDULES_PER_BATCH + 10, cron="now and then", every=None)
    await plan(store, scheduled("good"))
    mine = scheduler(store, await join(store))
    assert await look(mine, 10) == [0, 0, 5]
    assert await look(mine, 18) == [2]
    assert await made(store) == {"good": 1}
    await store.close()


async def test_one_among_very_many_that_await_a_job(url: str) -> None:
    """The one whose job has ended is seen, however many have a live one."""
    store = SqlStore(url)
    [live] = store.enqueue([NewJob(task="t")])
    awaiting = {"awaiting": True, "next_at": None}
    fill(store, "waits", 2_000, **awaiting, last_job=live)
    fill(store, "ended", 1, **awaiting, last_job=live + 1)
    assert await store.schedules.agenda(now=NOW) == Agenda(("ended 0",), None, awaits=True)
    await store.close()


class Slow(SqlSchedules):
    """Schedules of a store on which large batches take too long."""

    def __init__(self, sender: StatementSender) -> None:
        super().__init__(sender)
        self.asked = list[int]()

    async def tick(
        self, limit: int, *, without: Collection[str] = (), now: datetime | None = None
    ) -> list[TickResult]:
        """Give up large ones."""
        self.asked.append(limit)
        if limit > MAX_SCHEDULES_PER_BATCH // 4:
            raise StoreUnavailable("too slow")
        return await super().tick(limit, without=without, now=now)


async def test_a_batch_that_takes_too_long(url: str) -> None:
    """The next one is smaller; once it succeeds, slightly larger ones are tried again."""
    store = SqlStore(url)
    store.schedules = slow = Slow(store._sender)
    fill(store, "s", 10)
    mine = scheduler(store, await join(store))
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await mine.run_once(at(0))
    assert await look(mine) == [0, 5]
    assert len(await made(store)) == 10
    fill(store, "t", 10)
    with pytest.raises(StoreUnavailable):
        await mine.run_once(at(0))
    assert slow.asked == [200, 100, 50, 56]
    await store.close()


async def test_statements(url: str, request: pytest.FixtureRequest) -> None:
    """A batch takes as many, however many schedules are in it, and however many rest."""
    store = SqlStore(url)
    fill(store, "resting", 3_000, next_at=at(1e6))
    with store.engines.sync().begin() as conn:
        conn.execute(text("ANALYZE"))
    said: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", note))
    counts = []
    for many in (2, 150):
        fill(store, f"s{many}", many)
        said.clear()
        assert len(await store.schedules.tick(MAX_SCHEDULES_PER_BATCH, now=NOW)) == many
        counts.append(len(said))
    assert counts[0] == counts[1] <= 16, said
    await store.close()


async def test_what_a_tick_keeps(url: str) -> None:
    """Nothing but what a tick changes: what the code declared, and the job, stay as they were."""
    store = SqlStore(url)
    job = NewJob(task="t", args='{"n": 1}', queue="q", priority=3, tags=("a",))
    before = await plan(store, scheduled(job=job))
    [result] = await store.schedules.tick(10, now=at(10))
    assert result.state is not None
    assert (result.state.schedule, result.state.created_at) == (before.schedule, NOW)
    [record] = await store.schedules.listed()
    assert (record.args, record.queue, record.changed_at) == ({"n": 1}, "q", NOW)
    await store.close()
