"""Unique keys: which job holds a key, which one waits for it, and when it is released."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao.errors import DuplicateJob
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.uniqueness import How, OnConflict, Placed, Unique
from mutirao.ports import Store
from mutirao_conformance.enqueueing import AWKWARD
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
    newcomer,
    put,
    put_finished,
    take,
    take_one,
)
from mutirao_conformance.transactions import Handler, Watched, run

MODES = list(OnConflict)
MOVING = [OnConflict.REPLACE, OnConflict.RERUN]


def keyed(mode: str = "keep", key: str = "k", *, n: int = 0, **options: Any) -> NewJob:
    """Return a job with a unique key, due at NOW unless `options` say otherwise."""
    terms = {name: options.pop(name) for name in ("scope", "unique_for", "debounce_limit")
             if name in options}  # fmt: skip
    unique = Unique(on_conflict=OnConflict(mode), **terms)
    return due(key=key, args=f'{{"n": {n}}}', unique=unique, **options)


async def placed(store: Store, job: NewJob, face: Face = "aenqueue") -> tuple[int, How]:
    """Enqueue a job with a unique key; return the id of the job that is kept, and how."""
    [id] = await enqueue(store, face, [job])
    assert isinstance(id, Placed)
    return int(id), id.how


async def live_jobs(store: Store) -> list[int]:
    """Return the ids of all live jobs, oldest first."""
    states = {JobState.SCHEDULED, JobState.BLOCKED, JobState.READY, JobState.RUNNING}
    return sorted(job.id for job in await store.jobs(JobFilter(limit=None)) if job.state in states)


async def state_of(store: Store, id: int) -> tuple[JobState, str | None]:
    """Return a job's state and the last word about it."""
    job = await store.job(id)
    return job.state, job.error


