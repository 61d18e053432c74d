"""How fast one worker process drains no-op coroutine jobs from PostgreSQL, history kept.

    python benchmarks/drain.py [--database URL] [--jobs 100000] [--runs 3]

Without a URL it starts a private PostgreSQL with default durability and stops it afterwards.
Beside each run stands the store alone: the same claims and settlements in the same batches, one
after another, with no worker around them. Machines are noisy: compare ratios, and medians of
several runs.
"""

import argparse
import asyncio
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table
from sqlalchemy import make_url

from mutirao import Mutirao
from mutirao.job import SUCCEEDED, NewWorker, Settlement
from mutirao.sql import migrations
from mutirao.sql.store import SqlStore

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.postgresql import PostgresServer

BATCH = 500
Figures = dict[str, float]


def main() -> None:
    """Run and print a table."""
    options = _options()
    with _database(options.database) as url:
        migrations.upgrade(url)
        runs = [_run(url, options.jobs) for _ in range(options.runs)]
    _print(options.jobs, runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--database", help="postgresql+psycopg://…; a private server by default")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


@contextmanager
def _database(url: str | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with PostgresServer() as server, server.database() as name:
        yield server.url(name)


def _run(url: str, jobs: int) -> Figures:
    figures = asyncio.run(_with_worker(url, jobs))
    figures["the store alone, jobs/s"] = asyncio.run(_store_alone(url, jobs))
    figures["drain, of the store alone"] = (
        figures["drain, jobs/s"] / figures["the store alone, jobs/s"]
    )
    return figures


async def _with_worker(url: str, jobs: int) -> Figures:
    app, done, all_done = Mutirao(url), 0, asyncio.Event()

    @app.task
    async def nothing() -> None:
        nonlocal done
        done += 1
        if done == jobs:
            all_done.set()

    started = perf_counter()
    await app.aenqueue_many(nothing.job() for _ in range(jobs))
    enqueued = perf_counter() - started
    wal, cpu, started = _wal(url), process_time(), perf_counter()
    async with app.worker():
        await all_done.wait()
    # Stopping wrote the last settlements: the time covers them.
    drained, cpu = perf_counter() - started, process_time() - cpu
    wal = _wal(url) - wal
    succeeded = sum(count.jobs for count in await app.acounts() if count.state == "succeeded")
    assert succeeded >= jobs, f"only {succeeded} of {jobs} jobs are in history"
    await app.aclose()
    return {
        "enqueue many, jobs/s": jobs / enqueued,
        "drain, jobs/s": jobs / drained,
        "worker CPU, µs/job": cpu / jobs * 1e6,
        "WAL of claim and settle, bytes/job": wal / jobs,
    }


async def _store_alone(url: str, jobs: int) -> float:
    """Do the same claims and settlements without a worker around them; return jobs/s."""
    app, store = Mutirao(url), SqlStore(url)

    @app.task
    async def nothing() -> None: ...

    await app.aenqueue_many(nothing.job() for _ in range(jobs))
    await app.aclose()
    identity = NewWorker(
        name="alone", host="", pid=os.getpid(), queues=None, concurrency=1, version=""
    )
    worker = await store.register(identity, expiry=600)
    (head,) = await store.lanes(None)
    lane, left, started = head.lane, jobs, perf_counter()
    while left:
        claims = await store.claim(worker, [lane], BATCH)
        lane = lane._replace(run_at=claims[-1].run_at, id=claims[-1].id)
        await store.settle(worker, [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims])
        left -= len(claims)
    took = perf_counter() - started
    await store.retire(worker)
    await store.close()
    return jobs / took


def _wal(url: str) -> int:
    with psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(False)
    ) as conn:
        row: Any = conn.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
        return int(row[0])


def _print(jobs: int, runs: list[Figures]) -> None:
    table = Table(title=f"{jobs:,} no-op coroutine jobs, one worker process, history kept")
    table.add_column("figure")
    for number in range(1, len(runs) + 1):
        table.add_column(f"run {number}", justify="right")
    table.add_column("median", justify="right")
    for name in runs[0]:
        values = [run[name] for run in runs]
        shown = [f"{v:,.2f}" if v < 10 else f"{v:,.0f}" for v in (*values, median(values))]
        table.add_row(name, *shown)
    console = Console()
    console.print(table)
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()}"
    )


if __name__ == "__main__":
    main()
