"""PgQueuer on asyncpg and uvloop, as its own benchmark tool runs it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import asyncpg
import uvloop
from adapting import AsyncEnqueueOne, Peer, main
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

BATCH = 500
ENQUEUE_BATCH = 5_000


class Pgqueuer(Peer):
    name, package = "pgqueuer", "pgqueuer"
    history, retries, threads = True, True, True
    tuned_by = (
        "docs/guides/performance-tuning.md and tools/benchmark.py: asyncpg on uvloop, one"
        f" connection for the manager, batch_size {BATCH} instead of 10, pgq autovac, durable"
    )
    connections = "1"
    unsettled = "SELECT count(*) FROM (SELECT FROM pgqueuer LIMIT 1) one"

    def setup(self, url: str) -> None:
        async def install() -> None:
            async with _connected(url) as conn:
                queries = Queries(AsyncpgDriver(conn))
                await queries.install()
                await queries.optimize_autovacuum()

        asyncio.run(install())

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        async def enqueue() -> float:
            async with _connected(url) as conn:
                queries, started = Queries(AsyncpgDriver(conn)), time.perf_counter()
                async with conn.transaction():
                    for start in range(0, jobs, ENQUEUE_BATCH):
                        size = min(ENQUEUE_BATCH, jobs - start)
                        body = [data.encode()] * size
                        await queries.enqueue(["nothing"] * size, body, [0] * size)
                return time.perf_counter() - started

        return uvloop.run(enqueue())

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        async def run() -> None:
            async with _connected(url) as conn:
                pgq = PgQueuer(AsyncpgDriver(conn))
                if sync:

                    @pgq.entrypoint("nothing")
                    async def nothing(job: Job) -> None:
                        await asyncio.to_thread(count)
                else:

                    @pgq.entrypoint("nothing")
                    async def anothing(job: Job) -> None:
                        count()

                await pgq.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=1))

        uvloop.run(run())

    @asynccontextmanager
    async def aproducer(self, url: str, data: str) -> AsyncIterator[AsyncEnqueueOne]:
        async with _connected(url) as conn:
            queries = Queries(AsyncpgDriver(conn))
            yield lambda: queries.enqueue("nothing", data.encode(), 0)


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(url)
    try:
        yield conn
    finally:
        await conn.close()


main(Pgqueuer())
