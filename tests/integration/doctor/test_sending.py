"""The doctor finds subscriptions to no topic, and webhooks and activities that wait."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import text

from mutirao.model.findings import Finding, Level
from mutirao.model.jobs.job import NewJob, NewWorker
from mutirao.model.limits.limits import Limit
from mutirao.model.topics.subscriptions import Subscription
from mutirao.model.webhooks.endpoints import WEBHOOK_QUEUE, WEBHOOK_TASK, Endpoint
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from tests.support.history import opened

OK, WARNING = Level.OK, Level.WARNING


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A store over an empty database."""
    async with opened(migrated_url) as store:
        yield store


async def examine(store: SqlStore, about: str, *known: str) -> list[Finding]:
    """Return what is found about something, for an application with the task `send` and more."""
    found = await doctor.examine(store.engines, {"send", *known})
    return [each for each in found if each.about == about]


async def test_subscriptions_to_no_topic(store: SqlStore) -> None:
    """A misspelt topic is named; not for an application that publishes nothing."""
    job = NewJob(task="send")
    for id, topic in (("a", "order.*"), ("b", "order.palced")):
        await store.subscriptions.put(Subscription(id=id, topic=topic, job=job))
    (topics,) = await examine(store, "topics", "topic:order.placed")
    assert (topics.level, topics.found.endswith(": 'b to order.palced'")) == (WARNING, True)
    assert not await examine(store, "topics")
    await store.subscriptions.remove("b")
    (topics,) = await examine(store, "topics", "topic:order.placed")
    assert topics.level is OK
    topics_of_erp = ("order.placed", "*", "order.piad")
    await store.endpoints.put(Endpoint(id="erp", url="https://erp.example", topics=topics_of_erp))
    (topics,) = await examine(store, "topics", "topic:order.placed")
    assert topics.found.endswith(": 'endpoint:erp to order.piad'")


async def test_limits_of_subscriptions_that_were_deleted_by_hand(store: SqlStore) -> None:
    """They are named: deliveries that are left count by them."""
    for id in ("a", "b"):
        asked = Subscription(id=id, topic="*", job=NewJob(task="send"), limits=(Limit(2),))
        await store.subscriptions.put(asked)
    [limits] = await examine(store, "limits")
    assert limits.level is OK
    with store.engines.sync().begin() as connection:
        connection.execute(text("DELETE FROM mutirao_subscription WHERE id = 'b'"))
    [limits] = await examine(store, "limits")
    assert (limits.level, "'subscription b' are of subs" in limits.found) == (WARNING, True)
    assert await store.limits.remove("subscription b")
    [limits] = await examine(store, "limits")
    assert limits.level is OK


async def test_endpoints_that_were_deleted_by_hand(store: SqlStore) -> None:
    """They are named, and removed like any other; so are those whose subscription is gone."""
    for id in ("crm", "erp", "web"):
        asked = Endpoint(id=id, url=f"https://{id}.example", topics=("a", "b"), rate=3)
        await store.endpoints.put(asked)
    await store.endpoints.pause("erp")
    assert not await examine(store, "endpoints")
    with store.engines.sync().begin() as connection:
        connection.execute(text("DELETE FROM mutirao_endpoint WHERE id = 'erp'"))
        connection.execute(text("DELETE FROM mutirao_subscription WHERE id = 'endpoint:crm'"))
    gone, untold = await examine(store, "endpoints")
    assert ("'erp' were deleted by hand" in gone.found, gone.level) == (True, WARNING)
    assert ("subscriptions of 'crm' were" in untold.found, untold.level) == (True, WARNING)
    assert not await examine(store, "limits")
    assert await store.endpoints.remove("erp")
    assert await store.endpoints.remove("crm")
    assert not await store.endpoints.remove("erp")
    assert not await examine(store, "endpoints")
    assert [each.key for each in await store.limits.listed()] == ["web"]


async def test_webhooks_and_activities_that_wait(store: SqlStore) -> None:
    """What waits for their workers, or is held, has commands of its own."""
    await store.endpoints.put(Endpoint(id="erp", url="https://erp.example", topics=("a",)))
    await store.endpoints.pause("erp")
    await store.federation.change_host(
        "b.example", lambda was, _: replace(was, held=True), queue="q"
    )
    delivery = NewJob(task=WEBHOOK_TASK, queue=WEBHOOK_QUEUE, args='{"endpoint": "erp"}')
    await store.aenqueue([delivery])
    endpoints, hosts = await examine(store, "limits")
    assert "endpoints list" in str(endpoints.advice)
    assert "hosts list" in str(hosts.advice)
    webhooks, *_ = await examine(store, "tasks")
    assert "--webhooks" in str(webhooks.advice)
    worker = NewWorker(
        name="w", host="h", pid=1, queues=(WEBHOOK_QUEUE,), concurrency=2, version="1.0"
    )
    await store.register(worker, expiry=600)
    (tasks,) = await examine(store, "tasks")
    assert tasks.level is OK
