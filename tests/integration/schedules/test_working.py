"""Workers and schedules: what a start writes down, who ticks, and what it costs to be idle."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, make_url, select

from mutirao import Job, Mutirao
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.errors import InvalidArguments, StoreUnavailable
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import Amendment, Schedule, ScheduleFacts
from mutirao.ports import Store
from mutirao.sql.schema.tables import tick
from mutirao.sql.store.jobs import SqlStore
from mutirao.sql.store.schedules import SqlSchedules
from mutirao_conformance.kit import at, join
from mutirao_conformance.schedules import plan, scheduled
from tests.integration.worker.kit import working
from tests.support.engine import LoopHealth, Scheduler, WorkerRow
from tests.support.log_records import ours
from tests.support.waiting import until

pytestmark = pytest.mark.repeats(
    "postgresql", decided="conformance/src/mutirao_conformance/ticks.py"
)

FAST: dict[str, Any] = {"heartbeat": 0.2, "expiry": 1.0}


def scheduler(store: Store, worker: int, *declared: Schedule, name: str = "w") -> Scheduler:
    """Return the scheduler of a worker; it looks every five seconds."""
    always = asyncio.Event()
    always.set()
    facts = replace(identity(WorkerSettings(), ""), name=name)
    return Scheduler(WorkerRow(store, facts, worker), declared, 5.0, always)


async def test_a_worker_ticks(app: Mutirao, url: str) -> None:
    """From the code to the handlers: each tick once, told which it is, whoever made the job."""
    ran: list[str] = []

    @app.schedule(every=0.2, catch_up="all")
    async def sweep(job: Job) -> None:
        ran.append(job.metadata["tick"])

    async with working(app, **FAST), working(app, **FAST), working(app, **FAST):
        await until(lambda: len(ran) >= 5)
    ticks = {datetime.fromisoformat(each) for each in ran}
    assert len(ticks) == len(ran)
    engine = create_engine(url)
    with engine.connect() as connection:
        written = sorted(connection.scalars(select(tick.c.tick)))
    engine.dispose()
    assert {later - sooner for sooner, later in pairwise(written)} == {timedelta(seconds=0.2)}
    assert ticks <= set(written)


async def test_one_put_while_it_works(app: Mutirao) -> None:
    """It is noticed at the next look; so is one that awaits the end of its job."""
    ran: list[datetime] = []

    @app.task
    async def sweep() -> None:
        ran.append(datetime.now(UTC))

    async with working(app, **FAST):
        await app.schedules.aput("s", sweep.job(), every=0.05, overlap="after", max_runs=3)
        await until(lambda: len(ran) == 3)
    assert (await app.schedules.alist())[0].status == "finished"


async def test_what_cannot_run_is_refused_at_the_start(app: Mutirao) -> None:
    """Arguments that do not fit: the worker says so and does not start; nothing is written."""

    @app.schedule(every=5, args={"day": "monday"})
    @app.task
    async def report(day: int) -> None: ...

    with pytest.raises(InvalidArguments, match="report"):
        async with app.worker():
            pass
    assert await app.schedules.alist() == ()


async def test_one_that_is_over(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """A campaign that ended last year, still in the code, keeps no worker from starting."""

    @app.schedule(every=5, until=datetime(2020, 1, 1, tzinfo=UTC))
    async def campaign() -> None: ...

    async with app.worker():
        assert await app.schedules.alist() == ()
    assert "schedule 'campaign' would never make a job" in caplog.text


async def test_deploys(app: Mutirao) -> None:
    """The worker that started last decides, once; a pause and changes at run time stay."""
    old, new = scheduled(seconds=10), scheduled(seconds=20)

    async def every() -> float | None:
        return (await app.schedules.alist())[0].every

    await scheduler(app.store, 1, old).declare()
    await app.schedules.apause("s")
    await scheduler(app.store, 2, new).declare()
    assert await every() == 20
    for _ in range(3):  # an old worker and a new one go on beside each other
        await scheduler(app.store, 1, old).confirm_declared()
        await scheduler(app.store, 2, new).confirm_declared()
        assert await every() == 20
    await scheduler(app.store, 1, old).declare()
    assert await every() == 10
    await scheduler(app.store, 2, new).declare()
    await app.store.schedules.amend(
        "s", lambda s: schedule_rules.change(s, "s", {"every": timedelta(seconds=30)})
    )
    await scheduler(app.store, 3, new).declare()
    assert await every() == 30
    assert (await app.schedules.alist())[0].status == "paused"


async def test_one_that_left_the_code(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """Every worker that does not have it says so, once each time; who has it keeps quiet."""
    old, other = scheduler(app.store, 1, scheduled(), name="old:1"), scheduler(app.store, 3)
    for _ in range(2):
        await old.declare(now=at(0))
        await scheduler(app.store, 2, scheduled()).confirm_declared(now=at(10))
        await other.declare()
        await other.confirm_declared()
        await app.schedules.aremove("s")
        await other.confirm_declared()
    told = [record.getMessage() for record in ours(caplog) if record.levelno >= logging.WARNING]
    assert len(told) == 2
    assert "schedule s was in the code of worker old:1 until 2024-02-29" in told[0]


async def test_whose_turn_it_is(app: Mutirao) -> None:
    """One of those who see a tick lets it tick; the others look again later, and it is done."""
    await plan(app.store, scheduled())
    schedulers = [scheduler(app.store, await join(app.store)) for _ in range(3)]
    assert [await each.run_once(at(7)) for each in schedulers] == [3, 3, 3]
    assert [await each.run_once(at(4)) for each in schedulers] == [5, 5, 5]
    seen = await asyncio.gather(*(each.run_once(at(10)) for each in schedulers))
    assert sorted(seen) == [0, 5, 5]
    assert len(await app.ajobs()) == 1


async def test_a_scheduler_that_dies(app: Mutirao) -> None:
    """Whoever looks next after its lease goes on where it was."""
    await plan(app.store, scheduled())
    assert await app.store.lease("schedule", 1, ttl=5, every=0, now=at(10))  # and then it died
    other = scheduler(app.store, 2)
    assert await other.run_once(at(11)) == 5
    assert await other.run_once(at(16)) == 0
    [job] = await app.ajobs()
    assert job.metadata["tick"] == at(10).isoformat()


async def test_one_that_ends(app: Mutirao) -> None:
    """Hands the duty over at once; one that had no turn leaves it alone."""
    await plan(app.store, scheduled(), now=None)
    await app.store.schedules.amend("s", _due_now)
    first, second = scheduler(app.store, 1), scheduler(app.store, 2)
    await first.run_once()
    await second.resign()
    assert not await app.store.lease("schedule", 2, ttl=5, every=0)
    await first.resign()
    assert await app.store.lease("schedule", 2, ttl=5, every=0)


def _due_now(facts: ScheduleFacts) -> Amendment:
    assert facts.state is not None
    return Amendment(replace(facts.state, next_at=facts.now))


class Away(SqlSchedules):
    """Schedules of a store whose database is away at first."""

    looks = 0

    async def agenda(self, **options: Any) -> Any:
        """Fail twice."""
        self.looks += 1
        if self.looks < 3:
            raise StoreUnavailable("gone")
        return await super().agenda(**options)


async def test_a_database_that_is_away(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The loop waits and goes on."""
    caplog.set_level(logging.WARNING, "mutirao")
    store = SqlStore(url)
    store.schedules = Away(store._sender)
    running = asyncio.create_task(scheduler(store, 1).run(LoopHealth("schedules", 60), 5.0))
    await until(lambda: "the database is back; schedules go on" in caplog.text)
    running.cancel()
    await asyncio.wait([running])
    await store.close()


