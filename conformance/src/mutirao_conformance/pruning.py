"""Pruning: only jobs that ended long ago are deleted."""

import pytest

from mutirao.errors import UnknownJob
from mutirao.model.jobs.job import JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    finish,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)

FINAL = [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.CANCELLED]
NOT_FINAL = [kind for kind in OutcomeKind if kind not in FINAL]


async def left(store: Store) -> list[int]:
    """Return the ids of all jobs there are."""
    return sorted(ids_of(await store.jobs(JobFilter(limit=None))))


class PruningContract:
    """`Store.prune`."""

    async def test_nothing_to_prune(self, store: Store) -> None:
        """No jobs at all, or none that ended."""
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 0
        ids = await put(store, due(), due())
        await take(store, await join(store), 1)
        for kind in OutcomeKind:
            assert await store.prune(kind, 0, 10, now=FAR_AHEAD) == 0
        assert await left(store) == ids

    @pytest.mark.parametrize("kind", FINAL)
    async def test_only_that_outcome(self, store: Store, kind: OutcomeKind) -> None:
        """Jobs that ended otherwise stay, however old."""
        worker = await join(store)
        ids = {each: await put_finished(store, worker, due(), due(), kind=each) for each in FINAL}
        assert await store.prune(kind, 10, 100, now=at(60)) == 2
        assert await left(store) == sorted(id for k in FINAL if k != kind for id in ids[k])

    async def test_everything_about_it(self, store: Store) -> None:
        """The job is unknown then, with all its attempts; nothing else has changed."""
        worker = await join(store)
        old, young = await put(store, due(), due())
        for _ in range(2):
            claims = await take(store, worker)
            batch = [ended(claim, OutcomeKind.RETRIED) for claim in claims]
            await store.settle(worker, batch, now=NOW)
        first, second = await take(store, worker)
        assert ids_of([first, second]) == [old, young]
        await finish(store, worker, [first], now=at(0))
        await finish(store, worker, [second], now=at(50))
        kept = await store.job(young)
        assert await store.prune(OutcomeKind.SUCCEEDED, 30, 100, now=at(60)) == 1
        with pytest.raises(UnknownJob):
            await store.job(old)
        assert await store.job(young) == kept
        assert len(kept.attempts) == 3

    async def test_only_old_enough(self, store: Store) -> None:
        """More than `before` seconds since the end; when it was enqueued does not count."""
        worker = await join(store)
        ids = [
            id
            for moment in (0, 10, 20)
            for id in await put_finished(store, worker, due(), now=at(moment))
        ]
        assert await store.prune(OutcomeKind.SUCCEEDED, 100, 100, now=at(99)) == 0
        assert await store.prune(OutcomeKind.SUCCEEDED, 100, 100, now=at(111)) == 2
        assert await left(store) == ids[2:]

    async def test_the_moment_is_that_of_the_end(self, store: Store) -> None:
        """`finished_ago` before the settlement was written."""
        worker = await join(store)
        ids = await put(store, due(), due())
        claims = await take(store, worker)
        batch = [ended(claims[0], finished_ago=50.0), ended(claims[1])]
        await store.settle(worker, batch, now=NOW)
        assert await store.prune(OutcomeKind.SUCCEEDED, 40, 100, now=NOW) == 1
        assert await left(store) == [ids[1]]

    async def test_oldest_first_and_not_too_many(self, store: Store) -> None:
        """In small batches, from the far end of history, until nothing is left."""
        worker = await join(store)
        by_age = {
            moment: (await put_finished(store, worker, due(), now=at(moment)))[0]
            for moment in (30, 10, 50, 20, 40)
        }
        oldest_first = [by_age[moment] for moment in sorted(by_age)]
        for pruned, number in [(2, 2), (4, 2), (5, 1), (5, 0)]:
            assert await store.prune(OutcomeKind.SUCCEEDED, 0, 2, now=at(99)) == number
            assert await left(store) == sorted(oldest_first[pruned:])

    async def test_a_limit_of_nothing(self, store: Store) -> None:
        """Prunes nothing."""
        ids = await put_finished(store, await join(store), due())
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 0, now=FAR_AHEAD) == 0
        assert await left(store) == ids

    @pytest.mark.parametrize("kind", NOT_FINAL)
    async def test_live_jobs_are_never_touched(self, store: Store, kind: OutcomeKind) -> None:
        """An old attempt of a job that still waits or runs is no end."""
        worker = await join(store, expiry=1)
        ids = await put(store, due(), due())
        claims = await take(store, worker)
        if kind == OutcomeKind.LOST:
            await store.rescue(now=at(60))
        else:
            await store.settle(worker, [ended(claim, kind) for claim in claims], now=NOW)
        await take(store, await join(store), 1, now=at(60))
        before = [await store.job(id) for id in ids]
        for each in OutcomeKind:
            assert await store.prune(each, 0, 100, now=FAR_AHEAD) == 0
        assert [await store.job(id) for id in ids] == before
        assert sorted(record.state for record in before) == [JobState.READY, JobState.RUNNING]

    @pytest.mark.parametrize("earlier", NOT_FINAL)
    async def test_only_the_end_counts(self, store: Store, earlier: OutcomeKind) -> None:
        """A job that was retried, lost or snoozed on its way ended with its last outcome."""
        worker = await join(store, expiry=1)
        [id] = await put(store, due())
        claim = await take_one(store, worker)
        if earlier == OutcomeKind.LOST:
            await store.rescue(now=at(60))
        else:
            await store.settle(worker, [ended(claim, earlier)], now=NOW)
        worker = await join(store)
        await finish(store, worker, await take(store, worker, now=at(60)), now=at(60))
        for kind in set(OutcomeKind) - {OutcomeKind.SUCCEEDED}:
            assert await store.prune(kind, 0, 100, now=FAR_AHEAD) == 0
        assert len((await store.job(id)).attempts) == 2
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 100, now=FAR_AHEAD) == 1
        assert await left(store) == []

    async def test_old_attempts_of_a_young_end(self, store: Store) -> None:
        """Age is that of the end: a job that tried for weeks and ended now stays."""
        worker = await join(store)
        ids = await put(store, due())
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED)
        await store.settle(worker, [failed], now=NOW)
        later = at(1_000_000)
        await finish(store, worker, await take(store, worker, now=later), now=later)
        assert await store.prune(OutcomeKind.SUCCEEDED, 500, 100, now=at(1_000_100)) == 0
        assert await left(store) == ids

    async def test_what_was_cancelled_while_it_waited(self, store: Store) -> None:
        """It has an end like any other."""
        await put(store, due(), due(run_at=FAR_AHEAD))
        await store.cancel(JobFilter(), now=NOW)
        assert await store.prune(OutcomeKind.CANCELLED, 10, 100, now=at(9)) == 0
        assert await store.prune(OutcomeKind.CANCELLED, 10, 100, now=at(11)) == 2
        assert await left(store) == []

    async def test_a_redriven_job_outlives_its_original(self, store: Store) -> None:
        """The new job is a job of its own."""
        worker = await join(store)
        [dead] = await put_finished(store, worker, due(), kind=OutcomeKind.DEAD)
        [again] = await store.redrive(JobFilter(ids=(dead,)))
        assert await store.prune(OutcomeKind.DEAD, 10, 100, now=at(60)) == 1
        assert await left(store) == [again]
        assert (await store.job(again)).redrive_of == dead

    async def test_pruned_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, what ended in 2024 is years old and what ends now is not."""
        worker = await join(store, now=None)
        await put_finished(store, worker, due())
        [young] = await put(store, due())
        await store.settle(worker, [ended(await take_one(store, worker))])
        assert await store.prune(OutcomeKind.SUCCEEDED, 86_400, 100) == 1
        assert await left(store) == [young]

    async def test_a_thousand_pruned(self, store: Store) -> None:
        """A thousand in one batch."""
        await put_finished(store, await join(store), *(due() for _ in range(1_500)))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 1_000, now=FAR_AHEAD) == 1_000
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 1_000, now=FAR_AHEAD) == 500
        assert await left(store) == []
