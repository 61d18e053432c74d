"""Many schedules, subscriptions or endpoints, put at once: as one by one, and all or none."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from mutirao.errors import InvalidEndpoint, InvalidSchedule
from mutirao.model.jobs.job import NewJob
from mutirao.model.limits.limits import Limit
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import Amended, Amendment, Schedule, ScheduleFacts
from mutirao.ports import Store
from mutirao_conformance.endpoints import (
    OTHER,
    SECRET,
    claimed,
    delivered,
    endpoint,
    seen,
)
from mutirao_conformance.kit import NOW, at, join
from mutirao_conformance.schedules import order, plan, scheduled, tick
from mutirao_conformance.topics import arguments_of, subscription

MANY = 1_000


async def plan_many(store: Store, *schedules: Schedule, seconds: float = 0) -> list[Amended]:
    """Put schedules in one call."""
    amends = {each.name: partial(schedule_rules.put, schedule=each) for each in schedules}
    return await store.schedules.amend_all(amends, now=at(seconds))


class ManyContract:
    """`schedules.amend_all`, `subscriptions.put_all` and `endpoints.put_all`."""

    async def test_many_schedules(self, store: Store) -> None:
        """Each as if it were put alone: new, as it was, paused, changed, with new times."""
        stands = {name: await plan(store, scheduled(name)) for name in "abcd"}
        await order(store, schedule_rules.pause, "b", 1)
        job, slow = NewJob(task="greet", queue="slow"), timedelta(seconds=60)
        asked = [
            scheduled("new"),
            scheduled("d", seconds=60),
            scheduled("c", job=job),
            scheduled("b", job=job),
            scheduled("a"),
        ]
        done = await plan_many(store, *asked, seconds=5)
        new, d, c, b, a = (each.state for each in done)
        assert a == stands["a"]
        assert b == replace(
            stands["b"], schedule=asked[3], paused=True, changed_at=at(5), next_at=at(10)
        )
        assert c == replace(stands["c"], schedule=asked[2], changed_at=at(5), next_at=at(10))
        assert d is not None
        assert (d.schedule.every, d.next_at) == (slow, at(65))
        assert new is not None
        assert (new.created_at, new.next_at) == (at(5), at(15))
        listed = {each.name: each for each in await store.schedules.listed()}
        assert {n: r.next_at for n, r in listed.items()} == {
            "a": at(10), "b": at(10), "c": at(10), "d": at(65), "new": at(15),
        }  # fmt: skip
        assert [listed[name].queue for name in "abc"] == ["default", "slow", "slow"]
        assert await plan_many(store) == []

    async def test_many_schedules_that_make_jobs(self, store: Store) -> None:
        """The jobs of each decision are its own schedule's."""
        await plan_many(store, *(scheduled(name) for name in "abc"))
        run = {n: partial(schedule_rules.run_now, name=n) for n in "ca"}
        done = dict(zip(run, await store.schedules.amend_all(run, now=at(1)), strict=True))
        jobs = {each.name: each.last_job for each in await store.schedules.listed()}
        assert jobs == {"a": done["a"].jobs[0], "b": None, "c": done["c"].jobs[0]}
        gone = {n: partial(schedule_rules.remove, name=n) for n in "ab"}
        assert [each.state for each in await store.schedules.amend_all(gone)] == [None, None]
        assert [each.name for each in await store.schedules.listed()] == ["c"]

    async def test_all_schedules_or_none(self, store: Store) -> None:
        """Where one is refused none is written."""
        await plan(store, scheduled("a"))

        def refuse(_: ScheduleFacts) -> Amendment:
            raise InvalidSchedule("no")

        amends: dict[str, Any] = {
            "a": partial(schedule_rules.put, schedule=scheduled("a", seconds=60)),
            "b": partial(schedule_rules.put, schedule=scheduled("b")),
            "c": refuse,
        }
        with pytest.raises(InvalidSchedule, match="no"):
            await store.schedules.amend_all(amends, now=at(1))
        [record] = await store.schedules.listed()
        assert (record.name, record.every) == ("a", 10)

    async def test_a_thousand_schedules_by_two_at_once(
        self, store: Store, other_store: Store
    ) -> None:
        """Both callers return; each schedule is there once, and the second call changes nothing."""
        asked = [scheduled(f"s{n:04}") for n in range(MANY)]
        await asyncio.gather(
            plan_many(store, *asked), plan_many(other_store, *reversed(asked), scheduled("t"))
        )
        before = await store.schedules.listed()
        assert [each.name for each in before] == [each.name for each in (*asked, scheduled("t"))]
        await plan_many(store, *asked, seconds=3)
        assert await store.schedules.listed() == before
        assert len(await tick(store, 10, "s0500")) == 1

    async def test_subscriptions_by_one_call(self, store: Store) -> None:
        """Each as if it were put alone: what is the same stays, and so does a pause."""
        await store.subscriptions.put_all([subscription(id) for id in "abc"], now=NOW)
        assert await store.subscriptions.set_active("b", False, now=at(1))
        limited = subscription("new", limits=(Limit(2),))
        changed = [subscription(id, tenant="acme") for id in "cb"]
        await store.subscriptions.put_all([limited, *changed, subscription("a")], now=at(5))
        listed = {each.id: each for each in await store.subscriptions.listed()}
        assert {id: (r.tenant, r.active, r.changed_at) for id, r in listed.items()} == {
            "a": (None, True, NOW),
            "b": ("acme", False, at(5)),
            "c": ("acme", True, at(5)),
            "new": (None, True, at(5)),
        }
        assert {each.created_at for each in listed.values()} == {NOW, at(5)}
        assert [(each.key, each.most) for each in await store.limits.listed()] == [("new", 2)]
        await store.subscriptions.put_all([subscription("new"), subscription("a")], now=at(6))
        assert await store.limits.listed() == []
        await store.subscriptions.put_all([])

    async def test_declared_subscriptions(self, store: Store) -> None:
        """A change at run time stays until the code has something else."""
        declared = [subscription(id) for id in "ab"]
        await store.subscriptions.put_all(declared, worker="w", now=NOW)
        await store.subscriptions.put(subscription("a", tenant="acme"), now=at(1))
        new = [declared[0], subscription("b", queue="q"), subscription("c")]
        await store.subscriptions.put_all(new, worker="v", now=at(2))
        a, b, c = await store.subscriptions.listed()
        assert (a.tenant, a.declared_by, b.queue, c.origin) == ("acme", "v", "q", "code")

    async def test_a_thousand_subscriptions_by_two_at_once(
        self, store: Store, other_store: Store
    ) -> None:
        """Both callers return, and each is there once."""
        asked = [subscription(f"s{n:04}") for n in range(MANY)]
        await asyncio.gather(
            store.subscriptions.put_all(asked), other_store.subscriptions.put_all(asked[::-1])
        )
        assert [each.id for each in await store.subscriptions.listed()] == [
            each.id for each in asked
        ]

    async def test_many_endpoints(self, store: Store) -> None:
        """Each as if it were put alone: with its secret, its topics, its limits; paused or not."""
        await store.endpoints.put_all([endpoint("a", rate=5.0), endpoint("b"), endpoint("c")])
        assert await store.endpoints.pause("b")
        asked = [
            endpoint("new", topics=("order.*", "invoice.*"), concurrency=3),
            endpoint("c", secret=OTHER, method="PUT"),
            endpoint("b", secret=None),
            endpoint("a", secret=None),
        ]
        await store.endpoints.put_all(asked, keep_secrets=["a"])
        sent = {each.id: each for each in await store.endpoints.to_send(["a", "b", "c", "new"])}
        secrets = {id: getattr(each, "secret", "?") for id, each in sent.items()}
        assert secrets == {"a": SECRET, "b": None, "c": OTHER, "new": SECRET}
        assert {i: (await seen(store, i)).paused for i in sent} == {
            "a": False, "b": True, "c": False, "new": False,
        }  # fmt: skip
        assert (await seen(store, "new")).topics == ("order.*", "invoice.*")
        own = [
            (each.key, each.most)
            for each in await store.limits.listed()
            if each.key in ("a", "new")
        ]
        assert own == [("new", 3)]
        await store.endpoints.put_all([])

    async def test_all_endpoints_or_none(self, store: Store) -> None:
        """Where one has no secret that it could keep, none is written."""
        with pytest.raises(InvalidEndpoint, match="no endpoint 'b' yet"):
            await store.endpoints.put_all([endpoint("a"), endpoint("b")], keep_secrets=["b"])
        assert await store.endpoints.listed() == []

    async def test_many_endpoints_get_deliveries(self, store: Store) -> None:
        """Each gets its delivery of what is published, once."""
        worker = await join(store)
        topics = ("order.*", "*")
        await store.endpoints.put_all([endpoint(f"e{n}", topics=topics) for n in range(5)])
        await store.endpoints.put_all([endpoint(f"e{n}", topics=topics) for n in range(5)])
        await delivered(store, worker)
        receivers = [arguments_of(each)["endpoint"] for each in await claimed(store, worker)]
        assert sorted(receivers) == [f"e{n}" for n in range(5)]
