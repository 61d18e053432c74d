"""Workers: registration, heartbeats, retirement, and what happens to their jobs."""

import pytest

from mutirao.model.deploys import Deployed, Served
from mutirao.model.jobs.job import Beat, JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    LONG_AGO,
    NOW,
    SLACK,
    at,
    due,
    ended,
    ids_of,
    join,
    newcomer,
    put,
    take,
    take_one,
)


class WorkersContract:
    """`Store.register`, `beat`, `listen`, `retire` and `workers`."""

    async def test_nobody(self, store: Store) -> None:
        """An empty store has no workers."""
        assert await store.workers() == []

    @pytest.mark.parametrize("queues", [None, ("mail",), ("default", "fila é", 'a "b", [c]')])
    async def test_what_it_says_of_itself(
        self, store: Store, queues: tuple[str, ...] | None
    ) -> None:
        """Kept as it was said, with the moments of its life."""
        said = newcomer(
            name="host-7/é", host="h.example", pid=4_321, queues=queues, concurrency=20,
            version="1.2.3",
        )  # fmt: skip
        id = await store.register(said, expiry=15, now=NOW)
        [record] = await store.workers()
        assert (record.id, record.name, record.host) == (id, "host-7/é", "h.example")
        assert (record.pid, record.concurrency, record.version) == (4_321, 20, "1.2.3")
        assert record.queues == queues
        assert (record.started_at, record.beat_at, record.expires_at) == (NOW, NOW, at(15))
        assert (record.listening, record.stuck, record.running) == (True, 0, 0)
        assert (record.exclude_queues, record.tasks) == ((), None)

    async def test_what_it_leaves_to_others(self, store: Store) -> None:
        """Kept as it was said: the queues it does not serve, and the tasks it does."""
        tasks, but = ("send", 'a "b", [c]'), ("fila é", "slow")
        await store.register(newcomer(exclude_queues=but, tasks=tasks), expiry=15, now=NOW)
        [record] = await store.workers()
        assert (record.queues, record.exclude_queues, record.tasks) == (None, but, tasks)

    async def test_other_versions_of_the_application(self, store: Store) -> None:
        """Of live workers that said theirs, once they have beaten."""
        serves = Served(("mail",), (), ("send",))
        said = newcomer(app_version="shop@2", queues=serves.queues, tasks=serves.tasks)
        new = await store.register(said, expiry=15, now=NOW)
        for version in (None, "shop@1"):
            await store.register(newcomer(app_version=version), expiry=60, now=NOW)
        assert await store.deployed("shop@1", now=at(1)) == []
        await store.beat(new, expiry=15, now=at(1))
        assert await store.deployed("shop@1", now=at(2)) == [Deployed("shop@2", serves)]
        assert await store.deployed("shop@2", now=at(2)) == []
        assert await store.deployed("shop@1", now=at(17)) == []

    async def test_alive_or_not(self, store: Store) -> None:
        """Decided by the database's clock; the dead are listed until they are rescued from."""
        past = await store.register(newcomer(), expiry=15, now=LONG_AGO)
        present = await store.register(newcomer(), expiry=SLACK)
        alive = {worker.id: worker.alive for worker in await store.workers()}
        assert alive == {past: False, present: True}

    async def test_how_many_jobs_each_holds(self, store: Store) -> None:
        """Only those it is running now."""
        first, second, idle = [await join(store) for _ in range(3)]
        await put(store, *(due() for _ in range(6)))
        claims = await take(store, first, 3)
        await take(store, second, 2)
        await store.settle(first, [ended(claims[0])], now=NOW)
        for near in (False, True):
            found = await store.workers(near=near)
            running = {worker.id: worker.running for worker in found}
            assert running == {first: 2, second: 2, idle: 0}

    async def test_worker_ids_are_never_used_again(self, store: Store) -> None:
        """Neither after leaving nor after vanishing: an old heartbeat must not keep a stranger."""
        seen: list[int] = []
        for n in range(3):
            seen += [await join(store, expiry=1, now=at(n * 100)) for _ in range(2)]
            await store.retire(seen[-1])
            await store.rescue(now=at(n * 100 + 50))
        assert await store.workers() == []
        assert len(set(seen)) == len(seen)

    async def test_a_beat_prolongs_life(self, store: Store) -> None:
        """From now on, by what it says; other workers are not prolonged with it."""
        beating, silent = await join(store, expiry=10), await join(store, expiry=10)
        beat = await store.beat(beating, expiry=30, stuck=2, now=at(5))
        assert beat == Beat(True, ())
        workers = {worker.id: worker for worker in await store.workers()}
        assert (workers[beating].beat_at, workers[beating].expires_at) == (at(5), at(35))
        assert workers[beating].started_at == NOW
        assert (workers[silent].beat_at, workers[silent].expires_at) == (NOW, at(10))
        assert (workers[beating].stuck, workers[silent].stuck) == (2, 0)
        await store.rescue(now=at(20))
        assert [worker.id for worker in await store.workers()] == [beating]

    async def test_stuck_slots_come_back(self, store: Store) -> None:
        """Each beat says how many there are now."""
        worker = await join(store)
        for stuck in (3, 1, 0):
            await store.beat(worker, expiry=60, stuck=stuck, now=NOW)
            assert (await store.workers())[0].stuck == stuck

    async def test_a_late_beat_still_counts(self, store: Store) -> None:
        """An expired worker whose jobs are not rescued yet is still registered, and alive again."""
        worker = await join(store, expiry=1)
        await put(store, due())
        claim = await take_one(store, worker)
        assert (await store.beat(worker, expiry=60, now=at(30))).alive
        assert await store.rescue(now=at(40)) == []
        assert await store.settle(worker, [ended(claim)], now=at(40)) == {claim.id}

    async def test_a_beat_of_somebody_unknown(self, store: Store) -> None:
        """Rescued from, retired, or never seen: not registered, and not made so."""
        vanished, retired = await join(store, expiry=1), await join(store)
        await store.retire(retired)
        await store.rescue(now=at(30))
        for worker in (vanished, retired, 4_711):
            assert await store.beat(worker, expiry=60, now=at(31)) == Beat(False, ())
        assert await store.workers() == []

    async def test_alive_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, a worker lives on from the moment of the call."""
        worker = await store.register(newcomer(), expiry=SLACK)
        await store.beat(worker, expiry=1_000)
        [record] = await store.workers()
        assert record.alive
        assert 0 <= (record.beat_at - record.started_at).total_seconds() < SLACK
        left = (record.expires_at - record.beat_at).total_seconds()
        assert left == pytest.approx(1_000, abs=1)
        assert await store.rescue() == []
        assert len(await store.workers()) == 1

    async def test_listening(self, store: Store) -> None:
        """Each worker for itself; a beat changes nothing about it."""
        one, other = await join(store), await join(store)
        await store.listen(one, False)
        await store.beat(one, expiry=60, now=NOW)
        listening = {worker.id: worker.listening for worker in await store.workers()}
        assert listening == {one: False, other: True}
        await store.listen(one, True)
        assert all(worker.listening for worker in await store.workers())
        await store.listen(4_711, True)
        assert len(await store.workers()) == 2

    async def test_retiring(self, store: Store) -> None:
        """The worker is gone; its jobs wait as if it had not taken them; others keep theirs."""
        leaving, staying = await join(store), await join(store)
        ids = await put(store, *(due(run_at=at(n - 9)) for n in range(5)))
        await take(store, leaving, 2)
        theirs = await take(store, staying, 1)
        await store.retire(leaving)
        assert [worker.id for worker in await store.workers()] == [staying]
        given = await take(store, staying)
        assert ids_of(given) == [ids[0], ids[1], ids[3], ids[4]]
        assert {claim.attempt for claim in given} == {1}
        assert (await store.job(ids[0])).attempts == ()
        assert theirs[0][:2] in await store.held(staying)

    async def test_retiring_twice(self, store: Store) -> None:
        """The second call changes nothing; nor does one for a worker that never was."""
        worker = await join(store)
        await store.retire(worker)
        await store.retire(worker)
        await store.retire(4_711)
        assert await store.workers() == []


class RescueContract:
    """`Store.rescue`."""

    async def test_nothing_to_rescue(self, store: Store) -> None:
        """No workers; workers that live; workers without jobs."""
        assert await store.rescue(now=NOW) == []
        await join(store, expiry=1)
        alive = await join(store, expiry=60)
        assert await store.rescue(now=at(30)) == []
        assert [worker.id for worker in await store.workers()] == [alive]

    async def test_only_expired_workers(self, store: Store) -> None:
        """Those whose time has passed; a job that runs long on a live worker stays there."""
        vanished, alive = await join(store, expiry=15), await join(store, expiry=15)
        await put(store, *(due() for _ in range(4)))
        theirs, ours = await take(store, vanished, 2), await take(store, alive, 2)
        await store.beat(alive, expiry=15, now=at(10_000))
        assert await store.rescue(now=at(14)) == []
        rescued = await store.rescue(now=at(10_010))
        assert sorted(id for id, _ in rescued) == ids_of(theirs)
        assert [worker.id for worker in await store.workers()] == [alive]
        batch = [ended(claim) for claim in ours]
        assert await store.settle(alive, batch, now=at(10_010)) == set(ids_of(ours))

    async def test_a_new_run_and_a_lost_attempt(self, store: Store) -> None:
        """The attempt stays counted and is kept in history; the next claim continues the run."""
        vanished, alive = await join(store, expiry=1), await join(store, expiry=600)
        [id] = await put(store, due())
        claim = await take_one(store, vanished)
        [(rescued, run)] = await store.rescue(now=at(60))
        assert (rescued, run > claim.run) == (id, True)
        record = await store.job(id)
        assert (record.state, record.attempt, record.finished_at) == (JobState.READY, 1, None)
        [attempt] = record.attempts
        assert (attempt.outcome, attempt.attempt) == (OutcomeKind.LOST, 1)
        assert (attempt.run, attempt.worker) == (claim.run, vanished)
        assert NOW <= attempt.started_at <= attempt.finished_at <= at(60)
        again = await take_one(store, alive, now=at(60))
        assert (again.run, again.attempt) == (run + 1, 2)

    async def test_time_and_again(self, store: Store) -> None:
        """A job that outlives several workers keeps a row for each."""
        [id] = await put(store, due())
        for n in range(3):
            await take_one(store, await join(store, expiry=1, now=at(n * 10)), now=at(n * 10))
            assert [job for job, _ in await store.rescue(now=at(n * 10 + 5))] == [id]
        attempts = (await store.job(id)).attempts
        assert [(each.outcome, each.attempt) for each in attempts] == [
            (OutcomeKind.LOST, n) for n in (1, 2, 3)
        ]

    async def test_rescued_to_their_place(self, store: Store) -> None:
        """In front of what came after them."""
        ids = await put(store, *(due(run_at=at(n - 10)) for n in range(6)))
        vanished, alive = await join(store, expiry=1), await join(store, expiry=600)
        await take(store, vanished, 3)
        await store.rescue(now=at(60))
        assert ids_of(await take(store, alive, now=NOW)) == ids

    async def test_out_of_attempts_too(self, store: Store) -> None:
        """The next worker that claims it decides; the store does not bury it."""
        [id] = await put(store, due(max_attempts=1))
        vanished, alive = await join(store, expiry=1), await join(store, expiry=600)
        await take_one(store, vanished)
        await store.rescue(now=at(60))
        claim = await take_one(store, alive, now=at(60))
        assert (claim.id, claim.attempt, claim.max_attempts) == (id, 2, 1)

    async def test_twice_is_once(self, store: Store) -> None:
        """A rescued job is not rescued again."""
        await put(store, due())
        await take_one(store, await join(store, expiry=1))
        assert len(await store.rescue(now=at(60))) == 1
        assert await store.rescue(now=at(60)) == []
        assert await store.rescue(now=FAR_AHEAD) == []

    async def test_many_workers_and_jobs(self, store: Store) -> None:
        """A whole machine gone: everything it held comes back in one call."""
        workers = [await join(store, expiry=1) for _ in range(5)]
        ids = await put(store, *(due() for _ in range(1_000)))
        for worker in workers:
            assert len(await take(store, worker, 150)) == 150
        rescued = await store.rescue(now=at(60))
        assert sorted(id for id, _ in rescued) == ids[:750]
        assert len({id for id, _ in rescued}) == 750
        waiting = await store.jobs(JobFilter(state=JobState.READY, limit=None))
        assert len(waiting) == 1_000

    async def test_finished_jobs_stay_finished(self, store: Store) -> None:
        """Only what the vanished worker still held comes back."""
        vanished = await join(store, expiry=1)
        ids = await put(store, due(), due(), due())
        done, again, _ = await take(store, vanished)
        batch = [ended(done), ended(again, OutcomeKind.RETRIED, after=500)]
        await store.settle(vanished, batch, now=NOW)
        assert [id for id, _ in await store.rescue(now=at(60))] == [ids[2]]
        assert (await store.job(ids[0])).state == JobState.SUCCEEDED
        assert (await store.job(ids[1])).run_at == at(500)
