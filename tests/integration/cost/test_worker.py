"""What a whole worker costs the database: while it drains, and while nothing is to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.sql.store.jobs import SqlStore
from tests.integration.cost import recorded
from tests.integration.cost.conftest import Metered
from tests.integration.cost.meters import Cost, SqliteMeter, metered
from tests.integration.cost.simulated import Clock, Heard, Watched

pytestmark = pytest.mark.repeats("asyncpg", decided="tests/integration/cost/test_worker.py")

MINUTE = 60.0
MINUTES = 5  # so that it matters little what falls on either side of their ends


class Counter:
    """An application whose only task counts how often it ran."""

    def __init__(self, url: str, clock: Clock) -> None:
        store = SqlStore(url)
        notifier = store.notifier()
        assert notifier is not None
        watched: Any = Watched(store, clock)
        self.app = Mutirao(store=watched, notifier=Heard(notifier, clock))
        self.ran, self.most = 0, 0
        self.all_ran = asyncio.Event()
        self.task = self.app.task(name="count")(self._count)

    async def _count(self) -> None:
        self.ran += 1
        if self.ran == self.most:
            self.all_ran.set()

    async def fill(self, jobs: int) -> None:
        """Enqueue so many jobs, and wait for them."""
        self.most = jobs
        await self.app.aenqueue_many(self.task.job() for _ in range(jobs))
        await self.app.aclose()


def live(clock: Clock, body: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in simulated time."""
    with asyncio.Runner(loop_factory=clock.new_loop) as runner:
        runner.run(body)


async def drain(database: Metered, clock: Clock, jobs: int) -> Cost:
    """Return what a worker's whole life costs: it starts, does these jobs, and stops."""
    counter = Counter(database.url, clock)
    await counter.fill(jobs)
    with metered(database.meter) as found:
        async with counter.app.worker():
            await counter.all_ran.wait()
    assert counter.ran == jobs
    return found[0]


def test_draining(metered_database: Metered, clock: Clock) -> None:
    """A worker that does a few jobs; and how much more it costs to do many."""
    few, more = recorded.DRAINING[metered_database.kind]

    async def three() -> None:
        await drain(metered_database, clock, 1)  # does the housekeeping, for the next minutes
        first = await drain(metered_database, clock, 1_000)
        second = await drain(metered_database, clock, 10_000)
        assert not first.exceeds(few), first
        assert not second.minus(first).exceeds(more), second.minus(first)

    live(clock, three())


def test_idling(metered_database: Metered, clock: Clock) -> None:
    """Minutes without jobs, the heartbeat and the shared duties included."""

    async def idle() -> None:
        counter = Counter(metered_database.url, clock)
        async with counter.app.worker():
            await asyncio.sleep(2.5 * MINUTE)  # past what follows from its start
            with metered(metered_database.meter) as found:
                await asyncio.sleep(MINUTES * MINUTE)
        most = recorded.IDLE_MINUTE[metered_database.kind].times(MINUTES)
        assert not found[0].exceeds(most), found[0]

    live(clock, idle())


@pytest.mark.parametrize("metered_database", ["sqlite"], indirect=True)
def test_looks_at_a_file(metered_database: Metered, clock: Clock) -> None:
    """How often an idle worker looks whether the file has changed, in a minute."""
    meter = metered_database.meter
    assert isinstance(meter, SqliteMeter)

    async def idle() -> None:
        counter = Counter(metered_database.url, clock)
        async with counter.app.worker():
            before = meter.looks
            await asyncio.sleep(MINUTE)
            looks = meter.looks - before
        assert 0 < looks <= recorded.LOOKS_A_MINUTE

    live(clock, idle())
