"""Limits: which jobs may run, which wait, and when a slot is free again."""

import json
from typing import Any

import pytest

from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.model.limits.limits import Limit, LimitRecord, Rule
from mutirao.ports import Store
from mutirao_conformance.kit import (
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
from mutirao_conformance.transactions import Handler, Watched, run


def of(tenant: object, **options: Any) -> NewJob:
    """Return a job of a tenant, due at NOW unless `options` say otherwise."""
    return due(args=json.dumps({"tenant": tenant}), **options)


async def limited(store: Store, most: int = 1, **options: Any) -> Rule:
    """Limit the task of the usual jobs; return the rule."""
    where = {name: options.pop(name) for name in ("task", "queue") if name in options}
    rule = Limit(most, **options).on(**where or {"task": "greet"})
    await store.limits.put(rule, now=NOW)
    return rule


async def full(store: Store, name: str, key: str = "") -> LimitRecord:
    """Return how full a limit is."""
    [record] = [r for r in await store.limits.listed() if (r.name, r.key or "") == (name, key)]
    return record


async def states(store: Store, ids: list[int]) -> list[JobState]:
    """Return the states of jobs."""
    return [(await store.job(id)).state for id in ids]


class LimitsContract:
    """`Store.limits` and what comes of it."""

    @pytest.mark.parametrize("by", ["tenant", "group"])
    async def test_by_whose_job_it_is(self, store: Store, by: str) -> None:
        """The option of a job counts where it has no such argument; the argument comes first."""
        rule = await limited(store, 1, by=by)
        ids = await put(store, *(due(**{by: name}) for name in "aab"), due(), due())
        worker = await join(store)
        assert ids_of(await take(store, worker)) == [ids[0], ids[2], ids[3]]
        assert (await full(store, rule.name, "a")).running == 1
        asked = due(args=json.dumps({by: "c"}), **{by: "a"})
        [id] = await put(store, asked)
        assert ids_of(await take(store, worker)) == [id]

    async def test_a_new_limit_by_whose_job_it_is(self, store: Store) -> None:
        """It counts those that run already."""
        await put(store, due(tenant="a"))
        worker = await join(store)
        await take_one(store, worker)
        await limited(store, 1, by="tenant")
        [_, other] = await put(store, due(tenant="a"), due(tenant="b"))
        assert ids_of(await take(store, worker)) == [other]

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

    async def test_each_value_alone(self, store: Store) -> None:
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
        """Jobs that wait for a limit do not block those behind them, nor other tasks."""
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
        """Its place is free, and the worker gets the lane that has work again."""
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
        """Jobs that end and jobs that wait again, settled in one batch, all give back."""
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
        """The slot that another run holds by now stays held."""
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

    async def test_replaced_while_blocked(self, store: Store) -> None:
        """A job that replaces a blocked one waits in its stead; nothing of that one stays."""
        rule, worker = await limited(store), await join(store)
        await put(store, due())
        first = await take_one(store, worker)
        for _ in range(3):
            *_, last = await put(store, due(key="k", unique=Unique(on_conflict=OnConflict.REPLACE)))
            assert await take(store, worker) == []
            assert (await full(store, rule.name)).parked == 1
        await finish(store, worker, [first])
        assert (await take_one(store, worker)).id == last
        assert (await full(store, rule.name)).parked == 0

    async def test_run_now_leaves_blocked_jobs(self, store: Store) -> None:
        """To be called sooner is no help against a limit."""
        await limited(store)
        ids = await put(store, due(), due())
        await take(store, await join(store))
        assert await store.run_now(JobFilter(ids=(ids[1],)), now=NOW) == []
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
