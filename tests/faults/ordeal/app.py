"""The application that goes through the ordeal. Each execution is noted in a file of its process.

A file is there whatever becomes of the database, keeps what a killed process has written, and
costs some microseconds. Times are monotonic: the same for all processes of a machine, and not those
of a clock that is made to jump.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import BigInteger, Column, Index, Insert, Integer, MetaData, Table, insert

from mutirao import Job, Limit, Mutirao, Retry, Supersede
from mutirao.transports.rabbitmq import RabbitMQ
from tests.faults.kit.handlers import stumble
from tests.faults.ordeal.stacks import print_on_signal

MOST = 3  # limited jobs at once
PLACE = os.environ.get("ORDEAL_PLACE", "")  # only workers of the ordeal have one
NOTES = 65_536  # bytes in one file of notes: some troubles forbid larger files
RETRY = Retry.fixed(max_attempts=10_000, interval=1.0)
SECOND = timedelta(seconds=1)

# A broker carries one of the queues, if there is one. Only workers have to know it.
BROKER, PREFIX, CARRIED = os.environ.get("ORDEAL_BROKER"), "ordeal", "work"
app = Mutirao(
    os.environ.get("ORDEAL_DATABASE", "sqlite:///ordeal.db"),
    transports={CARRIED: RabbitMQ(BROKER, mode="carried", prefix=PREFIX)} if BROKER else {},
)
metadata = MetaData()
# Nothing here forbids a second row for a job: that is what is tried. Without an index SQLite took
# four minutes to compare 9,000 rows with their attempts, in a snapshot, so that its log grew on.
effects = Table(
    "ordeal_effect",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("job", BigInteger, nullable=False),
    Column("run", Integer, nullable=False),
    Index("ordeal_effect_job", "job", "run"),
)


class Notes:
    """Writes down what begins and ends in this process, in files that `journal` reads."""

    def __init__(self) -> None:
        self._file = -1
        self._left = 0
        self._lock = threading.Lock()

    def write(self, what: str, job: Job, how: str = "-") -> None:
        """Add a line, at once and whole."""
        key = job.key or "-"
        line = f"{what} {time.monotonic():.6f} {job.id} {job.run} {job.task} {key} {how}\n".encode()
        with self._lock:
            if self._left < len(line):
                self._open()
            self._left -= os.write(self._file, line)

    def _open(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        name = f"{PLACE}-{os.getpid()}-{time.monotonic_ns():020}"  # in order, whatever the uptime
        path = Path(os.environ["ORDEAL_NOTES"]) / name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._left = NOTES


notes = Notes()


@contextmanager
def noted(job: Job) -> Iterator[None]:
    """Note the begin and the end of an execution, and how it ended."""
    notes.write("begin", job)
    try:
        yield
    except BaseException as error:
        notes.write("end", job, type(error).__name__)
        raise
    notes.write("end", job, "ok")


def pause(seconds: float) -> None:
    """Wait in a thread. Under libfaketime 0.9.10 `time.sleep` fails with EINVAL instead."""
    threading.Event().wait(seconds)


def effect(job: Job) -> Insert:
    """Return the row that a transactional job writes."""
    return insert(effects).values(job=job.id, run=job.run)


@app.task(queue=CARRIED, retry=RETRY)
async def plain(job: Job) -> None:
    """Wait a little, in a coroutine."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.01, 0.1))
        stumble()


@app.task(queue=CARRIED, retry=RETRY)
def threaded(job: Job) -> None:
    """Wait a little, in a thread."""
    with noted(job):
        pause(random.uniform(0.01, 0.1))
        stumble()


@app.task(queue=CARRIED, retry=RETRY)
async def transact(job: Job) -> None:
    """Write a row and complete in one commit, in a coroutine."""
    with noted(job):
        async with job.transaction() as session:
            await session.execute(effect(job))
            await asyncio.sleep(random.uniform(0, 0.02))
            stumble()


@app.task(queue=CARRIED, retry=RETRY)
def transact_threaded(job: Job) -> None:
    """Write a row and complete in one commit, in a thread."""
    with noted(job), job.transaction() as session:
        session.execute(effect(job))
        pause(random.uniform(0, 0.02))
        stumble()


@app.task(queue=CARRIED, retry=Retry.never())
async def once(job: Job) -> None:
    """Run once, whatever becomes of it."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.01, 0.1))


@app.task(queue="narrow", retry=RETRY, limit=Limit(MOST))
async def limited(job: Job) -> None:
    """Be one of few at once."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.01, 0.06))
        stumble()


@app.task(queue="keyed", retry=RETRY, on_conflict="replace")
async def replaced(job: Job) -> None:
    """Be the only one of its key, the newest."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.01, 0.2))
        stumble()


@app.task(
    queue="keyed", retry=RETRY, supersede=Supersede(by="kind", rules={("new", "new"): "newer"})
)
async def superseded(job: Job, kind: str) -> None:
    """Come after the older ones of its key."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.01, 0.2))
        stumble()


@app.task(retry=RETRY)
async def here(job: Job) -> None:
    """Show that the worker at a place serves: each has a queue of its own."""
    with noted(job):
        await asyncio.sleep(0.01)


@app.schedule(every=SECOND, catch_up="all", catch_up_limit=1_000)
@app.task(queue="clock", retry=RETRY)
async def every_tick(job: Job) -> None:
    """Be made by each tick, also by those that nobody was there for."""
    with noted(job):
        await asyncio.sleep(0.01)


@app.schedule("*/2 * * * * *")
@app.task(queue="clock", retry=RETRY)
async def by_cron(job: Job) -> None:
    """Be made by a cron line."""
    with noted(job):
        await asyncio.sleep(0.01)


@app.schedule(every=SECOND, overlap="skip")
@app.task(queue="clock", retry=RETRY)
async def no_overlap(job: Job) -> None:
    """Be made by ticks that the last one of is over."""
    with noted(job):
        await asyncio.sleep(random.uniform(0.5, 1.5))


TRANSACTIONAL = ("transact", "transact_threaded")
SCHEDULED = ("every_tick", "by_cron", "no_overlap")
QUEUES = (CARRIED, "narrow", "keyed", "clock")


if PLACE:
    print_on_signal()


def queue_at(place: int) -> str:
    """Return the queue that only the worker at a place serves."""
    return f"place-{place}"
