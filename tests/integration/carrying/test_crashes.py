"""By broker alone, with the inbox: whatever dies on a message's way, it has its effect once.

The crash points of an outbox, as far as there are any where the message is in no database, one by
one over a broker in memory. Effects are written in a transaction that asks the inbox.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, NullPool, Table, create_engine, insert, select

from mutirao import Mutirao, Retry
from mutirao.transports.memory import MemoryTransport
from tests.support.waiting import until

metadata = MetaData()
effects = Table("effect", metadata, Column("n", Integer))


class Shop:
    """An application whose queue is by broker alone, and its effects.

    `inside` and `after` are called once each, in the transaction of an effect and after its commit.
    """

    def __init__(self, file: Path) -> None:
        self.file, self.broker = file, MemoryTransport()
        self.app = Mutirao(f"sqlite:///{file}", transports={"mail": self.broker})
        self.inside: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.engine = create_engine(self.app.url, poolclass=NullPool)
        metadata.create_all(self.engine)
        self.repeated: list[int] = []

        @self.app.task(queue="mail", retry=Retry.fixed(9, interval=0.01))
        async def bill(order: int) -> None:
            with self.engine.begin() as conn:
                if self.app.inbox(conn).remember("bill", order):
                    conn.execute(insert(effects).values(n=order))
                else:
                    self.repeated.append(order)
                while self.inside:
                    self.inside.pop()()
            while self.after:
                self.after.pop()()

        self.bill = bill

    async def publish(self, *orders: int) -> None:
        """Publish messages, confirmed by the broker."""
        await self.app.aenqueue_many(self.bill.job(order) for order in orders)

    def done(self) -> list[int]:
        """Return the effects, in order."""
        with self.engine.connect() as conn:
            return sorted(conn.execute(select(effects.c.n)).scalars())

    async def work(self, *done: int, repeated: int = 0) -> None:
        """Let a worker run until these effects are there, and so many repetitions were dropped."""
        async with self.app.worker(queues=["mail"]):
            await until(lambda: len(self.repeated) == repeated and len(self.done()) >= len(done))
        assert self.done() == sorted(done)
        assert await self.broker.dead("mail", 9) == []


@pytest.fixture
async def shop(migrated_file: Path, tmp_path: Path) -> AsyncIterator[Shop]:
    """One whose broker and database are empty."""
    shop = Shop(Path(shutil.copy(migrated_file, tmp_path / "shop.db")))
    await shop.broker.declare(["mail"])
    yield shop
    await shop.app.aclose()


async def test_published_and_not_known(shop: Shop) -> None:
    """Whoever publishes dies before it is written down, and publishes again: that is dropped."""
    await shop.publish(1)
    await shop.publish(1)
    await shop.work(1, repeated=1)


async def test_before_the_acknowledgement(shop: Shop) -> None:
    """The connection breaks when the effect is committed: it comes again, and is dropped."""
    shop.after.append(shop.broker.lose_consumers)
    await shop.publish(1)
    await shop.work(1, repeated=1)


async def test_inside_the_transaction(shop: Shop) -> None:
    """The connection breaks, and the effect is rolled back: the message is new once more."""

    def die() -> None:
        shop.broker.lose_consumers()
        raise ConnectionError

    shop.inside.append(die)
    await shop.publish(1)
    await shop.work(1)


async def test_the_broker_loses_everything(shop: Shop) -> None:
    """Whoever published has to publish again: what had its effect has it no second time."""
    await shop.publish(1)
    await shop.work(1)
    await shop.publish(2, 3)
    shop.broker.purge("mail")
    await shop.publish(1, 2, 3)
    await shop.work(1, 2, 3, repeated=1)


async def test_the_database_is_restored(shop: Shop) -> None:
    """The inbox is as old as the effects: what comes again is done again, but what it knows."""
    await shop.publish(1)
    await shop.work(1)
    await shop.app.aclose()
    backup = shutil.copy(shop.file, f"{shop.file}.backup")
    await shop.publish(2)
    await shop.work(1, 2)
    await shop.app.aclose()
    shutil.copy(backup, shop.file)
    await shop.publish(1, 2)
    await shop.work(1, 2, repeated=1)
