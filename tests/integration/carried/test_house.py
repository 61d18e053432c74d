"""Workers that serve carried queues only: one keeps house, the others ask as little as they can."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from mutirao.engine.relay import duty_of
from mutirao.sql.store import SqlStore
from mutirao.testing.conformance.kit import newcomer
from tests.integration.carried.conftest import QUEUE, QUICK, Shop
from tests.support.waiting import until

DUTY = duty_of([QUEUE])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count what stores are asked, by the name of the method."""
    counts: Counter[str] = Counter()

    def count(name: str) -> None:
        method = getattr(SqlStore, name)

        async def counting(self: SqlStore, *args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return await method(self, *args, **kwargs)

        monkeypatch.setattr(SqlStore, name, counting)

    for name in ("beat", "held_elsewhere", "lease", "agenda", "lanes", "rescue", "recall"):
        count(name)
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


async def _done(shop: Shop) -> bool:
    return await shop.effects() == [1]
