"""Procrastinate on its psycopg connector: an asynchronous task that posts by httpx2.

procrastinate.readthedocs.io, howto/advanced/concurrency: as many at once as are asked for, and a
pool of ten connections.
"""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import httpx2
from on_webhooks import BODY, HEADERS, PATIENCE, Clock, asked
from procrastinate import App, PsycopgConnector

CONNECTIONS, ENQUEUE_BATCH = 10, 5_000
place, receiver, jobs, at_once = asked()


async def main() -> None:
    connector = PsycopgConnector(conninfo=place, min_size=1, max_size=CONNECTIONS)
    app = App(connector=connector)
    async with app.open_async(), httpx2.AsyncClient(trust_env=False, timeout=15) as client:
        await app.schema_manager.apply_schema_async()

        @app.task(name="deliver")
        async def deliver(url: str) -> None:
            answer = await client.post(url, content=BODY, headers=HEADERS)
            answer.raise_for_status()

        for start in range(0, jobs, ENQUEUE_BATCH):
            some = [{"url": receiver}] * min(ENQUEUE_BATCH, jobs - start)
            await deliver.batch_defer_async(*some)
        clock = Clock()
        async with asyncio.timeout(PATIENCE):
            await app.run_worker_async(
                concurrency=at_once, wait=False, install_signal_handlers=False
            )
        await expect_all(connector)
        clock.tell(jobs)


async def expect_all(connector: PsycopgConnector) -> None:
    counted = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status = 'succeeded'"
    row = await connector.execute_query_one_async(counted)
    if row["jobs"] != jobs:
        raise RuntimeError(f"{row['jobs']} of {jobs} were delivered")


asyncio.run(main())
