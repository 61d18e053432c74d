"""What the views say of publications, deliveries and subscriptions, on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, text

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import at, finish, join, take_one
from mutirao_conformance.topics import (
    delivered,
    fan_out,
    publish,
    subscribe,
    subscription,
)
from tests.support.history import opened

LATE = at(10**9)


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Return what a statement finds."""
    engine = create_engine(url)
    with engine.connect() as conn:
        found = [tuple(row) for row in conn.execute(text(statement))]
    engine.dispose()
    return found


async def some_of_each(store: SqlStore) -> tuple[int, int]:
    """Publish twice: deliveries of the first are in all states, nobody has come to the other."""
    worker = await join(store, expiry=10**10)
    first, claims = await delivered(store, worker, "cancelled", "dead", "done", "running")
    by_task = {claim.task: claim for claim in claims}
    await finish(store, worker, [by_task["done"]], now=LATE)
    await finish(store, worker, [by_task["dead"]], OutcomeKind.DEAD, now=LATE)
    await finish(store, worker, [by_task["cancelled"]], OutcomeKind.CANCELLED, now=LATE)
    await subscribe(store, subscription("waiting", tenant="acme"))
    second = await publish(store, "order.paid", tenant="acme")
    return first, second


async def test_publications(migrated_url: str) -> None:
    """Their deliveries are counted by state, and told one by one."""
    async with opened(migrated_url) as store:
        first, second = await some_of_each(store)
    counted = rows(
        migrated_url,
        "SELECT id, topic, state, deliveries, waiting, running, succeeded, dead, cancelled, tenant,"
        " published_at IS NULL, finished_at IS NULL FROM mutirao_publications ORDER BY id",
    )
    assert counted == [
        (first, "order.placed", "succeeded", 4, 0, 1, 1, 1, 1, None, 0, 0),
        (second, "order.paid", "waiting", 0, 0, 0, 0, 0, 0, "acme", 0, 1),
    ]
    found = rows(
        migrated_url,
        "SELECT publication, subscription, nth, topic, task, state, published_at IS NULL"
        " FROM mutirao_deliveries ORDER BY subscription",
    )
    states = {"cancelled": "cancelled", "dead": "dead", "done": "succeeded", "running": "running"}
    assert found == [
        (first, name, 0, "order.placed", name, state, 0) for name, state in states.items()
    ]


async def test_subscriptions(migrated_url: str) -> None:
    """How far behind each is: since when the first delivery was published that has not ended."""
    async with opened(migrated_url) as store:
        worker = await join(store, expiry=10**10)
        _, claims = await delivered(store, worker, "busy", "idle")
        idle = [claim for claim in claims if claim.task == "idle"]
        await finish(store, worker, idle, now=LATE)
        await subscribe(store, subscription("late", "order.paid"))
        await publish(store, "order.paid")
        await fan_out(store, await take_one(store, worker))
        found = {each.id: each for each in await store.subscriptions.listed()}
    assert {name: (each.waiting, each.running) for name, each in found.items()} == {
        "busy": (0, 1), "idle": (0, 0), "late": (1, 0),
    }  # fmt: skip
    assert found["idle"].lag is None
    assert found["busy"].lag is not None
    assert found["late"].lag is not None
    assert found["busy"].lag >= found["late"].lag >= 0
