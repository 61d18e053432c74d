"""Topics: one job for each subscription to a publication, and its arguments."""

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from mutirao.errors import StaleRun
from mutirao.model.jobs.job import Claim, NewJob, OutcomeKind, Wake
from mutirao.model.jobs.records import JobFilter
from mutirao.model.topics.subscriptions import Subscription, SubscriptionOrigin
from mutirao.model.topics.topics import task_of
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    finish,
    ids_of,
    job_of,
    join,
    put,
    take,
    take_one,
)

TOPIC = "order.placed"
PAYLOAD = '{"order_id": 7, "name": "Zoë \\"\\ud83d\\ude00\\""}'


class Noted:
    """An attempt that notes whether it was settled."""

    settled = False

    def started_ago(self) -> float:
        """Return what every attempt may say."""
        return 0.25

    def mark_settled(self, woken: Iterable[Wake] = ()) -> None:
        """Note it."""
        self.settled = True


def subscription(id: str, topic: str = TOPIC, **options: Any) -> Subscription:
    """Return a subscription whose task is called like it; `options` of it and of its jobs."""
    own = ("tenant", "group", "filter", "kind", "key", "limits", "order_by", "when_dead")
    said: dict[str, Any] = {name: options.pop(name) for name in own if name in options}
    return Subscription(id=id, topic=topic, job=NewJob(task=id, **options), **said)


async def subscribe(store: Store, *subscriptions: Subscription | str) -> None:
    """Write subscriptions, given as such or as ids."""
    asked = (subscription(each) if isinstance(each, str) else each for each in subscriptions)
    await store.subscriptions.put_all([*asked], worker="w")


async def publish(store: Store, topic: str = TOPIC, payload: str = PAYLOAD, **options: Any) -> int:
    """Publish, due at NOW."""
    [id] = await put(store, due(task_of(topic), args=payload, **options))
    return id


async def fan_out(store: Store, claim: Claim) -> int:
    """Make all deliveries of a claimed publication; return in how many parts."""
    noted, parts, after = Noted(), 0, None
    while not noted.settled:
        after = await store.subscriptions.fan_out(job_of(claim), noted, after)
        parts += 1
        assert noted.settled is (after is None)
    return parts


async def deliveries(store: Store, publication: int) -> list[tuple[str, int]]:
    """Return (task, id) of the deliveries of a publication, by task."""
    jobs = await store.jobs(JobFilter(limit=None))
    mine = [job for job in jobs if job.metadata.get("publication") == publication]
    return sorted((job.task, job.id) for job in mine)


async def delivered(store: Store, worker: int, *ids: str) -> tuple[int, list[Claim]]:
    """Subscribe these, publish, and claim the deliveries; return the publication and the claims."""
    await subscribe(store, *ids)
    id = await publish(store)
    await fan_out(store, await take_one(store, worker))
    return id, await take(store, worker, now=at(10**9))


def arguments_of(claim: Claim) -> dict[str, Any]:
    """Return a claim's arguments."""
    return dict(json.loads(claim.args))


