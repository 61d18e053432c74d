"""`carried`: queues that a broker carries, beside the same jobs by SQL alone.

Worker, relay and the client of the broker are in this process, so it does all the work of carrying.
The broker is one in memory unless a RabbitMQ is given; there it makes `mutirao-bench-carried-…`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.figures import Cost, Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import Load
from benchmarks.spent import measured
from mutirao.model.jobs.job import DEFAULT_QUEUE
from mutirao.ports import Transport
from mutirao.transports.memory import MemoryTransport

PREFIX = "mutirao-bench-carried"
PATIENCE = 600.0  # seconds
Make = Callable[[], Awaitable[Transport]]
SETTINGS: Mapping[str, Any] = {"queues": [DEFAULT_QUEUE], "log_jobs": "failures"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What the same jobs cost by SQL alone and carried; statements a second of idle workers."""

    by_sql: Cost
    carried: Cost
    workers: int
    idle_by_sql: float
    idle_carried: float

    def figures(self) -> Figures:
        """Return them, with what the carried ones are of those by SQL."""
        idle = f"{self.workers} idle workers"
        return {
            "by SQL, jobs/s": self.by_sql.rate,
            "by SQL, statements/job": self.by_sql.statements,
            "carried, jobs/s": self.carried.rate,
            "carried, statements/job": self.carried.statements,
            "carried, of by SQL": self.carried.rate / self.by_sql.rate,
            f"{idle} by SQL, statements/s": self.idle_by_sql,
            f"{idle} carried, statements/s": self.idle_carried,
            f"{idle} carried, of by SQL": (
                self.idle_carried / self.idle_by_sql if self.idle_by_sql else None
            ),
        }


async def carried(
    url: str,
    *,
    broker: str | None = None,
    jobs: int = 40_000,
    concurrency: int = 20,
    workers: int = 10,
    seconds: float = 30.0,
    settling: float = 5.0,
) -> Carried:
    """Drain jobs that do nothing by SQL and carried; then watch idle workers of both kinds.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        broker: the URL of a RabbitMQ; None: a broker in memory.
        jobs: how many, each way.
        concurrency: handlers at once.
        workers: idle ones. On PostgreSQL each needs about four connections.
        seconds: for how long they are watched.
        settling: seconds before that, not counted.

    Raises:
        MutiraoError: the database is not ours to use, or some jobs were not done once.
    """
    async with ground(url) as place:
        by_sql = await _drained(place, None, jobs, concurrency)
        costs = await _drained(place, await _broker(broker), jobs, concurrency)
        idle_by_sql = await _idle(place, None, workers, seconds, settling)
        idle_carried = await _idle(place, partial(_broker, broker), workers, seconds, settling)
    return Carried(
        by_sql=by_sql,
        carried=costs,
        workers=workers,
        idle_by_sql=idle_by_sql,
        idle_carried=idle_carried,
    )


async def _broker(url: str | None) -> Transport:
    transport: Transport = MemoryTransport("carried")
    if url is not None:
        from mutirao.transports.rabbitmq import RabbitMQ  # other brokers need no client of it

        transport = RabbitMQ(url, mode="carried", prefix=PREFIX)
    await transport.declare([DEFAULT_QUEUE])
    return transport


async def _drained(place: Ground, transport: Transport | None, jobs: int, concurrency: int) -> Cost:
    await place.prepare()
    ran, all_ran = 0, asyncio.Event()

    def done(_: int | None) -> None:
        nonlocal ran
        ran += 1
        if ran == jobs:
            all_ran.set()

    load = Load(place.url, done, _carrying(transport))
    await place.fill(load.jobs(jobs))
    with measured(place.url) as spent:
        async with load.app.worker(**SETTINGS, concurrency=concurrency), asyncio.timeout(PATIENCE):
            await all_ran.wait()
        await load.app.aclose()  # what is settled is written: the time covers it
    await place.expect(jobs)
    return Cost.of(jobs, spent)


async def _idle(
    place: Ground, make: Make | None, workers: int, seconds: float, settling: float
) -> float:
    """Return the statements a second of workers that have nothing to do."""
    await place.prepare()
    await place.fill(())
    async with AsyncExitStack() as running:
        for _ in range(workers):  # each with connections of its own, as on machines of their own
            load = Load(place.url, transports=_carrying(await make() if make else None))
            running.push_async_callback(load.app.aclose)
            await running.enter_async_context(load.app.worker(**SETTINGS))
        await asyncio.sleep(settling)
        with measured(place.url) as spent:
            await asyncio.sleep(seconds)
    return spent.statements / spent.seconds


def _carrying(transport: Transport | None) -> Mapping[str, Transport]:
    return {} if transport is None else {DEFAULT_QUEUE: transport}
