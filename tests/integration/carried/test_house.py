"""Workers that serve carried queues only: one keeps house, the others ask as little as they can."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.errors import ConfigurationError, TransportError
from mutirao.model.brokers.doorbell import doorbells_of
from mutirao.model.brokers.message import Message
from mutirao.sql.store.jobs import SqlStore
from mutirao.sql.store.schedules import SqlSchedules
from mutirao_conformance.kit import newcomer
from tests.integration.carried.conftest import QUEUE, QUICK, Shop
from tests.support.engine import database, duty_of
from tests.support.waiting import until

DUTY = duty_of([QUEUE])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what stores are asked, by the name of the method."""
    counts: Counter[str] = Counter()

    def count(kind: type, name: str) -> None:
        method = getattr(kind, name)

        async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return await method(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, counting)

    for name in ("beat", "held_elsewhere", "lease", "lanes", "rescue", "recall"):
        count(SqlStore, name)
    count(SqlSchedules, "agenda")
    return counts


async def test_others_ask_for_nothing_but_the_duty(shop: Shop, asked: Counter[str]) -> None:
    """While one holds it, they beat, look when they are woken, and ask when it may be free."""
    store = shop.app.store
    other = await store.register(newcomer(), expiry=60.0)
    assert await store.lease(DUTY, other, ttl=60.0, every=0.0)
    asked.clear()
    async with shop.app.worker(queues=[QUEUE], **QUICK | {"heartbeat": 0.1}):
        await until(lambda: asked["beat"] >= 5)
        assert {name for name in asked if asked[name]} == {"beat", "held_elsewhere", "lanes"}
        assert asked["held_elsewhere"] == 1


async def test_a_job_for_one_that_rests(shop: Shop, asked: Counter[str]) -> None:
    """Has it beat at once: its row, which was to live longer, lives as others with a job do."""
    async with shop.app.worker(queues=[QUEUE], **QUICK | {"heartbeat": 60.0, "expiry": 180.0}):
        await until(lambda: asked["beat"] == 1)
        await shop.bill.aenqueue(order=1)
        await until(lambda: asked["beat"] == 2)


async def test_who_holds_the_duty_vanishes(shop: Shop) -> None:
    """Another takes it over, rescues what it had, and sees to schedules."""
    ticked = asyncio.Event()

    @shop.app.schedule(every=timedelta(seconds=0.5))
    @shop.app.task(queue=QUEUE)
    async def tick() -> None:
        ticked.set()

    store = shop.app.store
    await shop.bill.aenqueue(order=1)
    gone = await store.register(newcomer(), expiry=0.1)
    assert await store.lease(DUTY, gone, ttl=0.5, every=0.0)
    assert await store.answer(gone, await shop.rung())
    async with shop.app.worker(queues=[QUEUE], **QUICK):
        await until(lambda: shop.broker.passed)
        await until(ticked.is_set)
        await until(lambda: _done(shop))


async def test_a_relay_alone(shop: Shop) -> None:
    """It carries what is due and what schedules make, so many in a message, and runs nothing."""
    store = shop.app.store

    @shop.app.schedule(every=timedelta(seconds=0.5))
    @shop.app.task(queue=QUEUE)
    async def tick() -> None: ...

    await shop.app.aenqueue_many([shop.bill.job(order=n) for n in range(3)])
    async with shop.app.relay(together=2, **QUICK) as relay:
        await until(lambda: any(message.task == tick.name for message in shop.broker.passed))
        [known] = await shop.app.aworkers()
        assert (known.concurrency, known.serves(QUEUE)) == (0, False)
        assert relay.health().alive
    bills = [doorbells_of(each) for each in shop.broker.passed if each.task == shop.bill.name]
    assert [len(bells) for bells in bills] == [2, 1]
    assert await store.workers() == []
    assert not await shop.effects()


async def test_a_relay_alone_takes_back(shop: Shop) -> None:
    """What is lost, once nothing waits at the broker; what waits there is left alone."""
    await shop.bill.aenqueue(order=1)
    await shop.bill.aenqueue(order=2)
    bells = await shop.rung()
    await shop.broker.publish([bells[0].message()])
    async with shop.app.relay(**QUICK):
        await until(lambda: shop.broker.asked > 4)
        assert len(shop.broker.passed) == 1
        shop.broker.purge(QUEUE)
        await until(lambda: len(shop.broker.passed) >= 3)
    assert {message.run for message in shop.broker.passed[1:]} == {1}


async def test_a_relay_beside_workers(shop: Shop) -> None:
    """A worker still has the duty to take back: it hears what is lost while others wait."""
    async with shop.app.relay(**QUICK), shop.app.worker(queues=[QUEUE], **QUICK):
        await until(lambda: _held(shop, DUTY, duty_of([QUEUE], relay_only=True)))
        await shop.bill.aenqueue(order=1)
        await shop.all_done(1)


async def test_nothing_to_relay(shop: Shop) -> None:
    """It is refused at once, with what to do."""
    with pytest.raises(ConfigurationError, match="no broker carries queue video"):
        shop.app.relay(queues=["video"])
    with pytest.raises(ConfigurationError, match="give 1 to 50"):
        shop.app.relay(together=51)
    with pytest.raises(ConfigurationError, match="nothing to relay"):
        Mutirao(shop.app.url).relay()


async def test_the_end_of_a_relay_alone(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker is asked to confirm is waited for, until the grace period is ended."""
    monkeypatch.setattr(database, "RETIRE_LIMIT", 0.0)
    begun = asyncio.Event()

    async def publish(messages: Sequence[Message]) -> list[TransportError | None]:
        begun.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(shop.broker, "publish", publish)
    await shop.bill.aenqueue(order=1)
    relay = shop.app._make_relay(shop.app._relay_settings(1, QUICK), 1)  # type: ignore[arg-type]
    await relay.start()
    await begun.wait()
    stopping = asyncio.create_task(relay.stop())
    await asyncio.wait([stopping], timeout=0.2)
    assert not stopping.done()
    relay.end_grace()
    await stopping
    assert relay.failure is None


async def _held(shop: Shop, *duties: str) -> bool:
    """Return whether somebody holds each of these duties."""
    store = shop.app.store
    return all([await store.held_elsewhere(each, 0) > 0 for each in duties])


async def _done(shop: Shop) -> bool:
    return await shop.effects() == [1]
