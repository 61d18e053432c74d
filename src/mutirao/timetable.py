"""What becomes of a schedule: pure functions from how it stands to how it stands then.

A store holds the schedule's row while it applies one of them, and writes the new state and the
jobs in one transaction. So every decision sees what the one before it wrote, on every database,
and a tick that was taken is not there to be taken again.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mutirao.cron import check_times, next_tick, ticks_until
from mutirao.errors import InvalidSchedule, UnknownSchedule, WrongState
from mutirao.job import NewJob
from mutirao.schedule import (
    NO_TIME,
    Amendment,
    CatchUp,
    Origin,
    Overlap,
    Schedule,
    ScheduleState,
    Standing,
    Ticked,
)

# A scheduler that dies is replaced within seconds, so a tick is not missed before that.
MISSED_AFTER = timedelta(minutes=1)


def put(standing: Standing, schedule: Schedule) -> Amendment:
    """Make a schedule, or give it other terms. A new one raises InvalidSchedule if it never ticks.

    Keeps what it has been through and whether it is paused; its next tick too, unless the terms
    that decide about it changed.
    """
    state, now = standing.state, standing.now
    if state is None:
        return Amendment(_planned(_made(schedule, now), now))
    if state.schedule == schedule:
        return Amendment(state)
    changed = replace(state, schedule=schedule, changed_at=now)
    if state.schedule.timing == schedule.timing and _goes_on(changed):
        return Amendment(changed)
    planned = _planned(replace(changed, awaiting=False), _latest(changed, now))
    waits = changed.awaiting and schedule.overlap is Overlap.AFTER
    return Amendment(_awaiting(planned) if waits else planned)


def declare(standing: Standing, schedule: Schedule, worker: str) -> Amendment:
    """Make or change a schedule that the code defines, when a worker with that code starts.

    What was changed at run time stays as long as the code says what it said last time. So the
    worker that started last decides, once, and two versions of the code do not fight.
    """
    said = fingerprint(schedule)
    state = standing.state
    if state is None or state.declared != said:
        state = put(standing, schedule).state
    if state is None:
        raise AssertionError(f"putting schedule {schedule.name!r} removed it")
    return Amendment(
        replace(
            state,
            origin=Origin.CODE,
            declared=said,
            declared_at=standing.now,
            declared_by=worker,
        )
    )


def change(standing: Standing, name: str, terms: Mapping[str, Any]) -> Amendment:
    """Give a schedule other terms, by the names of the fields of `Schedule`; the rest stays."""
    state = known(standing, name)
    given = dict(terms)
    if given.get("cron") is not None:
        given.setdefault("every", None)
    elif given.get("every") is not None:
        given = {"cron": None, "timezone": "UTC"} | given
    return put(standing, replace(state.schedule, **given))


def pause(standing: Standing, name: str) -> Amendment:
    """Let no further tick make a job."""
    state = known(standing, name)
    return Amendment(
        state if state.paused else replace(state, paused=True, changed_at=standing.now)
    )


def resume(standing: Standing, name: str) -> Amendment:
    """Let ticks make jobs again, from now on: those that passed meanwhile were not wanted."""
    state, now = known(standing, name), standing.now
    if not state.paused:
        return Amendment(state)
    state = replace(state, paused=False, changed_at=now)
    if state.awaiting and not standing.live:
        state = _next(replace(state, awaiting=False), _latest(state, now))
    elif state.next_at is not None and state.next_at <= now:
        passed = ticks_until(state.schedule, state.next_at, now, 1)
        state = _next(state, passed[-1])
    return Amendment(state)


def remove(standing: Standing, name: str) -> Amendment:
    """Remove a schedule; the jobs that it made stay."""
    known(standing, name)
    return Amendment(None)


def run_now(standing: Standing, name: str) -> Amendment:
    """Make a job beside the ticks, paused or not. Raises WrongState if it would overlap."""
    state = known(standing, name)
    if state.schedule.overlap is not Overlap.ALLOW and standing.live:
        raise WrongState(
            f"job {state.last_job} of schedule {name!r} is live, and overlap="
            f"'{state.schedule.overlap}' forbids another one; wait for its end, or cancel it"
        )
    if state.schedule.overlap is Overlap.AFTER:
        state = _awaiting(state)
    return Amendment(state, (Ticked(None, _job(state.schedule, None, standing.now)),))


def tick(standing: Standing) -> Amendment:
    """Make the jobs of the ticks that have come, if any, and go on to the next tick.

    The next tick is counted from the last one and not from now, so it does not drift.
    """
    state, now = standing.state, standing.now
    if state is None or state.paused:
        return Amendment(state)
    if state.awaiting and not standing.live:
        state = _next(replace(state, awaiting=False), _end(standing, state))
    if state.next_at is None or state.next_at > now:
        return Amendment(state)
    schedule = state.schedule
    until = now if schedule.until is None else min(now, schedule.until)
    passed = ticks_until(schedule, state.next_at, until, schedule.catch_up_limit)
    wanted = _wanted(state, passed, now)
    overlaps = bool(wanted) and standing.live and schedule.overlap is not Overlap.ALLOW
    made = [] if overlaps else wanted
    state = replace(
        state,
        last_tick=passed[-1],
        runs=state.runs + len(made),
        skipped=state.skipped + overlaps,
    )
    state = _next(state, passed[-1])
    if wanted and schedule.overlap is Overlap.AFTER:
        state = _awaiting(state)
    return Amendment(state, tuple(Ticked(tick, _job(schedule, tick, now)) for tick in made))


def known(standing: Standing, name: str) -> ScheduleState:
    """Return the state. Raises UnknownSchedule if there is none."""
    if standing.state is None:
        raise UnknownSchedule(
            f"there is no schedule {name!r}; `mutirao schedules list` shows those there are"
        )
    return standing.state


def fingerprint(schedule: Schedule) -> str:
    """Return what tells whether the code says the same of a schedule as last time."""
    said = _said(schedule) | {"job": _said(schedule.job)}
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _said(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults: a new field changes no fingerprint."""
    return {
        each.name: getattr(value, each.name)
        for each in fields(value)
        if each.compare and getattr(value, each.name) not in (each.default, None, {})
    }


