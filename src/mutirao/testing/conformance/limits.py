"""Limits: who may run, who waits where, and what is given back when."""

import asyncio
import json
from typing import Any

import pytest

from mutirao.job import JobState, NewJob, OutcomeKind
from mutirao.limit import Limit, LimitRecord, Origin, Rule, Settled, pause_of
from mutirao.ports import Store
from mutirao.records import JobFilter
from mutirao.testing.conformance.kit import (
    NOW,
    at,
    due,
    ended,
    finish,
    ids_of,
    join,
    put,
    take,
    take_one,
)
from mutirao.testing.conformance.transactions import Handler, Watched, run
from mutirao.unique import OnConflict, Unique


def of(tenant: object, **options: Any) -> NewJob:
    """Return a job of a tenant, due at NOW unless `options` say otherwise."""
    return due(args=json.dumps({"tenant": tenant}), **options)


async def limited(store: Store, most: int = 1, **options: Any) -> Rule:
    """Limit the task of the usual jobs; return the rule."""
    where = {name: options.pop(name) for name in ("task", "queue") if name in options}
    rule = Limit(most, **options).on(**where or {"task": "greet"})
    await store.put_limit(rule, now=NOW)
    return rule


async def full(store: Store, name: str, key: str = "") -> LimitRecord:
    """Return how full a limit is."""
    [record] = [r for r in await store.limits() if (r.name, r.key or "") == (name, key)]
    return record


async def states(store: Store, ids: list[int]) -> list[JobState]:
    """Return the states of jobs."""
    return [(await store.job(id)).state for id in ids]


