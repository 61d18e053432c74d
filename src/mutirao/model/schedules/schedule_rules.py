"""The rules of schedules: pure functions from the current state to the next one.

A store locks the schedule's row while it applies one of them, and writes the new state and the jobs
in one transaction. So every decision sees what the previous one wrote, on every database, and no
tick is taken twice.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mutirao.errors import InvalidSchedule, UnknownSchedule, WrongState
from mutirao.model.jobs.expiry import begun
from mutirao.model.jobs.job import NewJob
from mutirao.model.schedules.cron import check_times, next_tick, ticks_until
from mutirao.model.schedules.schedule import (
    ZERO_DURATION,
    Amendment,
    CatchUp,
    Overlap,
    Schedule,
    ScheduleFacts,
    ScheduleOrigin,
    ScheduleState,
    Ticked,
)

# Another worker replaces a dead scheduler within seconds, so earlier ticks are not missed.
MISSED_AFTER = timedelta(minutes=1)


def put(facts: ScheduleFacts, schedule: Schedule) -> Amendment:
    """Create a schedule, or replace its definition.

    Keeps its history and whether it is paused, and also its next tick unless the options that
    determine it changed.

    Raises:
        InvalidSchedule: a new schedule, or one with new times, would never tick.
    """
    state, now = facts.state, facts.now
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


def declare(facts: ScheduleFacts, schedule: Schedule, worker: str) -> Amendment:
    """Create or change a schedule that the code defines, when a worker with that code starts.

    Changes made at run time stay until the declaration in the code changes. So the worker that
    started last decides, once, and two versions of the code do not overwrite each other forever.
    """
    said = fingerprint(schedule)
    state = facts.state
    if state is None or state.declared != said:
        state = put(facts, schedule).state
    if state is None:
        raise AssertionError(f"putting schedule {schedule.name!r} removed it")
    return Amendment(
        replace(
            state,
            origin=ScheduleOrigin.CODE,
            declared=said,
            declared_at=facts.now,
            declared_by=worker,
        )
    )


def change(facts: ScheduleFacts, name: str, terms: Mapping[str, Any]) -> Amendment:
    """Replace options of a schedule, named as the fields of `Schedule`; the others stay."""
    state = known(facts, name)
    given = dict(terms)
    if given.get("cron") is not None:
        given.setdefault("every", None)
    elif given.get("every") is not None:
        given = {"cron": None, "timezone": "UTC"} | given
    return put(facts, replace(state.schedule, **given))


def pause(facts: ScheduleFacts, name: str, reason: str | None = None) -> Amendment:
    """Stop a schedule: no further tick makes a job. One that is paused keeps its reason."""
    state = known(facts, name)
    return Amendment(state if state.paused else _paused(state, facts, reason))


def resume(facts: ScheduleFacts, name: str) -> Amendment:
    """Let ticks make jobs again, from now on; ticks that passed during the pause make none.

    Deaths until now do not count any more.
    """
    state, now = known(facts, name), facts.now
    if not state.paused:
        return Amendment(state)
    state = replace(state, paused=False, reason=None, forgiven=state.last_job, changed_at=now)
    if state.awaiting and not facts.live:
        state = _next(replace(state, awaiting=False), _latest(state, now))
    elif state.next_at is not None and state.next_at <= now:
        passed = ticks_until(state.schedule, state.next_at, now, 1)
        state = _next(state, passed[-1])
    return Amendment(state)


def remove(facts: ScheduleFacts, name: str) -> Amendment:
    """Remove a schedule, readable or not; the jobs that it made remain."""
    if facts.found is None:
        raise _unknown(name)
    return Amendment(None)


def run_now(facts: ScheduleFacts, name: str) -> Amendment:
    """Make a job in addition to the ticks, paused or not.

    Raises:
        WrongState: the last job is live, and `overlap` does not allow another one.
    """
    state = known(facts, name)
    if state.schedule.overlap is not Overlap.ALLOW and facts.live:
        raise WrongState(
            f"job {state.last_job} of schedule {name!r} is live, and overlap="
            f"'{state.schedule.overlap}' forbids another one; wait for its end, or cancel it"
        )
    if state.schedule.overlap is Overlap.AFTER:
        state = _awaiting(state)
    return Amendment(state, (Ticked(None, job_of(state.schedule, None, facts.now)),))


def tick(facts: ScheduleFacts) -> Amendment:
    """Make the jobs of the ticks that have come, if any, and advance to the next tick.

    The next tick is counted from the last one and not from now, so it does not drift. A schedule
    of whose jobs too many died in a row is paused instead.
    """
    state, now = facts.state, facts.now
    if state is None or state.paused:
        return Amendment(state)
    most = state.schedule.pause_after
    if most is not None and facts.deaths >= most:
        return Amendment(_paused(state, facts, f"its last {facts.deaths} jobs died"))
    if state.awaiting and not facts.live:
        state = _next(replace(state, awaiting=False), _end(facts, state))
    if state.next_at is None or state.next_at > now:
        return Amendment(state)
    schedule = state.schedule
    until = now if schedule.until is None else min(now, schedule.until)
    passed = ticks_until(schedule, state.next_at, until, schedule.catch_up_limit)
    wanted = _wanted(state, passed, now)
    overlaps = bool(wanted) and facts.live and schedule.overlap is not Overlap.ALLOW
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
    return Amendment(state, tuple(Ticked(tick, job_of(schedule, tick, now)) for tick in made))


def known(facts: ScheduleFacts, name: str) -> ScheduleState:
    """Return the state of the schedule; raise UnknownSchedule if there is none."""
    if facts.state is None:
        raise _unknown(name)
    return facts.state


def _unknown(name: str) -> UnknownSchedule:
    return UnknownSchedule(
        f"there is no schedule {name!r}; `mutirao schedules list` shows those there are"
    )


def fingerprint(schedule: Schedule) -> str:
    """Return a hash that shows whether a declaration in code is the same as the last one."""
    said = _said(schedule) | {"job": _said(schedule.job)}
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _said(value: Any) -> dict[str, Any]:
    """Return the fields that differ from their defaults, so that a new field changes no hash."""
    return {
        each.name: getattr(value, each.name)
        for each in fields(value)
        if each.compare and getattr(value, each.name) not in (each.default, None, {})
    }


def _paused(state: ScheduleState, facts: ScheduleFacts, reason: str | None) -> ScheduleState:
    return replace(state, paused=True, reason=reason, changed_at=facts.now)


def _made(schedule: Schedule, now: datetime) -> ScheduleState:
    return ScheduleState(
        schedule=schedule, origin=ScheduleOrigin.CALL, created_at=now, changed_at=now, next_at=None
    )


def _planned(state: ScheduleState, after: datetime) -> ScheduleState:
    """Find the first tick after a moment; raise InvalidSchedule if there cannot be one."""
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
    """Return whether a next tick was planned and still fits `until` and `max_runs`."""
    schedule = state.schedule
    if state.awaiting:
        return schedule.overlap is Overlap.AFTER and not _used_up(state)
    within = schedule.until is None or (state.next_at or schedule.until) <= schedule.until
    return state.next_at is not None and within and not _used_up(state)


def _awaiting(state: ScheduleState) -> ScheduleState:
    """Return the state with its next tick postponed until the last job has ended, if it has one."""
    return state if state.next_at is None else replace(state, next_at=None, awaiting=True)


def _latest(state: ScheduleState, now: datetime) -> datetime:
    """Return now, but nothing earlier than the last tick, in case the clock was put back."""
    return max(now, state.last_tick or now)


def _end(facts: ScheduleFacts, state: ScheduleState) -> datetime:
    """Return when the awaited job ended."""
    return _latest(state, facts.ended_at or facts.now)


def _wanted(state: ScheduleState, passed: list[datetime], now: datetime) -> list[datetime]:
    """Choose, among the ticks that have come, those that make jobs."""
    schedule = state.schedule
    if schedule.catch_up is not CatchUp.ALL:
        late = now - passed[-1] > MISSED_AFTER
        passed = [] if late and schedule.catch_up is CatchUp.NONE else passed[-1:]
    left = len(passed) if schedule.max_runs is None else schedule.max_runs - state.runs
    return passed[:left]


def job_of(schedule: Schedule, tick: datetime | None, now: datetime) -> NewJob:
    """Return the job of a tick, with the tick in its metadata because it may run much later."""
    origin = {"schedule": schedule.name}
    if tick is not None:
        origin["tick"] = tick.astimezone(UTC).isoformat()
    due = None
    if tick is not None and schedule.jitter > ZERO_DURATION:
        # Equal in all workers, and different for schedules that share a tick.
        share = random.Random(f"{schedule.name} {tick.timestamp()}").random()
        due = tick + schedule.jitter * share
    return replace(
        schedule.job,
        metadata={**begun(schedule.job.metadata, now), **origin},
        run_at=due if due is not None and due > now else None,
    )
