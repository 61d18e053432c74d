"""What each step of a job costs: statements, commits and round trips, exactly as recorded.

None of them depends on the machine. Batches are as large as a worker makes them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from mutirao.model.jobs.job import Claim, Gives, Job, NewJob, NewWorker, OutcomeKind, Wake
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.topics.subscriptions import WhenDead
from mutirao.model.topics.topics import task_of
from mutirao.sql.connections.engines import Engines
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import job_of
from mutirao_conformance.topics import subscription
from tests.integration.cost import recorded
from tests.integration.cost.conftest import Metered
from tests.integration.cost.meters import metered
from tests.integration.plans.test_round_trips import WARM

pytestmark = pytest.mark.repeats("asyncpg", decided="tests/integration/cost/test_statements.py")

BATCH, MANY = 500, 1_000
A_JOB = NewJob(task="t")
RETRIED = Outcome(OutcomeKind.RETRIED, after=60.0, error_type="E", error="e")


@dataclass(frozen=True, slots=True)
class Bench:
    """A store that keeps one connection, with a worker."""

    store: SqlStore
    worker: int

    async def claim(self, count: int) -> list[Claim]:
        """Enqueue so many jobs and claim them."""
        await self.store.aenqueue([A_JOB] * count)
        lanes = [head.lane for head in await self.store.lanes(None)]
        claims = await self.store.claim(self.worker, lanes, count)
        assert len(claims) == count
        return claims


@dataclass(slots=True)
class Attempt:
    """An attempt that notes that it was settled."""

    settled: list[bool] = field(default_factory=list)

    def started_ago(self) -> float:
        """It has just begun."""
        return 0.0

    def mark_settled(self, woken: Sequence[Wake] = ()) -> None:
        """Note it."""
        self.settled.append(True)


Act = Callable[[], Awaitable[object]]
Prepare = Callable[[Bench, int], Awaitable[Act]]


async def _enqueue(bench: Bench, count: int) -> Act:
    return lambda: bench.store.aenqueue([A_JOB] * count)


async def _claim(bench: Bench, count: int) -> Act:
    await bench.store.aenqueue([A_JOB] * count)
    lanes = [head.lane for head in await bench.store.lanes(None)]
    return lambda: bench.store.claim(bench.worker, lanes, count)


def _settle(outcome: Outcome) -> Prepare:
    async def prepare(bench: Bench, count: int) -> Act:
        ended = [Settlement(c.id, c.run, outcome) for c in await bench.claim(count)]
        return lambda: bench.store.settle(bench.worker, ended)

    return prepare


def _complete(gives: Gives) -> Prepare:
    async def prepare(bench: Bench, count: int) -> Act:
        (claim,) = await bench.claim(count)
        attempt = Attempt()

        def no_other(*_: object) -> Any:
            raise AssertionError("one transaction is opened, by the test")

        async def complete() -> None:
            job = Job(claim, 1, None, no_other)
            async with bench.store.transaction(job, attempt, gives=gives) as held:
                await held.execute(text("SELECT 1") if gives == "session" else "SELECT 1")
            assert attempt.settled

        return complete

    return prepare


# What is done, and to how many jobs. Where the statements are the same ones, a few warm it up.
ACTS: dict[str, tuple[Prepare, int, int]] = {
    "enqueue 1": (_enqueue, 1, 1),
    "enqueue 1,000": (_enqueue, MANY, MANY),
    "claim 1": (_claim, 1, 1),
    "claim 500": (_claim, 2, BATCH),
    "finish 1": (_settle(SUCCEEDED), 1, 1),
    "finish 500": (_settle(SUCCEEDED), 2, BATCH),
    "retry 1": (_settle(RETRIED), 1, 1),
    "retry 500": (_settle(RETRIED), 2, BATCH),
    "job.transaction()": (_complete("session"), 1, 1),
    "job.transaction(connection=True)": (_complete("driver"), 1, 1),
}


@pytest.fixture
async def bench(metered_database: Metered) -> AsyncIterator[Bench]:
    """A store with a worker."""
    store = SqlStore(metered_database.url, pool_size=1)
    new = NewWorker(name="w", host="h", pid=1, queues=None, concurrency=20, version="0")
    yield Bench(store, await store.register(new, expiry=3600.0))
    await store.close()


async def test_what_each_step_costs(metered_database: Metered, bench: Bench) -> None:
    """As much as recorded, once everything is prepared."""
    costs = {}
    for what, (prepare, few, count) in ACTS.items():
        for _ in range(WARM):
            await (await prepare(bench, few))()
        act = await prepare(bench, count)
        with metered(metered_database.meter) as found:
            await act()
        costs[what] = found[0]
    assert costs == recorded.STEPS[metered_database.kind]


async def test_enqueueing_in_the_callers_transaction(
    metered_database: Metered, bench: Bench
) -> None:
    """It begins nothing and commits nothing."""
    engines, costs = Engines(metered_database.url), {}
    async with engines.asynchronous().connect() as connection:
        for count in (1, MANY):
            for _ in range(WARM):
                await bench.store.aenqueue([A_JOB] * count, connection)
            with metered(metered_database.meter) as found:
                await bench.store.aenqueue([A_JOB] * count, connection)
            costs[count] = found[0]
        await connection.rollback()
    await engines.close()
    assert costs == recorded.IN_YOUR_TRANSACTION[metered_database.kind]


async def test_telling_in_order(metered_database: Metered, bench: Bench) -> None:
    """A publication for twenty subscriptions with an order is as many round trips as for two."""
    round_trips = []
    for number in (2, 20):
        topic = f"told.{number}"
        for n in range(number):
            asked = subscription(
                f"{topic}-{n:02}", topic, order_by="order_id", when_dead=WhenDead.STOP
            )
            await bench.store.subscriptions.put(asked, worker="w")
        for _ in range(WARM):
            await _publish_and_fan_out(bench, topic)
        with metered(metered_database.meter) as found:
            await _publish_and_fan_out(bench, topic)
        round_trips.append(found[0].round_trips)
    assert round_trips[0] == round_trips[1]


async def _publish_and_fan_out(bench: Bench, topic: str) -> None:
    published = NewJob(task=task_of(topic), args='{"order_id": 7}', queue=topic)
    await bench.store.aenqueue([published])
    lanes = [head.lane for head in await bench.store.lanes((topic,))]
    [claim] = await bench.store.claim(bench.worker, lanes, 1)
    assert await bench.store.subscriptions.fan_out(job_of(claim), Attempt(), None) is None
