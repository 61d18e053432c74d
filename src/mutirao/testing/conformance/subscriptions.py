"""Subscriptions: which publications each is told of, and how they change at run time."""

from mutirao.model.subscriptions import SubscriptionKind, SubscriptionOrigin
from mutirao.ports import Store
from mutirao.testing.conformance.kit import NOW, at, join, take_one
from mutirao.testing.conformance.topics import (
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)


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
