"""What becomes of a schedule, step by step: each rule where it decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao.errors import InvalidSchedule, UnknownSchedule, WrongState
from mutirao.model.jobs.expiry import EXPIRES_KEY, expiry_in, lasting
from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import Amendment, Schedule, ScheduleFacts, ScheduleState

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
JOB = NewJob(task="report", args='{"day": 1}')


def at(minutes: float) -> datetime:
    """Return the moment so many minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def schedule(**terms: Any) -> Schedule:
    """Return a schedule that ticks every ten minutes, unless the terms say otherwise."""
    usual = {} if "cron" in terms else {"every": timedelta(minutes=10)}
    return Schedule(**{"name": "s", "job": JOB, **usual, **terms})


def made(**terms: Any) -> ScheduleState:
    """Return a schedule that was made at noon."""
    return state_of(schedule_rules.put(ScheduleFacts(None, NOON), schedule(**terms)))


def state_of(amendment: Amendment) -> ScheduleState:
    """Return the state, which must be one."""
    assert amendment.state is not None
    return amendment.state


def tick(
    state: ScheduleState, minutes: float, live: bool = False, ended: float | None = None
) -> tuple[ScheduleState, list[float]]:
    """Look at a moment; return the new state, and the ticks that make jobs, in minutes."""
    ended_at = None if ended is None else at(ended)
    found = schedule_rules.tick(ScheduleFacts(state, at(minutes), live, ended_at))
    ticks = [ticked.tick for ticked in found.ticks if ticked.tick is not None]
    return state_of(found), [(tick - NOON) / timedelta(minutes=1) for tick in ticks]


def test_one_tick_after_the_other() -> None:
    """Nothing before it is time; then one job, and the next tick counts from the tick."""
    state = made()
    assert state.next_at == at(10)
    assert tick(state, 9.9) == (state, [])
    state, ticks = tick(state, 10.3)
    assert ticks == [10]
    assert (state.next_at, state.last_tick, state.runs) == (at(20), at(10), 1)
    assert tick(state, 10.3) == (state, [])


