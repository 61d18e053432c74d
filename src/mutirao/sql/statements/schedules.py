"""Schedules in the tables: reads those that are due, makes their jobs, pauses them.

A schedule's row is locked during a decision, and everything else that the decision needs is read
after that, so it sees everything that the previous decision wrote. `schedule_changes` and `ticking`
decide.

Their rows are locked before those of the jobs, as a tick does.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, islice, takewhile
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    delete,
    false,
    func,
    insert,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.exc import IntegrityError

from mutirao.errors import InvalidSchedule, WrongState
from mutirao.model.jobs.job import FINAL_OUTCOMES, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Settlement
from mutirao.model.row_json import (
    NO_READING,
    UnreadableRow,
    as_texts,
    only_texts,
    read_object,
    shown_object,
    storable,
)
from mutirao.model.schedules.schedule import (
    MAX_DUE_NAMES,
    TICKS_KEPT_PER_SCHEDULE,
    Agenda,
    CatchUp,
    Overlap,
    Schedule,
    ScheduleFacts,
    ScheduleOrigin,
    ScheduleRecord,
    ScheduleState,
    ScheduleStatus,
    Ticked,
)
from mutirao.sql import schema
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import attempt, job, live, schedule, tick
from mutirao.sql.statements import fairness

_NAMED = ("task", "args", "queue", "priority")  # options of a job that have columns of their own
_TERMS = (
    "cron", "timezone", "catch_up", "catch_up_limit", "overlap", "until", "max_runs",
    "pause_after",
)  # fmt: skip
_STANDS = (
    "origin", "paused", "reason", "forgiven", "awaiting", "next_at", "last_tick", "last_job",
    "runs", "skipped", "created_at", "changed_at", "declared", "declared_at", "declared_by",
)  # fmt: skip

# All but the latest jobs of a schedule: older ticks never come again. MySQL deletes by a subquery
# of the same table only where that stands in another one, which has a LIMIT and is therefore read
# first.
_KEPT = (
    select(tick.c.job)
    .where(tick.c.schedule == bindparam("of"))
    .order_by(tick.c.job.desc())
    .offset(TICKS_KEPT_PER_SCHEDULE - 1)
    .limit(1)
    .subquery("kept")
)
_FORGET = delete(tick).where(
    tick.c.schedule == bindparam("of"), tick.c.job < select(_KEPT.c.job).scalar_subquery()
)


def agenda(
    conn: Connection, dialect: Dialect, without: Collection[str], now: datetime | None
) -> Agenda:
    """Return the schedules that are due, and the time until the next tick. A single statement."""
    moment = dialect.moment(now).label("now")
    each = select(schedule.c.name, schedule.c.next_at, moment).where(is_open(dialect, without))
    planned = each.where(schedule.c.next_at.is_not(None)).order_by(schedule.c.next_at)
    awaiting, live = each.where(schedule.c.awaiting), is_live(schedule.c.last_job)
    parts = (
        planned.add_columns(false().label("live")).limit(MAX_DUE_NAMES),
        awaiting.where(~live).add_columns(false().label("live")).limit(MAX_DUE_NAMES),
        awaiting.where(live).add_columns(true().label("live")).limit(1),
    )
    rows = conn.execute(union_all(*(select(part.subquery()) for part in parts))).all()
    ahead = [(row.next_at - row.now).total_seconds() for row in rows if row.next_at is not None]
    return Agenda(
        due=tuple(only_texts(row.name for row in rows if _is_due(row))),
        next_in=min((seconds for seconds in ahead if seconds > 0), default=None),
        awaits=any(row.live for row in rows),
    )


def read(
    conn: Connection, dialect: Dialect, names: Sequence[str], now: datetime | None
) -> Sequence[Row[Any]]:
    """Read locked schedules, and what a decision about each needs.

    In a statement of its own: it sees what was committed until the locks were taken.
    """
    if not names:
        return []
    ended = select(func.max(attempt.c.finished_at)).where(
        attempt.c.job == schedule.c.last_job, _is_final()
    )
    found = select(
        schedule,
        dialect.moment(now).label("now"),
        is_live(schedule.c.last_job).label("live"),
        ended.scalar_subquery().label("ended_at"),
    )
    return conn.execute(found.where(dialect.among(schedule.c.name, names))).all()


def deaths(conn: Connection, dialect: Dialect, rows: Sequence[Row[Any]]) -> Mapping[str, int]:
    """Count the deaths in a row of each schedule's latest jobs that have ended, where it matters.

    One statement, if it matters anywhere.
    """
    names = [row.name for row in rows if row.pause_after is not None]
    if not names:
        return {}
    outcome = select(attempt.c.outcome).where(attempt.c.job == tick.c.job, _is_final()).limit(1)
    ended = conn.execute(
        select(tick.c.schedule, outcome.scalar_subquery().label("outcome"))
        .join(schedule, schedule.c.name == tick.c.schedule)
        .where(dialect.among(schedule.c.name, names))
        .where(tick.c.job > func.coalesce(schedule.c.forgiven, 0))
        .order_by(tick.c.schedule, tick.c.job.desc())
    )
    known = (row for row in ended if row.outcome is not None)
    return {
        name: sum(1 for _ in takewhile(lambda row: row.outcome == OutcomeKind.DEAD, latest))
        for name, latest in groupby(known, key=lambda row: row.schedule)
    }


def facts_in(row: Row[Any], deaths: Mapping[str, int]) -> ScheduleFacts:
    """Return what a row says, for a decision."""
    now, ended_at = in_utc(row.now), in_utc(row.ended_at)
    return ScheduleFacts(_found(row), now, bool(row.live), ended_at, deaths.get(row.name, 0))


def make(
    conn: Connection, enqueue: Enqueue, asked: Sequence[tuple[str, Sequence[Ticked]]]
) -> list[tuple[int, ...]]:
    """Enqueue the jobs of schedules, and record each with its tick; return the ids for each."""
    ticks = [(name, each) for name, several in asked for each in several]
    if not ticks:
        return [()] * len(asked)
    jobs = enqueue(fairness.known(conn, (each.job for _, each in ticks)), conn)
    rows = [
        {"schedule": name, "job": job, "tick": each.tick}
        for job, (name, each) in zip(jobs, ticks, strict=True)
    ]
    names = list(dict.fromkeys(name for name, _ in ticks))
    try:
        conn.execute(insert(tick), rows)
    except IntegrityError as twice:
        raise WrongState(
            f"a tick of schedule {' or '.join(map(repr, names))} has its job already, but the"
            " schedule has not gone on; was its row changed by hand? Remove the schedule and put it"
            " again"
        ) from twice
    conn.execute(_FORGET, [{"of": name} for name in names])
    rest = iter(jobs)
    return [tuple(islice(rest, len(several))) for _, several in asked]


def with_last(state: ScheduleState, jobs: Sequence[int]) -> ScheduleState:
    """Return a schedule's state after it has made these jobs, if any."""
    return replace(state, last_job=jobs[-1]) if jobs else state


