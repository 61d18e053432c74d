"""What the tests of several databases share: a company of them, and an application for all."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from typing import Any

from mutirao import Job, JobFilter, JobRecord, Mutirao
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.records import WorkerRecord
from mutirao.sql.store.jobs import SqlStore
from tests.support.engine import EmbeddedWorker
from tests.support.waiting import until

BRISK: dict[str, Any] = {"heartbeat": 0.1, "expiry": 15.0, "poll": 0.2}


class Company:
    """Databases, and an application that serves those that are listed now."""

    def __init__(self, *urls: str) -> None:
        self.listed: list[str] = list(urls)
        self.app = Mutirao("sqlite://" if not urls else urls[0])
        self.ran: list[tuple[str, int]] = []  # the databases of the jobs that began, and their ids
        self.running: Counter[str] = Counter()  # jobs that are held now, by database
        self.release = asyncio.Semaphore(0)
        self.app.databases(lambda: self.listed)
        self._stores: dict[str, SqlStore] = {}

        @self.app.task
        async def note(job: Job) -> None:
            self.ran.append((job.database, job.id))

        @self.app.task
        async def hold(job: Job) -> None:
            self.ran.append((job.database, job.id))
            self.running[job.database] += 1
            await self.release.acquire()
            self.running[job.database] -= 1

    def let_end(self, number: int = 1) -> None:
        """Let so many of the jobs that hold a slot end, the oldest first."""
        for _ in range(number):
            self.release.release()

    def worker(self, **settings: Any) -> EmbeddedWorker:
        """Return a worker that looks for databases often."""
        return self.app.worker(**{**BRISK, **settings})

    def store(self, url: str) -> SqlStore:
        """Return a handle on one of them."""
        return self._stores.setdefault(url, SqlStore(url))

    async def enqueue(self, url: str, task: str, number: int = 1) -> list[int]:
        """Enqueue jobs in one of them."""
        jobs = [NewJob(task=task, args=json.dumps({})) for _ in range(number)]
        return await self.store(url).aenqueue(jobs)

    async def workers(self, url: str) -> list[WorkerRecord]:
        """Return who is registered there."""
        return await self.store(url).workers()

    async def jobs(self, url: str) -> list[JobRecord]:
        """Return the jobs that are there."""
        return await self.store(url).jobs(JobFilter(limit=None))

    async def close(self) -> None:
        """Close all handles."""
        for store in self._stores.values():
            await store.close()
        await self.app.aclose()
        # A connection that was given up while it was being made lives until it is collected, and
        # no database is dropped while somebody is at its door: that has taken 60 s.
        gc.collect()


def shown(url: str) -> str:
    """Return the name that a database has in logs."""
    return Mutirao(url).database


async def works(url: str) -> None:
    """Have a worker do a job that is enqueued."""
    done = list[int]()
    app = Mutirao(url)

    @app.task
    def note(n: int) -> None:
        done.append(n)

    await note.aenqueue(n=7)
    async with app.worker(**BRISK):
        await until(lambda: done == [7])
    app.close()