@pytest.mark.parametrize(
    ("catch_up", "minutes", "expected"),
    [
        ("none", 34.0, []), ("none", 30.5, [30]), ("none", 10.9, [10]), ("none", 11.1, []),
        ("last", 34.0, [30]), ("last", 10.5, [10]),
        ("all", 34.0, [10, 20, 30]), ("all", 99.0, [70, 80, 90]), ("all", 10.5, [10]),
    ],
)  # fmt: skip
def test_missed_ticks(catch_up: str, minutes: float, expected: list[float]) -> None:
    """None, the last one, or all up to the limit; after that it goes on as if nothing had been."""
    state, ticks = tick(made(catch_up=catch_up, catch_up_limit=3), minutes)
    assert ticks == expected
    assert state.next_at == at((minutes // 10 + 1) * 10)


def test_skipping() -> None:
    """While the last job is live its ticks make none, and are counted; then it goes on."""
    state, _ = tick(made(overlap="skip"), 10)
    state, ticks = tick(state, 20, live=True)
    assert (ticks, state.skipped, state.next_at) == ([], 1, at(30))
    assert tick(state, 30)[1] == [30]


def test_after() -> None:
    """The next tick counts from the end of the last job, however long that took."""
    state, ticks = tick(made(overlap="after"), 10)
    assert (ticks, state.awaiting, state.next_at) == ([10], True, None)
    assert tick(state, 500, live=True) == (state, [])
    state, ticks = tick(state, 502, ended=501)
    assert (ticks, state.awaiting, state.next_at) == ([], False, at(511))
    assert tick(state, 511)[1] == [511]


def test_after_by_cron() -> None:
    """The first tick of the line after the end."""
    state, _ = tick(made(cron="*/10 * * * *", overlap="after"), 10)
    state, _ = tick(state, 37, ended=33)
    assert state.next_at == at(40)


def test_after_when_the_end_is_seen_late() -> None:
    """It ticks at once if its time has come by then; an end that was pruned is now."""
    state, _ = tick(made(overlap="after"), 10)
    assert tick(state, 30, ended=15)[1] == [25]
    assert tick(state, 30)[0].next_at == at(40)


def test_the_end() -> None:
    """No tick after `until`, not even a missed one; one at that very moment counts."""
    state = made(until=at(20), catch_up="all")
    state, ticks = tick(state, 60)
    assert (ticks, state.next_at) == ([10, 20], None)
    assert tick(state, 99) == (state, [])


@pytest.mark.parametrize("overlap", ["allow", "skip", "after"])
def test_the_number_of_runs(overlap: str) -> None:
    """Those that made jobs count, and a skipped one does not."""
    state, ticks = tick(made(max_runs=2, overlap=overlap), 10)
    state, more = tick(state, 20, live=True)
    state, more_still = tick(state, 31, ended=21)
    assert len(ticks + more + more_still) == 2
    assert (state.next_at, state.awaiting, state.runs) == (None, False, 2)


def test_the_number_of_runs_when_catching_up() -> None:
    """The missed ones that are too many make no job."""
    assert tick(made(max_runs=2, catch_up="all"), 60)[1] == [10, 20]


def test_pausing() -> None:
    """Ticks that pass meanwhile are not made up for, and the rhythm stays."""
    state = state_of(schedule_rules.pause(ScheduleFacts(made(catch_up="all"), NOON), "s"))
    assert tick(state, 35) == (state, [])
    state = state_of(schedule_rules.resume(ScheduleFacts(state, at(35)), "s"))
    assert state.next_at == at(40)
    again = schedule_rules.resume(ScheduleFacts(state, at(36)), "s")
    assert again.state is state


def test_pausing_one_that_awaits() -> None:
    """It goes on awaiting, or begins from now."""
    state, _ = tick(made(overlap="after"), 10)
    state = replace(state, paused=True)
    assert state_of(schedule_rules.resume(ScheduleFacts(state, at(90), True), "s")).awaiting
    state = state_of(schedule_rules.resume(ScheduleFacts(state, at(90), False, at(12)), "s"))
    assert (state.awaiting, state.next_at) == (False, at(100))


def test_putting_the_same_again() -> None:
    """Changes nothing, so programs may put their schedules whenever they start."""
    state = made()
    assert schedule_rules.put(ScheduleFacts(state, at(9)), schedule()).state is state


def test_other_terms() -> None:
    """The next tick moves only if what decides about it changed; the past and the pause stay."""
    state, _ = tick(made(), 10)
    state = replace(state, paused=True, last_job=7)
    job = replace(JOB, args="{}")
    kept = state_of(schedule_rules.put(ScheduleFacts(state, at(12)), schedule(job=job)))
    assert (kept.next_at, kept.schedule.job, kept.changed_at) == (at(20), job, at(12))
    moved = state_of(
        schedule_rules.change(ScheduleFacts(state, at(12)), "s", {"cron": "15 * * * *"})
    )
    assert (moved.next_at, moved.schedule.every) == (at(15), None)
    assert (moved.paused, moved.last_tick, moved.last_job, moved.runs) == (True, at(10), 7, 1)
    back = state_of(
        schedule_rules.change(ScheduleFacts(moved, at(13)), "s", {"every": timedelta(hours=1)})
    )
    assert (back.next_at, back.schedule.cron) == (at(73), None)


def test_other_terms_while_it_awaits() -> None:
    """It still awaits the end if the new terms say so, and counts on from now if not."""
    state, _ = tick(made(overlap="after"), 10)
    longer = {"every": timedelta(hours=1)}
    changed = state_of(schedule_rules.change(ScheduleFacts(state, at(12), True), "s", longer))
    assert (changed.awaiting, changed.next_at) == (True, None)
    assert tick(changed, 20, ended=15)[0].next_at == at(75)
    changed = state_of(
        schedule_rules.change(ScheduleFacts(state, at(12), True), "s", {"overlap": "allow"})
    )
    assert (changed.awaiting, changed.next_at) == (False, at(22))


def test_a_finished_one_goes_on() -> None:
    """With a later end, or more runs."""
    state, _ = tick(made(until=at(15)), 10)
    assert state.next_at is None
    state = state_of(schedule_rules.change(ScheduleFacts(state, at(30)), "s", {"until": at(60)}))
    assert state.next_at == at(40)
    state, _ = tick(made(max_runs=1), 10)
    assert state_of(
        schedule_rules.change(ScheduleFacts(state, at(30)), "s", {"max_runs": 2})
    ).next_at


def test_a_clock_put_back() -> None:
    """No tick comes twice: what is planned stays ahead of the last one."""
    state, _ = tick(made(), 10)
    assert tick(state, -500) == (state, [])
    moved = schedule_rules.change(
        ScheduleFacts(state, at(-500)), "s", {"every": timedelta(minutes=1)}
    )
    assert state_of(moved).next_at == at(11)


def test_running_now() -> None:
    """A job beside the ticks, which stay as they were."""
    state = made()
    found = schedule_rules.run_now(
        ScheduleFacts(replace(state, paused=True), at(3), live=True), "s"
    )
    assert [ticked.tick for ticked in found.ticks] == [None]
    assert state_of(found).next_at == at(10)
    assert found.ticks[0].job.metadata == {"schedule": "s"}


@pytest.mark.parametrize("overlap", ["skip", "after"])
def test_running_now_does_not_overlap(overlap: str) -> None:
    """Where that is forbidden; with `after` the next tick counts from this run's end too."""
    state = replace(made(overlap=overlap), last_job=7)
    with pytest.raises(WrongState, match="job 7 of schedule 's' is live"):
        schedule_rules.run_now(ScheduleFacts(state, at(3), live=True), "s")
    ran = state_of(schedule_rules.run_now(ScheduleFacts(state, at(3)), "s"))
    assert ran.awaiting == (overlap == "after")


def test_what_a_job_is_told() -> None:
    """The schedule's name and its tick, beside its own metadata."""
    job = replace(JOB, metadata={"tenant": 3})
    [ticked] = schedule_rules.tick(ScheduleFacts(made(job=job), at(10.5))).ticks
    assert ticked.job.metadata == {
        "tenant": 3, "schedule": "s", "tick": "2026-11-21T12:10:00+00:00"
    }  # fmt: skip
    assert (ticked.job.args, ticked.job.run_at) == (JOB.args, None)


@pytest.mark.parametrize("timing", [{}, {"cron": "*/10 * * * *"}], ids=["every", "cron"])
def test_jitter(timing: dict[str, Any]) -> None:
    """Due within its length after the tick: the same for everybody, and not always the same."""
    state = made(**timing, jitter=timedelta(minutes=5))
    dues = set()
    for minutes in range(10, 210, 10):
        found = schedule_rules.tick(ScheduleFacts(state, at(minutes)))
        assert found == schedule_rules.tick(ScheduleFacts(state, at(minutes)))
        state, due = state_of(found), found.ticks[0].job.run_at
        assert due is not None
        assert at(minutes) < due < at(minutes + 5)
        dues.add(due - at(minutes))
    assert len(dues) == 20


def declared(
    state: ScheduleState | None, minutes: float, worker: str = "w", **terms: Any
) -> ScheduleState:
    """Return the state after a worker started with a schedule of those terms in its code."""
    return state_of(
        schedule_rules.declare(ScheduleFacts(state, at(minutes)), schedule(**terms), worker)
    )


def test_declaring() -> None:
    """The code makes it, changes it when it says something else, and leaves a pause alone."""
    state = declared(None, 0)
    assert (state.origin, state.next_at, state.declared_by) == ("code", at(10), "w")
    state = replace(state, paused=True, last_tick=at(10))
    state = declared(state, 12, worker="x", every=timedelta(minutes=3))
    assert (state.next_at, state.paused, state.declared_at) == (at(15), True, at(12))
    assert (state.last_tick, state.declared_by) == (at(10), "x")


def test_declaring_the_same_again() -> None:
    """What was changed at run time stays until the code says something else."""
    state = declared(None, 0)
    state = state_of(
        schedule_rules.change(ScheduleFacts(state, at(1)), "s", {"every": timedelta(hours=1)})
    )
    state = declared(state, 2)
    assert state.schedule.every == timedelta(hours=1)
    state = declared(state, 3, every=timedelta(hours=2))
    assert state.schedule.every == timedelta(hours=2)


def test_declaring_one_that_was_put() -> None:
    """The code takes it over."""
    state = declared(made(), 2, every=timedelta(minutes=1))
    assert (state.origin, state.next_at) == ("code", at(3))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"every": None}, "neither cron nor every is given"),
        ({"cron": "* * * * *", "every": timedelta(1)}, "both cron and every are given"),
        ({"every": timedelta(0)}, "every is 0:00:00; give more"),
        ({"every": timedelta(minutes=-1)}, "every is .*; give more"),
        ({"every": timedelta.max}, "300 years"),
        ({"cron": 5}, "cron is 5; give text"),
        ({"until": datetime(2027, 1, 1)}, "give a datetime with a time zone"),  # noqa: DTZ001
        ({"until": datetime.max.replace(tzinfo=UTC)}, "give a year from"),
        ({"until": "tomorrow"}, "give a datetime with a time zone"),
        ({"jitter": timedelta(seconds=-1)}, "jitter is"),
        ({"pause_after": 0}, "pause_after is 0; give a whole number from 1 to 100"),
        ({"pause_after": 101}, "pause_after is 101"),
        ({"catch_up": "some"}, "catch_up is 'some'; give one of none, last, all"),
        ({"overlap": "no"}, "overlap is 'no'; give one of allow, skip, after"),
        ({"catch_up": "all", "overlap": "skip"}, "overlap='skip' forbids"),
        ({"catch_up_limit": 0}, "catch_up_limit is 0; give a whole number from 1 to 1000"),
        ({"max_runs": 0}, "max_runs is 0; give a whole number"),
        ({"max_runs": True}, "max_runs is True"),
        ({"job": replace(JOB, delay=5)}, "run_at or a delay"),
    ],
)
def test_terms_that_make_no_sense(terms: dict[str, Any], message: str) -> None:
    """Each is refused where it is written, with what was expected."""
    with pytest.raises(InvalidSchedule, match=message):
        schedule(**terms)


def test_an_end_before_the_beginning() -> None:
    """It would never make a job."""
    with pytest.raises(InvalidSchedule, match="which has passed"):
        made(until=at(-1))
    with pytest.raises(InvalidSchedule, match="before its first tick"):
        made(until=at(5))


@pytest.mark.parametrize("order", ["pause", "resume", "remove", "run_now"])
def test_unknown_names(order: str) -> None:
    """Say where to find those there are."""
    with pytest.raises(UnknownSchedule, match="no schedule 's'; `mutirao schedules list`"):
        getattr(schedule_rules, order)(ScheduleFacts(None, NOON), "s")


def test_jobs_that_expire() -> None:
    """Each job is wanted for as long as its schedule says, from when it is made."""
    wanted = replace(JOB, expires=60.0, metadata={"a": 1, EXPIRES_KEY: "of no schedule"})
    state = made(job=lasting(wanted))
    found = schedule_rules.tick(ScheduleFacts(state, at(10.5), False, None))
    [ticked] = found.ticks
    assert expiry_in(ticked.job.metadata) == at(11.5)
    assert ticked.job.metadata["a"] == 1
