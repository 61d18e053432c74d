"""Changes of waiting jobs: their queue, time, priority and number of attempts."""

from typing import Any

from mutirao.model.graphs.graph import chain
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.fairness import of as fair, tenants
from mutirao_conformance.graphs import a, write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    finish,
    ids_of,
    join,
    lane,
    put,
    put_finished,
    take,
    take_one,
)
from mutirao_conformance.limits import full, limited, states
from mutirao_conformance.supersede import activity
from mutirao_conformance.uniqueness import keyed, placed

EVERYTHING: dict[str, Any] = {"priority": -7, "queue": "q", "run_at": at(9), "max_attempts": 3}


async def change(store: Store, *ids: int, **new: Any) -> None:
    """Change waiting jobs."""
    assert sorted(await store.change(JobFilter(ids=ids), Change(**new), now=NOW)) == sorted(ids)


class ChangeContract:
    """`Store.change`."""

    async def test_nothing_to_change(self, store: Store) -> None:
        """No jobs, none that match, or an empty list of ids, which is not all of them."""
        new = Change(**EVERYTHING)
        assert await store.change(JobFilter(), new) == []
        [id] = await put(store, due())
        before = await store.job(id)
        for which in (JobFilter(ids=()), JobFilter(ids=(4_711,)), JobFilter(queue="elsewhere")):
            assert await store.change(which, new, now=NOW) == []
        assert await store.job(id) == before

    async def test_everything_at_once(self, store: Store) -> None:
        """Given values are new for readers and for the claim; the rest stays."""
        [id] = await put(store, due(key="k", tags=("x",), args='{"n": 1}', timeout=9.0))
        before = await store.job(id)
        await change(store, id, **EVERYTHING)
        after = await store.job(id)
        assert {name: getattr(after, name) for name in EVERYTHING} == EVERYTHING
        for name in ("args", "key", "tags", "timeout", "enqueued_at", "attempt", "attempts"):
            assert getattr(after, name) == getattr(before, name)
        worker = await join(store)
        assert await take(store, worker) == []
        claim = await take_one(store, worker, now=at(9))
        assert {name: getattr(claim, name) for name in EVERYTHING} == EVERYTHING
        await finish(store, worker, [claim], now=at(9))
        finished = await store.job(id)
        assert (finished.queue, finished.priority, finished.max_attempts) == ("q", -7, 3)
        assert [(c.queue, c.jobs) for c in await store.counts()] == [("q", 1)]

    async def test_priority_orders_claims(self, store: Store) -> None:
        """More urgent or less, among others."""
        ids = await put(store, *(due(priority=5) for _ in range(4)))
        await change(store, ids[2], priority=1)
        await change(store, ids[0], priority=9)
        worker = await join(store)
        assert ids_of(await take(store, worker)) == [ids[2], ids[1], ids[3], ids[0]]

    async def test_due_time_orders_claims(self, store: Store) -> None:
        """Earlier than the others of its lane, also than what a worker has reached there; later."""
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        [first] = await take(store, worker, 1)
        await change(store, ids[3], run_at=at(-60))
        await change(store, ids[1], delay=60)
        heads = await store.lanes(None, now=NOW)
        assert [head.lane for head in heads] == [lane(run_at=at(-60), id=ids[3])]
        assert first.id == ids[0]
        assert ids_of(await take(store, worker)) == [ids[3], ids[2]]
        assert (await store.job(ids[1])).run_at == at(60)
        assert (await take_one(store, worker, now=at(60))).id == ids[1]

    async def test_another_queue(self, store: Store) -> None:
        """Only a worker that serves the new queue takes the job."""
        ids = await put(store, due(), due())
        await change(store, ids[0], queue="q")
        worker = await join(store)
        assert ids_of(await take(store, worker, queues=["default"])) == [ids[1]]
        assert ids_of(await take(store, worker, queues=["q"])) == [ids[0]]

    async def test_between_two_attempts(self, store: Store) -> None:
        """A job that waits for its next one keeps those that it has had."""
        worker = await join(store)
        [id] = await put(store, due())
        retried = ended(await take_one(store, worker), OutcomeKind.RETRIED, at=FAR_AHEAD)
        await store.settle(worker, [retried], now=NOW)
        await change(store, id, run_at=NOW, max_attempts=2, queue="q")
        claim = await take_one(store, worker)
        assert (claim.attempt, claim.max_attempts, claim.queue) == (2, 2, "q")
        assert len((await store.job(id)).attempts) == 1

    async def test_jobs_that_do_not_wait_stay_as_they_are(self, store: Store) -> None:
        """Running and finished ones stay as they are, and are not returned."""
        worker = await join(store)
        ids = await put_finished(store, worker, due())
        ids += await put(store, due())
        await take_one(store, worker)
        before = [await store.job(id) for id in ids]
        for which in (JobFilter(), JobFilter(ids=tuple(ids))):
            assert await store.change(which, Change(**EVERYTHING), now=NOW) == []
        assert [await store.job(id) for id in ids] == before

    async def test_only_those_meant(self, store: Store) -> None:
        """By filter, at most so many, oldest first."""
        ids = await put(store, *(due(queue="a") for _ in range(3)), due(queue="b"))
        new = Change(queue="b")
        assert await store.change(JobFilter(queue="a", limit=2), new, now=NOW) == ids[:2]
        assert await store.change(JobFilter(queue="a", limit=None), new, now=NOW) == [ids[2]]
        assert await store.change(JobFilter(queue="a"), new, now=NOW) == []

    async def test_all_are_changed(self, store: Store) -> None:
        """Thousands at once."""
        ids = await put(store, *(due() for _ in range(1_500)))
        changed = await store.change(JobFilter(limit=None), Change(queue="q"), now=NOW)
        assert sorted(changed) == ids
        worker = await join(store)
        assert len(await take(store, worker, 2_000, queues=["q"])) == 1_500

    async def test_behind_a_limit(self, store: Store) -> None:
        """It stays blocked, and its new values say when its turn comes."""
        rule = await limited(store)
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        running = await take_one(store, worker)
        await change(store, ids[3], priority=-1)
        await change(store, ids[2], run_at=at(-60), max_attempts=2)
        assert await states(store, ids[1:]) == [JobState.BLOCKED] * 3
        assert (await full(store, rule.name)).parked == 3
        assert (await store.job(ids[2])).run_at == at(-60)
        for expected in (ids[3], ids[2], ids[1]):
            await finish(store, worker, [running])
            running = await take_one(store, worker)
            assert running.id == expected

    async def test_behind_a_limit_until_later(self, store: Store) -> None:
        """A job that is due later waits for its time, and blocks no other job."""
        rule = await limited(store)
        ids = await put(store, *(due() for _ in range(3)))
        worker = await join(store)
        running = await take_one(store, worker)
        await change(store, ids[1], run_at=FAR_AHEAD)
        assert await states(store, ids[1:]) == [JobState.SCHEDULED, JobState.BLOCKED]
        await finish(store, worker, [running])
        assert (await take_one(store, worker)).id == ids[2]
        record = await full(store, rule.name)
        assert (record.running, record.parked) == (1, 0)
        assert (await take(store, worker, now=FAR_AHEAD)) == []
        assert await states(store, [ids[1]]) == [JobState.BLOCKED]

    async def test_away_from_a_queue_that_is_full(self, store: Store) -> None:
        """Its limit does not concern them any more, the one of their new queue does."""
        rule = await limited(store, queue="default", by="n")
        other = await limited(store, 1, queue="q")
        ids = await put(store, *(due(args='{"n": 1}') for _ in range(4)))
        worker = await join(store)
        running = await take_one(store, worker)
        assert await states(store, ids[1:]) == [JobState.BLOCKED] * 3
        await change(store, *ids[1:], queue="q")
        assert (await full(store, rule.name, "1")).parked == 0
        [moved] = await take(store, worker)
        assert (moved.id, moved.queue) == (ids[1], "q")
        assert await take(store, worker) == []
        record = await full(store, other.name)
        assert (record.running, record.parked) == (1, 2)
        await finish(store, worker, [running, moved])
        assert (await full(store, rule.name, "1")).running == 0
        assert (await take_one(store, worker)).id == ids[2]

    async def test_within_a_rate(self, store: Store) -> None:
        """The next token goes to the job that is first after the change."""
        await limited(store, 1, per=10)
        ids = await put(store, *(due() for _ in range(4)))
        worker = await join(store)
        await take_one(store, worker)
        await change(store, ids[1], priority=9, delay=0)
        await change(store, ids[3], priority=-1)
        came = [claim for t in range(1, 8) for claim in await take(store, worker, now=at(t * 11))]
        assert ids_of(came) == [ids[3], ids[2], ids[1]]

    async def test_behind_a_job_of_its_key(self, store: Store) -> None:
        """It stays blocked until that has ended; it has the key that it was enqueued with."""
        worker = await join(store)
        first, _ = await placed(store, keyed())
        claim = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun"))
        await change(store, second, run_at=at(9), priority=-1, queue="q")
        assert (await store.job(second)).state == JobState.BLOCKED
        assert await placed(store, keyed()) == (second, "found")
        await store.settle(worker, [ended(claim)], now=NOW)
        assert claim.id == first
        assert await take(store, worker) == []
        again = await take_one(store, worker, now=at(9))
        assert (again.id, again.priority, again.queue) == (second, -1, "q")

    async def test_behind_a_job_by_a_supersede_rule(self, store: Store) -> None:
        """It stays blocked until that has ended, and then has its new values."""
        worker = await join(store)
        await put(store, activity("Like"))
        claim = await take_one(store, worker)
        [second] = await put(store, activity("Like"))
        await change(store, second, run_at=at(9), priority=-1)
        assert (await store.job(second)).state == JobState.BLOCKED
        await store.settle(worker, [ended(claim)], now=NOW)
        assert await take(store, worker) == []
        assert (await take_one(store, worker, now=at(9))).priority == -1

    async def test_behind_a_step(self, store: Store) -> None:
        """It stays blocked until the step before it has ended, and then has its new values."""
        first, second = await write_graph(store, chain(a(), a()))
        worker = await join(store)
        claim = await take_one(store, worker)
        await change(store, second, run_at=at(9), priority=-1, queue="q")
        assert (await store.job(second)).state == JobState.BLOCKED
        await finish(store, worker, [claim])
        assert claim.id == first
        assert await take(store, worker) == []
        later = await take_one(store, worker, now=at(9))
        assert (later.id, later.priority, later.queue) == (second, -1, "q")

    async def test_fair_jobs(self, store: Store) -> None:
        """They take turns in their new queue, the most urgent of each value first."""
        ids = await put(store, *(fair(name) for name in "aaabb"))
        await change(store, *ids, queue="q")
        await change(store, ids[2], priority=-1)
        worker = await join(store)
        assert await take(store, worker, queues=["default"]) == []
        claims = await take(store, worker, queues=["q"])
        assert tenants(claims) == "ababa"
        assert ids_of(claims)[0] == ids[2]
        assert {claim.queue for claim in claims} == {"q"}
