"""What an attempt allocates on its way through a worker, counted in blocks and not in bytes.

A job is fed to the dispatcher, runs, and waits to be settled. What it allocates for itself lives at
the latest until then, so it is counted there, and once more while its handler runs.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.engine.settings import WorkerSettings, identity
from mutirao.model.jobs.job import Claim
from mutirao.model.jobs.outcome import Settlement
from mutirao.testing import MemoryStore
from tests.integration.cost import recorded
from tests.support.engine import (
    Completer,
    Dispatcher,
    Executor,
    LoopHealth,
    Processes,
    Slots,
    Threads,
    WorkerRow,
)
from tests.support.waiting import soon, until

JOBS, MANY = 500, 10_000
NOW = datetime(2025, 1, 1, tzinfo=UTC)


class Settled:
    """The part of a store that settles: it takes note of a number, and keeps nothing."""

    def __init__(self) -> None:
        self.jobs = 0
        self.may_settle = asyncio.Event()

    async def settle(self, worker: int, settlements: Sequence[Settlement]) -> set[int]:
        """Take everything, once it may."""
        await self.may_settle.wait()
        self.jobs += len(settlements)
        return {each.id for each in settlements}


class Line:
    """Dispatcher, executor and completer as a worker puts them together, on a store of nothing."""

    def __init__(self) -> None:
        app = Mutirao(store=MemoryStore())
        self.go_on = asyncio.Event()
        self.ran = 0
        app.task(name="at once")(self._at_once)
        app.task(name="waits")(self._waits)
        self.store = Settled()
        store: Any = self.store
        row = WorkerRow(store, identity(WorkerSettings(), ""), 1)
        settings = WorkerSettings(concurrency=JOBS, linger=0.0)
        self.threads = Threads()
        executor = Executor(app.tasks, (), self.threads, Processes(self.threads))
        pulse = LoopHealth("completer", settings.turn_limit)
        self.completer = Completer(row, settings, executor.alternatives, pulse)
        slots = Slots(settings.concurrency, self.threads)
        self.dispatcher = Dispatcher(
            settings, executor, self.completer, slots, self._no_transaction
        )
        self._loop = asyncio.create_task(self.completer.run())

    async def settled(self, jobs: int) -> None:
        """Wait until so many jobs are settled."""
        await until(lambda: self.store.jobs >= jobs)

    async def close(self) -> None:
        """Settle the rest, and end."""
        self.completer.close()
        await soon(self._loop)
        self.threads.close()

    async def _at_once(self) -> None:
        self.ran += 1

    async def _waits(self) -> None:
        self.ran += 1
        await self.go_on.wait()

    def _no_transaction(self, *_: object) -> Any:
        raise AssertionError("no handler here asks for a transaction")


@pytest.fixture(autouse=True)
def without_collections() -> Iterator[None]:
    """Let nothing be collected but when it is asked for."""
    was_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    if not was_frozen:
        gc.unfreeze()


def claims(task: str, count: int) -> list[Claim]:
    """Return claimed jobs."""
    rest = (None, None, None, None, None, None, None, None)
    return [Claim(10**6 + n, 1, 1, task, "{}", "q", 0, NOW, NOW, *rest) for n in range(count)]


def blocks() -> int:
    """Return how many blocks of memory are in use, what nobody can reach aside."""
    gc.collect()
    return sys.getallocatedblocks()


async def held(line: Line, task: str, count: int) -> float:
    """Feed jobs, and return the blocks that each has in use once all have begun; settle them."""
    fed, expected = claims(task, count), line.ran + count
    line.store.may_settle.clear()
    line.go_on.clear()
    before = blocks()
    line.dispatcher.feed(fed)
    await until(lambda: line.ran == expected)
    each = (blocks() - before) / count
    line.go_on.set()
    line.store.may_settle.set()
    await line.settled(expected)
    return each


@pytest.mark.parametrize("task", recorded.BLOCKS)
async def test_blocks_of_an_attempt(task: str) -> None:
    """Where the handler has ended, and the attempt waits to be settled; and where it still runs."""
    line = Line()
    await held(line, task, JOBS)  # what is made once
    assert await held(line, task, JOBS) <= recorded.BLOCKS[task]
    await line.close()


async def test_nothing_stays() -> None:
    """After many jobs about as many blocks are in use as before."""
    line = Line()
    line.store.may_settle.set()
    for round in range(2):  # the first for what is made once
        before = blocks()
        for fed in range(0, MANY, JOBS):
            line.dispatcher.feed(claims("at once", JOBS))
            await line.settled(round * MANY + fed + JOBS)
    assert line.ran == 2 * MANY
    assert blocks() - before <= recorded.BLOCKS_LEFT
    await line.close()