def _made(schedule: Schedule, now: datetime) -> ScheduleState:
    return ScheduleState(
        schedule=schedule, origin=Origin.CALL, created_at=now, changed_at=now, next_at=None
    )


def _planned(state: ScheduleState, after: datetime) -> ScheduleState:
    """Find the first tick after a moment. Raises InvalidSchedule if there cannot be one."""
    check_times(state.schedule)
    planned, until = _next(state, after), state.schedule.until
    if planned.next_at is None and until is not None and not _used_up(planned):
        why = "which has passed" if until <= after else "before its first tick"
        raise InvalidSchedule(
            f"schedule {state.schedule.name!r} would never make a job: it ends at {until}, {why}"
        )
    return planned


def _next(state: ScheduleState, after: datetime) -> ScheduleState:
    """Return the state with its next tick after a moment, or with none if it has ended."""
    schedule = state.schedule
    found = None if _used_up(state) else next_tick(schedule, after)
    if found is not None and schedule.until is not None and found > schedule.until:
        found = None
    return replace(state, next_at=found)


def _used_up(state: ScheduleState) -> bool:
    return state.schedule.max_runs is not None and state.runs >= state.schedule.max_runs


def _goes_on(state: ScheduleState) -> bool:
    """Whether the next tick that was planned still fits the bounds, and one was planned."""
    schedule = state.schedule
    if state.awaiting:
        return schedule.overlap is Overlap.AFTER and not _used_up(state)
    within = schedule.until is None or (state.next_at or schedule.until) <= schedule.until
    return state.next_at is not None and within and not _used_up(state)


def _awaiting(state: ScheduleState) -> ScheduleState:
    """Return the state with its next tick put off until the last job has ended, if it has one."""
    return state if state.next_at is None else replace(state, next_at=None, awaiting=True)


def _latest(state: ScheduleState, now: datetime) -> datetime:
    """Return now, but nothing before the last tick, should the clock have been put back."""
    return max(now, state.last_tick or now)


def _end(standing: Standing, state: ScheduleState) -> datetime:
    """Return when the awaited job ended."""
    return _latest(state, standing.ended_at or standing.now)


def _wanted(state: ScheduleState, passed: list[datetime], now: datetime) -> list[datetime]:
    """Choose the ticks that make jobs of those that have come."""
    schedule = state.schedule
    if schedule.catch_up is not CatchUp.ALL:
        late = now - passed[-1] > MISSED_AFTER
        passed = [] if late and schedule.catch_up is CatchUp.NONE else passed[-1:]
    left = len(passed) if schedule.max_runs is None else schedule.max_runs - state.runs
    return passed[:left]


def _job(schedule: Schedule, tick: datetime | None, now: datetime) -> NewJob:
    """Return the job of a tick. It is told which, because it may run long after."""
    told = {"schedule": schedule.name}
    if tick is not None:
        told["tick"] = tick.astimezone(UTC).isoformat()
    due = None
    if tick is not None and schedule.jitter > NO_TIME:
        # The same for everybody, and different for the many that share a tick.
        share = random.Random(f"{schedule.name} {tick.timestamp()}").random()
        due = tick + schedule.jitter * share
    return replace(
        schedule.job,
        metadata={**schedule.job.metadata, **told},
        run_at=due if due is not None and due > now else None,
    )
