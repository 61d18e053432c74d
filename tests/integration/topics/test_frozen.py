"""A worker that stands still while it has locked a subscription with an order, on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from mutirao.errors import StoreBusy
from mutirao.model.jobs.outcome import completion
from mutirao.sql.dialects.postgresql import admin
from mutirao.sql.schema import tables
from mutirao.sql.statements.topics import FanOut
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import job_of, join, take
from mutirao_conformance.topics import (
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)

IN_ORDER = subscription("in_order", order_by="order_id")
SOON, LATE = 0.2, 100.0  # seconds


@pytest.fixture
async def store(migrated_postgresql_url: str) -> AsyncIterator[SqlStore]:
    """A store with two subscriptions."""
    store = SqlStore(migrated_postgresql_url)
    await subscribe(store, IN_ORDER, "mail")
    yield store
    await store.close()


async def test_other_subscriptions_do_not_wait(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt fails, and the next one finds what is left to do."""
    monkeypatch.setattr(admin, "WAITED_FOR", SOON)
    id = await publish(store)
    [claim] = await take(store, await join(store))
    with store.engines.sync().begin() as other:
        its = tables.subscription.c.id
        other.execute(select(its).where(its == IN_ORDER.id).with_for_update())
        with pytest.raises(StoreBusy, match="a lock was not to be had in time"):
            await fan_out(store, claim)
        assert [task for task, _ in await deliveries(store, id)] == ["mail"]
    assert await fan_out(store, claim) == 1
    assert [task for task, _ in await deliveries(store, id)] == ["in_order", "mail"]


async def test_its_transaction_is_ended(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server: whoever waits goes on, and tells of both publications."""
    monkeypatch.setattr(admin, "HELD_FOR", SOON)
    monkeypatch.setattr(admin, "WAITED_FOR", LATE)
    ids = [await publish(store) for _ in range(2)]
    first, second = await take(store, await join(store), 2)
    dialect = store.engines.dialect

    def stand_still(*_: object) -> None:
        raise InterruptedError

    with store.engines.sync().connect() as frozen:
        part = FanOut(dialect, stand_still, lambda *_: set(), 10)  # type: ignore[arg-type]
        with pytest.raises(InterruptedError):
            part.go_on(frozen, job_of(first), completion(job_of(first), 0.0), None)
        monkeypatch.setattr(admin, "HELD_FOR", LATE)
        assert await fan_out(store, second) == 1
        with pytest.raises(DBAPIError, match="idle-in-transaction timeout"):
            frozen.execute(select(1))
    seen = [[task for task, _ in await deliveries(store, id)] for id in ids]
    assert seen == [["in_order"], ["in_order", "mail"]]
