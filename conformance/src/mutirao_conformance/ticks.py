"""Schedules that are due at once: how they tick in one transaction, beside other workers."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

from mutirao.errors import InvalidSchedule, WrongState
from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import Limit
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import (
    MAX_CATCH_UP,
    Amendment,
    Overlap,
    ScheduleFacts,
    TickResult,
)
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    deadline,
    finish,
    ids_of,
    join,
    take,
)
from mutirao_conformance.schedules import plan, scheduled, tick

MANY = 20


def names_of(results: list[TickResult]) -> list[str]:
    """Return the names of the schedules that ticked; fail if one of them could not."""
    assert [each.error for each in results if each.error is not None] == []
    return [each.name for each in results]


def failed_of(results: list[TickResult]) -> dict[str, type[Exception]]:
    """Return the names of the schedules that could not tick, with the kinds of their errors."""
    for each in results:
        assert each.error is None or (each.state, each.jobs) == (None, ())
    return {each.name: type(each.error) for each in results if each.error is not None}


async def plan_many(store: Store, **terms: Any) -> list[str]:
    """Put schedules that tick one after the other, the first ten seconds after NOW."""
    names = [f"s{n:02}" for n in range(MANY)]
    for n, name in enumerate(names):
        await plan(
            store, scheduled(name, job=NewJob(task="t", queue=name), **terms), now=at(n / 100)
        )
    return names


async def spoil(store: Store, name: str, seconds: float = 10) -> None:
    """Give a schedule, by hand as it were, a cron line that is none."""

    def change(facts: ScheduleFacts) -> Amendment:
        assert facts.state is not None
        wrong = replace(facts.state.schedule, every=None, cron="now and then")
        return Amendment(replace(facts.state, schedule=wrong, next_at=at(seconds)))

    await store.schedules.amend(name, change, now=NOW)


async def set_back(store: Store, name: str, seconds: float) -> None:
    """Make a tick come again."""

    def change(facts: ScheduleFacts) -> Amendment:
        assert facts.state is not None
        return Amendment(replace(facts.state, next_at=at(seconds)))

    await store.schedules.amend(name, change, now=NOW)


async def _tick_at_last(store: Store, seconds: float) -> tuple[int, ...]:
    """Wait until the schedule's row is free, then tick it."""
    return (await store.schedules.amend("s", schedule_rules.tick, now=at(seconds))).jobs


