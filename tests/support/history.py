"""A small past: one job in every state a job can be in, made through the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mutirao.model.jobs.job import NewJob, NewWorker, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao.sql.store.jobs import SqlStore

FAILED = "ValueError: no such order\nwith more lines"


@dataclass(frozen=True)
class History:
    """The ids of jobs by what has become of them, and of the worker that did it."""

    worker: int
    succeeded: int
    dead: int
    retried: int
    running: int
    cancelled: int
    scheduled: int
    ready: int


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SqlStore]:
    """Lend a store; close its connections afterwards."""
    store = SqlStore(url)
    try:
        yield store
    finally:
        await store.close()


async def make_history(store: SqlStore) -> History:
    """Make one job for each state. They are of queue `mail`, task `send`, in the order of ids."""
    worker = await store.register(
        NewWorker(name="w", host="h", pid=1, queues=("mail",), concurrency=9, version="1.0"),
        expiry=600,
    )
    succeeded, dead, retried, running = await store.aenqueue(
        [NewJob(task="send", queue="mail")] * 4
    )
    claims = {job.id: job.run for job in await claim(store, worker, 4)}
    died = Outcome(OutcomeKind.DEAD, error_type="ValueError", error=FAILED)
    again = Outcome(OutcomeKind.RETRIED, after=60.0, error_type="ValueError", error=FAILED)
    await store.settle(
        worker,
        [
            Settlement(succeeded, claims[succeeded], SUCCEEDED, 2.5, 0.5),
            Settlement(dead, claims[dead], died, 3.0, 2.0),
            Settlement(retried, claims[retried], again, 4.0, 3.0),
        ],
    )
    cancelled, scheduled, ready = await store.aenqueue(
        [
            NewJob(task="send", queue="mail"),
            NewJob(task="send", queue="mail", delay=3600.0),
            NewJob(task="send", queue="mail"),
        ]
    )
    await store.cancel(JobFilter(ids=(cancelled,)))
    return History(worker, succeeded, dead, retried, running, cancelled, scheduled, ready)


async def claim(store: Store, worker: int, limit: int) -> list[Settlement]:
    """Claim due jobs of any lane, as settlements that say they succeeded."""
    lanes = [head.lane for head in await store.lanes(None)]
    claims = await store.claim(worker, lanes, limit)
    return [Settlement(job.id, job.run, SUCCEEDED, 0.5, 0.0) for job in claims]
