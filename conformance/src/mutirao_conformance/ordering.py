"""Deliveries in the order of publications: those of one key, one after another."""

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.model.topics.subscriptions import Replay, WhenDead
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, at, ended, finish, join, take
from mutirao_conformance.topics import (
    TOPIC,
    arguments_of,
    deliveries,
    fan_out,
    publish,
    subscribe,
    subscription,
)

LATER = at(10**9)  # deliveries are due by the clock of the database
STOP, CONTINUE = WhenDead.STOP, WhenDead.CONTINUE


async def in_order(store: Store, when_dead: WhenDead = STOP, **options: Any) -> None:
    """Subscribe `mail`, whose deliveries of one order are made one after another."""
    asked = subscription("mail", order_by="order.id", when_dead=when_dead, **options)
    await subscribe(store, asked)


async def fanned_out(store: Store, worker: int, *orders: object) -> list[int]:
    """Publish something of each of these orders, and fan out, the last one first."""
    ids = [await publish(store, payload=json.dumps({"order": {"id": each}})) for each in orders]
    claims = await take(store, worker)
    assert [claim.id for claim in claims] == ids
    for claim in reversed(claims):
        await fan_out(store, claim)
    return ids


async def next_ones(store: Store, worker: int) -> list[Claim]:
    """Claim what is due, as often as there is something."""
    return [claim for _ in range(3) for claim in await take(store, worker, now=LATER)]


async def dies_in_order(store: Store) -> int:
    """Publish twice for one key, of which the first delivery dies and the other one waits.

    Returns the worker.
    """
    await in_order(store)
    worker = await join(store)
    await fanned_out(store, worker, 7, 7)
    await finish(store, worker, await next_ones(store, worker), OutcomeKind.DEAD, now=LATER)
    assert await next_ones(store, worker) == []
    return worker


def publications(claims: Sequence[Claim]) -> list[int]:
    """Return which publications these are deliveries of."""
    return sorted(arguments_of(claim)["event"]["id"] for claim in claims)


async def states(store: Store) -> list[str]:
    """Return the states of the deliveries, by id."""
    jobs = await store.jobs(JobFilter(limit=None, task="mail"))
    return [job.state for job in sorted(jobs, key=lambda job: job.id)]


