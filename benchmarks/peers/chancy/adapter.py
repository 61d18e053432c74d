"""Chancy with its asyncio executor."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import CONNECTIONS, AsyncEnqueueOne, Peer, main
from chancy import Chancy, Job, Queue, Worker

CONCURRENCY = 1_000
THREADS = 20
ENQUEUE_BATCH = 5_000
_counting: list[Callable[[], None]] = []


async def anothing(data: str) -> None:
    _counting[0]()


def nothing(data: str) -> None:
    _counting[0]()


class ChancyPeer(Peer):
    name, package = "chancy", "chancy"
    history, retries, threads = True, True, True
    tuned_by = (
        "tkte.ch/chancy, Queue, Worker and Executors: AsyncExecutor (or ThreadedExecutor),"
        f" concurrency {CONCURRENCY} ({THREADS}), eager_polling, polling_interval 1,"
        " send_outgoing_interval 0.1 instead of 1"
    )
    connections = str(CONNECTIONS)
    unsettled = """SELECT count(*) FROM (
        SELECT FROM chancy_jobs WHERE state IN ('pending', 'running', 'retrying') LIMIT 1) one"""
    settled = "SELECT count(*) FROM chancy_jobs WHERE state = 'succeeded'"

    def setup(self, url: str) -> None:
        async def make() -> None:
            async with _chancy(url) as chancy:
                await chancy.migrate()

        asyncio.run(make())

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        async def enqueue() -> float:
            async with _chancy(url) as chancy:
                started = time.perf_counter()
                async for _ in chancy.push_many([_job(data)] * jobs, batch_size=ENQUEUE_BATCH):
                    pass
                return time.perf_counter() - started

        return asyncio.run(enqueue())

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        _counting.append(count)
        if sync:
            sys.modules["__main__"].anothing = nothing

        async def run() -> None:
            async with _chancy(url) as chancy:
                await chancy.declare(_queue(sync), upsert=True)
                worker = Worker(chancy, register_signal_handlers=False)
                worker.send_outgoing_interval = 0.1
                async with worker:
                    await asyncio.Event().wait()

        asyncio.run(run())

    @asynccontextmanager
    async def aproducer(self, url: str, data: str) -> AsyncIterator[AsyncEnqueueOne]:
        async with _chancy(url, 1) as chancy:
            yield lambda: chancy.push(_job(data))


def _chancy(url: str, connections: int = CONNECTIONS) -> Chancy:
    log = logging.getLogger("chancy")
    return Chancy(url, max_connection_pool_size=connections, log=log)


def _queue(sync: bool) -> Queue:
    executor = Chancy.Executor.Threaded if sync else Chancy.Executor.Async
    return Queue(
        "default",
        concurrency=THREADS if sync else CONCURRENCY,
        executor=executor,
        polling_interval=1,
        eager_polling=True,
    )


def _job(data: str) -> Job:
    return Job(func="__main__.anothing", kwargs={"data": data}, max_attempts=10)


main(ChancyPeer())