class UniquenessContract:
    """`NewJob.unique`: at most one live job has a key, but for one that waits for a running one."""

    @pytest.mark.parametrize("mode", MODES)
    async def test_the_first_is_inserted(self, store: Store, mode: str) -> None:
        """With a key that no live job has, nothing is different."""
        id, how = await placed(store, keyed(mode))
        assert how == "inserted"
        claim = await take_one(store, await join(store))
        assert (claim.id, claim.key) == (id, "k")

    async def test_keep(self, store: Store, face: Face) -> None:
        """The live job stays, waiting or running, until it has finished."""
        first, _ = await placed(store, keyed(n=1), face)
        assert await placed(store, keyed(n=2), face) == (first, "found")
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await placed(store, keyed(n=3), face) == (first, "found")
        retried = ended(claim, OutcomeKind.RETRIED, after=0.0)
        assert await store.settle(worker, [retried], now=NOW) == {first}
        assert await placed(store, keyed(n=4), face) == (first, "found")
        assert len(await store.jobs(JobFilter())) == 1
        await finish(store, worker, [await take_one(store, worker)])
        second, how = await placed(store, keyed(n=5), face)
        assert (second != first, how) == (True, "inserted")

    @pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD])
    @pytest.mark.parametrize("mode", MODES)
    async def test_the_end_frees_the_key(self, store: Store, mode: str, kind: OutcomeKind) -> None:
        """However the job ended."""
        await placed(store, keyed(mode))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)], kind)
        assert (await placed(store, keyed(mode)))[1] == "inserted"

    async def test_error(self, store: Store, face: Face) -> None:
        """The error names the live job, and nothing is written."""
        first, _ = await placed(store, keyed("error"), face)
        with pytest.raises(DuplicateJob, match=f"job {first} has the key 'k'") as raised:
            await placed(store, keyed("error"), face)
        assert raised.value.id == first
        with pytest.raises(DuplicateJob):
            await enqueue(store, face, [due(), keyed(key="other"), keyed("error"), due()])
        assert await live_jobs(store) == [first]

    @pytest.mark.parametrize("mode", MOVING)
    async def test_replacing_one_that_waits(self, store: Store, face: Face, mode: str) -> None:
        """The new one has its own arguments; the old one is cancelled, and history says by whom."""
        first, _ = await placed(store, keyed(mode, n=1), face)
        second, how = await placed(store, keyed(mode, n=2), face)
        third, again = await placed(store, keyed(mode, n=3), face)
        assert (how, again) == ("replaced", "replaced")
        assert await state_of(store, first) == (JobState.CANCELLED, f"replaced by job {second}")
        assert await state_of(store, second) == (JobState.CANCELLED, f"replaced by job {third}")
        claim = await take_one(store, await join(store))
        assert (claim.id, claim.args.replace(" ", "")) == (third, '{"n":3}')

    async def test_replace_moves_the_time(self, store: Store) -> None:
        """It is brought forward and pushed back, as the newest says."""
        await placed(store, keyed("replace", run_at=FAR_AHEAD))
        soon, _ = await placed(store, keyed("replace"))
        assert (await store.job(soon)).run_at == NOW
        late, _ = await placed(store, keyed("replace", run_at=FAR_AHEAD))
        assert (await store.job(late)).run_at == FAR_AHEAD

    async def test_rerun_moves_the_time_forward_only(self, store: Store) -> None:
        """So that a stream of updates cannot put a run off for ever."""
        await placed(store, keyed("rerun", run_at=FAR_AHEAD))
        soon, _ = await placed(store, keyed("rerun"))
        assert (await store.job(soon)).run_at == NOW
        late, _ = await placed(store, keyed("rerun", run_at=FAR_AHEAD))
        assert (await store.job(late)).run_at == NOW

    async def test_the_longest_wait(self, store: Store) -> None:
        """Replacing puts off by `debounce_limit` at most, counted from the first of them."""
        debounced = keyed("replace", run_at=None, delay=3_000.0, debounce_limit=4_000.0)
        first, _ = await placed(store, debounced)
        ids = [first] + [(await placed(store, debounced))[0] for _ in range(3)]
        longer = keyed("replace", run_at=FAR_AHEAD, debounce_limit=4_000.0)
        last, _ = await placed(store, longer)
        began, capped = await store.job(ids[0]), await store.job(last)
        waits = (capped.run_at - began.enqueued_at).total_seconds()
        assert waits == pytest.approx(4_000, abs=5)

    @pytest.mark.parametrize("mode", MOVING)
    async def test_once_more_after_a_running_one(self, store: Store, face: Face, mode: str) -> None:
        """Any number of updates meanwhile cost one run, with the newest arguments, afterwards."""
        worker = await join(store)
        first, _ = await placed(store, keyed(mode, n=1), face)
        running = await take_one(store, worker)
        hows = [(await placed(store, keyed(mode, n=n), face))[1] for n in range(2, 6)]
        assert hows == ["rerun"] * 4
        assert await take(store, worker) == []
        await finish(store, worker, [running])
        again = await take_one(store, worker)
        assert again.args.replace(" ", "") == '{"n":5}'
        assert again.run_at == NOW
        await finish(store, worker, [again])
        assert await live_jobs(store) == []
        finished = await store.jobs(JobFilter(state=JobState.SUCCEEDED))
        assert ids_of(finished) == [again.id, first]

    @pytest.mark.parametrize(
        "kind", [OutcomeKind.DEAD, OutcomeKind.CANCELLED, OutcomeKind.SUCCEEDED]
    )
    async def test_afterwards_however_it_ended(self, store: Store, kind: OutcomeKind) -> None:
        """The second run does not depend on how the first went."""
        worker = await join(store)
        await placed(store, keyed("rerun"))
        running = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun"))
        await finish(store, worker, [running], kind)
        assert (await take_one(store, worker)).id == second

    async def test_afterwards_when_its_transaction_commits(
        self, store: Store, handler: Handler
    ) -> None:
        """A job that completes in `job.transaction()` makes way as any other."""
        await placed(store, keyed("rerun"))
        worker = await join(store, now=None)
        running = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun"))
        await run(store, running, Watched(), handler)
        assert (await take_one(store, worker)).id == second

    async def test_a_job_that_is_given_back_is_replaced(self, store: Store) -> None:
        """With one that waits behind it, too: the newest is the only one left."""
        worker = await join(store)
        first, _ = await placed(store, keyed("rerun", n=1))
        claim = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun", n=2))
        assert await store.release([(claim.id, claim.run)]) == {first}
        third, how = await placed(store, keyed("rerun", n=3))
        assert how == "replaced"
        assert await live_jobs(store) == [third]
        assert await state_of(store, first) == (JobState.CANCELLED, f"replaced by job {third}")
        assert await state_of(store, second) == (JobState.CANCELLED, f"replaced by job {third}")
        assert (await take_one(store, worker)).id == third

    async def test_after_a_rescue(self, store: Store) -> None:
        """A vanished worker's job runs again first."""
        lost = await store.register(newcomer(), expiry=1.0, now=NOW)
        first, _ = await placed(store, keyed("rerun"))
        await take_one(store, lost)
        second, _ = await placed(store, keyed("rerun"))
        assert await store.rescue(now=at(60)) == [(first, 2)]
        worker = await join(store, now=at(60))
        await finish(store, worker, [await take_one(store, worker)])
        assert (await take_one(store, worker)).id == second

    async def test_after_somebody_cancelled_what_it_waits_for(self, store: Store) -> None:
        """Once it was given back, so that no worker settles it."""
        worker = await join(store)
        first, _ = await placed(store, keyed("rerun"))
        claim = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun"))
        await store.release([(claim.id, claim.run)])
        assert await store.cancel(JobFilter(ids=(first,)), now=NOW) == [first]
        assert (await take_one(store, worker)).id == second

    async def test_somebody_cancels_the_one_that_waits(self, store: Store) -> None:
        """Then the running one is the last; and another update comes after it again."""
        worker = await join(store)
        await placed(store, keyed("rerun"))
        running = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun"))
        assert await store.cancel(JobFilter(ids=(second,)), now=NOW) == [second]
        assert await placed(store, keyed("keep")) == (running.id, "found")
        third, how = await placed(store, keyed("rerun"))
        assert (how, await take(store, worker)) == ("rerun", [])
        await finish(store, worker, [running])
        assert await live_jobs(store) == [third]

    async def test_nobody_can_run_it_now(self, store: Store) -> None:
        """What waits for a running job is not made due before that has ended."""
        worker = await join(store)
        await placed(store, keyed("rerun"))
        running = await take_one(store, worker)
        second, _ = await placed(store, keyed("rerun", run_at=FAR_AHEAD))
        assert await store.run_now(JobFilter(ids=(second,)), now=NOW) == []
        await finish(store, worker, [running])
        assert await store.run_now(JobFilter(ids=(second,)), now=NOW) == [second]
        assert (await take_one(store, worker)).id == second

    async def test_a_cancelled_one_is_gone(self, store: Store) -> None:
        """Its key is free at once, window or not."""
        first, _ = await placed(store, keyed(unique_for=86_400.0))
        await store.cancel(JobFilter(ids=(first,)))
        assert (await placed(store, keyed()))[1] == "inserted"

    @pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD])
    async def test_a_window_after_the_end(self, store: Store, kind: OutcomeKind) -> None:
        """The job goes on holding its key for `unique_for` seconds."""
        first, _ = await placed(store, keyed(unique_for=3_600.0))
        worker = await join(store)
        now = datetime.now(UTC)
        await finish(store, worker, [await take_one(store, worker)], kind, now=now)
        assert await placed(store, keyed()) == (first, "found")
        with pytest.raises(DuplicateJob, match=f"job {first} "):
            await placed(store, keyed("error"))
        assert (await placed(store, keyed("rerun")))[1] == "inserted"

    async def test_a_window_ends(self, store: Store) -> None:
        """An hour after the end an hour's window is over."""
        await placed(store, keyed(unique_for=3_600.0))
        worker = await join(store)
        then = datetime.now(UTC) - timedelta(seconds=3_601)
        await finish(store, worker, [await take_one(store, worker)], now=then)
        assert (await placed(store, keyed()))[1] == "inserted"

    async def test_scopes(self, store: Store) -> None:
        """A key belongs to a task in a queue, or to all jobs of a named scope."""
        first, _ = await placed(store, keyed())
        for other in (keyed(task="other"), keyed(queue="other"), keyed(scope="s"), keyed(key="l")):
            assert (await placed(store, other))[1] == "inserted"
        shared = await placed(store, keyed(scope="s", task="other", queue="third"))
        assert shared[1] == "found"
        assert await placed(store, keyed()) == (first, "found")

    @pytest.mark.parametrize("name", AWKWARD)
    async def test_awkward_keys(self, store: Store, name: str) -> None:
        """Any text is a key, and a scope."""
        first, _ = await placed(store, keyed(key=name, scope=name))
        assert await placed(store, keyed(key=name, scope=name)) == (first, "found")

    async def test_labels_are_not_unique(self, store: Store) -> None:
        """A key without `unique` is kept with the job, and that is all."""
        first, _ = await placed(store, keyed())
        labelled = await put(store, due(key="k"), due(key="k"))
        assert await live_jobs(store) == [first, *labelled]
        worker = await join(store)
        await finish(store, worker, await take(store, worker))

    @pytest.mark.parametrize("others", [1, 300])
    async def test_many_at_once(self, store: Store, face: Face, others: int) -> None:
        """Jobs with and without keys in one call: ids in order, each with the same rules."""
        plain = [due() for _ in range(others)]
        jobs = [
            *plain, keyed(key="a", n=1), keyed("replace", key="b", n=1), *plain,
            keyed(key="a", n=2), keyed("replace", key="b", n=2), *plain,
        ]  # fmt: skip
        ids = await enqueue(store, face, iter(jobs))
        assert len(ids) == len(jobs)
        a, b, later_a, later_b = (ids[n] for n, job in enumerate(jobs) if job.key)
        assert later_a == a
        assert await state_of(store, b) == (JobState.CANCELLED, f"replaced by job {later_b}")
        assert await live_jobs(store) == sorted({*ids} - {b})
        unkeyed = [id for id, job in zip(ids, jobs, strict=True) if not job.key]
        assert unkeyed == sorted(unkeyed)

    async def test_many_callers_of_one_key(
        self, store: Store, other_store: Store, face: Face
    ) -> None:
        """On several handles, and threads: one of them inserts, all others find that one."""
        handles = [store, other_store] * 8
        ids = await asyncio.gather(*(aside(handle, face, keyed()) for handle in handles))
        assert len({int(id) for id in ids}) == 1
        assert sorted(id.how for id in ids) == ["found"] * 15 + ["inserted"]
        assert len(await store.jobs(JobFilter())) == 1

    @pytest.mark.parametrize("mode", MOVING)
    async def test_many_callers_who_replace(
        self, store: Store, other_store: Store, face: Face, mode: str
    ) -> None:
        """Of what they wrote one is left."""
        handles = [store, other_store] * 8
        ids = await asyncio.gather(*(aside(handle, face, keyed(mode)) for handle in handles))
        assert len({int(id) for id in ids}) == 16
        [left] = await live_jobs(store)
        assert left in ids
        assert (await take_one(store, await join(store))).id == left

    async def test_pruning_forgets_the_key(self, store: Store) -> None:
        """With the job that had it last."""
        await placed(store, keyed())
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=FAR_AHEAD) == 1
        assert (await placed(store, keyed()))[1] == "inserted"

    async def test_equal_jobs(self, store: Store, face: Face) -> None:
        """Jobs are found by their fingerprint, live and finished ones, the newest first."""
        worker = await join(store)
        [old] = await put_finished(store, worker, due(fingerprint="f" * 32))
        ids = await enqueue(store, face, [due(fingerprint="f" * 32), due(fingerprint="g"), due()])
        found = await store.jobs(JobFilter(fingerprint="f" * 32))
        assert [(job.id, job.state) for job in found] == [
            (ids[0], JobState.READY),
            (old, JobState.SUCCEEDED),
        ]


async def aside(store: Store, face: Face, job: NewJob) -> Placed:
    """Enqueue at the same time as others: plain calls in threads of their own."""
    if face == "enqueue":
        [id] = await asyncio.to_thread(store.enqueue, [job])
    else:
        [id] = await store.aenqueue([job])
    assert isinstance(id, Placed)
    return id
