"""Mutirão, as a program of a user would hold it."""

import asyncio
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from adapting import EnqueueOne, main
from ours import OnOurTables

from mutirao import Mutirao, Task
from mutirao.cli import main as mutirao

DAY = 86_400.0


def _application(url: str, count: Callable[[], None], sync: bool = False) -> tuple[Mutirao, Task]:
    app = Mutirao(url)

    if sync:

        @app.task
        def nothing(data: str) -> None:
            count()

        return app, nothing

    @app.task(name="nothing")
    async def anothing(data: str) -> None:
        count()

    return app, anothing


class Ours(OnOurTables):
    name, package = "mutirao", "mutirao"
    retries, threads = True, True
    tuned_by = "its defaults: concurrency 20, batches of 500, prefetch by measured duration"
    connections = "at most 6 while handlers need none"
    has_command = True

    def enqueue(self, url: str, jobs: int, data: str) -> float:
        app, task = _application(url, lambda: None)
        asked = [task.job(data) for _ in range(jobs)]
        if url.startswith("sqlite"):
            started = time.perf_counter()
            app.enqueue_many(asked)
            return time.perf_counter() - started
        # Inside the caller's transaction.
        with _connected(url) as conn:
            started = time.perf_counter()
            app.enqueue_many(asked, conn=conn)
            conn.commit()
            return time.perf_counter() - started

    def work(self, url: str, count: Callable[[], None], *, sync: bool) -> None:
        app, _ = _application(url, count, sync)

        async def run() -> None:
            async with app.worker():
                await asyncio.Event().wait()

        asyncio.run(run())

    def command(self, url: str, count: Callable[[], None]) -> None:
        """Be `mutirao worker served:app > file`, forked so that the handlers can be counted."""
        served = sys.modules["served"] = ModuleType("served")
        served.app, _ = _application(url, count)
        logging.getLogger().handlers.clear()  # the adapter's own
        with tempfile.TemporaryFile() as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        sys.argv = ["mutirao", "worker", "served:app"]
        mutirao()

    @contextmanager
    def producer(self, url: str, data: str) -> Iterator[EnqueueOne]:
        app, task = _application(url, lambda: None)
        task.using(delay=DAY).enqueue(data)  # connects; no worker takes it
        yield lambda: task.enqueue(data)
        app.close()


def _connected(url: str) -> Any:
    if url.startswith("mysql"):
        from on_mysql import connected

        return connected(url)
    import psycopg

    return psycopg.connect(url)


main(Ours())