class TicksContract:
    """`Store.schedules.tick`."""

    async def test_nothing_to_tick(self, store: Store) -> None:
        """No schedules, none that is due, or only a paused one."""
        assert await store.schedules.tick(10, now=NOW) == []
        await plan(store, scheduled())
        assert await store.schedules.tick(10, now=at(9.999999)) == []

    async def test_in_one_batch(self, store: Store) -> None:
        """Those that are due, with a job each; the result is what was written."""
        names = await plan_many(store)
        await plan(store, scheduled("later", seconds=1_000))
        results = await store.schedules.tick(100, now=at(15))
        assert names_of(results) == names
        for each in results:
            assert each.state is not None
            assert (each.jobs, each.state.runs) == ((each.state.last_job,), 1)
            [job] = await store.jobs(JobFilter(queue=each.name))
            assert job.id == each.jobs[0]
            assert (job.metadata["schedule"], job.task) == (each.name, "t")
        first = results[0].state
        unchanged = await store.schedules.amend("s00", lambda facts: Amendment(facts.state))
        assert unchanged.state == first
        assert first is not None
        assert (first.last_tick, first.next_at) == (at(10), at(20))
        assert await store.schedules.tick(100, now=at(15)) == []

    async def test_jobs_of_all_kinds(self, store: Store) -> None:
        """In one batch: fair ones take turns, limited ones wait, and options are kept."""
        await store.declare_fairness({"fair": "tenant"})
        await store.limits.put(Limit(1).on(task="limited"), now=NOW)
        fair = [NewJob(task="fair", args=f'{{"tenant": "{tenant}"}}') for tenant in "aab"]
        limited = [NewJob(task="limited", priority=5, max_attempts=n, timeout=9) for n in (3, 4)]
        for n, job in enumerate([*fair, *limited]):
            await plan(store, scheduled(f"s{n}", job=job))
        made = [each.jobs[0] for each in await store.schedules.tick(10, now=at(10))]
        assert len(made) == 5
        claims = await take(store, await join(store), now=FAR_AHEAD)
        jobs = {id: await store.job(id) for id in made}
        assert [jobs[claim.id].args.get("tenant") for claim in claims[:3]] == ["a", "b", "a"]
        assert [claim.task for claim in claims[3:]] == ["limited"]
        options = sorted((job.max_attempts, job.timeout) for job in jobs.values() if job.timeout)
        assert options == [(3, 9), (4, 9)]

    async def test_some_of_them(self, store: Store) -> None:
        """Up to a limit, those that have been due longest; not those that were left out."""
        names = await plan_many(store)
        assert names_of(await store.schedules.tick(3, now=at(15))) == names[:3]
        left_out = names[4:MANY:2]
        assert names_of(await store.schedules.tick(3, without=left_out, now=at(15))) == [
            names[3], names[5], names[7],
        ]  # fmt: skip
        assert names_of(await store.schedules.tick(1, now=at(15))) == [names[4]]

    async def test_with_those_whose_job_has_ended(self, store: Store) -> None:
        """They are planned again; those whose job is live are left as they are."""
        await plan(store, scheduled("a", overlap=Overlap.AFTER))
        await plan(store, scheduled("b", overlap=Overlap.AFTER))
        assert len(await store.schedules.tick(10, now=at(10))) == 2
        assert await store.schedules.tick(10, now=at(30)) == []
        worker = await join(store)
        await finish(store, worker, await take(store, worker, 1, now=FAR_AHEAD), now=at(31))
        await plan(store, scheduled("c", seconds=31))
        assert names_of(await store.schedules.tick(1, now=at(31))) == ["a"]
        assert names_of(await store.schedules.tick(10, now=at(31))) == ["c"]
        assert (await store.schedules.agenda(now=at(31))).next_in == 10

    async def test_deaths_of_several(self, store: Store) -> None:
        """The deaths of each schedule are counted separately."""
        worker = await join(store, expiry=1e9)
        most = {"a": 1, "b": 2, "c": None, "d": 1}
        for name, deaths in most.items():
            await plan(store, scheduled(name, pause_after=deaths, job=NewJob(task=name)))
        await store.schedules.tick(10, now=at(10))
        for claim in await take(store, worker, now=FAR_AHEAD):
            kind = OutcomeKind.SUCCEEDED if claim.task == "d" else OutcomeKind.DEAD
            await finish(store, worker, [claim], kind, now=at(11))
        results = await store.schedules.tick(10, now=at(20))
        assert {each.name: len(each.jobs) for each in results} == {"a": 0, "b": 1, "c": 1, "d": 1}
        paused = {each.name for each in await store.schedules.listed() if each.reason is not None}
        assert paused == {"a"}
        assert [each.name for each in results if each.state and each.state.paused] == ["a"]

    async def test_one_that_cannot_tick(self, store: Store) -> None:
        """It stays as it was; the others tick, and so do they without it."""
        names = await plan_many(store)
        await spoil(store, names[7])
        before = await store.schedules.amend("s07", lambda facts: Amendment(facts.state))
        results = await store.schedules.tick(100, now=at(15))
        assert failed_of(results) == {"s07": InvalidSchedule}
        assert len(await store.jobs(JobFilter(limit=None))) == MANY - 1
        after = await store.schedules.amend("s07", lambda facts: Amendment(facts.state))
        assert after == before
        assert (await store.schedules.agenda(now=at(15))).due == ("s07",)
        assert await store.schedules.tick(100, without=["s07"], now=at(15)) == []
        assert failed_of(await store.schedules.tick(1, now=at(15))) == {"s07": InvalidSchedule}

    async def test_those_that_the_database_refuses(self, store: Store) -> None:
        """They are found among the others, each named in its own error."""
        names = await plan_many(store, catch_up="all")
        assert len(await store.schedules.tick(100, now=at(15))) == MANY
        wrong = (names[0], names[8], names[9], names[-1])
        for name in wrong:
            await set_back(store, name, 10 + names.index(name) / 100)
        results = await store.schedules.tick(100, now=at(25))
        assert failed_of(results) == dict.fromkeys(wrong, WrongState)
        for each in results:
            if each.error is not None:
                assert f"tick of schedule {each.name!r} has its job already" in str(each.error)
        jobs = await store.jobs(JobFilter(limit=None))
        assert Counter(job.queue for job in jobs) == {
            name: 1 if name in wrong else 2 for name in names
        }
        assert sorted((await store.schedules.agenda(now=at(25))).due) == sorted(wrong)

    async def test_very_many_jobs(self, store: Store) -> None:
        """Not all in one transaction: what is left stays due."""
        half = MAX_CATCH_UP // 2
        for name in "abc":
            await plan(store, scheduled(name, seconds=1, catch_up="all", catch_up_limit=half))
        made = [await store.schedules.tick(10, now=at(half)) for _ in range(3)]
        assert [[len(each.jobs) for each in results] for results in made] == [
            [half, half], [half], [],
        ]  # fmt: skip

    async def test_many_at_the_same_moment(self, store: Store, other_store: Store) -> None:
        """One of them creates the job; calls of `tick` do not wait for the others."""
        await plan(store, scheduled())
        handles = [store, other_store] * 4
        for seconds in range(10, 110, 10):
            async with deadline():
                made = await asyncio.gather(
                    *(tick(h, seconds) if n % 4 < 2 else _tick_at_last(h, seconds)
                      for n, h in enumerate(handles))
                )  # fmt: skip
            assert sorted(len(jobs) for jobs in made) == [0] * 7 + [1]
        assert len(await store.jobs(JobFilter())) == 10

    async def test_workers_beside_each_other(self, store: Store, other_store: Store) -> None:
        """However many take batches at the same moment, each tick makes one job."""
        names = await plan_many(store)
        for round in range(1, 4):
            async with deadline():
                results = await asyncio.gather(
                    *(each.schedules.tick(7, now=at(round * 10 + 5))
                      for each in [store, other_store] * 4)
                )  # fmt: skip
            while left := await store.schedules.tick(7, now=at(round * 10 + 5)):
                results.append(left)
            ticked = [name for batch in results for name in names_of(batch)]
            assert sorted(ticked) == names
        metadata = [job.metadata for job in await store.jobs(JobFilter(limit=None))]
        assert (
            len({(each["schedule"], each["tick"]) for each in metadata})
            == len(metadata)
            == 3 * MANY
        )

    async def test_workers_whose_clocks_differ(self, store: Store, other_store: Store) -> None:
        """A tick of one worker is not repeated by another whose clock is behind."""
        await plan_many(store)
        clocks = (15, 11, 25, 15.5, 21, 24.9)
        async with deadline():
            await asyncio.gather(
                *(each.schedules.tick(7, now=at(clock))
                  for clock in clocks for each in (store, other_store))
            )  # fmt: skip
        while await store.schedules.tick(7, now=at(25)):
            assert await other_store.schedules.tick(7, now=at(9)) == []
        metadata = [job.metadata for job in await store.jobs(JobFilter(limit=None))]
        ticks = {(each["schedule"], each["tick"]) for each in metadata}
        assert len(ticks) == len(metadata)
        assert {each.next_at for each in await store.schedules.listed()} == {
            at(30 + n / 100) for n in range(MANY)
        }

    async def test_one_beside_an_order(self, store: Store) -> None:
        """A schedule that was removed, and one that ticked elsewhere, are no longer due."""
        await plan(store, scheduled("a"))
        await plan(store, scheduled("b"))
        [job] = await tick(store, 10, "a")
        [result] = await store.schedules.tick(10, now=at(10))
        assert result.name == "b"
        assert sorted(ids_of(await store.jobs(JobFilter()))) == sorted([job, *result.jobs])
