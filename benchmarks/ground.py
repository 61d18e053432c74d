"""The database that a benchmark works on: somebody's, so it must hold no jobs but a benchmark's.

Queue names of our own would not be enough: everybody's worker serves all queues by default, and
what it does would be measured too. So a benchmark refuses any database where there are others'
jobs, finished ones among them, or where a worker runs. What earlier benchmarks left is removed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice
from time import perf_counter
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, case, func, select

from benchmarks.gauges import instruments
from benchmarks.load import PREFIX, Load
from mutirao.errors import ConfigurationError, MutiraoError, SchemaMissing
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.topics.topics import task_of
from mutirao.sql import migrations
from mutirao.sql.connections.runner import Runner
from mutirao.sql.schema import tables
from mutirao.sql.store.jobs import SqlStore

Answer = TypeVar("Answer")

_AT_ONCE = 100_000  # jobs in a transaction; their ids are held in memory
_STATISTICS_EVERY = 600.0  # seconds, as the workers' housekeeping


class Ground:
    """A prepared database: migrated, and without jobs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = SqlStore(url)
        self.instruments = instruments(self.store.engines.dialect.name)
        self._runner = Runner(self.store.engines)

    async def prepare(self) -> None:
        """Make the tables if there are none, and empty them.

        Raises:
            ConfigurationError: the database is not ours to use; nothing was changed.
            SchemaError: it has tables of another version.
        """
        try:
            await self.store.check()
        except SchemaMissing:
            await asyncio.to_thread(migrations.upgrade, self.url)
        moment = self.store.engines.dialect.moment(None)
        await self._runner.alone(_refuse_others, moment)
        counts = (tables.counter, tables.slot, tables.parked, tables.fairness_served)
        ours = (
            tables.delivery,
            tables.subscription,
            tables.job,
            tables.live,
            tables.attempt,
            tables.duty,
            *counts,
        )
        await self._runner.run(self.instruments.empty, ours)
        for limit in await self.store.limits.listed():
            if limit.task is not None and limit.task.startswith(PREFIX):
                await self.store.limits.remove(limit.name)

    async def fill(self, jobs: Iterable[NewJob]) -> float:
        """Enqueue jobs, some at a time, and return the seconds of that.

        Brings the planner's statistics up to date, too. Workers would do so every ten minutes, the
        first time soon after they start: in the midst of what is measured.
        """
        load, rest, started = Load(self.url), iter(jobs), perf_counter()
        while some := list(islice(rest, _AT_ONCE)):
            await load.app.aenqueue_many(some)
        took = perf_counter() - started
        await load.app.aclose()
        await self.store.refresh_statistics()
        await self.store.lease("statistics", 0, ttl=0.0, every=_STATISTICS_EVERY)
        return took

    async def expect(self, jobs: int) -> None:
        """Raise MutiraoError unless so many jobs succeeded, each once, and nothing else happened.

        A figure for work that was not done would be none.
        """
        succeeded, attempts = await self._runner.alone(_finished)
        if (succeeded, attempts) != (jobs, jobs):
            raise MutiraoError(
                f"{jobs} jobs should be in history with one attempt each, but {succeeded} jobs"
                f" succeeded in {attempts} attempts; did somebody else use the database?"
            )

    async def expect_enqueued(self, jobs: int) -> None:
        """Raise MutiraoError unless so many jobs were written, done or not."""
        found = await self._runner.alone(_enqueued)
        if found != jobs:
            raise MutiraoError(
                f"{jobs} jobs should have been written, but there are {found};"
                " did somebody else use the database?"
            )

    async def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Return what a function reads from the database."""
        return await self._runner.alone(question)

    async def change(self, body: Callable[[Connection], None]) -> None:
        """Let a function write, in a transaction."""
        await self._runner.run(body)

    async def close(self) -> None:
        """Close the connections."""
        await self._runner.close()
        await self.store.close()


@asynccontextmanager
async def closing_ground(url: str) -> AsyncIterator[Ground]:
    """Lend a database as it is."""
    lent = Ground(url)
    try:
        yield lent
    finally:
        await lent.close()


@asynccontextmanager
async def ground(url: str) -> AsyncIterator[Ground]:
    """Lend a prepared database; see `Ground.prepare` for what is refused."""
    async with closing_ground(url) as lent:
        await lent.prepare()
        yield lent


def _refuse_others(conn: Connection, now: ColumnElement[datetime]) -> None:
    others = conn.execute(
        select(tables.job.c.id, tables.job.c.task)
        .where(~tables.job.c.task.startswith(PREFIX, autoescape=True))
        .where(~tables.job.c.task.startswith(task_of(PREFIX), autoescape=True))
        .limit(1)
    ).first()
    if others is not None:
        raise ConfigurationError(
            f"the database holds jobs of others, such as job {others.id} ({others.task}), which a"
            " benchmark must not touch; give it an empty database of its own"
        )
    alive = conn.execute(
        select(tables.worker.c.name).where(tables.worker.c.expires_at > now)
    ).first()
    if alive is not None:
        raise ConfigurationError(
            f"worker {alive.name} runs on this database and would do what is to be measured; stop"
            " it (one that was killed is gone after 15 seconds), or give another database"
        )


def _finished(conn: Connection) -> tuple[int, int]:
    succeeded = tables.attempt.c.outcome == OutcomeKind.SUCCEEDED
    one = case((succeeded, 1))
    counts = select(func.count(one), func.count()).select_from(tables.attempt)
    found = conn.execute(counts).one()
    return found[0], found[1]


def _enqueued(conn: Connection) -> int:
    return conn.execute(select(func.count()).select_from(tables.job)).scalar_one()
