"""Jobs that a broker carries: doorbells are rung, and answered by one worker or taken back."""

import asyncio
from collections.abc import Sequence

import pytest

from mutirao.errors import WorkerGone
from mutirao.model.brokers.doorbell import Doorbell
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import Limit, pause_of
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

GRACE = 30.0


async def ring(store: Store, limit: int = 100, seconds: float = 0.0) -> list[Doorbell]:
    """Ring as a relay does: read the lanes, then ring what is due there."""
    lanes = [head.lane for head in await store.lanes(None, now=at(seconds))]
    return await store.ring(lanes, limit, now=at(seconds))


async def rung(store: Store, *jobs: NewJob) -> list[Doorbell]:
    """Enqueue jobs and ring their doorbells, in the order of the jobs."""
    await put(store, *jobs)
    return sorted(await ring(store))


def named(doorbells: Sequence[Doorbell]) -> list[tuple[int, int]]:
    """Return the ids and runs."""
    return [(bell.id, bell.run) for bell in doorbells]


class CarriedContract:
    """`mutirao.ports.carried`, and what other calls do with a job whose doorbell was rung."""

    async def test_a_doorbell_is_rung_once(self, store: Store) -> None:
        """For what is due, by priority, up to the limit; then claims do not meet the job."""
        later = due(run_at=at(5))
        ids = await put(store, due(priority=1, group="g"), due("a", fair_by="x"), due(), later)
        first = await ring(store, 2)
        assert sorted(bell.id for bell in first) == ids[1:3]
        [last] = await ring(store)
        assert last == Doorbell(ids[0], 0, "default", 1, "greet", "g")
        assert await ring(store) == []
        assert await take(store, await join(store)) == []
        states = {job.id: job.state for job in await store.jobs(JobFilter())}
        assert [states[id] for id in ids[:3]] == [JobState.READY] * 3
        assert {count.queue for count in await store.counts()} == {"default"}
        assert named(await ring(store, seconds=6)) == [(ids[3], 0)]

    async def test_a_doorbell_is_answered_once(self, store: Store) -> None:
        """By the first worker; a doorbell of another run, or of an unknown job, is stale."""
        [bell, fair] = await rung(store, due(args='{"n": 1}', key="k"), due("a", fair_by="x"))
        worker = await join(store)
        stale = [bell._replace(run=1), bell._replace(id=999_999)]
        assert await store.answer(worker, stale, now=NOW) == []
        [claim] = await store.answer(worker, [*stale, bell, bell], now=NOW)
        assert (claim.id, claim.run, claim.attempt, claim.key) == (bell.id, 1, 1, "k")
        assert (claim.args, claim.queue) == ('{"n": 1}', "default")
        assert await store.answer(worker, [bell], now=NOW) == []
        assert ids_of(await store.answer(worker, [fair], now=NOW)) == [fair.id]
        await finish(store, worker, [claim])
        assert await store.answer(worker, [bell], now=NOW) == []
        with pytest.raises(WorkerGone):
            await store.answer(worker + 1, [bell], now=NOW)

    async def test_one_of_many_answers(self, store: Store, other_store: Store) -> None:
        """All have all doorbells at once; each job goes to one of them."""
        bells = await rung(store, *(due() for _ in range(60)))
        workers = [await join(store) for _ in range(6)]
        async with deadline():
            shares = await asyncio.gather(
                *(
                    (store, other_store)[n % 2].answer(worker, bells[n:] + bells[:n], now=NOW)
                    for n, worker in enumerate(workers)
                )
            )
        found = [claim for share in shares for claim in share]
        assert sorted(ids_of(found)) == [bell.id for bell in bells]
        assert {claim.run for claim in found} == {1}

    async def test_what_waits_again_is_rung_again(self, store: Store) -> None:
        """After a retry, a release, the loss or the end of its worker: with the run it has then."""
        bells = await rung(store, due(), due(), due(), due(), due())
        worker, ends = await join(store, expiry=5), await join(store, expiry=90)
        one, two, three, four = sorted(await store.answer(worker, bells[:4], now=NOW))
        [five] = await store.answer(ends, bells[4:], now=NOW)
        await store.settle(worker, [ended(one, OutcomeKind.RETRIED, after=2.0)], now=NOW)
        assert await store.release([(two.id, two.run)]) == {two.id}
        assert named(await ring(store)) == [(two.id, 1)]
        assert named(await ring(store, seconds=3)) == [(one.id, 1)]
        await store.lose([(four.id, four.run)], now=at(3))
        assert named(await ring(store, seconds=4)) == [(four.id, 2)]
        await store.retire(ends)
        assert named(await ring(store, seconds=5)) == [(five.id, 2)]
        await store.rescue(now=at(60))
        [bell] = await ring(store, seconds=60)
        assert named([bell]) == [(three.id, 2)]
        assert ids_of(await store.answer(await join(store), [bell], now=at(61))) == [three.id]

    async def test_a_doorbell_is_taken_back(self, store: Store) -> None:
        """Where the broker did not take it: with the same run, so that either may be answered."""
        bells = await rung(store, due(), due(), due("a", fair_by="x"))
        worker = await join(store)
        [claim] = await store.answer(worker, bells[:1], now=NOW)
        assert await store.unring([*bells, bells[1]._replace(id=999_999)]) == {
            bells[1].id,
            bells[2].id,
        }
        assert await store.unring(bells) == await store.unring([]) == set()
        assert ids_of(await store.answer(worker, [bells[1]], now=NOW)) == [bells[1].id]
        assert named(await ring(store)) == [(bells[2].id, 0)]
        await finish(store, worker, [claim])

    async def test_nobody_answers(self, store: Store) -> None:
        """After the grace the next run is rung; the old doorbell is then stale."""
        await put(store, due(queue="other"))
        [other] = await ring(store, seconds=1)
        [bell] = await rung(store, due())
        worker = await join(store)
        assert await store.recall(["default"], GRACE, 10, now=at(GRACE - 1)) == []
        assert await store.recall(["default"], GRACE, 10, now=at(GRACE + 2)) == [bell.id]
        [again] = await ring(store, seconds=GRACE + 3)
        assert named([again]) == [(bell.id, 1)]
        assert await store.answer(worker, [bell], now=at(GRACE + 3)) == []
        assert ids_of(await store.answer(worker, [again], now=at(GRACE + 3))) == [bell.id]
        assert await store.recall(None, GRACE, 10, reached=at(GRACE), now=at(90)) == []
        assert await store.recall(None, GRACE, 10, reached=at(GRACE + 1), now=at(90)) == [other.id]

    async def test_a_few_are_taken_back_at_a_time(self, store: Store) -> None:
        """The oldest first; none that a worker has answered."""
        await put(store, due(), due())
        early = await ring(store, 1)
        await ring(store, seconds=1)
        await store.answer(await join(store), early, now=NOW)
        await put(store, due(), due())
        await ring(store, seconds=2)
        found = [await store.recall(None, GRACE, 2, now=at(60)) for _ in range(3)]
        assert [len(ids) for ids in found] == [2, 1, 0]
        assert early[0].id not in [id for ids in found for id in ids]

    async def test_people_see_a_waiting_job(self, store: Store) -> None:
        """They cancel it, or give it other values; then its doorbell is rung as these say."""
        one, two, three = await rung(store, due(), due(), due("a", fair_by="x"))
        assert await store.cancel(JobFilter(ids=(one.id,)), now=NOW) == [one.id]
        await store.change(JobFilter(ids=(two.id,)), Change(priority=3, delay=5.0), now=NOW)
        await store.change(JobFilter(ids=(three.id,)), Change(queue="other"), now=NOW)
        worker = await join(store)
        assert await store.answer(worker, [one, two], now=NOW) == []
        assert await ring(store) == [three._replace(queue="other")]
        assert await ring(store, seconds=6) == [two._replace(priority=3)]

    async def test_limits_hold(self, store: Store) -> None:
        """Jobs without room are parked, and rung when they are called."""
        await store.limits.put(Limit(1).on(task="greet"), now=NOW)
        bells = await rung(store, due(), due(), due("free"))
        worker = await join(store)
        claims = await store.answer(worker, bells, now=NOW)
        one, free = sorted(claims)
        assert ids_of([one, free]) == [bells[0].id, bells[2].id]
        assert (await store.job(bells[1].id)).state == JobState.BLOCKED
        assert await store.recall(None, 0.0, 10, now=at(60)) == []
        assert await ring(store) == []
        await finish(store, worker, [one])
        assert named(await ring(store)) == [(bells[1].id, 0)]

    async def test_a_paused_queue_receives_nothing(self, store: Store) -> None:
        """No doorbell is rung, and none is answered, until it goes on."""
        [bell, last] = await rung(store, due(), due())
        pause = pause_of("default", None)
        await store.limits.put(pause, now=NOW)
        await put(store, due())
        worker = await join(store)
        assert await store.answer(worker, [bell], now=NOW) == []
        assert await ring(store) == []
        await store.limits.remove(pause.name, now=NOW)
        assert len(await ring(store)) == 2
        assert ids_of(await store.answer(worker, [last], now=NOW)) == [last.id]

    async def test_each_doorbell_is_rung_by_one(self, store: Store, other_store: Store) -> None:
        """Several relays at once; a claim takes what none of them has rung."""
        ids = await put(store, *(due() for _ in range(200)))
        worker = await join(store)

        async def relay(handle: Store) -> list[int]:
            found = list[int]()
            while bells := await handle.ring([lane()], 17, now=NOW):
                found += [bell.id for bell in bells]
            return found

        async with deadline():
            shares = await asyncio.gather(*(relay(each) for each in (store, other_store) * 2))
        left = ids_of(await take(store, worker, 200))
        assert sorted([*left, *(id for share in shares for id in share)]) == ids
