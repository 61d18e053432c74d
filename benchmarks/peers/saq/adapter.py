"""SAQ on its PostgreSQL queue."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import CONNECTIONS, AsyncEnqueueOne, Peer, main
from saq import Job, Worker
from saq.queue.postgres import PostgresQueue

CONCURRENCY = 10


class Saq(Peer):
    name, package = "saq", "saq"
    history, retries, threads = True, True, True
    tuned_by = (
        f"saq-py.readthedocs.io and the README: concurrency {CONCURRENCY} (more is slower),"
        f" a pool of {CONNECTIONS}; it has no bulk enqueue, so {CONNECTIONS} run at a time"
    )
    connections = str(CONNECTIONS)
    unsettled = """SELECT count(*) FROM (
        SELECT FROM saq_jobs WHERE status IN ('new', 'queued', 'active') LIMIT 1) one"""
    settled = "SELECT count(*) FROM saq_jobs WHERE status = 'complete'"

    def setup(self, url: str) -> None:
        async def make() -> None:
            async with _queue(url):
                pass

        asyncio.run(make())

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        async def some(queue: PostgresQueue, size: int) -> None:
            for _ in range(size):
                await queue.enqueue(_job(data))

        async def enqueue() -> float:
            async with _queue(url) as queue:
                started = time.perf_counter()
                sizes = [len(range(n, jobs, CONNECTIONS)) for n in range(CONNECTIONS)]
                await asyncio.gather(*(some(queue, size) for size in sizes))
                return time.perf_counter() - started

        return asyncio.run(enqueue())

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        def nothing(ctx: object, *, data: str) -> None:
            count()

        async def anothing(ctx: object, *, data: str) -> None:
            count()

        async def run() -> None:
            async with _queue(url) as queue:
                function = ("nothing", nothing if sync else anothing)
                worker = Worker(queue, functions=[function], concurrency=CONCURRENCY)
                worker.SIGNALS = []
                await worker.start()

        asyncio.run(run())

    @asynccontextmanager
    async def aproducer(self, url: str, data: str) -> AsyncIterator[AsyncEnqueueOne]:
        async with _queue(url, 1) as queue:
            yield lambda: queue.enqueue(_job(data))


def _job(data: str) -> Job:
    return Job(function="nothing", kwargs={"data": data}, ttl=0)


@asynccontextmanager
async def _queue(url: str, connections: int = CONNECTIONS) -> AsyncIterator[PostgresQueue]:
    queue = PostgresQueue.from_url(url, min_size=min(4, connections), max_size=connections)
    await queue.connect()
    try:
        yield queue
    finally:
        await queue.disconnect()


main(Saq())
