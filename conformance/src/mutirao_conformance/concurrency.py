"""Several workers that claim at the same time: each job goes to exactly one of them."""

import asyncio
from collections import Counter

from mutirao.model.jobs.job import Claim, JobState, OutcomeKind
from mutirao.model.jobs.records import JobFilter, JobRecord
from mutirao.ports import Store
from mutirao_conformance.kit import (
    NOW,
    at,
    deadline,
    due,
    ended,
    finish,
    ids_of,
    join,
    lane,
    put,
    take,
)


async def drain(store: Store, worker: int, batch: int) -> list[Claim]:
    """Claim until nothing is left; return what was taken."""
    taken: list[Claim] = []
    while claims := await store.claim(worker, [lane("a"), lane("b")], batch, now=NOW):
        taken += claims
    return taken


async def work(store: Store, worker: int) -> set[int]:
    """Claim and settle until nothing is left; return what was settled."""
    done: set[int] = set()
    while claims := await store.claim(worker, [lane()], 20, now=NOW):
        done |= await store.settle(worker, [ended(claim) for claim in claims], now=NOW)
    return done


class ConcurrencyContract:
    """The guarantees when two handles work on the same data."""

    async def test_every_job_is_claimed_once(self, store: Store, other_store: Store) -> None:
        """Two thousand jobs, eight claimers, two handles, odd batches."""
        ids = await put(store, *(due(queue="ab"[n % 2]) for n in range(2_000)))
        handles = [store, other_store] * 4
        workers = [await join(handle) for handle in handles]
        async with deadline():
            shares = await asyncio.gather(
                *(drain(handle, workers[n], 7 + 9 * n) for n, handle in enumerate(handles))
            )
        claims = [claim for share in shares for claim in share]
        assert Counter(ids_of(claims)) == Counter(ids)
        assert {(claim.run, claim.attempt) for claim in claims} == {(1, 1)}
        holders = {worker.id: worker.running for worker in await store.workers()}
        assert holders == {workers[n]: len(share) for n, share in enumerate(shares)}

    async def test_every_job_is_settled_once(self, store: Store, other_store: Store) -> None:
        """Claims and settlements interleave; each job ends exactly once, and nothing stays."""
        ids = await put(store, *(due() for _ in range(600)))
        handles = [store, other_store] * 3
        workers = [await join(handle) for handle in handles]
        async with deadline():
            shares = await asyncio.gather(
                *(work(handle, workers[n]) for n, handle in enumerate(handles))
            )
        assert sorted(id for share in shares for id in share) == sorted(ids)
        [count] = await store.counts()
        assert (count.state, count.jobs) == (JobState.SUCCEEDED, 600)

    async def test_two_outcomes_of_one_run(self, store: Store, other_store: Store) -> None:
        """The first is written, the other is stale: one row each, and one id returned."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(50)))
        claims = await take(store, worker)
        succeed = [ended(claim) for claim in claims]
        again = [ended(claim, OutcomeKind.RETRIED, after=0) for claim in reversed(claims)]
        async with deadline():
            shares = await asyncio.gather(
                store.settle(worker, succeed, now=NOW), other_store.settle(worker, again, now=NOW)
            )
        assert sorted(id for share in shares for id in share) == sorted(ids)
        assert [len((await store.job(id)).attempts) for id in ids] == [1] * 50

    async def test_settlements_in_opposite_order(self, store: Store, other_store: Store) -> None:
        """Batches that touch the same jobs from both ends do not lock each other out."""
        worker = await join(store)
        for _ in range(5):
            await put(store, *(due() for _ in range(100)))
            claims = await take(store, worker)
            batch = [ended(claim) for claim in claims]
            async with deadline():
                shares = await asyncio.gather(
                    store.settle(worker, batch, now=NOW),
                    other_store.settle(worker, batch[::-1], now=NOW),
                    store.release([(claim.id, claim.run) for claim in claims[::2]]),
                    other_store.release([(claim.id, claim.run) for claim in claims[::-2]]),
                )
            assert sorted(id for share in shares for id in share) == sorted(ids_of(claims))
            await store.cancel(JobFilter(limit=None), now=NOW)

    async def test_one_rescuer(self, store: Store, other_store: Store) -> None:
        """Rescues at the same moment give every job back once, under one new run."""
        workers = [await join(store, expiry=1) for _ in range(4)]
        ids = await put(store, *(due() for _ in range(80)))
        for worker in workers:
            assert len(await take(store, worker, 20)) == 20
        async with deadline():
            shares = await asyncio.gather(
                *(handle.rescue(now=at(60)) for handle in [store, other_store] * 3)
            )
        rescued = [pair for share in shares for pair in share]
        assert sorted(id for id, _ in rescued) == sorted(ids)
        assert [len((await store.job(id)).attempts) for id in ids] == [1] * 80

    async def test_a_rescue_or_a_settlement(self, store: Store, other_store: Store) -> None:
        """When both come at once, each job is either settled or rescued, never both."""
        worker = await join(store, expiry=1)
        ids = await put(store, *(due() for _ in range(100)))
        batch = [ended(claim) for claim in await take(store, worker)]
        async with deadline():
            rescued, settled = await asyncio.gather(
                other_store.rescue(now=at(60)),
                asyncio.gather(
                    *(store.settle(worker, batch[n : n + 9], now=at(60)) for n in range(0, 100, 9))
                ),
            )
        written = [id for share in settled for id in share]
        assert sorted(written + [id for id, _ in rescued]) == sorted(ids)
        assert len(await store.jobs(JobFilter(state=JobState.SUCCEEDED))) == len(written)

    async def test_one_holder_of_a_duty(self, store: Store, other_store: Store) -> None:
        """Of many workers that try at the same moment, one gets the lease."""
        handles = [store, other_store] * 6
        for duty in ("rescue", "prune", "statistics"):
            async with deadline():
                got = await asyncio.gather(
                    *(handle.lease(duty, worker, ttl=10, every=10, now=NOW)
                      for worker, handle in enumerate(handles, 1))
                )  # fmt: skip
            assert sorted(got) == [False] * 11 + [True]

    async def test_a_cancel_or_a_claim(self, store: Store, other_store: Store) -> None:
        """When both come at once, a job is cancelled, or it runs and is flagged."""
        worker = await join(store, expiry=600)
        ids = await put(store, *(due() for _ in range(60)))
        async with deadline():
            cancelled, shares = await asyncio.gather(
                other_store.cancel(JobFilter(), now=NOW),
                asyncio.gather(*(store.claim(worker, [lane()], 10, now=NOW) for _ in range(6))),
            )
        beat = await store.beat(worker, expiry=600, now=NOW)
        finished = ids_of(await store.jobs(JobFilter(state=JobState.CANCELLED)))
        assert sorted(cancelled) == sorted([*finished, *(id for id, _ in beat.cancelled)])
        running = [claim.id for share in shares for claim in share]
        assert sorted(finished + running) == sorted(ids)

    async def test_a_record_is_of_one_moment(self, store: Store, other_store: Store) -> None:
        """A reader sees no attempt without its state while jobs run, nor the reverse."""
        worker = await join(store)
        ids = await put(store, *(due() for _ in range(300)))
        seen: list[JobRecord] = []

        async def watch() -> None:
            for id in ids:
                while not seen or seen[-1].id != id or seen[-1].state is not JobState.SUCCEEDED:
                    seen.append(await other_store.job(id))
                    await asyncio.sleep(0)  # a store in memory never waits

        async def work_singly() -> None:
            while claims := await store.claim(worker, [lane()], 1, now=NOW):
                await finish(store, worker, claims)

        async with deadline():
            await asyncio.gather(watch(), work_singly())
        assert {(record.state, len(record.attempts)) for record in seen} <= {
            (JobState.READY, 0),
            (JobState.RUNNING, 0),
            (JobState.SUCCEEDED, 1),
        }
