"""Subscriptions: which publications each is told of, and how they change at run time."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from mutirao.errors import InvalidSubscription, UnknownSubscription
from mutirao.model.moments import EPOCH
from mutirao.model.subscriptions import Replay, SubscriptionKind, SubscriptionOrigin
from mutirao.ports import Store
from mutirao.testing.conformance.kit import FAR_AHEAD, NOW, at, job_of, join, take, take_one
from mutirao.testing.conformance.topics import (
    TOPIC,
    Noted,
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)

SECOND = timedelta(seconds=1)


async def told(store: Store, worker: int, payload: str = "{}", **whose: str) -> set[str]:
    """Publish and fan out; return who was told."""
    id = await publish(store, payload=payload, **whose)
    await fan_out(store, await take_one(store, worker))
    return {task for task, _ in await deliveries(store, id)}


class SubscriptionsContract:
    """Who is told of what is published."""

    async def test_which_publications(self, store: Store) -> None:
        """Tenant, group and filter are open, or have to be so."""
        worker = await join(store)
        await subscribe(
            store, subscription("open"), subscription("acme", tenant="acme"),
            subscription("north", "order.*", tenant="acme", group="north"),
            subscription("groups", "*", group="north"),
            subscription("big", filter={"total": {"in": [5, 1e6]}, "to.country": "Zoë"}),
            subscription("free", "order.*", tenant="acme", filter={"coupon": {"exists": True}}),
        )  # fmt: skip
        assert await told(store, worker) == {"open"}
        assert await told(store, worker, tenant="other", group="south") == {"open"}
        assert await told(store, worker, group="north") == {"open", "groups"}
        acme = {"open", "acme"}
        assert await told(store, worker, tenant="acme") == acme
        north = await told(store, worker, tenant="acme", group="north")
        assert north == {*acme, "north", "groups"}
        free = await told(store, worker, '{"coupon":null}', tenant="acme")
        assert free == {*acme, "free"}
        big = '{"total":1000000,"to":{"country":"Zoë"}}'
        assert await told(store, worker, big) == {"open", "big"}

    async def test_replayed(self, store: Store) -> None:
        """What fits is told again, in parts; what a worker comes to is left to it."""
        worker = await join(store)
        await subscribe(store, "mail", subscription("other", "*", filter={"n": {"in": [1, 3]}}))
        ids = [await publish(store, payload=f'{{"n":{n}}}', group="g") for n in range(4)]
        for claim in await take(store, worker, 4):
            await fan_out(store, claim)
        waiting = await publish(store, payload='{"n":3}')
        asked = Replay(subscription="other", since=EPOCH)
        assert (await store.replay(asked, 0)).deliveries == 2
        assert (await store.replay(asked, ids[1])).deliveries == 1
        assert await store.replay(replace(asked, missing=True), 0) == (0, None)
        nobody = await store.replay(replace(asked, until=EPOCH + SECOND), 0)
        assert nobody == (0, None)
        assert [task for task, _ in await deliveries(store, waiting)] == []
        told = [task for task, _ in await deliveries(store, ids[3])]
        assert told == ["mail", "other", "other", "other"]
        first, *_ = [c for c in await take(store, worker, 99, now=FAR_AHEAD) if c.task == "other"]
        assert json.loads(first.args)["event"]["subscription"] == "other"
        new = replace(asked, subscription="new", topic=TOPIC, missing=True)
        with pytest.raises(UnknownSubscription, match="no subscription 'new'"):
            await store.replay(new, 0)
        await subscribe(store, subscription("new", group="g"))
        assert await store.replay(new, 0) == (4, None)
        assert await store.replay(new, 0) == (0, None)
        with pytest.raises(InvalidSubscription, match=r"is told of order\.placed, and not of a"):
            await store.replay(replace(new, topic="a"), 0)

    async def test_a_newcomer_beside_a_worker(self, store: Store) -> None:
        """Each publication is told once, also one of which half was told when it came."""
        worker = await join(store)
        await subscribe(store, *(f"s{n:04}" for n in range(1_500)))
        id = await publish(store)
        claim = await take_one(store, worker)
        last = await store.fan_out(job_of(claim), Noted(), None)
        for each in ("s0000.early", "s1400.late"):
            await subscribe(store, each)
            await store.replay(Replay(subscription=each, since=EPOCH, missing=True), 0)
        while last is not None:
            last = await store.fan_out(job_of(claim), Noted(), last)
        told = [task for task, _ in await deliveries(store, id)]
        assert len(told) == len(set(told)) == 1_502

    async def test_at_run_time(self, store: Store) -> None:
        """What was changed stays until the code says something else; what is paused stays so."""
        worker = await join(store)
        await store.put_subscription(subscription("mail"), worker="w", now=NOW)
        assert await store.set_subscription_active("mail", False, now=at(1))
        changed = subscription("mail", tenant="acme", filter={"a": [1]}, queue="slow")
        await store.put_subscription(changed, now=at(2))
        await store.put_subscription(subscription("mail"), worker="w", now=at(3))
        [record] = await store.subscriptions()
        assert (record.tenant, record.filter, record.queue) == ("acme", {"a": [1]}, "slow")
        assert (record.active, record.changed_at, record.declared_at) == (False, at(2), at(3))
        await store.put_subscription(subscription("mail", queue="q"), worker="w", now=at(4))
        [record] = await store.subscriptions()
        assert (record.tenant, record.group, record.filter, record.queue) == (None,) * 3 + ("q",)
        assert await told(store, worker) == set()
        assert await store.set_subscription_active("mail", True, now=at(5))
        assert await told(store, worker) == {"mail"}
        [record] = await store.subscriptions()
        assert (record.waiting, record.running, record.in_code) == (1, 0, False)
        assert record.lag is not None
        assert record.lag > 0
        assert await store.remove_subscription("mail")
        assert not await store.remove_subscription("mail")
        assert not await store.set_subscription_active("mail", True)
        endpoint = subscription("mail", kind=SubscriptionKind.ENDPOINT)
        await store.put_subscription(endpoint, now=at(6))
        [record] = await store.subscriptions()
        assert (record.kind, record.origin) == (endpoint.kind, SubscriptionOrigin.CALL)
        assert (record.active, record.declared_by) == (True, None)