async def test_what_an_idle_worker_asks(url: str, request: pytest.FixtureRequest) -> None:
    """One statement a look, and nothing is written, with schedules or without."""
    store = SqlStore(url)
    await plan(store, scheduled(seconds=1_000))
    statements: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        statements.append(statement)

    request.addfinalizer(lambda: event.remove(Engine, "before_cursor_execute", note))
    event.listen(Engine, "before_cursor_execute", note)
    mine = scheduler(store, await join(store), scheduled(seconds=1_000))
    statements.clear()
    for second in range(0, 60, 5):
        assert await mine.run_once(at(second)) == 5
    assert Counter(statement.split()[0] for statement in statements) == {"SELECT": 12}
    statements.clear()
    await mine.confirm_declared(at(60))
    assert len(statements) == 2
    await store.close()


async def test_a_server_in_another_zone(pg_url: str) -> None:
    """Drivers give times in the server's zone, where a day may have 23 hours; an interval not."""
    url = make_url(pg_url).update_query_dict({"options": "-ctimezone=Europe/Berlin"})
    store, day = SqlStore(url), 86_400
    before = datetime(2026, 3, 27, 12, tzinfo=UTC)  # two days before the clock is put forward
    await plan(store, scheduled(seconds=day), now=before)
    for n in range(1, 5):
        now = before + timedelta(seconds=n * day)
        [id] = (await store.schedules.amend("s", schedule_rules.tick, now=now)).jobs
        assert (await store.job(id)).metadata["tick"] == now.isoformat()
    await store.close()
