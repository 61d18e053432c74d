"""Schedules that are paused by their jobs: by a handler, and by deaths in a row."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from mutirao.model.jobs.job import Claim, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import ScheduleStatus
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    ended,
    finish,
    join,
    put,
    take,
    take_one,
)
from mutirao_conformance.schedules import (
    NOTHING,
    order,
    plan,
    scheduled,
    the_record,
    tick,
)

STOP = Outcome(OutcomeKind.CANCELLED, error_type="Cancel", error="all 'done'; ü", stops=True)


def stopping(claim: Claim) -> Settlement:
    """Return the settlement of a job whose handler stops its schedule."""
    return ended(claim)._replace(outcome=STOP)


class PausingContract:
    """`Store.settle` with `Outcome.stops`, and `Schedule.pause_after`."""

    async def test_a_job_stops_its_schedule(self, store: Store) -> None:
        """In the commit that ends the job; until a user resumes the schedule."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled())
        [job] = await tick(store, 10)
        claim = await take_one(store, worker, now=FAR_AHEAD)
        assert await store.settle(worker, [stopping(claim)], now=at(11)) == {job}
        record = await the_record(store)
        assert (record.status, record.reason) == (
            ScheduleStatus.PAUSED, f"job {job}: all 'done'; ü",
        )  # fmt: skip
        assert record.changed_at == at(11)
        assert record.last_state == "cancelled"
        assert await store.schedules.agenda(now=at(1_000)) == NOTHING
        assert await tick(store, 1_000) == ()
        await order(store, schedule_rules.resume, seconds=1_000)
        assert (await the_record(store)).reason is None
        assert len(await tick(store, 1_010)) == 1

    async def test_among_others(self, store: Store) -> None:
        """One batch: of several schedules those are paused whose jobs say so, and no other."""
        worker = await join(store, expiry=1e9)
        names = [f"s{n}" for n in range(4)]
        for name in names:
            await plan(store, scheduled(name))
            await tick(store, 10, name)
        claims = await take(store, worker, 4, now=FAR_AHEAD)
        batch = [
            stopping(claims[0]),
            ended(claims[1], OutcomeKind.CANCELLED),
            ended(claims[2]),
            ended(claims[3], OutcomeKind.RETRIED, after=1),
        ]
        assert len(await store.settle(worker, batch, now=at(11))) == 4
        paused = [each.status is ScheduleStatus.PAUSED for each in await store.schedules.listed()]
        assert sorted(paused) == [False, False, False, True]

    async def test_a_stale_one_stops_nothing(self, store: Store) -> None:
        """The worker that has the job now decides."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled())
        await tick(store, 10)
        claim = await take_one(store, worker, now=FAR_AHEAD)
        stale = stopping(claim)._replace(run=claim.run + 1)
        assert await store.settle(worker, [stale], now=at(11)) == set()
        assert (await the_record(store)).status is ScheduleStatus.ACTIVE

    async def test_jobs_without_a_schedule(self, store: Store) -> None:
        """They are only cancelled, whatever their metadata says; so where it was removed."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled())
        metadata: tuple[dict[str, Any], ...] = (
            {},
            {"schedule": "gone"},
            {"schedule": ["s"]},
            {"schedule": None},
        )
        ids = await put(store, *(NewJob(task="t", metadata=each) for each in metadata))
        claims = await take(store, worker, 4, now=FAR_AHEAD)
        assert await store.settle(worker, [stopping(each) for each in claims]) == set(ids)
        assert (await the_record(store)).status is ScheduleStatus.ACTIVE

    async def test_paused_for_a_reason(self, store: Store) -> None:
        """The reason of the first pause is kept, and removed by the resume."""
        await plan(store, scheduled())
        for reason in ("first", "second"):
            await store.schedules.amend(
                "s", partial(schedule_rules.pause, name="s", reason=reason), now=NOW
            )
        assert (await the_record(store)).reason == "first"
        await order(store, schedule_rules.resume)
        assert (await the_record(store)).reason is None

    async def test_deaths_in_a_row(self, store: Store) -> None:
        """After so many the next tick makes no job, and the schedule is paused."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled(pause_after=2))
        assert (await the_record(store)).pause_after == 2
        dead, good = OutcomeKind.DEAD, OutcomeKind.SUCCEEDED
        await self._run(store, worker, 10, [dead, good, dead])
        assert (await the_record(store)).status is ScheduleStatus.ACTIVE
        await self._run(store, worker, 40, [dead])
        assert (await the_record(store)).status is ScheduleStatus.ACTIVE
        assert await tick(store, 50) == ()
        record = await the_record(store)
        assert (record.status, record.reason, record.runs) == (
            ScheduleStatus.PAUSED, "its last 2 jobs died", 4,
        )  # fmt: skip
        assert record.changed_at == at(50)

    async def test_deaths_after_a_resume(self, store: Store) -> None:
        """The count starts again: deaths before the resume do not count."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled(pause_after=2))
        await self._run(store, worker, 10, [OutcomeKind.DEAD] * 2)
        assert await tick(store, 30) == ()
        await order(store, schedule_rules.resume, seconds=35)
        await self._run(store, worker, 40, [OutcomeKind.DEAD])
        assert len(await tick(store, 50)) == 1
        [claim] = await take(store, worker, 1, now=FAR_AHEAD)
        await finish(store, worker, [claim], OutcomeKind.DEAD, now=at(50))
        assert await tick(store, 60) == ()

    async def test_what_has_not_ended_is_no_death(self, store: Store) -> None:
        """Neither an attempt that is retried nor a job that runs; those before it count."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled(pause_after=2))
        await self._run(store, worker, 10, [OutcomeKind.DEAD])
        await tick(store, 20)
        claim = await take_one(store, worker, now=FAR_AHEAD)
        again = [ended(claim, OutcomeKind.RETRIED, at=FAR_AHEAD + timedelta(days=1))]
        await store.settle(worker, again, now=at(20))
        await self._run(store, worker, 30, [OutcomeKind.DEAD])
        assert await tick(store, 40) == ()
        assert (await the_record(store)).status is ScheduleStatus.PAUSED

    async def test_one_that_waits_for_the_end_of_its_job(self, store: Store) -> None:
        """It is paused as soon as that has died, without another tick."""
        worker = await join(store, expiry=1e9)
        await plan(store, scheduled(pause_after=1, overlap="after"))
        await self._run(store, worker, 10, [OutcomeKind.DEAD])
        assert (await store.schedules.agenda(now=at(11))).due == ("s",)
        assert await tick(store, 11) == ()
        assert (await the_record(store)).status is ScheduleStatus.PAUSED
        await order(store, schedule_rules.resume, seconds=20)
        assert len(await tick(store, 30)) == 1

    @staticmethod
    async def _run(store: Store, worker: int, since: float, kinds: Sequence[OutcomeKind]) -> None:
        """Tick every ten seconds; each job ends at once, like this."""
        for n, kind in enumerate(kinds):
            moment = since + 10 * n
            [job] = await tick(store, moment)
            claim = await take_one(store, worker, now=FAR_AHEAD)
            assert claim.id == job
            await finish(store, worker, [claim], kind, now=at(moment))
