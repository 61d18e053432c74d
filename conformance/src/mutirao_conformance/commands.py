"""Commands of people: cancel jobs, run them now."""

import pytest

from mutirao.model.jobs.job import Beat, JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)

CUT_SHORT = [OutcomeKind.RETRIED, OutcomeKind.SNOOZED, OutcomeKind.RELEASED]


class CancelContract:
    """`Store.cancel`."""

    async def test_nothing_to_cancel(self, store: Store) -> None:
        """No jobs, none that match, or an empty list of ids, which is not all of them."""
        assert await store.cancel(JobFilter(), now=NOW) == []
        ids = await put(store, due())
        assert await store.cancel(JobFilter(ids=()), now=NOW) == []
        assert await store.cancel(JobFilter(queue="elsewhere"), now=NOW) == []
        assert await store.cancel(JobFilter(ids=(4_711,)), now=NOW) == []
        assert ids_of(await take(store, await join(store))) == ids

    async def test_waiting_ones_end(self, store: Store) -> None:
        """Due or not: finished at once, recorded in history, never claimed."""
        ids = await put(store, due(), due(run_at=FAR_AHEAD))
        assert sorted(await store.cancel(JobFilter(), now=at(5))) == ids
        for id in ids:
            record = await store.job(id)
            assert (record.state, record.attempt) == (JobState.CANCELLED, 0)
            assert record.finished_at == at(5)
            [attempt] = record.attempts
            assert attempt.outcome == OutcomeKind.CANCELLED
        assert await store.lanes(None, now=FAR_AHEAD) == []
        assert await store.cancel(JobFilter(), now=at(6)) == []

    @pytest.mark.parametrize("how", ["retried", "released", "given back", "rescued", "retired"])
    async def test_waiting_again(self, store: Store, how: str) -> None:
        """A job that has run before ends as well, after everything else in its history."""
        worker = await join(store, expiry=1)
        [id] = await put(store, due())
        claim = await take_one(store, worker)
        if how == "rescued":
            await store.rescue(now=at(30))
        elif how == "retired":
            await store.retire(worker)
        elif how == "given back":
            await store.release([(claim.id, claim.run)])
        else:
            await store.settle(worker, [ended(claim, OutcomeKind(how), after=60)], now=NOW)
        before = (await store.job(id)).attempts
        assert await store.cancel(JobFilter(ids=(id,)), now=at(40)) == [id]
        record = await store.job(id)
        assert (record.state, record.finished_at) == (JobState.CANCELLED, at(40))
        assert record.attempts[:-1] == before
        assert record.attempts[-1].outcome == OutcomeKind.CANCELLED
        assert len({attempt.run for attempt in record.attempts}) == len(record.attempts)
        stale = ended(claim, follow_up=due("after"))
        assert await store.settle(worker, [stale], now=at(41)) == set()

    async def test_running_ones_are_flagged(self, store: Store) -> None:
        """They keep running; each heartbeat of their worker returns them until they are settled."""
        worker, other = await join(store), await join(store)
        await put(store, *(due() for _ in range(4)))
        claims, theirs = await take(store, worker, 2), await take(store, other, 2)
        flagged = [claims[0].id, theirs[1].id]
        assert sorted(await store.cancel(JobFilter(ids=tuple(flagged)), now=NOW)) == flagged
        for id in flagged:
            record = await store.job(id)
            assert (record.state, record.attempts) == (JobState.RUNNING, ())
        for _ in range(2):
            beat = await store.beat(worker, expiry=60, now=NOW)
            assert beat == Beat(True, ((claims[0].id, claims[0].run),))
        assert (await store.beat(other, expiry=60, now=NOW)).cancelled == (theirs[1][:2],)
        cancelled = ended(claims[0], OutcomeKind.CANCELLED)
        assert await store.settle(worker, [cancelled], now=NOW) == {claims[0].id}
        assert (await store.beat(worker, expiry=60, now=NOW)).cancelled == ()
        assert (await store.job(claims[0].id)).state == JobState.CANCELLED

    async def test_a_job_may_finish_before_it_hears(self, store: Store) -> None:
        """A job that has succeeded stays so."""
        worker = await join(store)
        [id] = await put(store, due())
        claim = await take_one(store, worker)
        await store.cancel(JobFilter(ids=(id,)), now=NOW)
        assert await store.settle(worker, [ended(claim)], now=NOW) == {id}
        assert (await store.job(id)).state == JobState.SUCCEEDED

    @pytest.mark.parametrize("kind", CUT_SHORT)
    async def test_a_flagged_job_does_not_wait_again(self, store: Store, kind: OutcomeKind) -> None:
        """It is due at once instead, and its next claim says so."""
        worker = await join(store)
        [id] = await put(store, due())
        claim = await take_one(store, worker)
        assert not claim.cancel
        await store.cancel(JobFilter(ids=(id,)), now=NOW)
        later = ended(claim, kind, after=3_600)
        assert await store.settle(worker, [later], now=at(1)) == {id}
        again = await take_one(store, worker, now=at(1))
        assert (again.id, again.cancel) == (id, True)
        assert (await store.beat(worker, expiry=60, now=at(1))).cancelled == (again[:2],)

    async def test_the_flag_outlives_the_worker(self, store: Store) -> None:
        """After a rescue or a release, the next claim of the job has the flag."""
        worker = await join(store, expiry=1)
        ids = await put(store, due(), due(), due())
        claims = await take(store, worker)
        await store.cancel(JobFilter(ids=tuple(ids[:2])), now=NOW)
        await store.release([claims[0][:2]])
        await store.rescue(now=at(60))
        again = await take(store, await join(store), now=at(60))
        assert {claim.id: claim.cancel for claim in again} == dict(
            zip(ids, (True, True, False), strict=True)
        )

    async def test_finished_ones_stay_as_they_are(self, store: Store) -> None:
        """A finished job cannot be cancelled, and is not returned."""
        worker = await join(store)
        finals = [kind for kind in OutcomeKind if kind.final]
        ids = [id for kind in finals for id in await put_finished(store, worker, due(), kind=kind)]
        before = [await store.job(id) for id in ids]
        assert await store.cancel(JobFilter(), now=NOW) == []
        assert await store.cancel(JobFilter(ids=tuple(ids)), now=NOW) == []
        assert [await store.job(id) for id in ids] == before

    async def test_only_those_meant_are_cancelled(self, store: Store) -> None:
        """By queue, by tag, by state; the others go on."""
        ids = await put(
            store, due(queue="a"), due(queue="b", tags=("x",)), due(queue="b", run_at=FAR_AHEAD),
            due(queue="c"),
        )  # fmt: skip
        assert await store.cancel(JobFilter(queue="a"), now=NOW) == [ids[0]]
        assert await store.cancel(JobFilter(tag="x"), now=NOW) == [ids[1]]
        assert await store.cancel(JobFilter(state=JobState.RUNNING), now=NOW) == []
        assert await store.cancel(JobFilter(state=JobState.CANCELLED), now=NOW) == []
        assert await store.cancel(JobFilter(state=JobState.SCHEDULED), now=NOW) == [ids[2]]
        assert ids_of(await take(store, await join(store))) == [ids[3]]

    async def test_the_limit_counts_live_jobs(self, store: Store) -> None:
        """Finished ones in between do not use it up."""
        worker = await join(store)
        live = await put(store, *(due(run_at=FAR_AHEAD) for _ in range(3)))
        await put_finished(store, worker, *(due() for _ in range(5)))
        first = await store.cancel(JobFilter(limit=2), now=NOW)
        second = await store.cancel(JobFilter(limit=2), now=NOW)
        assert (len(first), sorted(first + second)) == (2, live)

    async def test_all_of_them(self, store: Store) -> None:
        """Thousands at once, where no limit is set."""
        ids = await put(store, *(due() for _ in range(2_500)))
        await take(store, await join(store), 100)
        cancelled = await store.cancel(JobFilter(limit=None), now=NOW)
        assert sorted(cancelled) == ids
        states = {count.state: count.jobs for count in await store.counts()}
        assert states == {JobState.RUNNING: 100, JobState.CANCELLED: 2_400}


