"""Workers that end while they hold jobs: what is recorded, and how it is counted."""

import pytest

from mutirao.errors import WorkerGone
from mutirao.model.jobs import lost_workers
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.states import Fault
from mutirao.ports import Store
from mutirao_conformance.kit import NOW, at, due, ids_of, join, lane, put, take, take_one

RELEASED, SNOOZED, RETRIED = OutcomeKind.RELEASED, OutcomeKind.SNOOZED, OutcomeKind.RETRIED


async def again(store: Store, claim: Claim, outcome: Outcome, worker: int) -> Claim:
    """Settle a claim so that the job waits again, and claim it once more."""
    await store.settle(worker, [Settlement(claim.id, claim.run, outcome)], now=NOW)
    return await take_one(store, worker, now=at(1))


class LosingContract:
    """`Store.lose` and `unlocked`, the counts of a claim, and which workers may claim."""

    async def test_a_worker_that_is_gone_claims_nothing(self, store: Store) -> None:
        """Its jobs could not be rescued: it gets an error, and the jobs stay for others."""
        gone, alive = await join(store, expiry=1), await join(store, expiry=1_000)
        ids = await put(store, due(), due(fair_by="n", args='{"n":1}'))
        await store.rescue(now=at(10))
        lanes = [head.lane for head in await store.lanes(None, now=at(10))]
        for each in ([lane()], lanes):
            with pytest.raises(WorkerGone, match=rf"worker {gone} is not registered"):
                await store.claim(gone, each, 9, now=at(10))
        assert sorted(ids_of(await take(store, alive, now=at(10)))) == ids

    async def test_a_run_that_was_begun_is_lost(self, store: Store) -> None:
        """As in a rescue: an attempt `lost`, which counts, and the job waits again, fenced."""
        [id] = await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        assert await store.lose([(id, claim.run)], now=at(3)) == {id}
        [attempt] = (await store.job(id)).attempts
        assert (attempt.outcome, attempt.error_type) == (OutcomeKind.LOST, "WorkerLost")
        assert (attempt.worker, attempt.finished_at) == (worker, at(3))
        assert await store.settle(worker, [Settlement(id, claim.run, SUCCEEDED)]) == set()
        later = await take_one(store, worker, now=at(4))
        assert (later.attempt, later.lost) == (2, 1)

    async def test_what_is_not_held_is_not_lost(self, store: Store) -> None:
        """Stale runs and jobs that are not there are left out."""
        first, waits = await put(store, due(), due(run_at=at(100)))
        claim = await take_one(store, await join(store))
        stale = [(first, claim.run + 1), (waits, 0), (10**9, 1)]
        assert await store.lose(stale, now=NOW) == set()
        assert await store.lose([], now=NOW) == set()
        assert (await store.job(first)).attempts == ()

    async def test_lost_workers_are_counted(self, store: Store) -> None:
        """By rescues and failures, until an attempt ends; a release leaves the count as it is."""
        await put(store, due())
        first = await join(store, expiry=1)
        assert (await take_one(store, first)).lost == 0
        await store.rescue(now=at(5))
        worker = await join(store, expiry=10_000)
        claim = await take_one(store, worker, now=at(6))
        assert claim.lost == 1
        for outcome, lost in (
            (Outcome(RELEASED, 0, fault=Fault.WORKER), 2),
            (Outcome(RELEASED, 0), 2),
            (Outcome(RELEASED, 0, fault=Fault.CONNECTION), 2),
            (Outcome(RETRIED, 0), 0),
            (Outcome(RELEASED, 0, fault=Fault.WORKER), 1),
            (Outcome(SNOOZED, 0), 0),
        ):
            claim = await again(store, claim, outcome, worker)
            assert claim.lost == lost, outcome
        assert claim.attempt == 3  # lost, retried, and this one

    async def test_starts_after_a_loss_are_noted(self, store: Store) -> None:
        """A rescue counts for a worker that had begun; for all others the first one does."""
        await put(store, due())
        counts = list[tuple[int, int]]()
        for n in range(12):
            worker = await join(store, expiry=1, now=at(10 * n))
            claim = await take_one(store, worker, now=at(10 * n))
            workers, unbegun = lost_workers.read(claim.lost)
            counts.append((workers, claim.attempt - unbegun))
            if n >= 9:
                noted = {"lost": lost_workers.noted(workers), "attempt": claim.attempt - unbegun}
                assert await store.note_start(worker, claim.id, claim.run, **noted)
                assert not await store.note_start(worker, claim.id, claim.run + 1, **noted)
                assert not await store.note_start(worker + 1, claim.id, claim.run, **noted)
            await store.rescue(now=at(10 * n + 5))
        assert counts == [(0, 1), *[(1, 2)] * 9, (2, 3), (3, 4)]

    async def test_a_noted_start_that_is_given_back(self, store: Store) -> None:
        """Has ended no worker; an outcome ends the count."""
        await put(store, due())
        await take_one(store, await join(store, expiry=1))
        await store.rescue(now=at(5))
        worker = await join(store, expiry=10_000)
        claim = await take_one(store, worker, now=at(6))
        assert await store.note_start(
            worker, claim.id, claim.run, lost=lost_workers.noted(1), attempt=2
        )
        for outcome, workers in (
            (Outcome(RELEASED, 0), 1),
            (Outcome(RELEASED, 0, fault=Fault.WORKER), 2),
            (Outcome(RETRIED, 0), 0),
        ):
            claim = await again(store, claim, outcome, worker)
            assert lost_workers.read(claim.lost).workers == workers, outcome
        assert claim.attempt == 3

    async def test_cut_off_attempts_are_counted(self, store: Store) -> None:
        """By releases with a fault; a job that is released before it starts keeps its counts."""
        [id] = await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        for outcome, cut_off in (
            (Outcome(RELEASED, 0, fault=Fault.CONNECTION), 1),
            (Outcome(RELEASED, 0, fault=Fault.CONNECTION), 2),
            (Outcome(RELEASED, 0), 2),
            (Outcome(SNOOZED, 0), 0),
            (Outcome(RELEASED, 0, fault=Fault.CONNECTION), 1),
        ):
            claim = await again(store, claim, outcome, worker)
            assert claim.cut_off == cut_off, outcome
        await store.release([(id, claim.run)])
        claim = await take_one(store, worker, now=at(1))
        assert (claim.attempt, claim.cut_off) == (1, 1)

    async def test_what_nobody_has_locked(self, store: Store) -> None:
        """Of the jobs that are asked for, those that are live."""
        ids = await put(store, due(), due(), due(), due())
        worker = await join(store)
        claims = await take(store, worker, 2)
        await store.settle(worker, [Settlement(claims[0].id, claims[0].run, SUCCEEDED)])
        assert await store.unlocked([*ids[:3], 10**9]) == set(ids[1:3])
        assert await store.unlocked([]) == set()
