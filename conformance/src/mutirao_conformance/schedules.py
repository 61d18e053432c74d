"""Schedules: how a store changes and lists them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from mutirao.errors import InvalidSchedule, StoreError, WrongState
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import pause_of
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.cron import next_tick
from mutirao.model.schedules.schedule import (
    TICKS_KEPT_PER_SCHEDULE,
    Agenda,
    Amended,
    Amendment,
    Overlap,
    Schedule,
    ScheduleFacts,
    ScheduleRecord,
    ScheduleState,
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
    put_finished,
    take,
    take_one,
)
from mutirao_conformance.rows import innocents_go_on, rewrite

NOTHING = Agenda((), None, awaits=False)

Order = Callable[[ScheduleFacts, str], Amendment]


def scheduled(name: str = "s", *, seconds: float = 10, **terms: Any) -> Schedule:
    """Return a schedule that ticks every ten seconds, unless given otherwise."""
    timing = {} if "cron" in terms else {"every": timedelta(seconds=seconds)}
    return Schedule(**{"name": name, "job": NewJob(task="greet"), **timing, **terms})


async def plan(store: Store, schedule: Schedule, *, now: datetime | None = NOW) -> ScheduleState:
    """Put a schedule; return its record."""
    put = await store.schedules.amend(
        schedule.name, partial(schedule_rules.put, schedule=schedule), now=now
    )
    assert put.state is not None
    return put.state


async def tick(store: Store, seconds: float, name: str = "s") -> tuple[int, ...]:
    """Tick one schedule, so long after NOW; return the jobs it made, or raise its error."""
    others = [each.name for each in await store.schedules.listed() if each.name != name]
    results = await store.schedules.tick(2, without=others, now=at(seconds))
    assert [each.name for each in results] in ([], [name])
    for each in results:
        if each.error is not None:
            raise each.error
    return results[0].jobs if results else ()


async def order(
    store: Store,
    give: Order,
    name: str = "s",
    seconds: float = 0,
) -> Amended:
    """Pause, resume, remove a schedule or run it."""
    return await store.schedules.amend(name, lambda stands: give(stands, name), now=at(seconds))


async def the_record(store: Store) -> ScheduleRecord:
    """Return the one schedule there is."""
    [record] = await store.schedules.listed()
    return record


class SchedulesContract:
    """`Store.schedules`: `amend`, `agenda`, `confirm_declared` and `listed`."""

    async def test_no_schedule(self, store: Store) -> None:
        """Nothing is due or listed, and ticking what is not there makes nothing."""
        assert await store.schedules.agenda(now=NOW) == NOTHING
        assert await store.schedules.listed() == []
        assert await store.schedules.amend("s", schedule_rules.tick, now=NOW) == Amended(None)

    @pytest.mark.parametrize(
        "timing",
        [{"seconds": 0.123456}, {"cron": "30 3 * * MON", "timezone": "America/Sao_Paulo"}],
        ids=["every", "cron"],
    )
    async def test_what_is_kept_of_a_schedule(
        self, store: Store, other_store: Store, timing: dict[str, Any]
    ) -> None:
        """All of it, to the microsecond and the last digit."""
        job = NewJob(
            task="töst 🎈",
            args='{"n": 1.10, "t": "\\u00e9\'; --"}',
            queue="q",
            priority=-3,
            max_attempts=2,
            timeout=0.25,
            key="k",
            tags=("a", "b"),
            metadata={"x": [1, None], "y": "ü"},
        )
        whole = scheduled(
            "näme '\";--",
            job=job,
            **timing,
            catch_up="all",
            catch_up_limit=7,
            jitter=timedelta(microseconds=1),
            until=FAR_AHEAD,
            max_runs=12,
            pause_after=9,
        )
        state = await plan(store, whole)
        found: list[ScheduleState | None] = []

        def look(facts: ScheduleFacts) -> Amendment:
            found.append(facts.state)
            return Amendment(facts.state)

        await other_store.schedules.amend(whole.name, look, now=NOW)
        assert found == [state]
        assert state.schedule == whole
        assert state.next_at == next_tick(whole, NOW)

    async def test_what_its_jobs_are(self, store: Store) -> None:
        """They have their tick as metadata; with jitter they are due later."""
        job = NewJob(task="t", args='{"n": 1}', queue="q", priority=4, timeout=9, tags=("a",))
        await plan(store, scheduled(job=job, jitter=timedelta(days=100_000)))
        [id] = await tick(store, 10)
        record = await store.job(id)
        assert (record.task, record.args, record.queue, record.priority) == ("t", {"n": 1}, "q", 4)
        assert (record.timeout, record.tags) == (9, ("a",))
        assert record.metadata == {"schedule": "s", "tick": at(10).isoformat()}
        assert record.state == JobState.SCHEDULED

    async def test_a_tick_makes_one_job(self, store: Store, other_store: Store) -> None:
        """Not before its time, and not a second one, on whichever handle."""
        await plan(store, scheduled())
        assert await tick(store, 9.999999) == ()
        assert len(await tick(other_store, 10)) == 1
        for handle in (store, other_store):
            assert await tick(handle, 10) == ()
            assert await tick(handle, 19) == ()
        assert len(await tick(store, 20)) == 1

    async def test_made_at_the_same_moment(self, store: Store, other_store: Store) -> None:
        """Of many that put the same name, one makes it and the others find it there."""
        async with deadline():
            states = await asyncio.gather(
                *(plan(handle, scheduled(seconds=n))
                  for n, handle in enumerate([store, other_store] * 4, 1))
            )  # fmt: skip
        last = await the_record(store)
        assert last.every in {state.schedule.every.total_seconds() for state in states
                              if state.schedule.every}  # fmt: skip
        assert len({state.created_at for state in states}) == 1

    async def test_an_error_writes_nothing(self, store: Store) -> None:
        """It reaches the caller; neither the change nor a job stays."""
        before = await plan(store, scheduled())

        def fail(facts: ScheduleFacts) -> Amendment:
            raise InvalidSchedule("no")

        with pytest.raises(InvalidSchedule, match=r"^no$"):
            await store.schedules.amend("s", fail, now=at(10))
        with pytest.raises(InvalidSchedule, match=r"^no$"):
            await store.schedules.amend("another", fail, now=at(10))
        after = await store.schedules.amend("s", lambda s: Amendment(s.state), now=at(10))
        assert after == Amended(before)
        assert len(await store.schedules.listed()) == 1

    async def test_a_tick_that_has_its_job(self, store: Store) -> None:
        """Should the schedule be set back, no second job is made, and nothing changes."""
        await plan(store, scheduled())
        await tick(store, 10)

        def set_back(facts: ScheduleFacts) -> Amendment:
            assert facts.state is not None
            return Amendment(replace(facts.state, next_at=at(10)))

        await store.schedules.amend("s", set_back, now=at(11))
        with pytest.raises(WrongState, match="tick of schedule 's' has its job already"):
            await tick(store, 12)
        assert len(await store.jobs(JobFilter())) == 1
        assert (await store.schedules.agenda(now=at(12))).due == ("s",)

    async def test_all_missed_ticks(self, store: Store) -> None:
        """One job each, in order."""
        await plan(store, scheduled(catch_up="all"))
        made = await tick(store, 35)
        assert len(made) == 3
        ticks = [(await store.job(id)).metadata["tick"] for id in made]
        assert ticks == [at(seconds).isoformat() for seconds in (10, 20, 30)]

    async def test_more_ticks_than_are_kept(self, store: Store) -> None:
        """The old ones are forgotten, their jobs are not, and the rest goes on."""
        await plan(store, scheduled(catch_up="all"))
        for n in range(1, 5):
            made = await tick(store, n * 10 * TICKS_KEPT_PER_SCHEDULE / 2)
            assert len(made) == TICKS_KEPT_PER_SCHEDULE / 2
        assert len(await store.jobs(JobFilter(limit=None))) == TICKS_KEPT_PER_SCHEDULE * 2

    async def test_the_agenda(self, store: Store, other_store: Store) -> None:
        """Those that are due, longest first, and the seconds to the next that is not."""
        for seconds in (30, 10, 20.5):
            await plan(store, scheduled(f"every {seconds}", seconds=seconds))
        assert await other_store.schedules.agenda(now=NOW) == Agenda((), 10, awaits=False)
        due = ("every 10", "every 20.5")
        assert await other_store.schedules.agenda(now=at(20.5)) == Agenda(due, 9.5, awaits=False)
        some = await other_store.schedules.agenda(without=["every 10", "every 30"], now=at(20.5))
        assert some == Agenda(due[1:], None, awaits=False)
        await order(store, schedule_rules.pause, "every 10")
        assert await other_store.schedules.agenda(now=at(20.5)) == Agenda(
            due[1:], 9.5, awaits=False
        )
        await order(store, schedule_rules.remove, "every 30")
        assert await other_store.schedules.agenda(now=at(20.5)) == Agenda(
            due[1:], None, awaits=False
        )

    async def test_the_agenda_by_the_database_s_clock(self, store: Store) -> None:
        """Without `now`, it is now."""
        await plan(store, scheduled(seconds=500), now=None)
        found = await store.schedules.agenda()
        assert found.due == ()
        assert found.next_in is not None
        assert 400 < found.next_in < 500
        state = (await store.schedules.amend("s", schedule_rules.tick)).state
        assert state is not None
        assert state.next_at is not None
        assert state.next_at > datetime.now(UTC)

    async def test_skipping_while_it_runs(self, store: Store) -> None:
        """Waiting or running, the last job keeps the next from being made; its end does not."""
        await plan(store, scheduled(overlap=Overlap.SKIP))
        worker = await join(store)
        assert len(await tick(store, 10)) == 1
        assert await tick(store, 20) == ()
        claim = await take_one(store, worker, now=FAR_AHEAD)
        assert await tick(store, 30) == ()
        await finish(store, worker, [claim], OutcomeKind.DEAD)
        assert len(await tick(store, 40)) == 1
        assert (await the_record(store)).skipped == 2

    @pytest.mark.parametrize("kind", [OutcomeKind.SUCCEEDED, OutcomeKind.DEAD])
    async def test_after_the_end(self, store: Store, kind: OutcomeKind) -> None:
        """The next tick counts from the end of the job, however it ended."""
        await plan(store, scheduled(overlap=Overlap.AFTER))
        worker = await join(store)
        await tick(store, 10)
        assert await store.schedules.agenda(now=at(99)) == Agenda((), None, awaits=True)
        assert await tick(store, 99) == ()
        claim = await take_one(store, worker, now=FAR_AHEAD)
        assert (await store.schedules.agenda(now=at(99))).awaits
        assert await store.schedules.agenda(without=["s"], now=at(99)) == NOTHING
        await finish(store, worker, [claim], kind, now=at(100))
        assert await store.schedules.agenda(now=at(101)) == Agenda(("s",), None, awaits=False)
        assert await store.schedules.agenda(without=["s"], now=at(101)) == NOTHING
        assert await tick(store, 101) == ()
        assert await store.schedules.agenda(now=at(101)) == Agenda((), 9, awaits=False)
        assert len(await tick(store, 110)) == 1

    async def test_after_a_cancelled_one(self, store: Store) -> None:
        """Which has ended, too."""
        await plan(store, scheduled(overlap=Overlap.AFTER))
        await tick(store, 10)
        await store.cancel(JobFilter(), now=at(20))
        assert await tick(store, 21) == ()
        assert await store.schedules.agenda(now=at(21)) == Agenda((), 9, awaits=False)

    async def test_after_one_that_was_pruned(self, store: Store) -> None:
        """Its end is not known any more, but that it is over."""
        await plan(store, scheduled(overlap=Overlap.AFTER))
        worker = await join(store)
        await tick(store, 10)
        await finish(store, worker, await take(store, worker, now=FAR_AHEAD), now=at(20))
        assert await store.prune(OutcomeKind.SUCCEEDED, 0, 10, now=at(30)) == 1
        await tick(store, 50)
        assert (await store.schedules.agenda(now=at(50))).next_in == 10
        assert (await the_record(store)).last_state is None

    async def test_commands(self, store: Store) -> None:
        """Pause, run now, resume and remove; the jobs stay."""
        await plan(store, scheduled())
        await order(store, schedule_rules.pause, seconds=1)
        assert await tick(store, 10) == ()
        [id] = (await order(store, schedule_rules.run_now, seconds=15)).jobs
        assert (await store.job(id)).metadata == {"schedule": "s"}
        [other] = (await order(store, schedule_rules.run_now, seconds=15)).jobs
        resumed = (await order(store, schedule_rules.resume, seconds=25)).state
        assert resumed is not None
        assert (resumed.next_at, resumed.last_job, resumed.runs) == (at(30), other, 0)
        assert (await order(store, schedule_rules.remove, seconds=26)).state is None
        assert await store.schedules.listed() == []
        assert sorted(ids_of(await store.jobs(JobFilter()))) == [id, other]

    async def test_removed_and_made_again(self, store: Store) -> None:
        """It starts again, if need be with the same ticks."""
        await plan(store, scheduled())
        await tick(store, 10)
        await order(store, schedule_rules.remove)
        await plan(store, scheduled())
        assert len(await tick(store, 10)) == 1

    async def test_the_list(self, store: Store, other_store: Store) -> None:
        """By name, with what is planned and how the last job went."""
        await plan(store, scheduled("b", cron="0 0 1 1 *", timezone="Europe/Berlin"), now=None)
        await plan(store, scheduled("a", max_runs=1, job=NewJob(task="t", args='{"n": 1}')))
        worker = await join(store)
        [id] = await tick(store, 10, "a")
        found = {record.name: record for record in await other_store.schedules.listed()}
        assert list(found) == ["a", "b"]
        assert (found["b"].status, found["b"].cron, found["b"].every) == (
            "active", "0 0 1 1 *", None
        )  # fmt: skip
        assert (found["b"].last_job, found["b"].last_state, found["b"].in_code) == (None,) * 3
        assert (found["a"].status, found["a"].every, found["a"].args) == (
            "finished", 10, {"n": 1}
        )  # fmt: skip
        assert (found["a"].last_job, found["a"].last_state) == (id, "ready")
        assert (found["a"].last_tick, found["a"].last_duration) == (at(10), None)
        pause = pause_of(None, found["a"].task)
        await store.limits.put(pause)
        assert await take(store, worker, now=FAR_AHEAD) == []
        assert (await other_store.schedules.listed())[0].last_state == "blocked"
        assert await store.limits.remove(pause.name)
        claims = await take(store, worker, now=FAR_AHEAD)
        assert (await other_store.schedules.listed())[0].last_state == "running"
        await finish(
            store, worker, claims, OutcomeKind.DEAD, now=at(40), error_type="E", error="why"
        )
        [ended, _] = await other_store.schedules.listed()
        assert (ended.last_state, ended.last_error) == ("dead", "why")
        assert (ended.last_started_at, ended.last_finished_at) == (at(40), at(40))
        assert ended.last_duration == 0

    @pytest.mark.parametrize("args", ["{", "[1]", "7", '{"a":' + "9" * 5_000 + "}"])
    async def test_arguments_that_somebody_wrote(self, store: Store, args: str) -> None:
        """The schedule is listed beside others, and workers start."""
        for name in ("strange", "usual"):
            await plan(store, scheduled(name, job=NewJob(task="t", args='{"n": 1}')), now=None)
        assert await rewrite(store, "mutirao_schedule", "name", "strange", args=args)
        strange, usual = await store.schedules.listed()
        assert "args" in strange.args["unreadable"]
        assert usual.args == {"n": 1}
        await innocents_go_on(store, [])

    @pytest.mark.parametrize(
        "written",
        [
            {"options": '{"x":1}'}, {"options": '{"tags":5}'}, {"options": "[1]"}, {"options": "{"},
            {"every": "1e300"}, {"jitter": "1e300"}, {"jitter": "-1"}, {"catch_up_limit": "-3"},
            {"max_runs": "-3"}, {"timezone": "x"},
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize(
        "give", [schedule_rules.pause, schedule_rules.resume, schedule_rules.run_now]
    )
    async def test_what_no_schedule_can_be(
        self, store: Store, written: dict[str, str], give: Order
    ) -> None:
        """Whoever wants to change it is told why that fails; it can be removed, and put again."""
        await plan(store, scheduled("strange"), now=NOW)
        await order(store, schedule_rules.pause, "strange")
        assert await rewrite(store, "mutirao_schedule", "name", "strange", **written)
        with pytest.raises(InvalidSchedule, match="cannot be read"):
            await order(store, give, "strange", seconds=100)
        with pytest.raises(InvalidSchedule, match="cannot be read"):
            await plan(store, scheduled("strange", job=NewJob(task="u")), now=NOW)
        await self._is_removed_and_put_again(store)

    @pytest.mark.parametrize(
        "written",
        [{"options": '{"max_attempts":"x"}'}, {"args": "{"}, {"args": "7"}],
        ids=str,
    )
    async def test_what_no_job_can_be(self, store: Store, written: dict[str, str]) -> None:
        """The schedule can be changed, paused and resumed; its job is refused."""
        await plan(store, scheduled("strange"), now=NOW)
        assert await rewrite(store, "mutirao_schedule", "name", "strange", **written)
        await order(store, schedule_rules.pause, "strange")
        await order(store, schedule_rules.resume, "strange", seconds=100)
        with pytest.raises(StoreError, match="refuses"):
            await order(store, schedule_rules.run_now, "strange", seconds=100)
        await plan(store, scheduled("strange", job=NewJob(task="u")), now=NOW)
        await order(store, schedule_rules.run_now, "strange", seconds=100)
        await self._is_removed_and_put_again(store)

    async def _is_removed_and_put_again(self, store: Store) -> None:
        await order(store, schedule_rules.remove, "strange")
        assert await store.schedules.listed() == []
        await plan(store, scheduled("strange"), now=NOW)

    async def test_the_words_of_the_list(self, store: Store) -> None:
        """Active, awaiting, paused, finished."""
        await plan(store, scheduled(overlap=Overlap.AFTER, max_runs=2))
        assert (await the_record(store)).status == "active"
        await tick(store, 10)
        assert (await the_record(store)).status == "awaiting"
        await order(store, schedule_rules.pause)
        assert (await the_record(store)).status == "paused"
        await order(store, schedule_rules.resume)
        await store.cancel(JobFilter(), now=at(20))
        assert len(await tick(store, 60)) == 1
        assert (await the_record(store)).status == "finished"

    async def test_confirming(self, store: Store, other_store: Store) -> None:
        """Keeps schedules that code made known as such, as long as some worker has them."""
        for name in ("mine", "theirs"):
            declare = partial(schedule_rules.declare, schedule=scheduled(name), worker="w1")
            await store.schedules.amend(name, declare)
        await plan(store, scheduled("put"), now=None)
        record = {each.name: each for each in await store.schedules.listed()}
        assert [each.in_code for each in record.values()] == [True, None, True]
        assert record["mine"].declared_by == "w1"
        declared_at = record["mine"].declared_at
        assert declared_at is not None
        soon, later = declared_at + timedelta(seconds=59), declared_at + timedelta(seconds=61)
        await other_store.schedules.confirm_declared(
            ["mine", "put", "unknown"], "w2", every=60, now=soon
        )
        assert {each.declared_by for each in await store.schedules.listed()} == {"w1", None}
        await other_store.schedules.confirm_declared(
            ["mine", "put", "unknown"], "w2", every=60, now=later
        )
        record = {each.name: each for each in await store.schedules.listed()}
        assert (record["mine"].declared_by, record["mine"].declared_at) == ("w2", later)
        assert (record["theirs"].declared_by, record["put"].declared_by) == ("w1", None)

    async def test_one_that_left_the_code(self, store: Store) -> None:
        """Minutes after the last worker had it, the list says so; it ticks on."""
        declare = partial(schedule_rules.declare, schedule=scheduled(), worker="w1")
        await store.schedules.amend("s", declare, now=NOW)
        record = await the_record(store)
        assert (record.origin, record.in_code, record.declared_at) == ("code", False, NOW)
        assert len(await tick(store, 10)) == 1

    async def test_finished_jobs_beside_it(self, store: Store) -> None:
        """A schedule ignores what other jobs do."""
        await plan(store, scheduled(overlap=Overlap.SKIP))
        worker = await join(store)
        await put_finished(store, worker, NewJob(task="other", queue="other", run_at=NOW))
        assert len(await tick(store, 10)) == 1
