"""Subscriptions: which publications each gets, and how they change at run time."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mutirao.errors import InvalidSubscription, StoreRefused, UnknownSubscription
from mutirao.model.jobs.claim import Claim
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.model.limits.limits import Limit
from mutirao.model.moments import EPOCH
from mutirao.model.topics.subscriptions import (
    Replay,
    Subscription,
    SubscriptionKind,
    SubscriptionOrigin,
    scope_of,
)
from mutirao.ports import Store
from mutirao.sql.statements.doctor import examine
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    finish,
    job_of,
    join,
    take,
    take_one,
)
from mutirao_conformance.rows import rewrite
from mutirao_conformance.topics import (
    TOPIC,
    Noted,
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)

SECOND = timedelta(seconds=1)
# Values that a user may write into a subscription's row, from which no delivery can be made.
SPOILT = {
    "a filter that is no JSON": {"filter": "{"},
    "a filter that is none": {"filter": '{"a":{"like":1}}'},
    "options that are no JSON": {"options": '{"delay":'},
    "options that are no object": {"options": "[1]"},
    "an option of another type": {"options": '{"max_attempts":"many"}'},
    "options of numbers without end": {"options": f'{{"timeout":{"9" * 5_000}}}'},
    "what no job may be": {"options": '{"max_attempts":-1}'},
}
# Each among others that are plain; among others, what is no JSON and what is JSON.
SPOILT_AMONG = [
    *(("plain", what) for what in SPOILT),
    *(("filtered", what) for what in ("a filter that is no JSON", "what no job may be")),
    *(("in order", what) for what in ("options that are no JSON", "an option of another type")),
]
LATER = at(10**9)  # deliveries are due by the clock of the database


async def receivers(store: Store, worker: int, payload: str = "{}", **whose: str) -> set[str]:
    """Publish and fan out; return the tasks that got a delivery."""
    id = await publish(store, payload=payload, **whose)
    await fan_out(store, await take_one(store, worker))
    return {task for task, _ in await deliveries(store, id)}


def keyed(id: str = "mail", **how: Any) -> Subscription:
    """Return a subscription of which one delivery of each receiver waits, or runs."""
    return subscription(id, key="to.id", unique=Unique(scope=scope_of(id), **how))


async def published(store: Store, worker: int, *receivers: object) -> list[int]:
    """Publish something for each of these, and fan out."""
    ids = [await publish(store, payload=json.dumps({"to": {"id": each}})) for each in receivers]
    for claim in await take(store, worker):
        await fan_out(store, claim)
    return ids


def args_of(claim: Claim) -> dict[str, Any]:
    """Return the arguments of a claim."""
    found: dict[str, Any] = json.loads(claim.args)
    return found


class SubscriptionsContract:
    """Which subscriptions get a publication."""

    async def test_which_publications(self, store: Store) -> None:
        """Tenant, group and filter match any value, or must be equal."""
        worker = await join(store)
        await subscribe(
            store, subscription("open"), subscription("acme", tenant="acme"),
            subscription("north", "order.*", tenant="acme", group="north"),
            subscription("groups", "*", group="north"),
            subscription("big", filter={"total": {"in": [5, 1e6]}, "to.country": "Zoë"}),
            subscription("free", "order.*", tenant="acme", filter={"coupon": {"exists": True}}),
        )  # fmt: skip
        assert await receivers(store, worker) == {"open"}
        assert await receivers(store, worker, tenant="other", group="south") == {"open"}
        assert await receivers(store, worker, group="north") == {"open", "groups"}
        acme = {"open", "acme"}
        assert await receivers(store, worker, tenant="acme") == acme
        north = await receivers(store, worker, tenant="acme", group="north")
        assert north == {*acme, "north", "groups"}
        free = await receivers(store, worker, '{"coupon":null}', tenant="acme")
        assert free == {*acme, "free"}
        big = '{"total":1000000,"to":{"country":"Zoë"}}'
        assert await receivers(store, worker, big) == {"open", "big"}

    async def test_one_delivery_of_a_key(self, store: Store) -> None:
        """A publication makes none while one waits or runs; other keys, and no key, do."""
        await subscribe(store, keyed(), keyed("other"), "audit")
        worker = await join(store)
        first, second, *others = await published(store, worker, 7, 7, 8, None, None)
        for id in (first, *others):
            assert [task for task, _ in await deliveries(store, id)] == ["audit", "mail", "other"]
        assert [task for task, _ in await deliveries(store, second)] == ["audit"]
        claims = [claim for claim in await take(store, worker, now=LATER) if claim.task == "mail"]
        assert sorted(str(claim.key) for claim in claims) == ["7", "8", "None", "None"]
        [again] = await published(store, worker, 7)  # while it runs
        assert [task for task, _ in await deliveries(store, again)] == ["audit"]
        await finish(store, worker, claims, now=LATER)
        [last] = await published(store, worker, 7)
        assert [task for task, _ in await deliveries(store, last)] == ["audit", "mail"]
        replayed = await store.subscriptions.replay(Replay(subscription="mail", since=EPOCH), 0)
        assert replayed == (3, None)  # of 8, and those without a key
        missing = Replay(subscription="mail", since=EPOCH, missing=True)
        assert await store.subscriptions.replay(missing, 0) == (0, None)  # one of 7 waits
        await finish(store, worker, await take(store, worker, 99, now=LATER), now=LATER)
        assert await store.subscriptions.replay(missing, 0) == (
            1,
            None,
        )  # of both of 7 that were left out
        assert [task for task, _ in await deliveries(store, second)] == ["audit", "mail"]
        assert await store.subscriptions.replay(missing, 0) == (0, None)
        [record] = [each for each in await store.subscriptions.listed() if each.id == "mail"]
        assert record.key == "to.id"

    async def test_the_newest_of_a_key(self, store: Store) -> None:
        """It takes the place of one that waits, and comes after one that runs."""
        await subscribe(store, keyed(on_conflict=OnConflict.REPLACE))
        worker = await join(store)
        first, second = await published(store, worker, 7, 7)
        [(_, old)], [(_, new)] = await deliveries(store, first), await deliveries(store, second)
        assert (await store.job(old)).state == "cancelled"
        [claim] = await take(store, worker, now=LATER)
        assert (claim.id, json.loads(claim.args)["event"]["id"]) == (new, second)
        await published(store, worker, 7)
        assert await take(store, worker, now=LATER) == []
        await finish(store, worker, [claim], now=LATER)
        assert len(await take(store, worker, now=LATER)) == 1

    async def test_waits_of_a_subscription(self, store: Store) -> None:
        """Its deliveries bring them, and have one attempt more; those of others do not."""
        asked = subscription("mail")
        waits = replace(asked, retry=(5.0, 60.0), job=replace(asked.job, max_attempts=3))
        await store.subscriptions.put(waits)
        await store.subscriptions.put(replace(asked, id="other", limits=(Limit(2),)))
        worker = await join(store)
        await published(store, worker, 1)
        claims = await take(store, worker, now=LATER)
        brought = {args["event"]["subscription"]: args for args in map(args_of, claims)}
        assert (brought["mail"]["retry"], "retry" in brought["other"]) == ([5.0, 60.0], False)
        assert {claim.max_attempts for claim in claims} == {3, None}
        assert all(claim.args.startswith('{"subscription":') for claim in claims)
        await store.subscriptions.put(asked)
        await published(store, worker, 1)
        [usual] = [c for c in await take(store, worker, now=LATER) if "other" not in c.args]
        assert (usual.max_attempts, "retry" in args_of(usual)) == (None, False)

    async def test_a_limit_of_a_subscription(self, store: Store) -> None:
        """It counts its own deliveries, of all workers; without it those that waited may run."""
        asked = subscription("mail", limits=(Limit(2), Limit(100, per=60, burst=100)))
        await store.subscriptions.put(asked)
        await store.subscriptions.put(replace(asked, id="other", limits=()))
        worker, colleague = await join(store), await join(store)
        await published(store, worker, 1, 2, 3)
        claims = await take(store, worker, 4, now=LATER) + await take(store, colleague, now=LATER)
        mine = [json.loads(claim.args)["event"]["subscription"] for claim in claims]
        assert sorted(mine) == ["mail", "mail", "other", "other", "other"]
        await finish(store, worker, [c for c in claims if '"mail"' in c.args][:1], now=LATER)
        assert len(await take(store, worker, now=LATER)) == 1
        [most, _] = [limit for limit in await store.limits.listed() if limit.running or limit.per]
        assert (most.name, most.running) == ("subscription mail", 2)
        await store.subscriptions.put(asked, worker="w")  # declared: what was asked for stays
        await published(store, worker, 4)
        assert len(await take(store, worker, now=LATER)) == 1
        assert await store.subscriptions.remove("mail")
        assert len(await take(store, worker, now=LATER)) == 1
        assert await store.limits.listed() == []

    async def test_replayed(self, store: Store) -> None:
        """Matching publications are delivered again, in parts, except by a fan-out that goes on."""
        worker = await join(store)
        await subscribe(store, "mail", subscription("other", "*", filter={"n": {"in": [1, 3]}}))
        ids = [await publish(store, payload=f'{{"n":{n}}}', group="g") for n in range(4)]
        for claim in await take(store, worker, 4):
            await fan_out(store, claim)
        waiting = await publish(store, payload='{"n":3}')
        asked = Replay(subscription="other", since=EPOCH)
        assert (await store.subscriptions.replay(asked, 0)).deliveries == 2
        assert (await store.subscriptions.replay(asked, ids[1])).deliveries == 1
        assert await store.subscriptions.replay(replace(asked, missing=True), 0) == (0, None)
        nobody = await store.subscriptions.replay(replace(asked, until=EPOCH + SECOND), 0)
        assert nobody == (0, None)
        assert [task for task, _ in await deliveries(store, waiting)] == []
        tasks = [task for task, _ in await deliveries(store, ids[3])]
        assert tasks == ["mail", "other", "other", "other"]
        first, *_ = [c for c in await take(store, worker, 99, now=FAR_AHEAD) if c.task == "other"]
        assert json.loads(first.args)["event"]["subscription"] == "other"
        new = replace(asked, subscription="new", topic=TOPIC, missing=True)
        with pytest.raises(UnknownSubscription, match="no subscription 'new'"):
            await store.subscriptions.replay(new, 0)
        await subscribe(store, subscription("new", group="g"))
        assert await store.subscriptions.replay(new, 0) == (4, None)
        assert await store.subscriptions.replay(new, 0) == (0, None)
        with pytest.raises(InvalidSubscription, match=r"is to order\.placed, and not to a"):
            await store.subscriptions.replay(replace(new, topic="a"), 0)

    async def test_patterns_are_as_they_are_written(self, store: Store) -> None:
        """No letter matches another: with an order, and in a replay."""
        worker = await join(store)
        pattern = "a_b.*"
        await subscribe(
            store, subscription("mail", pattern), subscription("led", pattern, order_by="n")
        )
        names = ("A_b.c", "axb.c", "a_b.c")
        others = [await publish(store, topic) for topic in names]
        mine = others.pop()
        claims = {claim.id: claim for claim in await take(store, worker, 3)}
        await fan_out(store, claims[mine])
        assert [task for task, _ in await deliveries(store, mine)] == ["led", "mail"]
        for id in others:
            await fan_out(store, claims[id])
            assert await deliveries(store, id) == []
        assert await store.subscriptions.replay(Replay(subscription="mail", since=EPOCH), 0) == (
            1,
            None,
        )

    async def test_a_newcomer_beside_a_worker(self, store: Store) -> None:
        """Each publication is delivered once, also one whose fan-out was half done."""
        worker = await join(store)
        await subscribe(store, *(f"s{n:04}" for n in range(1_500)))
        id = await publish(store)
        claim = await take_one(store, worker)
        last = await store.subscriptions.fan_out(job_of(claim), Noted(), None)
        for each in ("s0000.early", "s1400.late"):
            await subscribe(store, each)
            await store.subscriptions.replay(
                Replay(subscription=each, since=EPOCH, missing=True), 0
            )
        while last is not None:
            last = await store.subscriptions.fan_out(job_of(claim), Noted(), last)
        tasks = [task for task, _ in await deliveries(store, id)]
        assert len(tasks) == len(set(tasks)) == 1_502

    async def test_at_run_time(self, store: Store) -> None:
        """A change stays until the code has something else; a disabled one stays disabled."""
        worker = await join(store)
        await store.subscriptions.put(subscription("mail"), worker="w", now=NOW)
        assert await store.subscriptions.set_active("mail", False, now=at(1))
        changed = subscription("mail", tenant="acme", filter={"a": [1]}, queue="slow")
        await store.subscriptions.put(changed, now=at(2))
        await store.subscriptions.put(subscription("mail"), worker="w", now=at(3))
        [record] = await store.subscriptions.listed()
        assert (record.tenant, record.filter, record.queue) == ("acme", {"a": [1]}, "slow")
        assert (record.active, record.changed_at, record.declared_at) == (False, at(2), at(3))
        await store.subscriptions.put(subscription("mail", queue="q"), worker="w", now=at(4))
        [record] = await store.subscriptions.listed()
        assert (record.tenant, record.group, record.filter, record.queue) == (None,) * 3 + ("q",)
        assert await receivers(store, worker) == set()
        assert await store.subscriptions.set_active("mail", True, now=at(5))
        assert await receivers(store, worker) == {"mail"}
        [record] = await store.subscriptions.listed()
        assert (record.waiting, record.running, record.in_code) == (1, 0, False)
        assert record.lag is not None
        assert record.lag > 0
        assert await store.subscriptions.remove("mail")
        assert not await store.subscriptions.remove("mail")
        assert not await store.subscriptions.set_active("mail", True)
        endpoint = subscription("mail", kind=SubscriptionKind.ENDPOINT)
        await store.subscriptions.put(endpoint, now=at(6))
        [record] = await store.subscriptions.listed()
        assert (record.kind, record.origin) == (endpoint.kind, SubscriptionOrigin.CALL)
        assert (record.active, record.declared_by) == (True, None)

    async def test_values_are_changed(self, store: Store) -> None:
        """Those that are given, and no others."""
        await store.subscriptions.put(subscription("mail", tenant="acme", queue="slow"), now=NOW)
        new = {"topic": "user.*", "filter": {"a": [1]}, "priority": 3}
        assert await store.subscriptions.change("mail", new, now=at(1))
        [record] = await store.subscriptions.listed()
        assert (record.topic, record.filter, record.priority) == ("user.*", {"a": [1]}, 3)
        assert (record.tenant, record.queue, record.changed_at) == ("acme", "slow", at(1))
        assert await store.subscriptions.change("mail", {"filter": None}, now=at(2))
        [record] = await store.subscriptions.listed()
        assert (record.topic, record.filter) == ("user.*", None)
        assert not await store.subscriptions.change("nobody", new)

    @pytest.mark.parametrize(("others", "what"), SPOILT_AMONG)
    async def test_spoilt_by_hand(
        self, store: Store, what: str, others: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The others get theirs; it is disabled, named, and gets what it missed once mended."""
        worker = await join(store)
        how: dict[str, Any] = {"filtered": {"filter": {"n": 1}}, "in order": {"order_by": "n"}}
        its = how.get(others, {})
        first, last = subscription("a", **its), subscription("z", **its)
        mended = subscription("mail", max_attempts=3)
        await subscribe(store, first, last, mended)
        assert await rewrite(store, "mutirao_subscription", "id", "mail", **SPOILT[what])
        ids = [await publish(store, payload='{"n":1}') for _ in range(2)]
        for claim in await take(store, worker):
            await fan_out(store, claim)
        for id in ids:
            assert [task for task, _ in await deliveries(store, id)] == ["a", "z"]
            assert (await store.job(id)).state == "succeeded"
        [said] = [r.getMessage() for r in caplog.records if "is disabled" in r.getMessage()]
        assert "mail" in said
        found = {each.id: each for each in await store.subscriptions.listed()}
        assert [id for id, each in found.items() if not each.active] == ["mail"]
        engines: Any = store.engines  # type: ignore[attr-defined]
        named = [each for each in await examine(engines, []) if each.about == "topics"]
        if not found["mail"].unfit:
            assert "what no job may be" in what  # which the database knows
        else:
            assert any("mail" in each.found and each.level == "problem" for each in named)
        await store.subscriptions.put(mended)
        assert await store.subscriptions.set_active("mail", True)
        missing = Replay(subscription="mail", since=EPOCH, missing=True)
        assert await store.subscriptions.replay(missing, 0) == (2, None)
        assert await receivers(store, worker, '{"n":1}') == {"a", "mail", "z"}

    async def test_all_that_is_made_is_refused(self, store: Store) -> None:
        """Then the reason is elsewhere: nothing is disabled, and the publication says so."""
        worker = await join(store)
        await subscribe(store, subscription("mail", max_attempts=3))
        spoilt = {"options": SPOILT["what no job may be"]["options"]}
        assert await rewrite(store, "mutirao_subscription", "id", "mail", **spoilt)
        await publish(store)
        with pytest.raises(StoreRefused):
            await fan_out(store, await take_one(store, worker))
        [record] = await store.subscriptions.listed()
        assert record.active
