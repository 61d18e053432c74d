"""Whatever dies between a commit and an acknowledgement: each job has its effect once.

The crash points of an outbox, one by one, over a broker in memory. Effects are written in
`job.transaction()`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import make_url

from mutirao.errors import TransportError
from mutirao.model.brokers.message import Message
from mutirao.model.jobs.job import JobState, NewJob
from mutirao.transports.memory import MemoryTransport
from mutirao_conformance.kit import newcomer
from tests.integration.carried.conftest import QUEUE, QUICK, Shop
from tests.support.engine import doorbells
from tests.support.waiting import until


async def test_before_the_relay(shop: Shop) -> None:
    """Committed and not yet rung: it is carried later. Rolled back: it never was."""
    async with shop.app.store.engines.asynchronous().connect() as conn:  # type: ignore[attr-defined]
        await shop.bill.using(conn=conn).aenqueue(order=1)
        await conn.rollback()
        await shop.bill.using(conn=conn).aenqueue(order=2)
        await conn.commit()
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(2)
    assert [message.task for message in shop.broker.passed] == [shop.bill.name]


async def test_a_relay_dies_before_it_publishes(shop: Shop) -> None:
    """What it had rung is rung again after the grace, with the next run."""
    await shop.bill.aenqueue(order=1)
    [bell] = await shop.rung()
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1)
    assert shop.broker.passed[0].run == bell.run + 1


async def test_published_without_a_confirmation(shop: Shop) -> None:
    """It is taken back and published twice, as the same message: the second one is stale."""
    await shop.bill.aenqueue(order=1)
    for _ in range(2):
        bells = await shop.rung()
        await shop.broker.publish([bell.message() for bell in bells])
        assert await shop.app.store.unring(bells) == {bells[0].id}
    assert len({message.id for message in shop.broker.passed}) == 1
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1)


async def test_the_broker_is_away(shop: Shop) -> None:
    """What it does not take waits in its lane, and is carried when it is back."""
    shop.broker.available = False
    await shop.bill.aenqueue(order=1)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        shop.broker.available = True
        await shop.all_done(1)


async def test_before_the_acknowledgement(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection breaks when the job is claimed: its doorbell comes again, and is stale."""
    broken: list[Sequence[object]] = []
    settle = MemoryTransport.settle

    def breaking(self: MemoryTransport, consumer: Any, settling: Any) -> TransportError | None:
        if not broken:
            broken.append([settling])
            self.lose_consumers()
        return settle(self, consumer, settling)

    monkeypatch.setattr(MemoryTransport, "settle", breaking)
    await shop.bill.aenqueue(order=1)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1)
    assert broken


async def test_inside_the_transaction(shop: Shop) -> None:
    """A worker vanishes that had answered: its job is rescued, and carried to another one."""
    await shop.bill.aenqueue(order=1)
    bells = await shop.rung()
    await shop.broker.publish([bell.message() for bell in bells])
    gone = await shop.app.store.register(newcomer(), expiry=0.1)
    [claim] = await shop.app.store.answer(gone, bells)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1)
    assert [message.run for message in shop.broker.passed] == [0, claim.run + 1]


async def test_the_broker_loses_everything(shop: Shop) -> None:
    """Within the grace all is rung again; what survived somewhere is stale."""
    await shop.app.aenqueue_many([shop.bill.job(order=n) for n in range(20)])
    bells = await shop.rung()
    old = [bell.message() for bell in bells]
    await shop.broker.publish(old)
    shop.broker.purge(QUEUE)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await until(lambda: len(shop.broker.passed) >= 40)
        await shop.broker.publish(old)
        await shop.all_done(*range(20))
    assert {message.run for message in shop.broker.passed[20:40]} == {1}


async def test_the_database_is_restored(shop: Shop) -> None:
    """What it knew then happens again, in it: doorbells of later say nothing but where to look."""
    await shop.bill.aenqueue(order=1)
    [bell] = await shop.rung()
    await shop.app.aclose()
    file = make_url(shop.app.url).database
    assert file
    shutil.copy(file, f"{file}.backup")
    await shop.broker.publish([bell.message()])
    await shop.bill.aenqueue(order=2)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1, 2)
    await shop.app.aclose()
    shutil.copy(f"{file}.backup", file)
    later = shop.broker.passed[-1]
    await shop.broker.publish([later])
    await shop.bill.aenqueue(order=3)  # has the id that order 2 had
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1, 3)


async def test_short_jobs_travel_together(shop: Shop) -> None:
    """Once it is known how short they are; each is done once, however full the slots are."""
    async with shop.app.worker(queues=[QUEUE], concurrency=2, prefetch=600.0, **QUICK):
        await shop.bill.aenqueue(order=0)
        await shop.all_done(0)
        await shop.app.aenqueue_many([shop.bill.job(order=n) for n in range(1, 120)])
        await shop.all_done(*range(120))
    assert len(shop.broker.passed) <= 4


async def test_what_is_no_doorbell(shop: Shop) -> None:
    """Others' messages are dead, and keep nobody from the next."""
    shop.broker.publish_raw(QUEUE, b"hello")
    await shop.broker.publish([Message(id="x", task=shop.bill.name, queue=QUEUE)])
    await shop.bill.aenqueue(order=1)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(1)
    assert len(await shop.broker.dead(QUEUE, 9)) == 2


async def test_a_task_that_no_worker_has(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Told once; its job is rung again and again, and its doorbells do not become more."""
    monkeypatch.setattr(doorbells, "UNKNOWN_FIRST", 0.02)
    [id] = await shop.app.store.aenqueue([NewJob(task="later", args="{}", queue=QUEUE)])

    def rung() -> list[Message]:
        return [each for each in shop.broker.passed if each.task == "later"]

    async with shop.app.worker(queues=[QUEUE], **QUICK):
        for order in range(4):  # others go on, and tell that doorbells are answered
            await shop.bill.aenqueue(order=order)
            await until(lambda: len({each.run for each in rung()}) > order)  # noqa: B023
            assert shop.broker.delayed() <= 2  # the old one is about to be dropped
    assert sum("no such task here: later" in line for line in caplog.messages) == 1
    shop.app.task(name="later", queue=QUEUE)(lambda: None)
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await shop.all_done(*range(4))
    assert (await shop.app.ajob(id)).state is JobState.SUCCEEDED