class LimitsContract:
    """`Store.put_limit` and what comes of it."""

    @pytest.mark.parametrize("where", [{"task": "greet"}, {"queue": "default"}])
    async def test_so_many_at_once(self, store: Store, where: dict[str, str]) -> None:
        """No more run than may; the others are blocked until one has ended, and come in order."""
        rule = await limited(store, 2, **where)
        ids = await put(store, *(due() for _ in range(5)))
        worker, other = await join(store), await join(store)
        first = await take(store, worker)
        assert ids_of(first) == ids[:2]
        assert await take(store, other) == []
        assert await states(store, ids[2:]) == [JobState.BLOCKED] * 3
        record = await full(store, rule.name)
        assert (record.running, record.parked, record.paused) == (2, 3, False)
        await finish(store, worker, first[:1])
        [third] = await take(store, other)
        assert third.id == ids[2]
        await finish(store, worker, first[1:])
        await finish(store, other, [third])
        assert ids_of(await take(store, worker)) == ids[3:]

    async def test_one_claim_takes_no_more_than_asked(self, store: Store) -> None:
        """The bound of the claim holds beside the limit's, across what is parked."""
        await limited(store, 3, by="tenant")
        ids = await put(store, *(of(n // 20) for n in range(100)))
        worker = await join(store)
        claims = await take(store, worker, 7)
        assert [id - ids[0] for id in ids_of(claims)] == [0, 1, 2, 20, 21, 22, 40]
        assert len(await take(store, worker, 100)) == 8

    async def test_each_value_apart(self, store: Store) -> None:
        """By an argument, each value has its own; one that is missing is a value like others."""
        rule = await limited(store, 1, by="tenant")
        jobs = [of("a"), of("a"), of(7), of("7"), of(None), due(), of({"x": 1}), of("á")]
        ids = await put(store, *jobs)
        claims = await take(store, await join(store))
        assert [ids.index(claim.id) for claim in claims] == [0, 2, 4, 6, 7]
        assert (await full(store, rule.name, "a")).parked == 1
        assert (await full(store, rule.name, "7")).parked == 1
        assert (await full(store, rule.name, "á")).running == 1

    async def test_others_pass(self, store: Store) -> None:
        """What waits for a limit is not in the way of those behind it, nor of other tasks."""
        await limited(store)
        ids = await put(store, *(due() for _ in range(30)), due("other"), due(queue="q"))
        worker = await join(store)
        assert ids_of(await take(store, worker, 2)) == [ids[0], ids[30]]
        assert await take(store, worker) == []

    async def test_several_limits(self, store: Store) -> None:
        """A job takes a place in all its limits or in none of them."""
        await limited(store, 2)
        await limited(store, 1, by="tenant")
        await limited(store, 2, queue="q")
        ids = await put(store, of("a"), of("a"), of("b"), of("c"), of("d", queue="q"))
        worker = await join(store)
        claims = await take(store, worker)
        assert ids_of(claims) == [ids[0], ids[2]]
        await finish(store, worker, claims[1:])
        [next] = await take(store, worker)
        assert next.id in (ids[3], ids[4])
        await finish(store, worker, [claims[0], next])
        assert len(await take(store, worker)) == 2

    async def test_priority(self, store: Store) -> None:
        """The most urgent of those that wait comes first."""
        await limited(store)
        ids = await put(store, due(), due(priority=5), due(priority=-5), due(priority=1))
        worker = await join(store)
        seen = []
        for _ in ids:
            claim = await take_one(store, worker)
            seen.append(claim.id)
            await finish(store, worker, [claim])
        assert seen == [ids[2], ids[0], ids[3], ids[1]]

    @pytest.mark.parametrize(
        "kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED,
                 OutcomeKind.RETRIED, OutcomeKind.SNOOZED, OutcomeKind.RELEASED]
    )  # fmt: skip
    async def test_however_a_run_ends(self, store: Store, kind: OutcomeKind) -> None:
        """Its place is free, and the worker hears which lane has work again."""
        rule = await limited(store)
        ids = await put(store, due(), due())
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await take(store, worker) == []
        settled = await store.settle(worker, [ended(claim, kind, after=100)], now=NOW)
        assert settled == {claim.id}
        assert isinstance(settled, Settled)
        assert [(w.queue, w.priority, w.run_at) for w in settled.woken] == [("default", 0, NOW)]
        assert (await full(store, rule.name)).running == 0
        assert (await take_one(store, worker)).id == ids[1]

    async def test_mixed_endings(self, store: Store) -> None:
        """Jobs that end and jobs that wait again, settled together, all give back."""
        rule = await limited(store, 4)
        await put(store, *(due() for _ in range(8)))
        worker = await join(store)
        claims = await take(store, worker)
        kinds = [OutcomeKind.SUCCEEDED, OutcomeKind.RETRIED] * 2
        batch = [ended(c, k, after=100) for c, k in zip(claims, kinds, strict=True)]
        assert len(await store.settle(worker, batch, now=NOW)) == 4
        assert (await full(store, rule.name)).running == 0
        assert len(await take(store, worker)) == 4

    async def test_released(self, store: Store) -> None:
        """A job that was never started gives its place back, and keeps it in the lane."""
        rule = await limited(store)
        ids = await put(store, due(), due())
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await store.release([(claim.id, claim.run)]) == {claim.id}
        assert (await full(store, rule.name)).running == 0
        assert (await take_one(store, worker)).id == ids[0]

    async def test_a_stale_settlement_frees_nothing(self, store: Store) -> None:
        """What another run holds by now stays held."""
        rule = await limited(store)
        await put(store, due(), due())
        worker = await join(store)
        old = await take_one(store, worker)
        await store.release([(old.id, old.run)])
        new = await take_one(store, worker)
        assert new.id == old.id
        assert await store.settle(worker, [ended(old)], now=NOW) == set()
        retry = ended(old, OutcomeKind.RETRIED, after=0)
        assert await store.settle(worker, [retry], now=NOW) == set()
        assert await store.release([(old.id, old.run)]) == set()
        assert (await full(store, rule.name)).running == 1
        assert await take(store, worker) == []

    async def test_vanished(self, store: Store) -> None:
        """A worker that is gone gives its places back with the rescue, one that ends at once."""
        rule = await limited(store, 2)
        await put(store, *(due() for _ in range(6)))
        gone = await join(store, expiry=5)
        assert len(await take(store, gone)) == 2
        assert len(await store.rescue(now=at(10))) == 2
        assert (await full(store, rule.name)).running == 0
        leaving = await join(store, expiry=1_000)
        assert len(await take(store, leaving, now=at(10))) == 2
        await store.retire(leaving)
        assert (await full(store, rule.name)).running == 0
        assert len(await take(store, await join(store, expiry=1_000), now=at(10))) == 2

    async def test_in_a_transaction(self, store: Store, handler: Handler) -> None:
        """A job that completes in its own transaction gives its place back with that commit."""
        await limited(store)
        ids = await put(store, due(), due())
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await take(store, worker) == []
        watched = Watched()
        await run(store, claim, watched, handler)
        assert [wake.queue for wake in watched.woken] == ["default"]
        assert (await take_one(store, worker)).id == ids[1]

    async def test_cancelled_while_blocked(self, store: Store) -> None:
        """A blocked job can be cancelled, and nothing of it stays; nor is a place lost."""
        rule = await limited(store)
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        first = await take_one(store, worker)
        assert await take(store, worker) == []
        which = JobFilter(state=JobState.BLOCKED, limit=1, ids=(ids[1],))
        assert await store.cancel(which, now=NOW) == [ids[1]]
        await finish(store, worker, [first])
        called = await store.jobs(JobFilter(state=JobState.READY))
        assert ids_of(called) == [ids[2]]
        assert await store.cancel(JobFilter(ids=(ids[2],)), now=NOW) == [ids[2]]
        assert (await take_one(store, worker)).id == ids[3]
        assert (await full(store, rule.name)).parked == 0

    async def test_hurry_leaves_blocked_jobs(self, store: Store) -> None:
        """To be called sooner is no help against a limit."""
        await limited(store)
        ids = await put(store, due(), due())
        await take(store, await join(store))
        assert await store.hurry(JobFilter(ids=(ids[1],)), now=NOW) == []
        assert await states(store, ids[1:]) == [JobState.BLOCKED]

    async def test_shown(self, store: Store) -> None:
        """A blocked job shows when it was due, and is counted as such."""
        await limited(store)
        ids = await put(store, due(), due(run_at=at(-5)))
        await take(store, await join(store), 1)
        await take(store, await join(store), 1)
        job = await store.job(ids[0])
        assert (job.state, job.run_at) == (JobState.BLOCKED, NOW)
        counts = {count.state: count.jobs for count in await store.counts()}
        assert counts == {JobState.BLOCKED: 1, JobState.RUNNING: 1}
        assert ids_of(await store.jobs(JobFilter(state=JobState.BLOCKED))) == [ids[0]]

    async def test_a_key_that_waits(self, store: Store) -> None:
        """A blocked job may be replaced by one with its key; that one takes its turn."""
        await limited(store)
        unique = Unique(on_conflict=OnConflict.REPLACE)
        ids = await put(store, due(), due(key="k", unique=unique))
        worker = await join(store)
        first = await take_one(store, worker)
        assert await take(store, worker) == []
        [new] = await put(store, due(key="k", unique=unique))
        assert (await store.job(ids[1])).state == JobState.CANCELLED
        assert await take(store, worker) == []
        await finish(store, worker, [first])
        assert (await take_one(store, worker)).id == new

    async def test_behind_many(self, store: Store) -> None:
        """However many are blocked, a claim of one finds the one that is not."""
        await limited(store, 1, by="tenant")
        await put(store, *(of("a") for _ in range(2_500)))
        [last] = await put(store, of("b", run_at=at(1)))
        worker = await join(store)
        assert [len(await take(store, worker, 1, now=at(2))) for _ in range(2)] == [1, 1]
        assert (await store.job(last)).state == JobState.RUNNING


class ChangingLimitsContract:
    """Limits that come, go and change while jobs run."""

    async def test_what_runs_already_counts(self, store: Store) -> None:
        """A new limit holds from its first moment."""
        await put(store, *(of("a") for _ in range(4)))
        worker = await join(store)
        running = await take(store, worker, 2)
        await limited(store, 2, by="tenant")
        assert await take(store, worker) == []
        await finish(store, worker, running[:1])
        assert len(await take(store, worker)) == 1

    async def test_raised_and_lowered(self, store: Store) -> None:
        """More may run at once; or no more until fewer do, and nobody is stopped."""
        rule = await limited(store, 1)
        await put(store, *(due() for _ in range(9)))
        worker = await join(store)
        running = await take(store, worker)
        assert len(running) == 1
        assert await take(store, worker) == []
        await limited(store, 4)
        running += await take(store, worker)
        assert len(running) == 4
        await limited(store, 2)
        record = await full(store, rule.name)
        assert (record.most, record.running) == (2, 4)
        for _ in range(2):
            await finish(store, worker, [running.pop()])
            assert await take(store, worker) == []
        await finish(store, worker, [running.pop()])
        assert len(await take(store, worker)) == 1

    async def test_removed(self, store: Store) -> None:
        """What waited may go, and what ran gives back nothing that is not there."""
        rule = await limited(store)
        await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        [first] = await take(store, worker)
        assert await store.remove_limit(rule.name)
        assert not await store.remove_limit(rule.name)
        assert await store.limits() == []
        claims = await take(store, worker)
        assert len(claims) == 3
        await finish(store, worker, [first, *claims])

    async def test_another_argument(self, store: Store) -> None:
        """A limit that counts by something else counts anew."""
        await limited(store, 1, by="tenant", name="n")
        await put(store, of("a"), of("a"), of("b"))
        worker = await join(store)
        assert len(await take(store, worker)) == 2
        await limited(store, 3, name="n")
        assert (await full(store, "n")).running == 2
        assert len(await take(store, worker)) == 1

    @pytest.mark.parametrize("what", ["queue", "task", "key"])
    async def test_paused(self, store: Store, what: str) -> None:
        """Nothing more starts until it is resumed; the others go on, and so does what runs."""
        pauses = {
            "queue": pause_of("default", None),
            "task": pause_of(None, "greet"),
            "key": pause_of(None, "greet", "tenant", "a"),
        }
        spared = {"queue": of("a", queue="q"), "task": due("other"), "key": of("b")}
        ids = await put(store, of("a"), of("a"), spared[what])
        worker = await join(store)
        [first] = await take(store, worker, 1)
        await store.put_limit(pauses[what], origin=Origin.PAUSE, now=NOW)
        await store.put_limit(pauses[what], origin=Origin.PAUSE, now=NOW)
        assert (await take_one(store, worker)).id == ids[2]
        assert await states(store, ids[:2]) == [JobState.RUNNING, JobState.BLOCKED]
        assert [r.paused for r in await store.limits()] == [True]
        await finish(store, worker, [first])
        assert await take(store, worker) == []
        assert await store.remove_limit(pauses[what].name)
        assert (await take_one(store, worker)).id == ids[1]

    async def test_in_code(self, store: Store) -> None:
        """What was changed at run time stays until the code says something new."""
        rule = Limit(5).on(task="greet")
        declared = {"origin": Origin.CODE, "now": NOW}
        await store.put_limit(rule, worker="w1", **declared)  # type: ignore[arg-type]
        await store.put_limit(Limit(3).on(task="greet"), now=NOW)
        await store.put_limit(rule, worker="w2", **declared)  # type: ignore[arg-type]
        record = await full(store, rule.name)
        assert (record.most, record.origin, record.declared_by) == (3, Origin.CODE, "w2")
        assert record.in_code is False
        await store.put_limit(Limit(6).on(task="greet"), worker="w3", **declared)  # type: ignore[arg-type]
        assert (await full(store, rule.name)).most == 6
        await store.vouch_limits([rule.name, "?"], "w4", every=60)
        record = await full(store, rule.name)
        assert (record.declared_by, record.in_code) == ("w4", True)
        await store.vouch_limits([rule.name], "w5", every=60)
        assert (await full(store, rule.name)).declared_by == "w4"

    async def test_two_claim_at_once(self, store: Store, other_store: Store) -> None:
        """Nobody overshoots, and nobody waits in a circle."""
        await limited(store, 3, by="tenant")
        await limited(store, 20)
        await put(store, *(of(n % 10) for n in range(300)))
        worker = await join(store)

        async def work(each: Store) -> int:
            done, empty = 0, 0
            while empty < 3:
                claims = await take(each, worker, 7)
                by_tenant = [json.loads(claim.args)["tenant"] for claim in claims]
                assert max(map(by_tenant.count, by_tenant), default=0) <= 3
                await finish(each, worker, claims)
                done, empty = done + len(claims), 0 if claims else empty + 1
            return done

        done = await asyncio.gather(work(store), work(other_store))
        rest = await work(store)
        assert sum(done) + rest == 300
        assert all(r.running == r.parked == 0 for r in await store.limits())
