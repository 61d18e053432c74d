"""Oban for Python."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import uvloop
from adapting import CONNECTIONS, AsyncEnqueueOne, Peer, main
from oban import Oban, worker
from oban.schema import install

LIMIT = 500
ENQUEUE_BATCH = 5_000


class _Counting:
    count: Callable[[], None]


@worker(queue="default")
class Nothing:
    async def process(self, job: object) -> None:
        _Counting.count()


class ObanPy(Peer):
    name, package = "oban", "oban"
    history, retries, threads = True, True, False
    tuned_by = (
        f"oban.pro/docs/py, queues and the API of Oban(): a queue limit of {LIMIT}, a pool of"
        f" {CONNECTIONS}, enqueue_many, uvloop as its command has it"
    )
    connections = str(CONNECTIONS)
    unsettled = """SELECT count(*) FROM (
        SELECT FROM oban_jobs WHERE state IN ('available', 'executing', 'retryable') LIMIT 1) one"""
    settled = "SELECT count(*) FROM oban_jobs WHERE state = 'completed'"

    def setup(self, url: str) -> None:
        async def make() -> None:
            async with await Oban.create_pool(url) as pool:
                await install(pool)

        uvloop.run(make())

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        async def enqueue() -> float:
            async with await Oban.create_pool(url) as pool:
                oban, started = Oban(pool=pool), time.perf_counter()
                for start in range(0, jobs, ENQUEUE_BATCH):
                    size = min(ENQUEUE_BATCH, jobs - start)
                    await oban.enqueue_many([Nothing.new({"data": data}) for _ in range(size)])
                return time.perf_counter() - started

        return uvloop.run(enqueue())

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        _Counting.count = staticmethod(count)

        async def run() -> None:
            pool = await Oban.create_pool(url, max_size=CONNECTIONS)
            async with pool, Oban(pool=pool, queues={"default": LIMIT}):
                await asyncio.Event().wait()

        uvloop.run(run())

    @asynccontextmanager
    async def aproducer(self, url: str, data: str) -> AsyncIterator[AsyncEnqueueOne]:
        pool = await Oban.create_pool(url, min_size=1, max_size=1)
        async with pool:
            oban = Oban(pool=pool)
            yield lambda: oban.enqueue(Nothing.new({"data": data}))


main(ObanPy())
