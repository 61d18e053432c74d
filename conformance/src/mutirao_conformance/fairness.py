"""Fairness: claims take one job of each value, round after round."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from mutirao.model.graphs.graph import chain, group
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.records import GraphState, JobFilter
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.model.limits.claims_and_wakes import Settled
from mutirao.model.limits.fairness import fair_lane
from mutirao.model.limits.limits import Limit, pause_of
from mutirao.model.webhooks.endpoints import WEBHOOK_QUEUE
from mutirao.ports import Store
from mutirao_conformance.endpoints import SOON, claimed, delivered, endpoint
from mutirao_conformance.graphs import stands, write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    Face,
    at,
    due,
    ended,
    enqueue,
    finish,
    ids_of,
    join,
    put,
    take,
    take_one,
)
from mutirao_conformance.topics import arguments_of


def of(tenant: object, **options: Any) -> NewJob:
    """Return a due job of a tenant, whose tenants take turns."""
    return due("fair", args=json.dumps({"tenant": tenant}), fair_by="tenant", **options)


def tenants(claims: Sequence[Claim]) -> str:
    """Return the tenants of claims, in their order."""
    return "".join(str(json.loads(claim.args)["tenant"]) for claim in claims)


class FairnessContract:
    """However many jobs one value has, those of the others come in the next round."""

    async def test_fair_one_among_many(self, store: Store, face: Face) -> None:
        """A single job waits for one job of another tenant, not for all that came before it."""
        await enqueue(store, face, [of("a") for _ in range(300)])
        worker = await join(store)
        await take(store, worker, 10)
        await enqueue(store, face, [of("b")])
        assert "b" in tenants(await take(store, worker, 2))

    @pytest.mark.parametrize("number", [1, 300])
    async def test_fair_by_whose_job_it_is(self, store: Store, number: int) -> None:
        """The option of the job, where no argument has that name."""
        jobs = [due("fair", fair_by="tenant", tenant=name) for name in "a" * number + "b"]
        await put(store, *jobs)
        worker = await join(store)
        first, second = await take(store, worker, 2)
        assert (first.tenant, second.tenant) == ("a", "b")

    async def test_fair_in_turn(self, store: Store) -> None:
        """Three tenants, one after the other, whatever a claim takes and in whatever order."""
        await put(store, *(of(name) for name in "aaaaaabbbbcc"))
        worker = await join(store)
        assert tenants([await _one(store, worker) for _ in range(4)]) == "abca"
        assert tenants(await take(store, worker, 5)) == "bcaba"
        assert tenants(await take(store, worker)) == "baa"

    async def test_fair_a_full_claim(self, store: Store) -> None:
        """A claim of many takes rounds, and is ordered by them."""
        await put(store, *(of(name) for name in "a" * 200 + "bbb" + "c"))
        claims = await take(store, await join(store), 100)
        assert tenants(claims) == "abcabab" + "a" * 93
        assert [claim.queue for claim in claims] == ["default"] * 100

    async def test_fair_priorities_within(self, store: Store) -> None:
        """Of one tenant the most urgent goes first; between tenants only turns count."""
        urgent = [of("a", priority=-n) for n in range(4)]
        ids = await put(store, *urgent, of("b", priority=5), of("b", priority=7))
        worker = await join(store)
        claims = [await _one(store, worker) for _ in range(3)] + await take(store, worker)
        assert ids_of(claims) == [ids[3], ids[4], ids[2], ids[5], ids[1], ids[0]]

    async def test_fair_in_time(self, store: Store) -> None:
        """A job that is due later waits, and keeps nothing of its tenant or of others waiting."""
        later = of("a", priority=-1, run_at=at(60))
        ids = await put(store, later, of("a"), of("b", run_at=at(30)), of("c"))
        worker = await join(store)
        states = [(await store.job(id)).state for id in ids[:2]]
        assert states == [JobState.READY, JobState.READY]  # by the database's clock
        assert tenants(await take(store, worker)) == "ac"
        assert await take(store, worker) == []
        assert tenants(await take(store, worker, now=at(30))) == "b"
        assert (await take_one(store, worker, now=at(60))).id == ids[0]

    async def test_fair_without(self, store: Store) -> None:
        """Jobs of tasks that a worker does not have are left to others, and block none."""
        other = due("other", args='{"tenant":"a"}', fair_by="tenant", priority=-1)
        await put(store, other, other, of("a"), of("b"))
        worker = await join(store)
        assert tenants(await take(store, worker, without=("other",))) == "ab"
        assert await take(store, worker, without=("other",)) == []
        assert len(await take(store, worker)) == 2

    async def test_fair_any_value(self, store: Store) -> None:
        """A value may be missing, or nothing like a name: each has its turn."""
        args = ["{}", '{"tenant":null}', '{"tenant":""}', '{"tenant":7}', '{"tenant":"\\u00e9"}']
        await put(store, *(due("fair", args=each, fair_by="tenant") for each in args * 2))
        worker = await join(store)
        found = [claim.args for claim in await take(store, worker, 3)]
        assert len({json.dumps(json.loads(each).get("tenant") or "") for each in found}) == 3
        assert len(await take(store, worker)) == 7

    async def test_fair_beside_plain_jobs(self, store: Store) -> None:
        """A claim reads lanes in the order that it is given, fair ones among them."""
        await put(store, of("a"), of("a"), due(), due(), due(priority=-1))
        worker = await join(store)
        claims = await take(store, worker)
        assert sorted(claim.task for claim in claims[1:]) == ["fair", "fair", "greet", "greet"]
        assert claims[0].priority == -1
        assert await take(store, worker) == []

    async def test_fair_lanes(self, store: Store) -> None:
        """A fair lane belongs to its queue: workers that serve the queue serve the lane."""
        await put(store, of("a", queue="q", run_at=at(5)), of("b", queue="r"))
        heads = await store.lanes(["q"], now=NOW)
        assert [(head.lane.run_at, head.due_in) for head in heads] == [(at(5), 5.0)]
        claim = (await take(store, await join(store), now=at(5), queues=["q"]))[0]
        assert (claim.lane, claim.queue) == (heads[0].lane.queue, "q")

    async def test_fair_comes_back(self, store: Store) -> None:
        """A retried, snoozed, released or rescued job takes turns again."""
        await put(store, *(of(name) for name in "aaaab"))
        worker = await join(store)
        claims = await take(store, worker)
        for claim, kind in zip(claims, (OutcomeKind.RETRIED, OutcomeKind.SNOOZED), strict=False):
            await store.settle(worker, [ended(claim, kind, after=0.0)], now=NOW)
        await store.release([(claims[2].id, claims[2].run)])
        await store.rescue(now=at(100))
        assert tenants(await take(store, await join(store, now=at(100)), now=at(100))) in (
            "abaaa",
            "baaaa",
        )

    async def test_fair_people(self, store: Store) -> None:
        """Jobs that take turns are listed, counted, made due, cancelled and redriven as others."""
        ids = await put(store, of("a", queue="q"), of("b", queue="q", run_at=at(1e9)), of("c"))
        listed = await store.jobs(JobFilter(queue="q"))
        assert [(job.id, job.queue) for job in listed] == [(ids[1], "q"), (ids[0], "q")]
        counts = {(c.queue, c.state): c.jobs for c in await store.counts()}
        assert counts == {
            ("default", JobState.READY): 1,
            ("q", JobState.READY): 1,
            ("q", JobState.SCHEDULED): 1,
        }
        assert await store.run_now(JobFilter(ids=(ids[1],)), now=NOW) == [ids[1]]
        assert await store.cancel(JobFilter(ids=(ids[2],)), now=NOW) == [ids[2]]
        worker = await join(store)
        await store.declare_fairness({"fair": "tenant"})  # as workers do that have its code
        claims = await take(store, worker)
        assert tenants(claims) == "ab"
        await finish(store, worker, claims, OutcomeKind.DEAD)
        assert len(await store.redrive(JobFilter())) == 2
        await put(store, *(of("a", queue="q") for _ in range(9)))
        assert sorted(tenants(await take(store, worker, 2, now=FAR_AHEAD))) == ["a", "b"]

    async def test_fair_limited(self, store: Store) -> None:
        """Limits are applied in turn; a job that a limit blocked takes a turn again afterwards."""
        await store.limits.put(Limit(1, by="tenant").on(task="fair"), now=NOW)
        await put(store, *(of(name) for name in "aaaabbbc"))
        worker = await join(store)
        claims = await take(store, worker)
        assert tenants(claims) == "abc"
        assert await take(store, worker) == []
        batch = [ended(claim) for claim in claims]
        settled = await store.settle(worker, batch, now=NOW)
        assert isinstance(settled, Settled)
        assert settled.woken
        done = tenants(claims)
        while claims := await take(store, worker):
            done += tenants(claims)
            await finish(store, worker, claims)
        assert sorted(done) == sorted("aaaabbbc")

    @pytest.mark.parametrize("what", ["queue", "key"])
    async def test_fair_paused(self, store: Store, what: str) -> None:
        """A pause holds, and says so."""
        rule = {
            "queue": pause_of("default", None),
            "key": pause_of(None, "fair", "tenant", "a"),
        }[what]
        ids = await put(store, of("a"), of("b", queue="q"))
        await store.limits.put(rule, now=NOW)
        worker = await join(store)
        assert tenants(await take(store, worker)) == "b"
        assert (await store.job(ids[0])).state == JobState.BLOCKED
        assert await store.limits.remove(rule.name)
        assert tenants(await take(store, worker)) == "a"

    async def test_fair_unique(self, store: Store) -> None:
        """A key means what it means, and its job takes turns."""
        unique = Unique(on_conflict=OnConflict.REPLACE)
        await put(store, *(of("a") for _ in range(5)))
        ids = [(await put(store, of("b", key="k", unique=unique)))[0] for _ in range(2)]
        worker = await join(store)
        claims = await take(store, worker, 2)
        assert tenants(claims) == "ab"
        assert claims[1].id == ids[1]

    async def test_fair_steps(self, store: Store) -> None:
        """Members of a group take turns, and so does what follows it."""
        await put(store, *(of("c") for _ in range(2)))
        plan = chain(group(of(name) for name in "aab"), group(of(name) for name in "ddc"))
        first, *_, after = await write_graph(store, plan)
        worker = await join(store)
        claims = await take(store, worker, 4)
        assert tenants(claims) == "abca"
        assert (await store.job(after)).state is JobState.BLOCKED
        await finish(store, worker, claims)
        assert tenants(await take(store, worker)) == "cdcd"
        assert await stands(store, first) == (GraphState.RUNNING, "fair")

    async def test_fair_declared(self, store: Store) -> None:
        """Jobs enqueued without knowing of it take turns, too, once a worker has declared it."""
        await store.declare_fairness({"fair": "tenant", "greet": None})
        job = due("fair", args='{"tenant":"a"}')
        for _ in range(9):
            await put(store, job)
        await put(store, due("fair", args='{"tenant":"b"}'))
        worker = await join(store)
        assert tenants(await take(store, worker, 2)) == "ab"
        await store.declare_fairness({"fair": None})
        await put(store, job)
        heads = await store.lanes(None, now=NOW)
        assert "default" in [head.lane.queue for head in heads]

    async def test_fair_late_ones_wait_separately(self, store: Store) -> None:
        """A retry waits by time in the plain lane, if that is asked for."""
        worker = await join(store)
        late = await _put_late(store, worker, "aab")
        fresh = await put(store, of("a"), of("c"))
        lanes = {head.lane.queue: head.lane for head in await store.lanes(None, now=NOW)}
        assert lanes.keys() == {"default", fair_lane("default")}
        claims = await store.claim(worker, [lanes["default"]], 9, now=NOW)
        assert ids_of(claims) == late
        assert {claim.lane for claim in claims} == {"default"}
        claims = await store.claim(worker, [lanes[fair_lane("default")]], 9, now=NOW)
        assert sorted(ids_of(claims)) == fresh
        assert {claim.lane for claim in claims} == {fair_lane("default")}

    async def test_fair_late_ones_stay_separate(self, store: Store) -> None:
        """Until they have ended, whatever their outcomes."""
        worker = await join(store)
        [id] = await _put_late(store, worker, "a")
        [claim] = await take(store, worker)
        await store.settle(worker, [ended(claim, OutcomeKind.SNOOZED, after=0.0)], now=NOW)
        assert await store.change(JobFilter(ids=(id,)), Change(queue="q"), now=NOW) == [id]
        [claim] = await take(store, worker)
        assert (claim.lane, claim.attempt) == ("q", 2)
        await store.release([(claim.id, claim.run)])
        [claim] = await take(store, worker)
        await store.settle(worker, [_late(claim)], now=NOW)
        [claim] = await take(store, worker)
        assert (claim.lane, claim.attempt) == ("q", 3)

    @pytest.mark.parametrize("how", ["released", "snoozed", "parked"])
    async def test_fair_held_is_not_late(self, store: Store, how: str) -> None:
        """A job that was not tried takes a turn, however long it was held."""
        await put(store, of("a"), of("a"))
        if how == "parked":
            await store.limits.put(Limit(1, by="tenant").on(task="fair"), now=NOW)
        worker = await join(store)
        claims = await take(store, worker)
        if how == "snoozed":
            outcomes = [ended(claim, OutcomeKind.SNOOZED, after=0.0) for claim in claims]
            await store.settle(worker, outcomes, now=NOW)
        elif how == "parked":
            await finish(store, worker, claims)
        else:
            await store.release([(claim.id, claim.run) for claim in claims])
        assert {claim.lane for claim in await take(store, worker)} == {fair_lane("default")}

    @pytest.mark.parametrize("per", [None, 1.0])
    async def test_fair_and_late_ones_share_a_limit(self, store: Store, per: float | None) -> None:
        """Every other one that it calls is late, while there are both; each kind in its order."""
        worker = await join(store)
        late = await _put_late(store, worker, "a" * 4)
        fresh = await put(store, *(of("a") for _ in range(8)))
        await store.limits.put(Limit(1, per=per, by="tenant").on(task="fair"), now=NOW)
        done: list[int] = []
        for second in range(30):
            claims = await take(store, worker, now=at(second))
            done += ids_of(claims)
            await finish(store, worker, claims, now=at(second))
        assert [id for id in done if id in late] == late
        assert [id for id in done if id in fresh] == fresh
        kinds = "".join("fl"[id in late] for id in done)
        assert "lflfl" in kinds, kinds
        assert kinds.endswith("fff")

    async def test_fair_deliveries(self, store: Store) -> None:
        """However many are late to others, or to the same endpoint, one that is not goes out."""
        await store.endpoints.put(endpoint("a"))
        await store.endpoints.put(endpoint("b"))
        worker = await join(store)
        await delivered(store, worker, 30)
        again = [_late(claim) for claim in await claimed(store, worker)]
        assert len(await store.settle(worker, again, now=SOON)) == 60
        await store.endpoints.put(endpoint("c"))
        await delivered(store, worker, 2)
        lanes = {each.lane.queue: each.lane for each in await store.lanes(None, now=SOON)}
        fresh = lanes.pop(fair_lane(WEBHOOK_QUEUE))
        [late] = lanes.values()
        first = await store.claim(worker, [fresh, late], 3, now=SOON)
        then = await store.claim(worker, [late, fresh], 3, now=SOON)
        assert {arguments_of(claim)["endpoint"] for claim in first} == {"a", "b", "c"}
        assert [claim.attempt for claim in first + then] == [1, 1, 1, 2, 2, 2]

    async def test_fair_two_claim_at_once(self, store: Store, other_store: Store) -> None:
        """Each job is claimed once, and everybody's come."""
        await put(store, *(of(n % 7) for n in range(140)))
        workers = [await join(store), await join(store)]

        async def work(each: Store, worker: int) -> list[int]:
            found: list[int] = []
            while claims := await take(each, worker, 9):
                found += ids_of(claims)
                await finish(each, worker, claims)
            return found

        done = await asyncio.gather(work(store, workers[0]), work(other_store, workers[1]))
        rest = await work(store, workers[0])
        assert sorted([*done[0], *done[1], *rest]) == sorted({*done[0], *done[1], *rest})
        assert len(done[0]) + len(done[1]) + len(rest) == 140


def _late(claim: Claim) -> Settlement:
    """Return the settlement of a failed attempt whose job is retried at once, separately."""
    return Settlement(claim.id, claim.run, Outcome(OutcomeKind.RETRIED, after=0.0, apart=True))


async def _put_late(store: Store, worker: int, names: str) -> list[int]:
    """Make a job of each of these tenants fail once, which is retried at once, separately."""
    ids = await put(store, *(of(name) for name in names))
    claims = await take(store, worker)
    assert await store.settle(worker, [*map(_late, claims)], now=NOW) == set(ids)
    return ids


async def _one(store: Store, worker: int) -> Claim:
    [claim] = await take(store, worker, 1)
    return claim
