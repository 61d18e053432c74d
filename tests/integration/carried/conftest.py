"""An application with a carried queue, its effects in the database, and a broker in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from mutirao import Job, Mutirao
from mutirao.errors import TransportError
from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.brokers.message import Message
from mutirao.model.jobs.job import JobState
from mutirao.transports.memory import MemoryTransport
from tests.support.waiting import until

QUEUE = "mail"
QUICK: dict[str, Any] = {"poll": 0.05, "heartbeat": 0.4, "expiry": 9.0, "doorbell_grace": 0.3}


class Broker(MemoryTransport):
    """A broker in memory that keeps what passed."""

    def __init__(self) -> None:
        super().__init__("carried")
        self.passed: list[Message] = []
        self.asked = 0  # how often somebody asked what waits

    async def publish(self, messages: Sequence[Message]) -> list[TransportError | None]:
        """Publish, and keep what passed."""
        found = await super().publish(messages)
        if self.available:
            self.passed += messages
        return found

    async def waiting(self, queue: str) -> int:
        """Return how many messages wait, and count that somebody asked."""
        self.asked += 1
        return await super().waiting(queue)

    def delayed(self) -> int:
        """Return how many messages wait until they come again."""
        return len(self._timers)

    def is_empty(self) -> bool:
        """Return whether no message waits for a consumer."""
        return not self._queues[QUEUE].ready


class Shop:
    """An application with a carried queue, and its effects."""

    def __init__(self, url: str) -> None:
        self.broker = Broker()
        self.app = Mutirao(url, transports={QUEUE: self.broker})

        @self.app.task(queue=QUEUE)
        async def bill(job: Job, order: int) -> None:
            async with job.transaction() as session:
                await session.execute(text("INSERT INTO effect VALUES (:n)"), {"n": order})

        self.bill = bill

    async def open(self) -> None:
        """Make the broker's queue and the table of effects."""
        await self.broker.declare([QUEUE])
        async with self.app.store.engines.asynchronous().begin() as conn:  # type: ignore[attr-defined]
            await conn.execute(text("CREATE TABLE effect (n integer)"))

    async def effects(self) -> list[int]:
        """Return what was done, in order."""
        async with self.app.store.engines.asynchronous().connect() as conn:  # type: ignore[attr-defined]
            return sorted((await conn.execute(text("SELECT n FROM effect"))).scalars())

    async def rung(self) -> list[Doorbell]:
        """Ring what is due, as a relay does."""
        lanes = [head.lane for head in await self.app.store.lanes([QUEUE])]
        return await self.app.store.ring(lanes, 100)

    async def all_done(self, *orders: int) -> None:
        """Wait until these effects are there, once each, and nothing is left at the broker."""

        async def over() -> bool:
            counts = await self.app.acounts()
            return {count.state for count in counts} == {JobState.SUCCEEDED}

        await until(over)
        await until(self.broker.is_empty)
        assert await self.effects() == sorted(orders)


@pytest.fixture
async def shop(migrated_sqlite_url: str) -> AsyncIterator[Shop]:
    """One whose broker and database are empty."""
    shop = Shop(migrated_sqlite_url)
    await shop.open()
    yield shop
    await shop.app.aclose()