class TopicsContract:
    """A publication is delivered once for each subscription."""

    async def test_each_subscription_gets_a_job(self, store: Store) -> None:
        """Those to the topic and to patterns that match it, and no others."""
        await subscribe(
            store, "reindex", "mail", subscription("all", "*"), subscription("orders", "order.*"),
            subscription("invoices", "invoice.*"), subscription("deeper", "order.placed.*"),
            subscription("paid", "order.paid"), subscription("prefix", "order"),
        )  # fmt: skip
        worker = await join(store)
        id = await publish(store)
        assert await fan_out(store, await take_one(store, worker)) == 1
        tasks = [task for task, _ in await deliveries(store, id)]
        assert tasks == ["all", "mail", "orders", "reindex"]
        record = await store.job(id)
        assert (record.state, record.attempts[0].outcome) == ("succeeded", OutcomeKind.SUCCEEDED)

    async def test_ids_of_any_characters(self, store: Store) -> None:
        """Each delivery has its subscription's id."""
        ids = ['Zoë "\U0001f600" \\ \n\x01', "it's", "%s :x ?", '{"a": 1}', '"']
        await subscribe(store, *ids)
        await publish(store)
        worker = await join(store)
        await fan_out(store, await take_one(store, worker))
        claims = await take(store, worker, now=FAR_AHEAD)
        found = [arguments_of(claim)["event"]["subscription"] for claim in claims]
        assert sorted(found) == sorted(ids)

    async def test_the_arguments_of_a_delivery(self, store: Store) -> None:
        """The payload, the topic and the time of the publication, and the attempt."""
        worker = await join(store)
        id, [claim] = await delivered(store, worker, "reindex")
        args = arguments_of(claim)
        assert args["payload"] == {"order_id": 7, "name": 'Zoë "😀"'}
        published_at = (await store.job(id)).enqueued_at
        assert args["event"] == {
            "id": id, "topic": TOPIC, "subscription": "reindex", "attempt": 1,
            "published_at": published_at.isoformat().replace("+00:00", "Z"),
            "tenant": None, "group": None,
        }  # fmt: skip
        again = ended(claim, OutcomeKind.RETRIED, after=0.0)
        assert await store.settle(worker, [again], now=at(10**9)) == {claim.id}
        second = await take_one(store, worker, now=at(10**9))
        assert arguments_of(second)["event"]["attempt"] == 2

    async def test_a_delivery_is_shown(self, store: Store) -> None:
        """With what was published, which no other job has, nor the list."""
        await subscribe(store, "mail")
        worker = await join(store)
        publication = await publish(store, payload='{"total":5.5,"to":{"name":"Zoë"}}')
        await fan_out(store, await take_one(store, worker))
        [(_, id)] = await deliveries(store, publication)
        assert (await store.job(id)).payload == {"total": 5.5, "to": {"name": "Zoë"}}
        assert (await store.job(publication)).payload is None
        assert [job.payload for job in await store.jobs(JobFilter(ids=(id,)))] == [None]

    async def test_whose_it_is(self, store: Store) -> None:
        """A delivery is of the publication's tenant and group, and its event says so."""
        await subscribe(store, "reindex")
        await publish(store, tenant="acme", group="north")
        worker = await join(store)
        await fan_out(store, await take_one(store, worker))
        claim = await take_one(store, worker, now=FAR_AHEAD)
        assert (claim.tenant, claim.group) == ("acme", "north")
        event = json.loads(claim.args)["event"]
        assert (event["tenant"], event["group"]) == ("acme", "north")

    async def test_options_of_a_subscription(self, store: Store) -> None:
        """Its jobs are in its queue, with its options."""
        await subscribe(
            store,
            subscription("mail", queue="slow", priority=3, tags=("a", "b"), max_attempts=2,
                         timeout=9.5),
        )  # fmt: skip
        worker = await join(store)
        await publish(store)
        await fan_out(store, await take_one(store, worker))
        claim = await take_one(store, worker, now=at(10**9))
        assert (claim.queue, claim.priority, claim.max_attempts) == ("slow", 3, 2)
        assert claim.timeout == 9.5
        assert (await store.job(claim.id)).tags == ("a", "b")

    async def test_nobody_has_subscribed(self, store: Store) -> None:
        """A publication without subscriptions succeeds, and says so; others say nothing."""
        worker = await join(store)
        id, other = await publish(store), await publish(store, topic="other")
        await subscribe(store, subscription("a", "other"))
        for claim in await take(store, worker):
            assert await fan_out(store, claim) == 1
        found = await store.job(id)
        assert found.state == "succeeded"
        assert "no subscription" in str(found.progress_note)
        assert await deliveries(store, id) == []
        assert (await store.job(other)).progress_note is None

    async def test_many_subscriptions(self, store: Store) -> None:
        """In several parts, each subscription once; a run that comes later goes on.

        The later parts have filters: where the database made the first ones, Python makes these.
        """
        ids = [f"s{n:04}" for n in range(2_100)]
        filtered = (subscription(id, filter={"order_id": 7}) for id in ids[1_000:])
        await subscribe(store, *ids[:1_000], *filtered)
        worker = await join(store)
        id = await publish(store)
        claim = await take_one(store, worker)
        noted = Noted()
        first = await store.subscriptions.fan_out(job_of(claim), noted, None)
        assert first is not None
        assert not noted.settled
        made = await deliveries(store, id)
        assert [task for task, _ in made] == ids[: len(made)]
        assert await store.release([(claim.id, claim.run)]) == {claim.id}  # as after a crash
        later = await take(store, worker, 1, queues=["default"])
        assert ids_of(later) == [id]
        with pytest.raises(StaleRun):
            await store.subscriptions.fan_out(job_of(claim), Noted(), first)
        await fan_out(store, later[0])
        made_later = await deliveries(store, id)
        assert [task for task, _ in made_later] == ids
        assert made_later[: len(made)] == made

    async def test_a_stale_run_makes_nothing(self, store: Store) -> None:
        """Neither jobs nor an end, where another run has the publication."""
        await subscribe(store, "reindex")
        worker = await join(store)
        id = await publish(store)
        stale = await take_one(store, worker)
        await store.release([(stale.id, stale.run)])
        noted = Noted()
        with pytest.raises(StaleRun):
            await store.subscriptions.fan_out(job_of(stale), noted, None)
        assert not noted.settled
        assert await deliveries(store, id) == []
        current = await take_one(store, worker)
        with pytest.raises(StaleRun):
            await store.subscriptions.fan_out(job_of(stale), noted, None)
        await fan_out(store, current)
        assert [task for task, _ in await deliveries(store, id)] == ["reindex"]

    async def test_declared_again(self, store: Store) -> None:
        """A declaration that has changed changes the subscription, and another one nothing."""
        await store.subscriptions.put(subscription("mail"), worker="w", now=NOW)
        await store.subscriptions.put(subscription("mail"), worker="v", now=at(1))
        [record] = await store.subscriptions.listed()
        assert (record.id, record.topic, record.task) == ("mail", TOPIC, "mail")
        assert record.origin is SubscriptionOrigin.CODE
        assert (record.created_at, record.changed_at) == (NOW, NOW)
        assert (record.declared_at, record.declared_by) == (at(1), "v")
        changed = subscription("mail", "order.*", queue="slow")
        await store.subscriptions.put(changed, worker="w", now=at(2))
        [record] = await store.subscriptions.listed()
        assert (record.topic, record.queue, record.changed_at) == ("order.*", "slow", at(2))
        await store.subscriptions.confirm_declared(["mail"], "u", every=60, now=at(30))
        assert (await store.subscriptions.listed())[0].declared_by == "w"
        await store.subscriptions.confirm_declared(["mail"], "u", every=60, now=at(90))
        [record] = await store.subscriptions.listed()
        assert (record.declared_at, record.declared_by) == (at(90), "u")

    async def test_pruned_after_its_deliveries(self, store: Store) -> None:
        """A publication is kept as long as a delivery of it, which reads it."""
        worker = await join(store)
        id, claims = await delivered(store, worker, "mail", "reindex")
        later = at(10**9) + timedelta(days=1)
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 100, now=later) == 0
        await finish(store, worker, claims[:1], now=at(10**9))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 100, now=later) == 1
        assert (await store.job(id)).state == "succeeded"
        await finish(store, worker, claims[1:], OutcomeKind.DEAD, now=at(10**9))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 100, now=later) == 0
        assert await store.prune(OutcomeKind.DEAD, 0.0, 100, now=later) == 1
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 100, now=later) == 1

    async def test_a_redriven_delivery(self, store: Store) -> None:
        """It is a delivery again, with the same event, and keeps the publication."""
        worker = await join(store)
        id, claims = await delivered(store, worker, "mail")
        await finish(store, worker, claims, OutcomeKind.DEAD, now=at(10**9))
        [first] = await store.redrive(JobFilter(ids=(claims[0].id,)))
        [second] = await store.redrive(JobFilter(ids=(claims[0].id,)))
        again = await take(store, worker, now=at(10**9))
        assert ids_of(again) == [first, second]
        assert arguments_of(again[0])["event"] == arguments_of(claims[0])["event"]
        later = at(10**9) + timedelta(days=1)
        assert await store.prune(OutcomeKind.DEAD, 0.0, 100, now=later) == 1
        assert await store.prune(OutcomeKind.SUCCEEDED, 0.0, 100, now=later) == 0
        assert (await store.job(id)).state == "succeeded"

    async def test_a_dead_publication_goes_on_when_it_is_redriven(self, store: Store) -> None:
        """Subscriptions that had a delivery before it died get no other one."""
        ids = [f"s{n:04}" for n in range(1_200)]
        await subscribe(store, *ids)
        worker = await join(store)
        id = await publish(store)
        claim = await take_one(store, worker)
        assert await store.subscriptions.fan_out(job_of(claim), Noted(), None) is not None
        delivered_before = [task for task, _ in await deliveries(store, id)]
        await finish(store, worker, [claim], OutcomeKind.DEAD)
        [again] = await store.redrive(JobFilter(ids=(id,)))
        claims = await take(store, worker, 2_000, now=at(10**9))
        await fan_out(store, next(each for each in claims if each.id == again))
        assert delivered_before + [task for task, _ in await deliveries(store, again)] == ids

    async def test_what_only_looks_like_a_delivery(self, store: Store) -> None:
        """A job with such metadata keeps its arguments."""
        await put(store, due(args='{"a":1}', metadata={"publication": 1, "subscription": "x"}))
        claim = await take_one(store, await join(store))
        assert arguments_of(claim) == {"a": 1}
