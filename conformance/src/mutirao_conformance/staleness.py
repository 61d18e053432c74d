"""The fence: only the holder of the current run can write. And the release of jobs."""

import pytest

from mutirao.model.jobs.job import Claim, JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    NOW,
    at,
    due,
    ended,
    ids_of,
    join,
    put,
    take,
    take_one,
)

ALL_KINDS = [kind for kind in OutcomeKind if kind != OutcomeKind.LOST]


async def refuses(store: Store, worker: int, claim: Claim) -> None:
    """Assert that this run may neither settle, with whatever outcome, nor give back."""
    before = await store.job(claim.id)
    for kind in ALL_KINDS:
        stale = ended(claim, kind, after=5, follow_up=due("after"))
        assert await store.settle(worker, [stale], now=NOW) == set()
    assert await store.release([(claim.id, claim.run)]) == set()
    assert await store.job(claim.id) == before
    assert await store.jobs(JobFilter(task="after")) == []


class StalenessContract:
    """`Store.settle` and `Store.release`, when the run is not the current one."""

    @pytest.mark.parametrize("kind", ALL_KINDS)
    async def test_a_second_outcome_of_a_run(self, store: Store, kind: OutcomeKind) -> None:
        """Only the first outcome of a run is written, whether the job ended with it or waits."""
        await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await store.settle(worker, [ended(claim, kind)], now=NOW) == {claim.id}
        await refuses(store, worker, claim)

    async def test_twice_in_one_batch(self, store: Store) -> None:
        """The same run with two outcomes in one batch: one row, and one of them holds."""
        await put(store, due(), due())
        worker = await join(store)
        claims = await take(store, worker)
        batch = [ended(claims[0]), ended(claims[0]), ended(claims[1]), ended(claims[1])]
        assert await store.settle(worker, batch, now=NOW) == set(ids_of(claims))
        assert [len((await store.job(claim.id)).attempts) for claim in claims] == [1, 1]

    async def test_an_old_run_of_a_retried_job(self, store: Store) -> None:
        """The late outcome of the first attempt does not touch the second one."""
        await put(store, due())
        worker = await join(store)
        first = await take_one(store, worker)
        await store.settle(worker, [ended(first, OutcomeKind.RETRIED)], now=NOW)
        second = await take_one(store, worker)
        assert second.run > first.run
        await refuses(store, worker, first)
        assert await store.settle(worker, [ended(second)], now=NOW) == {second.id}

    async def test_a_run_that_was_given_back(self, store: Store) -> None:
        """Neither while the job waits, nor when somebody else has taken it."""
        await put(store, due())
        worker, other = await join(store), await join(store)
        claim = await take_one(store, worker)
        assert await store.release([(claim.id, claim.run)]) == {claim.id}
        await refuses(store, worker, claim)
        theirs = await take_one(store, other)
        await refuses(store, worker, claim)
        assert await store.settle(other, [ended(theirs)], now=NOW) == {claim.id}

    async def test_a_run_that_was_rescued_from(self, store: Store) -> None:
        """Neither while the job waits, nor when somebody else has taken it."""
        await put(store, due())
        vanished, other = await join(store, expiry=1), await join(store, expiry=600)
        claim = await take_one(store, vanished)
        assert [id for id, _ in await store.rescue(now=at(60))] == [claim.id]
        await refuses(store, vanished, claim)
        theirs = await take_one(store, other)
        await refuses(store, vanished, claim)
        assert await store.settle(other, [ended(theirs)], now=NOW) == {claim.id}

    async def test_the_new_run_of_a_rescue_is_nobody_s(self, store: Store) -> None:
        """Until the job is claimed, not even the run that the rescue returned may settle."""
        await put(store, due())
        vanished = await join(store, expiry=1)
        claim = await take_one(store, vanished)
        [(_, run)] = await store.rescue(now=at(60))
        await refuses(store, vanished, claim._replace(run=run))

    async def test_a_run_of_a_retired_worker(self, store: Store) -> None:
        """It has given everything back when it left."""
        await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        await store.retire(worker)
        await refuses(store, worker, claim)

    async def test_a_run_to_come(self, store: Store) -> None:
        """A run that no claim has returned yet is not current either."""
        await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        await refuses(store, worker, claim._replace(run=claim.run + 1))
        assert await store.held(worker) == [(claim.id, claim.run)]

    async def test_a_job_never_claimed(self, store: Store) -> None:
        """A waiting job has no run that may settle it."""
        await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        [waiting] = await put(store, due())
        for run in (0, 1):
            await refuses(store, worker, claim._replace(id=waiting, run=run))

    async def test_stale_and_current_in_one_batch(self, store: Store) -> None:
        """The stale ones are dropped with their follow-ups, the others are written with theirs."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(6)))
        claims = await take(store, worker)
        await store.release([(claim.id, claim.run) for claim in claims[::2]])
        batch = [
            ended(claim, kind, follow_up=due("after", on_dead_of=claim.id))
            for claim, kind in zip(claims, ALL_KINDS, strict=True)
        ]
        assert await store.settle(worker, batch, now=NOW) == set(ids[1::2])
        after = await store.jobs(JobFilter(task="after"))
        assert sorted(record.on_dead_of or 0 for record in after) == ids[1::2]
        assert [len((await store.job(id)).attempts) for id in ids] == [0, 1, 0, 1, 0, 1]


class ReleaseContract:
    """`Store.release`, when the runs are current."""

    async def test_nothing_to_give_back(self, store: Store) -> None:
        """No jobs, no ids; unknown jobs neither."""
        assert await store.release([]) == set()
        assert await store.release([(4_711, 1)]) == set()

    async def test_no_attempt_and_no_history(self, store: Store) -> None:
        """As if it had never been taken, but for its run."""
        [id] = await put(store, due())
        worker = await join(store)
        fresh = await store.job(id)
        claim = await take_one(store, worker)
        assert await store.release([(claim.id, claim.run)]) == {id}
        assert await store.job(id) == fresh
        assert (fresh.state, fresh.attempt, fresh.attempts) == (JobState.READY, 0, ())
        assert await store.held(worker) == []

    async def test_given_back_to_their_place(self, store: Store) -> None:
        """In front of what came after them, in whatever order they are given back."""
        ids = await put(store, *(due(run_at=at(n - 10)) for n in range(8)))
        worker = await join(store)
        claims = await take(store, worker, 5)
        given = [(claim.id, claim.run) for claim in (claims[3], claims[0], claims[4])]
        assert await store.release(given) == {ids[3], ids[0], ids[4]}
        assert ids_of(await take(store, worker)) == [ids[n] for n in (0, 3, 4, 5, 6, 7)]

    async def test_only_the_current_runs(self, store: Store) -> None:
        """Stale ones are left out of the answer, and left alone."""
        ids = await put(store, *(due() for _ in range(3)))
        worker = await join(store)
        done, old, held = await take(store, worker)
        await store.settle(worker, [ended(done)], now=NOW)
        pairs = [(done.id, done.run), (old.id, old.run + 1), (held.id, held.run), (4_711, 1)]
        assert await store.release(pairs) == {held.id}
        assert await store.held(worker) == [(ids[1], old.run)]

    async def test_thousands_given_back(self, store: Store) -> None:
        """As many as a worker may have prefetched."""
        ids = await put(store, *(due() for _ in range(3_000)))
        worker = await join(store)
        claims = await take(store, worker, 3_000)
        assert await store.release([(claim.id, claim.run) for claim in claims]) == set(ids)
        assert ids_of(await take(store, worker, 3_000)) == ids

    async def test_a_counted_attempt_stays_counted(self, store: Store) -> None:
        """Only the attempt of this claim is given back, not those before it."""
        await put(store, due())
        worker = await join(store)
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED)
        await store.settle(worker, [failed], now=NOW)
        claim = await take_one(store, worker)
        await store.release([(claim.id, claim.run)])
        assert (await store.job(claim.id)).attempt == 1
        assert (await take_one(store, worker)).attempt == 2