def listed(conn: Connection) -> list[ScheduleRecord]:
    """List the schedules by name. A single statement.

    The arguments are the table's text: a view of PostgreSQL fails as a whole where one is no JSON.
    """
    view = schema.views.schedules.c
    shown = [each for each in view if each.name != "args"]
    asked = select(*shown, schedule.c.args).join_from(
        schema.views.schedules, schedule, schedule.c.name == view.name
    )
    return [_to_record(row) for row in conn.execute(asked.order_by(view.name))]


def is_open(dialect: Dialect, without: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that a schedule is neither paused nor one of those to be left alone."""
    if not without:
        return ~schedule.c.paused
    return and_(~schedule.c.paused, ~dialect.among(schedule.c.name, list(without)))


def is_live(job: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a job is live: looked up by its id, never joined."""
    return select(live.c.id).where(live.c.id == job).scalar_subquery().is_not(None)


def _is_final() -> ColumnElement[bool]:
    return attempt.c.outcome.in_([str(each) for each in FINAL_OUTCOMES])


def _is_due(row: Any) -> bool:
    return not row.live and (row.next_at is None or row.next_at <= row.now)


def to_row(state: ScheduleState) -> dict[str, Any]:
    asked = state.schedule
    row = {name: getattr(asked.job, name) for name in _NAMED}
    row |= {name: getattr(asked, name) for name in _TERMS}
    row |= {name: getattr(state, name) for name in _STANDS}
    row |= {name: str(row[name]) for name in ("catch_up", "overlap", "origin")}
    return row | {
        "name": asked.name,
        "options": msgspec.json.encode(_options(asked.job)).decode(),
        "every": None if asked.every is None else asked.every.total_seconds(),
        "jitter": asked.jitter.total_seconds(),
    }


def _options(job: NewJob) -> dict[str, Any]:
    """Return the options of a job that have no columns."""
    asked = {each.name: getattr(job, each.name) for each in fields(job) if each.compare}
    return {name: value for name, value in asked.items() if value and name not in _NAMED}


def _found(row: Any) -> ScheduleState | InvalidSchedule:
    """Return a schedule's state, or the error that says why its row cannot be one."""
    try:
        return _to_state(row)
    except (*NO_READING, OverflowError, UnreadableRow) as error:
        return InvalidSchedule(
            f"schedule {row.name!r} cannot be read: its row in mutirao_schedule, which another"
            f" program has written, says what no schedule can be ({storable(str(error))[:200]})."
            " Correct the row, or remove the schedule and put it again"
        )


def _to_state(row: Any) -> ScheduleState:
    values = {name: in_utc(value) for name, value in row._asdict().items()}
    options = read_object(values["options"], "its options")
    options["tags"] = tuple(options.get("tags", ()))
    job = NewJob(**{name: values[name] for name in _NAMED}, **options)
    every = values["every"]
    asked = Schedule(
        name=values["name"],
        job=job,
        every=None if every is None else timedelta(seconds=every),
        jitter=timedelta(seconds=values["jitter"]),
        **{name: values[name] for name in _TERMS},
    )
    stands = {name: values[name] for name in _STANDS}
    return ScheduleState(schedule=asked, **stands | {"origin": ScheduleOrigin(stands["origin"])})


def in_utc(value: Any) -> Any:
    """Return a datetime in UTC, where all hours are equal; drivers use the server's time zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _to_record(row: Any) -> ScheduleRecord:
    values = as_texts(row._asdict())
    kinds = {
        "status": ScheduleStatus,
        "catch_up": CatchUp,
        "overlap": Overlap,
        "origin": ScheduleOrigin,
    }
    values["args"] = shown_object(values["args"], "its args")
    return ScheduleRecord(**values | {name: kind(values[name]) for name, kind in kinds.items()})


def hold(
    conn: Connection, dialect: Dialect, settlements: Sequence[Settlement]
) -> Mapping[int, str]:
    """Lock the schedules that these outcomes stop; return their names by job."""
    stopping = [s.id for s in settlements if s.outcome.stops]
    if not stopping:
        return {}
    made = select(job.c.id, job.c.metadata).where(dialect.among(job.c.id, stopping))
    names = {row.id: row.metadata.get("schedule") for row in conn.execute(made) if row.metadata}
    found = {id: name for id, name in names.items() if isinstance(name, str)}
    which = schedule.c.name.in_(sorted(set(found.values())))
    conn.execute(select(schedule.c.name).where(which).order_by(schedule.c.name).with_for_update())
    return found


def pause(
    conn: Connection,
    dialect: Dialect,
    names: Mapping[int, str],
    settlements: Sequence[Settlement],
    now: datetime | None,
) -> None:
    """Pause the schedules of these jobs, with the reason that each outcome gives."""
    for each in settlements:
        if each.outcome.stops and each.id in names:
            conn.execute(
                update(schedule)
                .where(schedule.c.name == names[each.id], ~schedule.c.paused)
                .values(
                    paused=True,
                    reason=f"job {each.id}: {each.outcome.error}",
                    changed_at=dialect.moment(now),
                )
            )
