"""Limits that are created, removed and changed while jobs run."""

import asyncio
import json

import pytest

from mutirao.model.jobs.job import JobState
from mutirao.model.limits.limits import Limit, LimitOrigin, pause_of
from mutirao.ports import Store
from mutirao_conformance.kit import (
    NOW,
    due,
    finish,
    join,
    put,
    take,
    take_one,
)
from mutirao_conformance.limits import full, limited, of, states


class ChangingLimitsContract:
    """The counted jobs, and those that may run, after a change."""

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
        """More jobs may run at once; or none starts until fewer run, but no job is stopped."""
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
        """Waiting jobs may go, and running ones give back nothing that is not there."""
        rule = await limited(store)
        await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        [first] = await take(store, worker)
        assert await store.limits.remove(rule.name)
        assert not await store.limits.remove(rule.name)
        assert await store.limits.listed() == []
        claims = await take(store, worker)
        assert len(claims) == 3
        await finish(store, worker, [first, *claims])

    async def test_another_argument(self, store: Store) -> None:
        """A limit that counts by another argument counts from the start."""
        await limited(store, 1, by="tenant", name="n")
        await put(store, of("a"), of("a"), of("b"))
        worker = await join(store)
        assert len(await take(store, worker)) == 2
        await limited(store, 3, name="n")
        assert (await full(store, "n")).running == 2
        assert len(await take(store, worker)) == 1

    async def test_the_first_of_many(self, store: Store) -> None:
        """Those for which most jobs wait come first, then what is paused; without one, by name."""
        await limited(store, 1, task="other", name="idle")
        await limited(store, 1, by="tenant", name="busy")
        await store.limits.put(pause_of("nobody's", None), origin=LimitOrigin.PAUSE, now=NOW)
        await put(store, of("a"), of("b"), of("b"), of("b"))
        assert len(await take(store, await join(store))) == 2
        found = await store.limits.listed(most=2)
        assert [(each.name, each.key, each.parked) for each in found][:1] == [("busy", "b", 2)]
        assert found[1].paused
        assert [each.name for each in await store.limits.listed(most=9)][2:] == ["busy", "idle"]
        names = [each.name for each in await store.limits.listed()]
        assert names == sorted(names)

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
        await store.limits.put(pauses[what], origin=LimitOrigin.PAUSE, now=NOW)
        await store.limits.put(pauses[what], origin=LimitOrigin.PAUSE, now=NOW)
        assert (await take_one(store, worker)).id == ids[2]
        assert await states(store, ids[:2]) == [JobState.RUNNING, JobState.BLOCKED]
        assert [r.paused for r in await store.limits.listed()] == [True]
        await finish(store, worker, [first])
        assert await take(store, worker) == []
        assert await store.limits.remove(pauses[what].name)
        assert (await take_one(store, worker)).id == ids[1]

    async def test_in_code(self, store: Store) -> None:
        """A change at run time stays until the code has something new."""
        rule = Limit(5).on(task="greet")
        declared = {"origin": LimitOrigin.CODE, "now": NOW}
        await store.limits.put(rule, worker="w1", **declared)  # type: ignore[arg-type]
        await store.limits.put(Limit(3).on(task="greet"), now=NOW)
        await store.limits.put(rule, worker="w2", **declared)  # type: ignore[arg-type]
        record = await full(store, rule.name)
        assert (record.most, record.origin, record.declared_by) == (3, LimitOrigin.CODE, "w2")
        assert record.in_code is False
        await store.limits.put(Limit(6).on(task="greet"), worker="w3", **declared)  # type: ignore[arg-type]
        assert (await full(store, rule.name)).most == 6
        await store.limits.confirm_declared([rule.name, "?"], "w4", every=60)
        record = await full(store, rule.name)
        assert (record.declared_by, record.in_code) == ("w4", True)
        await store.limits.confirm_declared([rule.name], "w5", every=60)
        assert (await full(store, rule.name)).declared_by == "w4"

    async def test_two_claim_at_once(self, store: Store, other_store: Store) -> None:
        """No claim exceeds a limit, and there is no deadlock."""
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
        assert all(r.running == r.parked == 0 for r in await store.limits.listed())
