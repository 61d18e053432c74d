"""Procrastinate on its psycopg connector."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import CONNECTIONS, AsyncEnqueueOne, Peer, main
from procrastinate import App, PsycopgConnector

CONCURRENCY = 10
ENQUEUE_BATCH = 5_000


class Procrastinate(Peer):
    name, package = "procrastinate", "procrastinate"
    history, retries, threads = True, True, True
    tuned_by = (
        "procrastinate.readthedocs.io, howto/advanced/concurrency: concurrency"
        f" {CONCURRENCY} (more is slower),"
        f" a pool of {CONNECTIONS}; batch_defer_async"
    )
    connections = str(CONNECTIONS)
    unsettled = """SELECT count(*) FROM (
        SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1) one"""
    settled = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"

    def setup(self, url: str) -> None:
        async def install() -> None:
            async with _app(url).open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(install())

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        async def enqueue() -> float:
            app = _app(url)
            task = app.configure_task("nothing")
            async with app.open_async():
                started = time.perf_counter()
                for start in range(0, jobs, ENQUEUE_BATCH):
                    size = min(ENQUEUE_BATCH, jobs - start)
                    await task.batch_defer_async(*[{"data": data}] * size)
                return time.perf_counter() - started

        return asyncio.run(enqueue())

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        async def run() -> None:
            app = _app(url)
            if sync:

                @app.task(name="nothing")
                def nothing(data: str) -> None:
                    count()
            else:

                @app.task(name="nothing")
                async def anothing(data: str) -> None:
                    count()

            async with app.open_async():
                await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)

        asyncio.run(run())

    @asynccontextmanager
    async def aproducer(self, url: str, data: str) -> AsyncIterator[AsyncEnqueueOne]:
        app = _app(url, 1)
        async with app.open_async():
            task = app.configure_task("nothing")
            yield lambda: task.defer_async(data=data)


def _app(url: str, connections: int = CONNECTIONS) -> App:
    return App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=connections))


main(Procrastinate())