class RunNowContract:
    """`Store.run_now`."""

    async def test_waiting_ones_are_due(self, store: Store) -> None:
        """Whatever they wait for: their first run, or another attempt."""
        worker = await join(store)
        [retried] = await put(store, due())
        failed = ended(await take_one(store, worker), OutcomeKind.RETRIED, at=FAR_AHEAD)
        await store.settle(worker, [failed], now=NOW)
        [scheduled] = await put(store, due(run_at=FAR_AHEAD))
        assert await take(store, worker) == []
        assert sorted(await store.run_now(JobFilter(), now=NOW)) == [retried, scheduled]
        assert all(head.due_in <= 0 for head in await store.lanes(None, now=NOW))
        claims = {claim.id: claim for claim in await take(store, worker)}
        assert {id: claim.attempt for id, claim in claims.items()} == {retried: 2, scheduled: 1}

    async def test_only_those_meant_are_made_due(self, store: Store) -> None:
        """And none where nothing matches, or no id is named."""
        ids = await put(store, due(queue="a", run_at=FAR_AHEAD), due(queue="b", run_at=FAR_AHEAD))
        assert await store.run_now(JobFilter(ids=()), now=NOW) == []
        assert await store.run_now(JobFilter(queue="elsewhere"), now=NOW) == []
        assert await store.run_now(JobFilter(queue="b"), now=NOW) == [ids[1]]
        assert ids_of(await take(store, await join(store))) == [ids[1]]

    async def test_jobs_that_do_not_wait(self, store: Store) -> None:
        """Running and finished ones stay as they are, and are not returned."""
        worker = await join(store)
        [finished] = await put_finished(store, worker, due())
        [running] = await put(store, due())
        await take_one(store, worker)
        before = [await store.job(finished), await store.job(running)]
        assert await store.run_now(JobFilter(), now=at(5)) == []
        assert [await store.job(finished), await store.job(running)] == before

    async def test_the_limit_counts_waiting_jobs(self, store: Store) -> None:
        """Finished ones in between do not use it up."""
        waiting = await put(store, *(due(run_at=FAR_AHEAD) for _ in range(3)))
        await put_finished(store, await join(store), *(due() for _ in range(5)))
        made_due = await store.run_now(JobFilter(state=JobState.SCHEDULED, limit=2), now=NOW)
        assert len(made_due) == 2
        assert set(made_due) < set(waiting)
        more = await store.run_now(JobFilter(limit=3), now=NOW)
        assert sorted(set(made_due) | set(more)) == waiting
