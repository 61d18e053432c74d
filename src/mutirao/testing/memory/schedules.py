"""Schedules: changed as `mutirao.timetable` says, and seen by people."""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mutirao.errors import WrongState
from mutirao.schedule import (
    Agenda,
    Amend,
    Amended,
    Origin,
    ScheduleRecord,
    ScheduleState,
    ScheduleStatus,
    Standing,
    Ticked,
)
from mutirao.testing.memory import people
from mutirao.testing.memory.tables import Tables

IN_CODE = timedelta(minutes=3)


def agenda(tables: Tables, now: datetime) -> Agenda:
    """Tell what there is to do."""
    states = [state for state in tables.schedules.values() if not state.paused]
    planned = sorted((s.next_at, s.schedule.name) for s in states if s.next_at is not None)
    awaiting = {s.schedule.name: s.last_job in tables.live for s in states if s.awaiting}
    return Agenda(
        due=(
            *(name for moment, name in planned if moment <= now),
            *(name for name, live in awaiting.items() if not live),
        ),
        next_in=min(((at - now).total_seconds() for at, _ in planned if at > now), default=None),
        awaits=any(awaiting.values()),
    )


def amend(tables: Tables, name: str, change: Amend, now: datetime) -> Amended:
    """Ask what becomes of a schedule, and write that."""
    before = tables.schedules.get(name)
    state, ticks = change(_standing(tables, before, now))
    jobs = _make(tables, name, ticks, now)
    if state is None:
        tables.schedules.pop(name, None)
        tables.ticks = {each for each in tables.ticks if each[0] != name}
        return Amended(None, jobs)
    after = replace(state, last_job=jobs[-1]) if jobs else state
    tables.schedules[name] = after
    return Amended(after, jobs)


def vouch(tables: Tables, names: Collection[str], worker: str, every: float, now: datetime) -> None:
    """Note that schedules are in a worker's code."""
    old = now - timedelta(seconds=every)
    for name, state in tables.schedules.items():
        if name in names and state.declared_at is not None and state.declared_at < old:
            tables.schedules[name] = replace(state, declared_at=now, declared_by=worker)


def listed(tables: Tables, now: datetime) -> list[ScheduleRecord]:
    """List the schedules, by name."""
    return [_record(tables, state, now) for _, state in sorted(tables.schedules.items())]


def _standing(tables: Tables, state: ScheduleState | None, now: datetime) -> Standing:
    last = None if state is None else state.last_job
    if last is None or last in tables.live:
        return Standing(state, now, last is not None)
    ending = tables.ending(last) if last in tables.asked else None
    return Standing(state, now, False, None if ending is None else ending.finished_at)


def _make(tables: Tables, name: str, ticks: tuple[Ticked, ...], now: datetime) -> tuple[int, ...]:
    made = {(name, each.tick) for each in ticks if each.tick is not None}
    if made & tables.ticks:
        raise WrongState(f"a tick of schedule {name!r} has its job already")
    tables.ticks |= made
    return tuple(tables.write(each.job, now) for each in ticks)


def _record(tables: Tables, state: ScheduleState, now: datetime) -> ScheduleRecord:
    asked = state.schedule
    return ScheduleRecord(
        name=asked.name,
        task=asked.job.task,
        args=json.loads(asked.job.args),
        queue=asked.job.queue,
        cron=asked.cron,
        every=None if asked.every is None else asked.every.total_seconds(),
        timezone=asked.timezone,
        status=_status(state),
        next_at=state.next_at,
        last_tick=state.last_tick,
        last_job=state.last_job,
        runs=state.runs,
        skipped=state.skipped,
        catch_up=asked.catch_up,
        overlap=asked.overlap,
        jitter=asked.jitter.total_seconds(),
        until=asked.until,
        max_runs=asked.max_runs,
        origin=state.origin,
        in_code=_in_code(state, now),
        declared_at=state.declared_at,
        declared_by=state.declared_by,
        created_at=state.created_at,
        changed_at=state.changed_at,
        **_last(tables, state, now),
    )


def _last(tables: Tables, state: ScheduleState, now: datetime) -> dict[str, Any]:
    """Return how the last job went, if it is still known."""
    if state.last_job not in tables.asked:
        names = ("state", "started_at", "finished_at", "duration", "error")
        return {f"last_{name}": None for name in names}
    job = people.job(tables, state.last_job, now)
    over = job.finished_at or (now if job.worker is not None else None)
    return {
        "last_state": str(job.state),
        "last_started_at": job.started_at,
        "last_finished_at": job.finished_at,
        "last_duration": (over - job.started_at).total_seconds()
        if over and job.started_at
        else None,
        "last_error": job.error,
    }


def _status(state: ScheduleState) -> ScheduleStatus:
    if state.next_at is None and not state.awaiting:
        return ScheduleStatus.FINISHED
    if state.paused:
        return ScheduleStatus.PAUSED
    return ScheduleStatus.AWAITING if state.awaiting else ScheduleStatus.ACTIVE


def _in_code(state: ScheduleState, now: datetime) -> bool | None:
    if state.origin is not Origin.CODE or state.declared_at is None:
        return None
    return state.declared_at > now - IN_CODE