class OrderingContract:
    """`order_by`: what one key's deliveries wait for."""

    async def test_one_key_after_another(self, store: Store) -> None:
        """In the order of publications, not of deliveries; other keys do not wait."""
        await in_order(store)
        await subscribe(store, "audit")
        worker = await join(store)
        first, second, other, third = await fanned_out(store, worker, 7, 7, "8", 7)
        claims = await next_ones(store, worker)
        mine = [claim for claim in claims if claim.task == "mail"]
        assert len(claims) - len(mine) == 4
        assert publications(mine) == [first, other]
        waiting = [job for job in await store.jobs(JobFilter(limit=None)) if job.state == "blocked"]
        assert [(job.task, job.attempt) for job in waiting] == [("mail", 0), ("mail", 0)]
        await finish(store, worker, claims, now=LATER)
        for publication in (second, third):
            claims = await next_ones(store, worker)
            assert publications(claims) == [publication]
            again = [ended(claim, OutcomeKind.RETRIED, after=0.0) for claim in claims]
            assert len(await store.settle(worker, again, now=LATER)) == 1
            claims = await next_ones(store, worker)
            assert publications(claims) == [publication]
            await finish(store, worker, claims, now=LATER)
        assert await next_ones(store, worker) == []

    async def test_others_behind_those_that_wait(self, store: Store) -> None:
        """A claim that meets only such says that others may be due in their lane."""
        await in_order(store)
        worker = await join(store)
        first, *_, other = await fanned_out(store, worker, 7, 7, 7, 8)
        assert publications(await take(store, worker, 1, now=LATER)) == [first]
        found = await take(store, worker, 2, now=LATER)
        assert found == []
        assert isinstance(found, Claimed)
        assert {wake.queue for wake in found.woken} == {"default"}
        assert publications(await take(store, worker, 2, now=LATER)) == [other]

    async def test_each_once(self, store: Store) -> None:
        """A fan-out makes the deliveries of earlier publications, too, and none of them twice."""
        await in_order(store, filter={"order.id": {"in": [7, 8]}})
        worker = await join(store)
        ids = await fanned_out(store, worker, 7, 9, 7, 8)
        assert [len(await deliveries(store, id)) for id in ids] == [1, 0, 1, 1]
        later = await fanned_out(store, worker, 7)
        assert [len(await deliveries(store, id)) for id in later] == [1]

    async def test_without_a_value(self, store: Store) -> None:
        """There is no order where the payload lacks the value."""
        await in_order(store)
        worker = await join(store)
        ids = await fanned_out(store, worker, None, None)
        ids.append(await publish(store, payload="{}"))
        await fan_out(store, (await take(store, worker, 1))[0])
        assert publications(await next_ones(store, worker)) == ids

    async def test_a_dead_one_stops_its_key(self, store: Store) -> None:
        """Until it is redriven and that one has ended; other keys go on, and new ones wait, too."""
        await in_order(store)
        worker = await join(store)
        first, second, _ = await fanned_out(store, worker, 7, 7, 8)
        claims = await next_ones(store, worker)
        dead = next(claim for claim in claims if publications([claim]) == [first])
        await finish(store, worker, [dead], OutcomeKind.DEAD, now=LATER)
        await finish(store, worker, [each for each in claims if each is not dead], now=LATER)
        third, other = await fanned_out(store, worker, 7, 8)
        assert publications(await next_ones(store, worker)) == [other]
        [record] = await store.subscriptions.listed()
        assert (record.order_by, record.when_dead) == ("order.id", STOP)
        assert record.stopped == 1
        assert await store.mend(now=LATER) == {}
        assert await store.prune(OutcomeKind.DEAD, 0.0, 100, now=LATER + timedelta(days=1)) == 0
        [again] = await store.redrive(JobFilter(ids=(dead.id,)))
        [claim] = await next_ones(store, worker)
        assert (claim.id, publications([claim])) == (again, [first])
        await finish(store, worker, [claim], OutcomeKind.DEAD, now=LATER)
        assert await next_ones(store, worker) == []
        [last] = await store.redrive(JobFilter(ids=(again,)))
        assert await store.cancel(JobFilter(ids=(last,))) != []
        for publication in (second, third):
            claims = await next_ones(store, worker)
            assert publications(claims) == [publication]
            await finish(store, worker, claims, now=LATER)

    async def test_a_dead_one_is_passed_by(self, store: Store) -> None:
        """Where the subscription says so, also if it says so later."""
        await in_order(store, CONTINUE)
        worker = await join(store)
        _, second, third = await fanned_out(store, worker, 7, 7, 7)
        claims = await next_ones(store, worker)
        await finish(store, worker, claims, OutcomeKind.DEAD, now=LATER)
        claims = await next_ones(store, worker)
        assert publications(claims) == [second]
        await in_order(store, STOP)
        await finish(store, worker, claims, OutcomeKind.DEAD, now=LATER)
        assert await next_ones(store, worker) == []
        await in_order(store, CONTINUE)
        assert sum((await store.mend(now=LATER)).values()) == 1
        assert publications(await next_ones(store, worker)) == [third]

    async def test_cancelled_while_it_waits(self, store: Store) -> None:
        """A delivery behind a cancelled one waits for the one before that."""
        await in_order(store)
        worker = await join(store)
        _, second, third = await fanned_out(store, worker, 7, 7, 7)
        claims = await next_ones(store, worker)
        [(_, waiting)] = await deliveries(store, second)
        assert await store.cancel(JobFilter(ids=(waiting,))) != []
        assert await next_ones(store, worker) == []
        await finish(store, worker, claims, now=LATER)
        assert publications(await next_ones(store, worker)) == [third]

    async def test_replayed_at_the_end(self, store: Store) -> None:
        """A replay comes after the existing deliveries of its key, in the order of publications."""
        await in_order(store)
        worker = await join(store)
        first, second = await fanned_out(store, worker, 7, 7)
        made = await store.subscriptions.replay(
            Replay(subscription="mail", topic=TOPIC, since=NOW), 0
        )
        assert made.deliveries == 2
        for publication in (first, second, first, second):
            claims = await next_ones(store, worker)
            assert publications(claims) == [publication]
            await finish(store, worker, claims, now=LATER)

    async def test_fanned_out_by_several_at_once(self, store: Store) -> None:
        """Each publication once, whichever workers come to which of them at once."""
        await in_order(store)
        worker = await join(store)
        ids = [await publish(store, payload='{"order":{"id":7}}') for _ in range(12)]
        claims = await take(store, worker)
        await asyncio.gather(*(fan_out(store, claim) for claim in claims[::-1]))
        for id in ids:
            claims = await next_ones(store, worker)
            assert publications(claims) == [id]
            await finish(store, worker, claims, now=LATER)
