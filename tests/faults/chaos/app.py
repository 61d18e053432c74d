"""The application whose jobs are counted: each inserts one row, and completes in the same commit.

Half of the handlers are coroutines and half plain functions. Every fifth job is enqueued by the
one before it, in its transaction. Some attempts fail, before or after they have written.

Deliveries of what is published insert one row each, too; see `told`. So do jobs by broker alone,
which complete in no transaction; see `messages`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Insert,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
)

from mutirao import Event, Job, Mutirao, NewJob, Retry
from mutirao.errors import StaleRun
from mutirao.ports import Transport
from tests.faults.kit.handlers import stumble

RETRY = Retry.fixed(max_attempts=100, interval=0.2)
PREFIX = "chaos"
CARRIED, INBOX, ALONE = QUEUES = "default", "inbox", "alone"


def transports_at(url: str | None) -> dict[str, Transport]:
    """Return who carries which queue, given the URL of a broker."""
    if url is None:
        return {}
    from mutirao.transports.rabbitmq import RabbitMQ  # only some runs need the client

    carried, alone = RabbitMQ(url, mode="carried", prefix=PREFIX), RabbitMQ(url, prefix=PREFIX)
    return {CARRIED: carried, INBOX: alone, ALONE: alone}


log = logging.getLogger(__name__)
app = Mutirao(
    os.environ.get("CHAOS_DATABASE", "sqlite:///chaos.db"),
    transports=transports_at(os.environ.get("CHAOS_BROKER")),
)
metadata = MetaData()
# Nothing here forbids a second row for a number: that is what is tried.
rows = Table(
    "chaos_row",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("run", Integer, nullable=False),
)

told = Table(
    "chaos_told",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("publication", BigInteger, nullable=False),
    Column("subscription", String(50), nullable=False),
    Column("key", Integer, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("run", Integer, nullable=False),
)
taken = Table(
    "chaos_taken",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("queue", String(50), nullable=False),
    Column("number", BigInteger, nullable=False),
)
happened = app.topic("chaos.happened")


def first_jobs(count: int, pause: float) -> Iterator[NewJob]:
    """Return those of the jobs 0 to `count` - 1 that no other job enqueues."""
    return (job(number, count, pause) for number in range(count) if not has_parent(number))


def job(number: int, count: int, pause: float) -> NewJob:
    """Return the job of a number. `pause`: the most seconds it waits before it writes."""
    return (insert_plainly if number % 2 else insert_row).job(number, count, pause)


def has_parent(number: int) -> bool:
    """Tell whether the job of a number is enqueued by that of the number before."""
    return number % 5 == 4


@app.task(retry=RETRY)
async def insert_row(job: Job, number: int, count: int, pause: float) -> None:
    """Insert one row, in a coroutine."""
    await asyncio.sleep(random.uniform(0, pause))
    stumble()
    with telling_stale_runs(job):
        async with job.transaction() as session:
            await session.execute(row(job, number))
            await app.aenqueue_many(children(number, count, pause), conn=session)
            stumble()


@app.task(retry=RETRY)
def insert_plainly(job: Job, number: int, count: int, pause: float) -> None:
    """Insert one row, in a thread."""
    time.sleep(random.uniform(0, pause))
    stumble()
    with telling_stale_runs(job), job.transaction() as session:
        session.execute(row(job, number))
        app.enqueue_many(children(number, count, pause), conn=session)
        stumble()


@app.subscriber("note", retry=RETRY)
async def note(job: Job, said: dict[str, float], event: Event) -> None:
    """Insert one row for a delivery."""
    await asyncio.sleep(random.uniform(0, said["pause"]))
    stumble()
    with telling_stale_runs(job):
        async with job.transaction() as session:
            row = {"publication": event.id, "subscription": event.subscription, "key": said["key"]}
            await session.execute(insert(told).values(job=job.id, run=job.run, **row))
            stumble()


@app.task(queue=INBOX, retry=RETRY)
async def take_once(number: int, pause: float) -> None:
    """Insert one row for a message, unless the inbox knows it. Cancelled, its thread goes on."""
    await asyncio.sleep(random.uniform(0, pause))
    stumble()
    await asyncio.to_thread(write_taken, INBOX, number)


@app.task(queue=ALONE, retry=RETRY)
def take(number: int, pause: float) -> None:
    """Insert one row for a message."""
    time.sleep(random.uniform(0, pause))
    stumble()
    write_taken(ALONE, number)


def write_taken(queue: str, number: int) -> None:
    """Insert the row of a message in a transaction."""
    with engine().begin() as connection:
        if queue == INBOX and not app.inbox(connection).remember(queue, number):
            return
        connection.execute(insert(taken).values(queue=queue, number=number))
        stumble()


@cache
def engine() -> Engine:
    """Return the connections of handlers that have no `job.transaction()`."""
    return create_engine(app.url)


@contextmanager
def telling_stale_runs(job: Job) -> Iterator[None]:
    """Log that a run was rejected: nobody waits for a thread whose worker was taken for gone."""
    try:
        yield
    except StaleRun as stale:
        log.warning("%s", stale, extra={"job": job.id, "run": job.run})
        raise


def row(job: Job, number: int) -> Insert:
    """Return the row of a number, with the run that writes it."""
    return insert(rows).values(number=number, job=job.id, run=job.run)


def children(number: int, count: int, pause: float) -> list[NewJob]:
    """Return the jobs that the one of `number` enqueues: one, or none."""
    following = number + 1
    if has_parent(following) and following < count:
        return [job(following, count, pause)]
    return []
